import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.DispatchRequest;
import org.apache.rocketmq.store.RunningFlags;
import org.apache.rocketmq.store.StoreCheckpoint;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.index.IndexFile;
import org.apache.rocketmq.store.index.IndexHeader;
import org.apache.rocketmq.store.index.IndexService;
import org.apache.rocketmq.store.index.QueryOffsetResult;

/**
 * Runs sequences of operations on RocketMQ's own IndexFile and IndexService.
 *
 * <p>A sequence and its answers are bytes, in the encoding of wire.py, so that one call from Python
 * runs all of it. It is compiled against each version of RocketMQ.
 */
public final class Driver {
    private static final String FLUSH_THREAD = "FlushIndexFileThread";

    private Driver() {}

    /** Run one IndexFile from opening to closing. */
    public static byte[] runFile(byte[] sequence) throws Exception {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(sequence));
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        String path = string(in);
        boolean exists = new File(path).exists();
        IndexFile file =
                new IndexFile(path, in.readInt(), in.readInt(), in.readLong(), in.readLong());
        if (exists) {
            file.load();
        }
        for (int count = in.readInt(); count > 0; count--) {
            int kind = in.readByte();
            if (kind == 'p') {
                out.writeBoolean(file.putKey(string(in), in.readLong(), in.readLong()));
                header(out, file);
            } else if (kind == 'q') {
                List<Long> offsets = new ArrayList<>();
                file.selectPhyOffset(
                        offsets, string(in), in.readInt(), in.readLong(), in.readLong());
                longs(out, offsets);
            } else if (kind == 'm') {
                out.writeBoolean(file.isTimeMatched(in.readLong(), in.readLong()));
            } else if (kind == 'b') {
                file.flush();
                contents(out, path);
            } else {
                throw new IOException("unknown operation " + kind);
            }
        }
        file.flush();
        contents(out, path);
        shutdown(file);
        return bytes.toByteArray();
    }

    /** Run one IndexService from loading to the end of its process. */
    public static byte[] runService(byte[] sequence) throws Exception {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(sequence));
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        String root = string(in);
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(root);
        config.setMaxHashSlotNum(in.readInt());
        config.setMaxIndexNum(in.readInt());
        config.setMaxMsgsNumBatch(in.readInt());
        StoreCheckpoint checkpoint = new StoreCheckpoint(root + File.separator + "checkpoint");
        IndexService service = new IndexService(store(config, checkpoint));
        out.writeBoolean(service.load(in.readBoolean()));
        List<IndexFile> files = files(service);
        out.writeInt(files.size());
        boolean isClean = in.readBoolean();
        for (int count = in.readInt(); count > 0; count--) {
            int kind = in.readByte();
            if (kind == 'p') {
                awaitName(files);
                int before = files.size();
                service.buildIndex(request(in));
                if (files.size() > before) {
                    joinFlush();
                }
                out.writeInt(files.size());
            } else if (kind == 'q') {
                QueryOffsetResult result = query(service, in);
                longs(out, result.getPhyOffsets());
                out.writeLong(result.getIndexLastUpdateTimestamp());
                out.writeLong(result.getIndexLastUpdatePhyoffset());
            } else if (kind == 'e') {
                service.deleteExpiredFile(in.readLong());
                out.writeInt(files.size());
            } else if (kind == 'd') {
                service.destroy();
                out.writeInt(files.size());
            } else if (kind == 'b') {
                snapshot(out, files, checkpoint);
            } else {
                throw new IOException("unknown operation " + kind);
            }
        }
        snapshot(out, files, checkpoint);
        if (isClean) {
            service.shutdown();
        }
        checkpoint.shutdown();
        return bytes.toByteArray();
    }

    private static DispatchRequest request(DataInputStream in) throws IOException {
        String topic = string(in);
        String uniqKey = string(in);
        String keys = string(in);
        String tags = string(in);
        int sysFlag = in.readInt();
        long offset = in.readLong();
        long timestamp = in.readLong();
        Map<String, String> properties = new HashMap<>();
        if (tags != null) {
            properties.put("TAGS", tags);
        }
        return new DispatchRequest(
                topic, 0, offset, 100, 0, timestamp, 0, keys, uniqKey, sysFlag, 0, properties);
    }

    /** Older versions know no kinds of keys. */
    private static QueryOffsetResult query(IndexService service, DataInputStream in)
            throws Exception {
        String topic = string(in);
        String key = string(in);
        String type = string(in);
        int maxNum = in.readInt();
        long begin = in.readLong();
        long end = in.readLong();
        if (type == null) {
            return service.queryOffset(topic, key, maxNum, begin, end);
        }
        Method method = IndexService.class.getMethod(
                "queryOffset", String.class, String.class, int.class, long.class, long.class,
                String.class);
        return (QueryOffsetResult) method.invoke(service, topic, key, maxNum, begin, end, type);
    }

    /** A store of which IndexService sees the configurations and the checkpoint. */
    private static DefaultMessageStore store(MessageStoreConfig config, StoreCheckpoint checkpoint)
            throws ReflectiveOperationException {
        Field unsafe = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        unsafe.setAccessible(true);
        DefaultMessageStore store = (DefaultMessageStore)
                ((sun.misc.Unsafe) unsafe.get(null)).allocateInstance(DefaultMessageStore.class);
        set(store, "messageStoreConfig", config);
        set(store, "storeCheckpoint", checkpoint);
        set(store, "runningFlags", new RunningFlags());
        set(store, "brokerConfig", new BrokerConfig());
        return store;
    }

    private static void set(DefaultMessageStore store, String name, Object value)
            throws ReflectiveOperationException {
        Field field = DefaultMessageStore.class.getDeclaredField(name);
        field.setAccessible(true);
        field.set(store, value);
    }

    @SuppressWarnings("unchecked")
    private static List<IndexFile> files(IndexService service)
            throws ReflectiveOperationException {
        Field field = IndexService.class.getDeclaredField("indexFileList");
        field.setAccessible(true);
        return (List<IndexFile>) field.get(service);
    }

    /** Wait for a millisecond that no file is named after; two files of one would be one. */
    private static void awaitName(List<IndexFile> files) {
        if (files.isEmpty()) {
            return;
        }
        String last = new File(files.get(files.size() - 1).getFileName()).getName();
        while (UtilAll.timeMillisToHumanString(System.currentTimeMillis()).compareTo(last) <= 0) {
            Thread.onSpinWait();
        }
    }

    /** Wait for the thread that flushes a full file and then writes the checkpoint. */
    private static void joinFlush() throws InterruptedException {
        Thread[] threads = new Thread[Thread.activeCount() + 16];
        int count = Thread.enumerate(threads);
        for (int i = 0; i < count; i++) {
            if (FLUSH_THREAD.equals(threads[i].getName())) {
                threads[i].join();
            }
        }
    }

    private static void snapshot(
            DataOutputStream out, List<IndexFile> files, StoreCheckpoint checkpoint)
            throws IOException {
        out.writeInt(files.size());
        for (IndexFile file : files) {
            file.flush();
            contents(out, file.getFileName());
        }
        out.writeLong(checkpoint.getIndexMsgTimestamp());
    }

    private static void header(DataOutputStream out, IndexFile file) throws Exception {
        Field field = IndexFile.class.getDeclaredField("indexHeader");
        field.setAccessible(true);
        IndexHeader header = (IndexHeader) field.get(file);
        out.writeLong(header.getBeginTimestamp());
        out.writeLong(header.getEndTimestamp());
        out.writeLong(header.getBeginPhyOffset());
        out.writeLong(header.getEndPhyOffset());
        out.writeInt(header.getHashSlotCount().get());
        out.writeInt(header.getIndexCount());
        out.writeBoolean(file.isWriteFull());
    }

    /** Before 5.0.0 there is nothing to shut down. */
    private static void shutdown(IndexFile file) throws ReflectiveOperationException {
        for (Method method : IndexFile.class.getMethods()) {
            if (method.getName().equals("shutdown")) {
                method.invoke(file);
            }
        }
    }

    private static String string(DataInputStream in) throws IOException {
        int length = in.readInt();
        if (length < 0) {
            return null;
        }
        char[] units = new char[length];
        for (int i = 0; i < length; i++) {
            units[i] = in.readChar();
        }
        return new String(units);
    }

    private static void longs(DataOutputStream out, List<Long> values) throws IOException {
        out.writeInt(values.size());
        for (long value : values) {
            out.writeLong(value);
        }
    }

    private static void contents(DataOutputStream out, String path) throws IOException {
        byte[] bytes = Files.readAllBytes(Path.of(path));
        out.writeInt(bytes.length);
        out.write(bytes);
    }
}
