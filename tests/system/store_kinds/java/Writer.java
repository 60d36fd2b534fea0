import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONWriter;
import java.io.ByteArrayOutputStream;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.zip.CRC32;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.RocksDBMessageStore;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;
import org.apache.rocketmq.store.queue.CqUnit;
import org.apache.rocketmq.store.queue.ReferredIterator;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * Writes a small store of one kind with RocketMQ's own message store, and notes what it answers.
 *
 * <p>Arguments: the store root, the file for the answers, and settings of MessageStoreConfig as
 * {@code name=value}; {@code halt} among them ends the process as a kill does, {@code batches} puts
 * batches of messages behind the others, and {@code read} puts none and only asks.
 */
public final class Writer {
    private static final String TOPIC = "TopicTest";
    private static final String LIGHT_QUEUE = "%LMQ%device1";
    private static final int QUEUES = 4;
    private static final int MESSAGES = 120;
    private static final int BATCHES = 8;
    private static final int BATCH_MESSAGES = 5;
    /** RocksDB commits queue units and index records behind the caller's back. */
    private static final long PATIENCE_MILLIS = 30_000;

    private Writer() {}

    public static void main(String[] arguments) throws Exception {
        String root = arguments[0];
        Map<String, String> settings = new LinkedHashMap<>();
        boolean halt = false;
        boolean batches = false;
        boolean read = false;
        for (String setting : Arrays.asList(arguments).subList(2, arguments.length)) {
            String[] parts = setting.split("=", 2);
            if (parts.length == 2) {
                settings.put(parts[0], parts[1]);
            } else {
                halt |= setting.equals("halt");
                batches |= setting.equals("batches");
                read |= setting.equals("read");
            }
        }
        MessageStoreConfig config = config(root, settings);
        DefaultMessageStore store = store(config);
        if (!store.load()) {
            throw new IllegalStateException("the store was not loaded");
        }
        store.start();
        List<long[]> messages = new ArrayList<>();
        for (int i = 0; i < (read ? 0 : MESSAGES); i++) {
            messages.add(put(store, i));
        }
        for (int i = 0; i < (batches ? BATCHES : 0); i++) {
            messages.addAll(putBatch(store, i));
        }
        await(store);
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("settings", settings);
        told.put("messages", messages);
        told.put("queues", queues(store));
        told.put("answers", answers(store));
        told.put("read", read(store));
        Files.writeString(
                Path.of(arguments[1]),
                JSON.toJSONString(told, JSONWriter.Feature.WriteMapNullValue) + "\n");
        if (halt) {
            Runtime.getRuntime().halt(0);
        }
        store.shutdown();
        System.exit(0);
    }

    private static MessageStoreConfig config(String root, Map<String, String> settings) {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(root);
        config.setStorePathCommitLog(root + "/commitlog");
        config.setMappedFileSizeCommitLog(10 * 1024);
        config.setMappedFileSizeConsumeQueue(100 * 20);
        config.setMaxHashSlotNum(97);
        config.setMaxIndexNum(200);
        config.setHaListenPort(0);
        MixAll.properties2Object(MixAll.string2Properties(
                String.join("\n", settings.entrySet().stream()
                        .map(each -> each.getKey() + "=" + each.getValue()).toList())), config);
        return config;
    }

    private static DefaultMessageStore store(MessageStoreConfig config) throws Exception {
        BrokerConfig broker = new BrokerConfig();
        ConcurrentMap<String, TopicConfig> topics = new ConcurrentHashMap<>();
        topics.put(TOPIC, new TopicConfig(TOPIC, QUEUES, QUEUES));
        BrokerStatsManager stats =
                new BrokerStatsManager(broker.getBrokerClusterName(), true);
        return config.isEnableRocksDBStore()
                ? new RocksDBMessageStore(config, stats, null, broker, topics)
                : new DefaultMessageStore(config, stats, null, broker, topics);
    }

    /** Every third message has no unique key, every fifth tags; two have odd keys. */
    private static MessageExtBrokerInner message(int number) {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic(TOPIC);
        message.setQueueId(number % QUEUES);
        message.setBody(("body " + number).getBytes(StandardCharsets.UTF_8));
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(new InetSocketAddress("127.0.0.1", 10_000));
        message.setStoreHost(new InetSocketAddress("127.0.0.1", 10_911));
        message.setKeys(number == 7 ? "a@b" : "order-" + number % 10 + " item" + number);
        if (number % 5 == 0) {
            message.setTags("TagA");
        }
        if (number % 3 != 2) {
            MessageAccessor.putProperty(
                    message, MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX,
                    String.format("UNIQ%04d", number));
        }
        if (number % 20 == 4) {
            MessageAccessor.putProperty(
                    message, MessageConst.PROPERTY_INNER_MULTI_DISPATCH, LIGHT_QUEUE);
        }
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        return message;
    }

    /** Store a message; tells its offset, its queue, its place there and its store time. */
    private static long[] put(DefaultMessageStore store, int number)
            throws InterruptedException {
        long deadline = System.currentTimeMillis() + PATIENCE_MILLIS;
        while (true) {
            PutMessageResult result = store.putMessage(message(number));
            if (result.isOk()) {
                return new long[] {
                    result.getAppendMessageResult().getWroteOffset(),
                    number % QUEUES,
                    result.getAppendMessageResult().getLogicsOffset(),
                    result.getAppendMessageResult().getStoreTimestamp()};
            }
            // A DLedger store takes messages once it has elected its leader.
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException("message " + number + ": " + result);
            }
            Thread.sleep(100);
        }
    }

    /** Store a batch, whose messages get an entry each in DLedger; tells of each as {@link #put}. */
    private static List<long[]> putBatch(DefaultMessageStore store, int number) {
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        for (int i = 0; i < BATCH_MESSAGES; i++) {
            Message message = new Message(TOPIC, ("batch " + number + "-" + i).getBytes(StandardCharsets.UTF_8));
            message.setKeys("batch" + number + " order-" + i);
            MessageAccessor.putProperty(
                    message, MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX,
                    String.format("BATCH%d-%d", number, i));
            body.writeBytes(MessageDecoder.encodeMessage(message));
        }
        MessageExtBatch batch = new MessageExtBatch();
        batch.setTopic(TOPIC);
        batch.setQueueId(number % QUEUES);
        batch.setBody(body.toByteArray());
        batch.setBornTimestamp(System.currentTimeMillis());
        batch.setBornHost(new InetSocketAddress("127.0.0.1", 10_000));
        batch.setStoreHost(new InetSocketAddress("127.0.0.1", 10_911));
        PutMessageResult result = store.putMessages(batch);
        if (!result.isOk()) {
            throw new IllegalStateException("batch " + number + ": " + result);
        }
        List<long[]> messages = new ArrayList<>();
        for (String id : result.getAppendMessageResult().getMsgId().split(",")) {
            messages.add(new long[] {
                Long.parseUnsignedLong(id.substring(id.length() - 16), 16),
                number % QUEUES,
                result.getAppendMessageResult().getLogicsOffset() + messages.size(),
                batch.getStoreTimestamp()});
        }
        return messages;
    }

    /** The messages that consumers get of each queue: offset in the CommitLog and CRC of the record. */
    private static List<long[]> read(DefaultMessageStore store) throws Exception {
        List<long[]> records = new ArrayList<>();
        for (int queue = 0; queue < QUEUES; queue++) {
            long next = store.getMinOffsetInQueue(TOPIC, queue);
            while (next < store.getMaxOffsetInQueue(TOPIC, queue)) {
                GetMessageResult result = store.getMessage("group", TOPIC, queue, next, 32, null);
                for (ByteBuffer record : result.getMessageBufferList()) {
                    CRC32 crc = new CRC32();
                    crc.update(record.duplicate());
                    records.add(new long[] {
                        record.getLong(MessageDecoder.PHY_POS_POSITION), crc.getValue()});
                }
                next = result.getNextBeginOffset();
                result.release();
            }
        }
        return records;
    }

    /** Wait until every message is in its queue, and the indexes have taken what they get. */
    private static void await(DefaultMessageStore store) throws Exception {
        long deadline = System.currentTimeMillis() + PATIENCE_MILLIS;
        int queued = 0;
        while (store.dispatchBehindBytes() > 0 || queued < MESSAGES - 1) {
            if (System.currentTimeMillis() > deadline) {
                throw new IllegalStateException("only " + queued + " messages were dispatched");
            }
            Thread.sleep(100);
            queued = 0;
            for (int queue = 0; queue < QUEUES; queue++) {
                queued += units(store, TOPIC, queue).size();
            }
        }
        Thread.sleep(2_000);
    }

    private static List<Map<String, Object>> queues(DefaultMessageStore store) throws Exception {
        List<Map<String, Object>> queues = new ArrayList<>();
        for (int queue = 0; queue < QUEUES; queue++) {
            queues.add(queue(store, TOPIC, queue));
        }
        queues.add(queue(store, LIGHT_QUEUE, 0));
        return queues;
    }

    private static Map<String, Object> queue(DefaultMessageStore store, String topic, int queue)
            throws Exception {
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("topic", topic);
        told.put("queue_id", queue);
        told.put("units", units(store, topic, queue));
        return told;
    }

    /** Offset in the queue, offset in the CommitLog, size and tags code of each unit. */
    private static List<long[]> units(DefaultMessageStore store, String topic, int queue)
            throws Exception {
        List<long[]> units = new ArrayList<>();
        ConsumeQueueInterface found = store.getConsumeQueue(topic, queue);
        ReferredIterator<CqUnit> iterator = found == null ? null : found.iterateFrom(0);
        if (iterator == null) {
            return units;
        }
        try {
            while (iterator.hasNext()) {
                CqUnit unit = iterator.next();
                units.add(new long[] {
                    unit.getQueueOffset(), unit.getPos(), unit.getSize(), unit.getTagsCode()});
            }
        } finally {
            iterator.release();
        }
        return units;
    }

    private static Map<String, Object> answers(DefaultMessageStore store) {
        TreeSet<String> keys = new TreeSet<>(List.of(
                "a", "a@b", "item0", "item119", "UNIQ0003", "batch3", "BATCH7-4"));
        for (int i = 0; i < 10; i++) {
            keys.add("order-" + i);
        }
        Map<String, Object> answers = new LinkedHashMap<>();
        for (String key : keys) {
            QueryMessageResult result = store.queryMessage(TOPIC, key, 64, 0, Long.MAX_VALUE);
            List<Long> offsets = new ArrayList<>();
            for (ByteBuffer record : result.getMessageBufferList()) {
                offsets.add(record.getLong(MessageDecoder.PHY_POS_POSITION));
            }
            result.release();
            answers.put(key, offsets);
        }
        return answers;
    }
}
