import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import com.alibaba.fastjson2.JSONWriter;
import java.io.BufferedReader;
import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.common.message.MessageId;
import org.apache.rocketmq.common.message.MessageVersion;
import org.apache.rocketmq.store.ConsumeQueue;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.DispatchRequest;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.StoreCheckpoint;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.queue.BatchConsumeQueue;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;
import org.apache.rocketmq.store.queue.CqUnit;
import org.apache.rocketmq.store.queue.ReferredIterator;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** Answers questions about a store's files with RocketMQ's own classes: one JSON document a line. */
public final class StoreOracle {
    private static final HexFormat HEX = HexFormat.of();
    private static final long PATIENCE_MILLIS = 20_000;

    private StoreOracle() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream out =
                new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(
                new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JSONObject asked = JSON.parseObject(line);
            Object answer;
            try {
                answer = answer(asked);
            } catch (Exception | Error error) {
                answer = Map.of("error", error.toString());
            }
            out.println(JSON.toJSONString(answer, JSONWriter.Feature.WriteMapNullValue));
            out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static Object answer(JSONObject asked) throws Exception {
        return switch (asked.getString("op")) {
            case "check" -> check(asked);
            case "decode" -> decode(asked);
            case "inner" -> inner(asked);
            case "properties" -> properties(asked);
            case "store" -> runStore(asked);
            case "queue" -> queue(asked);
            case "checkpoint" -> checkpoint(asked);
            case "ids" -> ids(asked);
            default -> throw new IllegalArgumentException(asked.getString("op"));
        };
    }

    private static DefaultMessageStore store(JSONObject asked) throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        String root = asked.getString("root");
        config.setStorePathRootDir(root);
        config.setStorePathCommitLog(root + "/commitlog");
        config.setHaListenPort(0);
        StringBuilder settings = new StringBuilder();
        JSONObject given = asked.getJSONObject("settings");
        if (given != null) {
            given.forEach((name, value) -> settings.append(name + "=" + value + "\n"));
        }
        MixAll.properties2Object(MixAll.string2Properties(settings.toString()), config);
        BrokerConfig broker = new BrokerConfig();
        ConcurrentMap<String, TopicConfig> topics = new ConcurrentHashMap<>();
        JSONArray batchTopics = asked.getJSONArray("batch_topics");
        for (int i = 0; batchTopics != null && i < batchTopics.size(); i++) {
            TopicConfig topic = new TopicConfig(batchTopics.getString(i), 4, 4);
            topic.setAttributes(Map.of("queue.type", "BatchCQ"));
            topics.put(topic.getTopicName(), topic);
        }
        BrokerStatsManager stats = new BrokerStatsManager(broker.getBrokerClusterName(), true);
        return new DefaultMessageStore(config, stats, null, broker, topics);
    }

    /** What recovery thinks of the records of a buffer, one behind the other. */
    private static Object check(JSONObject asked) throws Exception {
        DefaultMessageStore store = store(asked);
        ByteBuffer buffer = ByteBuffer.wrap(HEX.parseHex(asked.getString("hex")));
        buffer.position(asked.getIntValue("position"));
        List<Object> answers = new ArrayList<>();
        int at = buffer.position();
        while (true) {
            DispatchRequest request =
                    store.getCommitLog().checkMessageAndReturnSize(buffer, asked.getBooleanValue("check_crc"), false);
            Map<String, Object> told = new LinkedHashMap<>();
            told.put("position", at);
            told.put("size", request.getMsgSize());
            told.put("success", request.isSuccess());
            if (request.isSuccess() && request.getMsgSize() > 0) {
                told.put("tags_code", request.getTagsCode());
                told.put("msg_base_offset", request.getMsgBaseOffset());
                told.put("batch_size", request.getBatchSize());
            }
            answers.add(told);
            if (!request.isSuccess() || request.getMsgSize() <= 0) {
                break;
            }
            at += request.getMsgSize();
        }
        return answers;
    }

    /** What the decoder reads of one record. */
    private static Object decode(JSONObject asked) throws Exception {
        byte[] bytes = HEX.parseHex(asked.getString("hex"));
        MessageExt message = MessageDecoder.decode(ByteBuffer.wrap(bytes), true, false);
        if (message == null) {
            return null;
        }
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("total_size", message.getStoreSize());
        told.put("body_crc", message.getBodyCRC());
        told.put("queue_id", message.getQueueId());
        told.put("flag", message.getFlag());
        told.put("queue_offset", message.getQueueOffset());
        told.put("physical_offset", message.getCommitLogOffset());
        told.put("sys_flag", message.getSysFlag());
        told.put("born_timestamp", message.getBornTimestamp());
        told.put("born_host", host(message.getBornHost()));
        told.put("store_timestamp", message.getStoreTimestamp());
        told.put("store_host", host(message.getStoreHost()));
        told.put("reconsume_times", message.getReconsumeTimes());
        told.put("prepared_transaction_offset", message.getPreparedTransactionOffset());
        told.put("topic", message.getTopic());
        told.put("properties", properties(message));
        told.put("msg_id", message.getMsgId());
        told.put("stored_body", message.getBody() == null ? null : HEX.formatHex(message.getBody()));
        MessageExt unpacked = MessageDecoder.decode(ByteBuffer.wrap(bytes), true, true);
        told.put("body", unpacked == null || unpacked.getBody() == null
                ? null : HEX.formatHex(unpacked.getBody()));
        told.put("decompresses", unpacked != null);
        return told;
    }

    private static Map<String, String> properties(Message message) {
        return message.getProperties() == null ? Map.of() : new TreeMap<>(message.getProperties());
    }

    private static String host(Object address) {
        InetSocketAddress host = (InetSocketAddress) address;
        return HEX.formatHex(host.getAddress().getAddress()) + ":" + host.getPort();
    }

    /** The messages inside the body of an inner batch. */
    private static Object inner(JSONObject asked) throws Exception {
        List<Object> told = new ArrayList<>();
        byte[] body = HEX.parseHex(asked.getString("hex"));
        for (Message message : MessageDecoder.decodeMessages(ByteBuffer.wrap(body))) {
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("flag", message.getFlag());
            one.put("body", HEX.formatHex(message.getBody()));
            one.put("properties", properties(message));
            told.add(one);
        }
        return told;
    }

    private static Object properties(JSONObject asked) {
        List<Object> told = new ArrayList<>();
        for (Object each : asked.getJSONArray("texts")) {
            String text = new String(HEX.parseHex((String) each), StandardCharsets.UTF_8);
            told.add(new TreeMap<>(MessageDecoder.string2messageProperties(text)));
        }
        return told;
    }

    /** Load a store, put messages, and tell what it holds. */
    private static Object runStore(JSONObject asked) throws Exception {
        DefaultMessageStore store = store(asked);
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("loaded", store.load());
        told.put("max_offset", store.getCommitLog().getMaxOffset());
        JSONArray puts = asked.getJSONArray("puts");
        if (puts != null) {
            store.start();
            List<Object> results = new ArrayList<>();
            for (int i = 0; i < puts.size(); i++) {
                results.add(put(store, puts.getJSONObject(i)));
            }
            long deadline = System.currentTimeMillis() + PATIENCE_MILLIS;
            while (store.dispatchBehindBytes() > 0 && System.currentTimeMillis() < deadline) {
                Thread.sleep(20);
            }
            told.put("puts", results);
            told.put("min_offset", store.getMinPhyOffset());
            told.put("max_offset", store.getMaxPhyOffset());
            told.put("queues", queues(store, asked.getJSONArray("queues")));
            store.shutdown();
        }
        return told;
    }

    private static Object put(DefaultMessageStore store, JSONObject given) throws Exception {
        MessageExtBrokerInner message =
                given.containsKey("batch") && !given.getBooleanValue("inner")
                        ? new MessageExtBatch() : new MessageExtBrokerInner();
        message.setTopic(given.getString("topic"));
        message.setQueueId(given.getIntValue("queue_id"));
        message.setFlag(given.getIntValue("flag"));
        message.setSysFlag(given.getIntValue("sys_flag"));
        message.setReconsumeTimes(given.getIntValue("reconsume_times"));
        message.setPreparedTransactionOffset(given.getLongValue("prepared_transaction_offset"));
        message.setBornTimestamp(given.getLongValue("born_timestamp"));
        message.setBornHost(address(given.getString("born_host")));
        message.setStoreHost(address(given.getString("store_host")));
        if (message.getBornHost() != null && !isV4(message.getBornHost())) {
            message.setBornHostV6Flag();
        }
        if (!isV4(message.getStoreHost())) {
            message.setStoreHostAddressV6Flag();
        }
        if (given.getString("body") != null) {
            message.setBody(HEX.parseHex(given.getString("body")));
        }
        MessageAccessor.setProperties(message, new TreeMap<>());
        JSONObject properties = given.getJSONObject("properties");
        if (properties != null) {
            properties.forEach((name, value) ->
                    MessageAccessor.putProperty(message, name, String.valueOf(value)));
        }
        String text = given.getString("properties_text");
        message.setPropertiesString(
                text != null ? text : MessageDecoder.messageProperties2String(message.getProperties()));
        JSONArray batch = given.getJSONArray("batch");
        if (batch != null) {
            List<Message> messages = new ArrayList<>();
            for (int i = 0; i < batch.size(); i++) {
                JSONObject one = batch.getJSONObject(i);
                Message part = new Message(message.getTopic(), HEX.parseHex(one.getString("body")));
                part.setFlag(one.getIntValue("flag"));
                MessageAccessor.setProperties(part, new TreeMap<>());
                one.getJSONObject("properties").forEach((name, value) ->
                        MessageAccessor.putProperty(part, name, String.valueOf(value)));
                messages.add(part);
            }
            message.setBody(MessageDecoder.encodeMessages(messages));
        }
        PutMessageResult result = message instanceof MessageExtBatch
                ? store.putMessages((MessageExtBatch) message)
                : store.putMessage(message);
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("status", result.getPutMessageStatus().name());
        if (result.getAppendMessageResult() != null) {
            told.put("phy_offset", result.getAppendMessageResult().getWroteOffset());
            told.put("size", result.getAppendMessageResult().getWroteBytes());
            told.put("msg_id", result.getAppendMessageResult().getMsgId());
            told.put("queue_offset", result.getAppendMessageResult().getLogicsOffset());
        }
        return told;
    }

    private static boolean isV4(Object address) {
        return ((InetSocketAddress) address).getAddress().getAddress().length == 4;
    }

    private static InetSocketAddress address(String text) throws Exception {
        String[] parts = text == null ? new String[] {"0a000001", "10911"} : text.split(":");
        return new InetSocketAddress(
                InetAddress.getByAddress(HEX.parseHex(parts[0])), Integer.parseInt(parts[1]));
    }

    private static Object queues(DefaultMessageStore store, JSONArray names) throws Exception {
        List<Object> told = new ArrayList<>();
        for (int i = 0; names != null && i < names.size(); i++) {
            JSONArray name = names.getJSONArray(i);
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("topic", name.getString(0));
            one.put("queue_id", name.getIntValue(1));
            ConsumeQueueInterface found =
                    store.getConsumeQueue(name.getString(0), name.getIntValue(1));
            one.put("queue", found == null ? null : told(found));
            told.add(one);
        }
        return told;
    }

    /** Load a queue's files, and do with it what is asked. */
    private static Object queue(JSONObject asked) throws Exception {
        DefaultMessageStore store = store(asked);
        String path = asked.getString("path");
        int size = asked.getIntValue("file_size");
        String topic = asked.getString("topic");
        int id = asked.getIntValue("queue_id");
        ConsumeQueueInterface queue = asked.getBooleanValue("is_batch")
                ? new BatchConsumeQueue(topic, id, path, size, store)
                : new ConsumeQueue(topic, id, path, size, store);
        List<Object> answers = new ArrayList<>();
        boolean loaded = queue.load();
        if (loaded) {
            queue.recover();
        }
        Map<String, Object> first = told(queue);
        first.put("loaded", loaded);
        answers.add(first);
        JSONArray steps = asked.getJSONArray("steps");
        for (int i = 0; steps != null && i < steps.size(); i++) {
            JSONArray step = steps.getJSONArray(i);
            switch (step.getString(0)) {
                case "correct_min_offset" -> queue.correctMinOffset(step.getLongValue(1));
                case "truncate" -> queue.truncateDirtyLogicFiles(step.getLongValue(1));
                case "expire" -> queue.deleteExpiredFile(step.getLongValue(1));
                case "put" -> put(queue, step);
                default -> throw new IllegalArgumentException(step.getString(0));
            }
            answers.add(told(queue));
        }
        queue.flush(0);
        return answers;
    }

    /** Puts as the dispatcher does, which needs more of a store than a queue does. */
    private static void put(ConsumeQueueInterface queue, JSONArray step) throws Exception {
        if (queue instanceof BatchConsumeQueue) {
            ((BatchConsumeQueue) queue).putBatchMessagePositionInfo(
                    step.getLongValue(1), step.getIntValue(2), step.getLongValue(3),
                    1_700_000_000_000L + step.getLongValue(4), step.getLongValue(4),
                    step.getShortValue(5));
            return;
        }
        Method put = ConsumeQueue.class.getDeclaredMethod(
                "putMessagePositionInfo", long.class, int.class, long.class, long.class);
        put.setAccessible(true);
        put.invoke(queue, step.getLongValue(1), step.getIntValue(2), step.getLongValue(3),
                step.getLongValue(4));
    }

    private static Map<String, Object> told(ConsumeQueueInterface queue) {
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("min_offset", queue.getMinOffsetInQueue());
        told.put("max_offset", queue.getMaxOffsetInQueue());
        try {
            told.put("units", units(queue));
        } catch (RuntimeException error) {
            told.put("units", null);
        }
        return told;
    }

    private static List<Object> units(ConsumeQueueInterface queue) {
        List<Object> units = new ArrayList<>();
        long next = Math.max(0, queue.getMinOffsetInQueue());
        while (next < queue.getMaxOffsetInQueue()) {
            ReferredIterator<CqUnit> iterator = queue.iterateFrom(next);
            if (iterator == null) {
                break;
            }
            long before = next;
            try {
                while (iterator.hasNext()) {
                    CqUnit unit = iterator.next();
                    units.add(List.of(unit.getQueueOffset(), unit.getPos(), unit.getSize(),
                            unit.getTagsCode(), unit.getBatchNum()));
                    next = unit.getQueueOffset() + unit.getBatchNum();
                }
            } finally {
                iterator.release();
            }
            if (next == before) {
                break;
            }
        }
        return units;
    }

    /** Open a checkpoint, set fields, close it. */
    private static Object checkpoint(JSONObject asked) throws Exception {
        StoreCheckpoint checkpoint = new StoreCheckpoint(asked.getString("path"));
        String[] names = {"PhysicMsgTimestamp", "LogicsMsgTimestamp", "IndexMsgTimestamp",
            "MasterFlushedOffset", "ConfirmPhyOffset", "LogicsPhysicalOffset"};
        Map<String, Object> told = new LinkedHashMap<>();
        JSONObject set = asked.getJSONObject("set");
        for (String name : names) {
            try {
                if (set != null && set.containsKey(name)) {
                    StoreCheckpoint.class.getMethod("set" + name, long.class)
                            .invoke(checkpoint, set.getLongValue(name));
                }
                told.put(name, StoreCheckpoint.class.getMethod("get" + name).invoke(checkpoint));
            } catch (NoSuchMethodException error) {
                told.put(name, null);
            }
        }
        told.put("min_timestamp", checkpoint.getMinTimestamp());
        told.put("min_timestamp_index", checkpoint.getMinTimestampIndex());
        if (asked.getBooleanValue("flush")) {
            checkpoint.flush();
        }
        checkpoint.shutdown();
        told.put("length", new File(asked.getString("path")).length());
        return told;
    }

    private static Object ids(JSONObject asked) throws Exception {
        Map<String, Object> told = new LinkedHashMap<>();
        List<Object> made = new ArrayList<>();
        JSONArray offsets = asked.getJSONArray("offset_ids");
        for (int i = 0; offsets != null && i < offsets.size(); i++) {
            JSONArray one = offsets.getJSONArray(i);
            made.add(MessageDecoder.createMessageId(
                    address(one.getString(0) + ":" + one.getIntValue(1)), one.getLongValue(2)));
        }
        told.put("made", made);
        List<Object> decoded = new ArrayList<>();
        JSONArray texts = asked.getJSONArray("decode");
        for (int i = 0; texts != null && i < texts.size(); i++) {
            String text = texts.getString(i);
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("id", text);
            try {
                MessageId id = MessageDecoder.decodeMessageId(text);
                one.put("as_offset_id", List.of(host(id.getAddress()), id.getOffset()));
            } catch (Exception error) {
                one.put("as_offset_id", null);
            }
            try {
                one.put("ip", HEX.formatHex(MessageClientIDSetter.getIPFromID(text)));
                one.put("pid", MessageClientIDSetter.getPidFromID(text));
                one.put("time", MessageClientIDSetter.getNearlyTimeFromID(text).getTime());
            } catch (Exception error) {
                one.put("error", error.getClass().getSimpleName());
            }
            decoded.add(one);
        }
        told.put("decoded", decoded);
        List<Object> created = new ArrayList<>();
        for (int i = 0; i < asked.getIntValue("create"); i++) {
            long before = System.currentTimeMillis();
            String id = MessageClientIDSetter.createUniqID();
            created.add(List.of(id, before, System.currentTimeMillis()));
        }
        told.put("created", created);
        told.put("class_loader_hash", MessageClientIDSetter.class.getClassLoader().hashCode());
        told.put("pid", ProcessHandle.current().pid());
        told.put("version_2_magic", MessageVersion.MESSAGE_VERSION_V2.getMagicCode());
        return told;
    }
}
