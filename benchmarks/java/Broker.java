import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.store.CommitLog;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.DispatchRequest;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.index.IndexFile;
import org.apache.rocketmq.store.index.IndexHeader;
import org.apache.rocketmq.store.index.IndexService;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * Loops over RocketMQ's own IndexFile, so that a measurement crosses from Python to Java once.
 *
 * <p>Times are nanoseconds of the loop alone.
 */
public final class Broker {
    private static final int ENTRY_SIZE = 20;

    private Broker() {}

    /** Make strings of equal length out of the ASCII text in which they stand one after another. */
    public static String[] strings(byte[] text, int length) {
        String[] strings = new String[text.length / length];
        for (int i = 0; i < strings.length; i++) {
            strings[i] = new String(text, i * length, length, StandardCharsets.ISO_8859_1);
        }
        return strings;
    }

    /** Put every key of a topic into a new file, as IndexService.buildIndex does. */
    public static long build(
            String path, int hashSlotNum, int indexNum, String topic, String[] keys,
            long[] phyOffsets, long[] storeTimestamps, boolean durable) throws IOException {
        long start = System.nanoTime();
        IndexFile file = new IndexFile(path, hashSlotNum, indexNum, 0, 0);
        for (int i = 0; i < keys.length; i++) {
            if (!file.putKey(topic + "#" + keys[i], phyOffsets[i], storeTimestamps[i])) {
                throw new IllegalStateException("the file is full");
            }
        }
        if (durable) {
            file.flush();
        }
        long nanos = System.nanoTime() - start;
        file.shutdown();
        return nanos;
    }

    /** Open a file that is there. */
    public static IndexFile open(String path, int hashSlotNum, int indexNum) throws IOException {
        IndexFile file = new IndexFile(path, hashSlotNum, indexNum, 0, 0);
        file.load();
        return file;
    }

    /** Look every key of a topic up, as IndexService.queryOffset does; returns nanos and hits. */
    public static long[] select(IndexFile file, String topic, String[] keys, int maxNum) {
        long start = System.nanoTime();
        long hits = 0;
        for (String key : keys) {
            List<Long> phyOffsets = new ArrayList<>(maxNum);
            file.selectPhyOffset(phyOffsets, topic + "#" + key, maxNum, 0, Long.MAX_VALUE);
            hits += phyOffsets.size();
        }
        return new long[] {System.nanoTime() - start, hits};
    }

    /** Map a file for reading. */
    public static ByteBuffer map(String path) throws IOException {
        try (FileChannel channel = FileChannel.open(Path.of(path), StandardOpenOption.READ)) {
            return channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size());
        }
    }

    /** Read every field of the first entries in file order; returns nanos and a checksum. */
    public static long[] read(ByteBuffer buffer, int hashSlotNum, int count) {
        long start = System.nanoTime();
        long sum = sum(buffer, IndexHeader.INDEX_HEADER_SIZE + hashSlotNum * 4, count);
        return new long[] {System.nanoTime() - start, sum};
    }

    /** Index the messages of a CommitLog's file, as the broker's reput service does. */
    public static long rebuild(String root, String log) throws Exception {
        ByteBuffer buffer = map(log);
        DefaultMessageStore store = store(root, buffer.capacity());
        CommitLog commitLog = store.getCommitLog();
        IndexService service = new IndexService(store);
        long start = System.nanoTime();
        while (true) {
            DispatchRequest request = commitLog.checkMessageAndReturnSize(buffer, false, false);
            if (!request.isSuccess()) {
                throw new IllegalStateException("a record that is broken");
            }
            if (request.getMsgSize() == 0) {
                break;
            }
            service.buildIndex(request);
        }
        long nanos = System.nanoTime() - start;
        service.destroy();
        return nanos;
    }

    /** Start a message store until it serves. */
    public static long recover(String root, int fileSize) throws Exception {
        long start = System.nanoTime();
        DefaultMessageStore store = store(root, fileSize);
        if (!store.load()) {
            throw new IllegalStateException("the store does not load");
        }
        store.start();
        while (store.dispatchBehindBytes() > 0) {
            Thread.sleep(1);
        }
        long nanos = System.nanoTime() - start;
        store.shutdown();
        return nanos;
    }

    /** Load a message store of the default geometry or another, so that it answers queries. */
    public static DefaultMessageStore load(
            String root, int fileSize, int hashSlotNum, int indexNum) throws Exception {
        DefaultMessageStore store = store(root, fileSize, hashSlotNum, indexNum);
        if (!store.load()) {
            throw new IllegalStateException("the store does not load");
        }
        return store;
    }

    /** Ask the index of a loaded store for a key, again and again; returns nanos and hits. */
    public static long[] queryOffset(
            DefaultMessageStore store, String topic, String key, int maxNum, int times)
            throws Exception {
        Field field = DefaultMessageStore.class.getDeclaredField("indexService");
        field.setAccessible(true);
        IndexService service = (IndexService) field.get(store);
        long hits = 0;
        long start = System.nanoTime();
        for (int i = 0; i < times; i++) {
            hits += service.queryOffset(topic, key, maxNum, 0, Long.MAX_VALUE)
                    .getPhyOffsets().size();
        }
        return new long[] {System.nanoTime() - start, hits};
    }

    /** Ask a loaded store for the messages of a key, again and again; returns nanos and hits. */
    public static long[] queryMessage(
            DefaultMessageStore store, String topic, String key, int maxNum, int times) {
        long hits = 0;
        long start = System.nanoTime();
        for (int i = 0; i < times; i++) {
            QueryMessageResult result =
                    store.queryMessage(topic, key, maxNum, 0, Long.MAX_VALUE);
            hits += result.getMessageBufferList().size();
            result.release();
        }
        return new long[] {System.nanoTime() - start, hits};
    }

    private static DefaultMessageStore store(String root, int fileSize) throws Exception {
        MessageStoreConfig defaults = new MessageStoreConfig();
        return store(root, fileSize, defaults.getMaxHashSlotNum(), defaults.getMaxIndexNum());
    }

    private static DefaultMessageStore store(
            String root, int fileSize, int hashSlotNum, int indexNum) throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setMaxHashSlotNum(hashSlotNum);
        config.setMaxIndexNum(indexNum);
        config.setStorePathRootDir(root);
        config.setStorePathCommitLog(root + "/commitlog");
        config.setMappedFileSizeCommitLog(fileSize);
        config.setHaListenPort(0);
        BrokerConfig broker = new BrokerConfig();
        return new DefaultMessageStore(
                config,
                new BrokerStatsManager(broker.getBrokerClusterName(), true),
                null,
                broker,
                new ConcurrentHashMap<>());
    }

    private static long sum(ByteBuffer buffer, int base, int count) {
        long sum = 0;
        for (int i = 1; i <= count; i++) {
            int at = base + i * ENTRY_SIZE;
            sum += buffer.getInt(at);
            sum += buffer.getLong(at + 4);
            sum += buffer.getInt(at + 12);
            sum += buffer.getInt(at + 16);
        }
        return sum;
    }
}
