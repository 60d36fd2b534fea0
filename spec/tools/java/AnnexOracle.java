import com.alibaba.fastjson2.JSON;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.rocketmq.tieredstore.MessageStoreConfig;
import org.apache.rocketmq.tieredstore.index.IndexItem;
import org.apache.rocketmq.tieredstore.index.IndexStoreFile;
import org.rocksdb.ColumnFamilyDescriptor;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.ColumnFamilyOptions;
import org.rocksdb.DBOptions;
import org.rocksdb.Options;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksIterator;

/** Writes an index of tiered storage, and lists what RocksDB holds. */
public final class AnnexOracle {
    private static final HexFormat HEX = HexFormat.of();
    private static final long BEGIN = 1_700_000_000_000L;

    private AnnexOracle() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("tiered", tiered(arguments[0]));
        for (int i = 1; i < arguments.length; i++) {
            told.put("rocksdb-" + i, pairs(arguments[i]));
        }
        System.out.write((JSON.toJSONString(told) + "\n").getBytes(StandardCharsets.UTF_8));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static Object tiered(String root) throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(root);
        config.setTieredStoreIndexFileMaxHashSlotNum(5);
        config.setTieredStoreIndexFileMaxIndexNum(20);
        IndexStoreFile file = new IndexStoreFile(config, BEGIN);
        List<Object> puts = new ArrayList<>();
        String[] keys = {"a", "b", "a", "order-1", "polygenelubricants", "AaTopic", ""};
        long[] times = {500, 1999, -4000, 0, 5000, 86_400_000, 7000};
        for (int i = 0; i < keys.length; i++) {
            Object result = file.putKey(
                    "TopicTest", 3, i, Set.of(keys[i]), 100L * i, 50 + i, BEGIN + times[i]);
            Map<String, Object> put = new LinkedHashMap<>();
            put.put("topic", "TopicTest");
            put.put("key", keys[i]);
            put.put("topic_id", 3);
            put.put("queue_id", i);
            put.put("offset", 100L * i);
            put.put("size", 50 + i);
            put.put("store_timestamp", BEGIN + times[i]);
            put.put("result", result.toString());
            puts.add(put);
        }
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("hash_slot_num", 5);
        told.put("index_num", 20);
        told.put("begin_timestamp", BEGIN);
        told.put("puts", puts);
        List<Object> queries = new ArrayList<>();
        for (String key : new String[] {"a", "b", "order-1", "", "nothing"}) {
            List<Object> found = new ArrayList<>();
            for (IndexItem item :
                    file.queryAsync("TopicTest", key, 64, 0, Long.MAX_VALUE).join()) {
                found.add(List.of(item.getQueueId(), item.getOffset(), item.getTimeDiff()));
            }
            queries.add(Map.of("key", key, "found", found));
        }
        told.put("queries", queries);
        Path written = Path.of(root, "tiered_index_file", String.valueOf(BEGIN));
        told.put("written", HEX.formatHex(Files.readAllBytes(written)));
        ByteBuffer compacted = file.doCompaction();
        byte[] bytes = new byte[compacted.limit()];
        compacted.position(0);
        compacted.get(bytes);
        told.put("compacted", HEX.formatHex(bytes));
        return told;
    }

    private static Object pairs(String path) throws Exception {
        RocksDB.loadLibrary();
        List<ColumnFamilyDescriptor> families = new ArrayList<>();
        for (byte[] name : RocksDB.listColumnFamilies(new Options(), path)) {
            families.add(new ColumnFamilyDescriptor(name, new ColumnFamilyOptions()));
        }
        List<ColumnFamilyHandle> handles = new ArrayList<>();
        RocksDB database = RocksDB.openReadOnly(new DBOptions(), path, families, handles);
        List<Object> told = new ArrayList<>();
        for (ColumnFamilyHandle handle : handles) {
            String name = new String(handle.getName(), StandardCharsets.UTF_8);
            RocksIterator iterator = database.newIterator(handle);
            for (iterator.seekToFirst(); iterator.isValid(); iterator.next()) {
                told.add(List.of(
                        name, HEX.formatHex(iterator.key()), HEX.formatHex(iterator.value())));
            }
        }
        return told;
    }
}
