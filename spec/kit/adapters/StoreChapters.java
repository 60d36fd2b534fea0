import java.io.File;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import javax.tools.JavaCompiler;
import javax.tools.ToolProvider;

/** RocketMQ's own classes for the chapters beside the index: log, queues, checkpoint and ids. */
final class StoreChapters {
    static final List<String> OPERATIONS = List.of("decode_commitlog", "check_commitlog",
            "write_commitlog", "recover_commitlog", "decode_property_bytes", "inner_messages",
            "decompress_body", "build_consumequeue", "change_consumequeue", "change_checkpoint",
            "make_offset_id", "decode_offset_id", "decode_unique_key");

    private static final HexFormat HEX = HexFormat.of();
    private static final int UNIT_SIZE = 20;
    private static final long MARGIN = 3000; // What getMinTimestamp subtracts.
    private static final int HEAD = 64;
    private static final int CHECKPOINT_SIZE = 4096;
    private static final Map<String, String> CHECKPOINT = Map.of(
            "physic_msg_timestamp", "PhysicMsgTimestamp",
            "logics_msg_timestamp", "LogicsMsgTimestamp",
            "index_msg_timestamp", "IndexMsgTimestamp",
            "master_flushed_offset", "MasterFlushedOffset",
            "confirm_phy_offset", "ConfirmPhyOffset",
            "logics_physical_offset", "LogicsPhysicalOffset",
            "min_timestamp", "MinTimestamp",
            "min_timestamp_index", "MinTimestampIndex");

    // What a status names.
    private static final Map<Object, String> REFUSED =
            Map.of("PROPERTIES_SIZE_EXCEEDED", "properties");

    // Stores that are only asked, and so serve all requests, by their settings.
    private static final Map<Map<String, Object>, Object> ASKED = new LinkedHashMap<>();
    private static Object stats;
    private static Object clock;

    private StoreChapters() {}

    static Map<String, Object> answer(Map<String, Object> request) throws Exception {
        switch ((String) request.get("op")) {
            case "decode_commitlog": return decode(request);
            case "check_commitlog": return RocketMQ.one("checks", checks(request));
            case "write_commitlog": return write(request);
            case "recover_commitlog": return recover(request);
            case "decode_property_bytes": return propertyBytes(request);
            case "inner_messages": return innerMessages(request);
            case "decompress_body": return decompress(request);
            case "build_consumequeue": return build(request);
            case "change_consumequeue": return change(request);
            case "change_checkpoint": return changeCheckpoint(request);
            case "make_offset_id": return makeOffsetId(request);
            case "decode_offset_id": return decodeOffsetId(request);
            case "decode_unique_key": return decodeUniqueKey(request);
            default: throw new RocketMQ.Unsupported((String) request.get("op"));
        }
    }

    /** Check place after place, as recovery does: position, size and whether it succeeded. */
    private static List<List<Object>> checks(Map<String, Object> request) throws Exception {
        Map<String, Object> settings = new LinkedHashMap<>();
        if (Boolean.TRUE.equals(request.get("check_property_crc"))) {
            settings.put("ForceVerifyPropCRC", true);
        }
        Object log = RocketMQ.call(asked(settings), "getCommitLog");
        ByteBuffer buffer = ByteBuffer.wrap(bytes(RocketMQ.object(request.get("file"))));
        boolean checksCrc = Boolean.TRUE.equals(request.get("check_crc"));
        List<List<Object>> told = new ArrayList<>();
        int at = 0;
        while (true) {
            // Recovery asks with two arguments before 5.0.0, and with three since.
            Object found = RocketMQ.method(log, "checkMessageAndReturnSize", 2) != null
                    ? RocketMQ.call(log, "checkMessageAndReturnSize", buffer, checksCrc)
                    : RocketMQ.call(log, "checkMessageAndReturnSize", buffer, checksCrc, false);
            int size = (int) RocketMQ.call(found, "getMsgSize");
            boolean success = (boolean) RocketMQ.call(found, "isSuccess");
            told.add(List.of(at, size, success));
            if (!success || size <= 0) {
                return told;
            }
            at += size;
        }
    }

    private static Map<String, Object> decode(Map<String, Object> request) throws Exception {
        byte[] file = bytes(RocketMQ.object(request.get("file")));
        List<Object> records = new ArrayList<>();
        for (List<Object> check : checks(request)) {
            int at = (int) check.get(0);
            int size = (int) check.get(1);
            if (!(boolean) check.get(2) || size == 0) {
                break;
            }
            byte[] record = Arrays.copyOfRange(file, at, at + size);
            Object message = decoder("decode", ByteBuffer.wrap(record), true, false);
            Map<String, Object> fields = fields(message);
            fields.put("position", at);
            for (Object name : (List<?>) request.get("fields")) {
                if (!fields.containsKey(name)) {
                    throw new RocketMQ.Unsupported("MessageDecoder gives no " + name);
                }
            }
            records.add(fields);
        }
        return RocketMQ.one("records", records);
    }

    private static Map<String, Object> fields(Object message) throws Exception {
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("total_size", RocketMQ.call(message, "getStoreSize"));
        told.put("body_crc", RocketMQ.call(message, "getBodyCRC"));
        told.put("queue_id", RocketMQ.call(message, "getQueueId"));
        told.put("flag", RocketMQ.call(message, "getFlag"));
        told.put("queue_offset", RocketMQ.call(message, "getQueueOffset"));
        told.put("physical_offset", RocketMQ.call(message, "getCommitLogOffset"));
        told.put("sys_flag", RocketMQ.call(message, "getSysFlag"));
        told.put("born_timestamp", RocketMQ.call(message, "getBornTimestamp"));
        told.put("born_host", text(RocketMQ.call(message, "getBornHost")));
        told.put("store_timestamp", RocketMQ.call(message, "getStoreTimestamp"));
        told.put("store_host", text(RocketMQ.call(message, "getStoreHost")));
        told.put("reconsume_times", RocketMQ.call(message, "getReconsumeTimes"));
        told.put("prepared_transaction_offset",
                RocketMQ.call(message, "getPreparedTransactionOffset"));
        told.put("body", hexOf(RocketMQ.call(message, "getBody")));
        told.put("topic", RocketMQ.call(message, "getTopic"));
        told.put("properties", properties(message));
        return told;
    }

    private static Map<String, Object> write(Map<String, Object> request) throws Exception {
        Map<String, Object> settings = new LinkedHashMap<>();
        settings.put("MappedFileSizeCommitLog", (int) RocketMQ.number(request.get("file_size")));
        if (Boolean.TRUE.equals(request.get("property_crc"))) {
            settings.put("EnabledAppendPropCRC", true);
        }
        Object store = store(RocketMQ.scratch, settings, List.of());
        Object allocator = field(store, "allocateMappedFileService");
        RocketMQ.call(allocator, "start"); // Makes the next file in a thread of its own.
        Object log = RocketMQ.call(store, "getCommitLog");
        try {
            for (Object each : (List<?>) request.get("messages")) {
                Object status = put(store, log, RocketMQ.object(each));
                if (!"PUT_OK".equals(status)) {
                    Map<String, Object> reject = RocketMQ.one("found", status);
                    reject.put("field", REFUSED.get(status));
                    return RocketMQ.one("reject", reject);
                }
            }
            List<Object> files = new ArrayList<>();
            Object queue = field(log, "mappedFileQueue");
            for (Object file : (List<?>) RocketMQ.call(queue, "getMappedFiles")) {
                files.add(contents(Path.of((String) RocketMQ.call(file, "getFileName"))));
            }
            return RocketMQ.one("files", files);
        } finally {
            RocketMQ.call(allocator, "shutdown");
        }
    }

    /** Put a message as a broker does that has the clock and the queue offsets of the request. */
    private static Object put(Object store, Object log, Map<String, Object> given)
            throws Exception {
        List<?> batch = (List<?>) given.get("batch");
        Object message = innerType(batch != null).getConstructor().newInstance();
        RocketMQ.call(message, "setTopic", given.get("topic"));
        RocketMQ.call(message, "setQueueId", (int) RocketMQ.number(given.get("queue_id")));
        RocketMQ.call(message, "setFlag", (int) RocketMQ.number(given.get("flag")));
        RocketMQ.call(message, "setSysFlag", (int) RocketMQ.number(given.get("sys_flag")));
        RocketMQ.call(message, "setBornTimestamp", given.get("born_timestamp"));
        RocketMQ.call(message, "setBornHost", address((String) given.get("born_host")));
        RocketMQ.call(message, "setStoreHost", address((String) given.get("store_host")));
        RocketMQ.call(message, "setReconsumeTimes",
                (int) RocketMQ.number(given.get("reconsume_times")));
        RocketMQ.call(message, "setPreparedTransactionOffset",
                given.get("prepared_transaction_offset"));
        Map<String, String> properties = new LinkedHashMap<>();
        for (Object pair : (List<?>) given.get("properties")) {
            String name = (String) ((List<?>) pair).get(0);
            if (properties.put(name, (String) ((List<?>) pair).get(1)) != null) {
                throw new RocketMQ.Unsupported("a message has each property once");
            }
        }
        setProperties(message, properties);
        RocketMQ.call(message, "setBody", batch == null
                ? HEX.parseHex((String) given.get("body")) : encoded(batch));
        if (RocketMQ.method(message, "setPropertiesString", 1) != null) {
            RocketMQ.call(message, "setPropertiesString",
                    decoder("messageProperties2String", properties));
        }
        Object now = clock();
        RocketMQ.set(store, "systemClock", now);
        now.getClass().getField("now").setLong(now, RocketMQ.number(given.get("store_timestamp")));
        offsets(store, log).put(given.get("topic") + "-" + given.get("queue_id"),
                RocketMQ.number(given.get("queue_offset")));
        Object result = ((CompletableFuture<?>) RocketMQ.call(log,
                batch == null ? "asyncPutMessage" : "asyncPutMessages", message)).get();
        return RocketMQ.call(result, "getPutMessageStatus").toString();
    }

    private static Class<?> innerType(boolean isBatch) throws Exception {
        if (isBatch) {
            return RocketMQ.type("common.message.MessageExtBatch");
        }
        try {
            return RocketMQ.type("common.message.MessageExtBrokerInner");
        } catch (ClassNotFoundException error) {
            return RocketMQ.type("store.MessageExtBrokerInner"); // Before 5.0.0.
        }
    }

    /** The body of an ordinary batch, as a client encodes it. */
    private static byte[] encoded(List<?> batch) throws Exception {
        List<Object> parts = new ArrayList<>();
        for (Object each : batch) {
            Map<String, Object> given = RocketMQ.object(each);
            Object part = RocketMQ.type("common.message.Message").getConstructor().newInstance();
            RocketMQ.call(part, "setFlag", (int) RocketMQ.number(given.get("flag")));
            RocketMQ.call(part, "setBody", HEX.parseHex((String) given.get("body")));
            String text = (String) given.get("properties_text");
            Map<String, String> properties = new LinkedHashMap<>(); // Keeps the order.
            for (String pair : text.split("\u0002")) {
                String[] sides = pair.split("\u0001", 2);
                properties.put(sides[0], sides[sides.length - 1]);
            }
            properties.remove("");
            if (!text.equals(decoder("messageProperties2String", properties))) {
                throw new RocketMQ.Unsupported("no client writes these properties");
            }
            setProperties(part, properties);
            parts.add(part);
        }
        return (byte[]) decoder("encodeMessages", parts);
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> offsets(Object store, Object log) throws Exception {
        if (RocketMQ.method(log, "getTopicQueueTable", 0) != null) {
            return (Map<String, Object>) RocketMQ.call(log, "getTopicQueueTable");
        }
        Object queues = RocketMQ.call(store, "getQueueStore"); // From 5.0.0 on.
        return (Map<String, Object>)
                RocketMQ.call(field(queues, "queueOffsetOperator"), "getTopicQueueTable");
    }

    /** A clock that stands; a broker's own has no way to be set. */
    static Object clock() throws Exception {
        if (clock == null) {
            JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
            if (compiler == null) {
                throw new IllegalStateException("expected a JDK, found no compiler");
            }
            Path folder = Files.createTempDirectory("kit-clock");
            Path source = folder.resolve("StandingClock.java");
            Files.writeString(source, "public final class StandingClock extends "
                    + RocketMQ.type("common.SystemClock").getName()
                    + " { public long now; @Override public long now() { return now; } }");
            compiler.run(null, null, null, "-cp", System.getProperty("java.class.path"), "-d",
                    folder.toString(), source.toString());
            try (URLClassLoader loader = new URLClassLoader(
                    new URL[] {folder.toUri().toURL()}, StoreChapters.class.getClassLoader())) {
                clock = loader.loadClass("StandingClock").getConstructor().newInstance();
            }
            RocketMQ.delete(folder);
        }
        return clock;
    }

    /** Start a store, whose queues reach as far as the request says. */
    private static Map<String, Object> recover(Map<String, Object> request) throws Exception {
        Path folder = files(request, "commitlog");
        if (!Boolean.TRUE.equals(request.get("last_exit_ok"))) {
            Files.createFile(RocketMQ.scratch.resolve("abort"));
        }
        long time = RocketMQ.number(request.get("min_timestamp"));
        if (time > 0) {
            ByteBuffer checkpoint = ByteBuffer.allocate(CHECKPOINT_SIZE);
            checkpoint.putLong(time + MARGIN).putLong(time + MARGIN);
            Files.write(RocketMQ.scratch.resolve("checkpoint"), checkpoint.array());
        }
        long end = RocketMQ.number(request.get("queue_max_phy_offset"));
        if (end > 0) {
            int size = (int) Math.min(end, Integer.MAX_VALUE);
            Object queue = queue(false, RocketMQ.scratch.resolve("consumequeue"), 10 * UNIT_SIZE);
            take(queue, false, "put", List.of(end - size, size, 0L, 0L));
            RocketMQ.call(queue, "flush", 0);
        }
        Map<String, Object> settings = new LinkedHashMap<>();
        settings.put("MappedFileSizeCommitLog", (int) RocketMQ.number(request.get("file_size")));
        settings.put("MappedFileSizeConsumeQueue", 10 * UNIT_SIZE);
        settings.put("CheckCRCOnRecover", request.get("check_crc"));
        Object store = store(RocketMQ.scratch, settings, List.of());
        Map<String, Object> answer = RocketMQ.one("load_result", RocketMQ.call(store, "load"));
        answer.put("max_offset",
                RocketMQ.call(RocketMQ.call(store, "getCommitLog"), "getMaxOffset"));
        answer.put("files_after", Arrays.asList(names(folder)));
        return answer;
    }

    private static Map<String, Object> propertyBytes(Map<String, Object> request)
            throws Exception {
        byte[] bytes = HEX.parseHex((String) request.get("hex"));
        return RocketMQ.one("properties", decoder("string2messageProperties",
                new String(bytes, StandardCharsets.UTF_8)));
    }

    private static Map<String, Object> innerMessages(Map<String, Object> request)
            throws Exception {
        Class<?> flags = RocketMQ.type("common.sysflag.MessageSysFlag");
        int unwrapped;
        try {
            unwrapped = flags.getField("INNER_BATCH_FLAG").getInt(null)
                    | flags.getField("NEED_UNWRAP_FLAG").getInt(null);
        } catch (NoSuchFieldException error) {
            throw new RocketMQ.Unsupported("this version knows no inner batches");
        }
        if (RocketMQ.number(request.get("sys_flag")) != unwrapped) {
            throw new RocketMQ.Unsupported("flags beside those of an inner batch");
        }
        ByteBuffer body = ByteBuffer.wrap(HEX.parseHex((String) request.get("hex")));
        List<Object> told = new ArrayList<>();
        try {
            for (Object message : (List<?>) decoder("decodeMessages", body)) {
                Map<String, Object> one = new LinkedHashMap<>();
                one.put("flag", RocketMQ.call(message, "getFlag"));
                one.put("body", hexOf(RocketMQ.call(message, "getBody")));
                one.put("properties", properties(message));
                told.add(one);
            }
        } catch (InvocationTargetException error) {
            return rejected(error);
        }
        return RocketMQ.one("messages", told);
    }

    /** Decompress the body of a record, which MessageDecoder itself makes of it and decodes. */
    private static Map<String, Object> decompress(Map<String, Object> request) throws Exception {
        Object message = RocketMQ.type("common.message.MessageExt").getConstructor().newInstance();
        RocketMQ.call(message, "setTopic", "T");
        RocketMQ.call(message, "setBody", HEX.parseHex((String) request.get("hex")));
        RocketMQ.call(message, "setSysFlag", (int) RocketMQ.number(request.get("sys_flag")));
        RocketMQ.call(message, "setBornHost", address("0a000001:10911"));
        RocketMQ.call(message, "setStoreHost", address("0a000001:10911"));
        byte[] record = (byte[]) decoder("encode", message, false);
        Object found = decoder("decode", ByteBuffer.wrap(record), true, true);
        if (found == null) {
            return RocketMQ.one("reject", RocketMQ.one("found", "MessageDecoder gives none"));
        }
        return RocketMQ.one("hex", hexOf(RocketMQ.call(found, "getBody")));
    }

    private static Map<String, Object> build(Map<String, Object> request) throws Exception {
        Map<String, Object> sent = RocketMQ.object(request.get("file"));
        Path folder = Files.createDirectories(RocketMQ.scratch.resolve("commitlog"));
        byte[] file = bytes(sent);
        Files.write(folder.resolve((String) sent.get("name")), file);
        Map<String, Object> settings = new LinkedHashMap<>();
        settings.put("MappedFileSizeCommitLog", file.length);
        settings.put("CheckCRCOnRecover", false);
        boolean hasLightQueues = Boolean.TRUE.equals(request.get("light_queues"));
        settings.put("EnableLmq", hasLightQueues);
        settings.put("EnableMultiDispatch", hasLightQueues);
        Object store =
                store(RocketMQ.scratch, settings, (List<?>) request.get("batch_topics"));
        RocketMQ.call(store, "load");
        Object dispatcher = field(store, "reputMessageService");
        RocketMQ.call(dispatcher, "setReputFromOffset",
                RocketMQ.call(RocketMQ.call(store, "getCommitLog"), "getMinOffset"));
        Method dispatch = declared(dispatcher.getClass(), "doReput");
        dispatch.invoke(dispatcher);
        Object queue = RocketMQ.call(store, "getConsumeQueue", request.get("topic"),
                (int) RocketMQ.number(request.get("queue_id")));
        List<Object> units = new ArrayList<>();
        for (List<Object> unit : queue == null ? List.<List<Object>>of() : units(queue)) {
            units.add(unit.subList(0, 4));
        }
        return RocketMQ.one("units", units);
    }

    private static Map<String, Object> change(Map<String, Object> request) throws Exception {
        boolean isBatch = Boolean.TRUE.equals(request.get("is_batch"));
        Path folder = files(request, "consumequeue/TopicTest/2");
        Object queue = queue(isBatch, RocketMQ.scratch.resolve("consumequeue"),
                (int) RocketMQ.number(request.get("file_size")));
        boolean isLoaded = (boolean) RocketMQ.call(queue, "load");
        if (isLoaded) {
            RocketMQ.call(queue, "recover");
        }
        Map<String, Object> answer = RocketMQ.one("loaded", isLoaded);
        Map<String, Object> recovered = ends(queue);
        recovered.put("units", unitsOrNull(queue));
        answer.put("recovered", recovered);
        List<Map<String, Object>> told = new ArrayList<>();
        for (Object each : (List<?>) request.get("steps")) {
            Map<String, Object> step = RocketMQ.object(each);
            take(queue, isBatch, (String) step.get("do"), (List<?>) step.get("arguments"));
            Map<String, Object> one = new LinkedHashMap<>(step);
            one.putAll(ends(queue));
            told.add(one);
        }
        if (!told.isEmpty()) {
            told.get(told.size() - 1).put("units", unitsOrNull(queue));
        }
        answer.put("steps", told);
        RocketMQ.call(queue, "flush", 0);
        List<Object> after = new ArrayList<>();
        for (String name : names(folder)) {
            after.add(contents(folder.resolve(name)));
        }
        answer.put("files_after", after);
        return answer;
    }

    private static Object queue(boolean isBatch, Path path, int fileSize) throws Exception {
        Class<?> type;
        try {
            type = RocketMQ.type(isBatch ? "store.queue.BatchConsumeQueue" : "store.ConsumeQueue");
        } catch (ClassNotFoundException error) {
            throw new RocketMQ.Unsupported("this version knows no batch queues");
        }
        for (Constructor<?> made : type.getConstructors()) {
            if (made.getParameterCount() == 5) {
                return made.newInstance("TopicTest", 2, path.toString(), fileSize, asked(Map.of()));
            }
        }
        throw new IllegalStateException("no such constructor of " + type);
    }

    /** Take a step; a put is that of the dispatcher, which needs more of a store than a queue. */
    private static void take(Object queue, boolean isBatch, String step, List<?> values)
            throws Exception {
        switch (step) {
            case "correct_min_offset":
                RocketMQ.call(queue, "correctMinOffset", values.get(0));
                break;
            case "truncate":
                RocketMQ.call(queue, "truncateDirtyLogicFiles", values.get(0));
                break;
            case "expire":
                RocketMQ.call(queue, "deleteExpiredFile", values.get(0));
                break;
            default:
                int size = (int) RocketMQ.number(values.get(1));
                if (isBatch) {
                    long base = RocketMQ.number(values.get(3));
                    RocketMQ.call(queue, "putBatchMessagePositionInfo", values.get(0), size,
                            values.get(2), 1_700_000_000_000L + base, base,
                            (short) RocketMQ.number(values.get(4)));
                } else {
                    declared(queue.getClass(), "putMessagePositionInfo", long.class, int.class,
                            long.class, long.class).invoke(queue, values.get(0), size,
                            values.get(2), values.get(3));
                }
        }
    }

    private static Map<String, Object> ends(Object queue) throws Exception {
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("min_offset", RocketMQ.call(queue, "getMinOffsetInQueue"));
        told.put("max_offset", RocketMQ.call(queue, "getMaxOffsetInQueue"));
        return told;
    }

    private static List<List<Object>> unitsOrNull(Object queue) throws Exception {
        try {
            return units(queue);
        } catch (InvocationTargetException error) {
            return null; // A lookup of RocketMQ's fails.
        }
    }

    private static List<List<Object>> units(Object queue) throws Exception {
        List<List<Object>> units = new ArrayList<>();
        long next = Math.max(0, (long) RocketMQ.call(queue, "getMinOffsetInQueue"));
        while (next < (long) RocketMQ.call(queue, "getMaxOffsetInQueue")) {
            int before = units.size();
            next = RocketMQ.method(queue, "iterateFrom", 1) == null
                    ? unitsOfBuffer(queue, next, units) : unitsOfIterator(queue, next, units);
            if (units.size() == before) {
                break;
            }
        }
        return units;
    }

    private static long unitsOfIterator(Object queue, long from, List<List<Object>> units)
            throws Exception {
        Object iterator = RocketMQ.call(queue, "iterateFrom", from);
        long next = from;
        if (iterator == null) {
            return next;
        }
        try {
            while ((boolean) RocketMQ.call(iterator, "hasNext")) {
                Object unit = RocketMQ.call(iterator, "next");
                long offset = (long) RocketMQ.call(unit, "getQueueOffset");
                short count = (short) RocketMQ.call(unit, "getBatchNum");
                units.add(List.of(offset, RocketMQ.call(unit, "getPos"),
                        RocketMQ.call(unit, "getSize"), RocketMQ.call(unit, "getTagsCode"),
                        count));
                next = offset + count;
            }
        } finally {
            RocketMQ.call(iterator, "release");
        }
        return next;
    }

    /** Before 5.0.0 whoever asks a queue takes the fields of a unit out of its buffer. */
    private static long unitsOfBuffer(Object queue, long from, List<List<Object>> units)
            throws Exception {
        Object found = RocketMQ.call(queue, "getIndexBuffer", from);
        long next = from;
        if (found == null) {
            return next;
        }
        try {
            ByteBuffer buffer = (ByteBuffer) RocketMQ.call(found, "getByteBuffer");
            int size = (int) RocketMQ.call(found, "getSize");
            for (int at = 0; at < size; at += UNIT_SIZE) {
                units.add(List.of(next++, buffer.getLong(), buffer.getInt(), buffer.getLong(), 1));
            }
        } finally {
            RocketMQ.call(found, "release");
        }
        return next;
    }

    private static Map<String, Object> changeCheckpoint(Map<String, Object> request)
            throws Exception {
        Path path = RocketMQ.scratch.resolve("checkpoint");
        if (request.get("before") != null) {
            Map<String, Object> before = RocketMQ.object(request.get("before"));
            int size = (int) RocketMQ.number(before.get("size"));
            byte[] head = HEX.parseHex((String) before.get("hex"));
            byte[] whole = Arrays.copyOf(head, size);
            if (size > CHECKPOINT_SIZE) {
                Arrays.fill(whole, CHECKPOINT_SIZE, size, (byte) 'x');
            }
            Files.write(path, whole);
        }
        Object checkpoint = RocketMQ.type("store.StoreCheckpoint").getConstructor(String.class)
                .newInstance(path.toString());
        for (Map.Entry<String, Object> each : RocketMQ.object(request.get("set")).entrySet()) {
            accessor(checkpoint, "set", each.getKey(), 1).invoke(checkpoint, each.getValue());
        }
        Map<String, Object> fields = new LinkedHashMap<>();
        for (Object name : (List<?>) request.get("fields")) {
            fields.put((String) name,
                    accessor(checkpoint, "get", (String) name, 0).invoke(checkpoint));
        }
        RocketMQ.call(checkpoint, "flush");
        byte[] after = Files.readAllBytes(path);
        Map<String, Object> told = new LinkedHashMap<>();
        told.put("hex", HEX.formatHex(Arrays.copyOf(after, HEAD)));
        told.put("size", after.length);
        Map<String, Object> answer = RocketMQ.one("fields", fields);
        answer.put("after", told);
        return answer;
    }

    private static Method accessor(Object checkpoint, String kind, String name, int count) {
        Method found = RocketMQ.method(checkpoint, kind + CHECKPOINT.get(name), count);
        if (found == null) {
            throw new RocketMQ.Unsupported("this version knows no " + name);
        }
        return found;
    }

    private static Map<String, Object> makeOffsetId(Map<String, Object> request)
            throws Exception {
        return RocketMQ.one("message_id", decoder("createMessageId",
                address(request.get("address") + ":" + request.get("port")),
                request.get("phy_offset")));
    }

    private static Map<String, Object> decodeOffsetId(Map<String, Object> request)
            throws Exception {
        Object id;
        try {
            id = decoder("decodeMessageId", request.get("message_id"));
        } catch (InvocationTargetException error) {
            return rejected(error);
        }
        InetSocketAddress host = (InetSocketAddress) RocketMQ.call(id, "getAddress");
        Map<String, Object> answer =
                RocketMQ.one("address", HEX.formatHex(host.getAddress().getAddress()));
        answer.put("port", host.getPort());
        answer.put("phy_offset", RocketMQ.call(id, "getOffset"));
        return answer;
    }

    private static Map<String, Object> decodeUniqueKey(Map<String, Object> request)
            throws Exception {
        Class<?> ids = RocketMQ.type("common.message.MessageClientIDSetter");
        Object key = request.get("unique_key");
        byte[] address = (byte[]) ids.getMethod("getIPFromID", String.class).invoke(null, key);
        Map<String, Object> answer = RocketMQ.one("address", HEX.formatHex(address));
        answer.put("pid", ids.getMethod("getPidFromID", String.class).invoke(null, key));
        return answer;
    }

    /** A store that is not started, with an empty folder where a request brings no files. */
    private static Object store(Path root, Map<String, Object> settings, List<?> batchTopics)
            throws Exception {
        Object config =
                RocketMQ.type("store.config.MessageStoreConfig").getConstructor().newInstance();
        RocketMQ.call(config, "setStorePathRootDir", root.toString());
        RocketMQ.call(config, "setStorePathCommitLog", root.resolve("commitlog").toString());
        RocketMQ.call(config, "setHaListenPort", 0);
        RocketMQ.call(config, "setMessageIndexEnable", false);
        for (Map.Entry<String, Object> each : settings.entrySet()) {
            if (RocketMQ.method(config, "set" + each.getKey(), 1) == null) {
                throw new RocketMQ.Unsupported("this version knows no " + each.getKey());
            }
            RocketMQ.call(config, "set" + each.getKey(), each.getValue());
        }
        Object broker = RocketMQ.type("common.BrokerConfig").getConstructor().newInstance();
        if (stats == null) {
            stats = RocketMQ.type("store.stats.BrokerStatsManager")
                    .getConstructor(String.class, boolean.class).newInstance("kit", true);
        }
        for (Constructor<?> made : RocketMQ.type("store.DefaultMessageStore").getConstructors()) {
            if (made.getParameterCount() == 4 && batchTopics.isEmpty()) {
                return made.newInstance(config, stats, null, broker);
            }
            if (made.getParameterCount() == 5) {
                return made.newInstance(config, stats, null, broker, topics(batchTopics));
            }
        }
        throw new RocketMQ.Unsupported("this version knows no batch queues");
    }

    private static Map<String, Object> topics(List<?> names) throws Exception {
        Map<String, Object> topics = new ConcurrentHashMap<>();
        for (Object name : names) {
            Object topic = RocketMQ.type("common.TopicConfig").getConstructor(String.class)
                    .newInstance(name);
            RocketMQ.call(topic, "setAttributes", Map.of("queue.type", "BatchCQ"));
            topics.put((String) name, topic);
        }
        return topics;
    }

    private static Object asked(Map<String, Object> settings) throws Exception {
        Object found = ASKED.get(settings);
        if (found == null) {
            Path root = Files.createTempDirectory("kit-store");
            found = store(root, settings, List.of());
            ASKED.put(settings, found);
            Runtime.getRuntime().addShutdownHook(new Thread(() -> {
                try {
                    RocketMQ.delete(root);
                } catch (Exception error) {
                    // What is left is the system's to clear.
                }
            }));
        }
        return found;
    }

    private static Path files(Map<String, Object> request, String name) throws Exception {
        Path folder = Files.createDirectories(RocketMQ.scratch.resolve(name));
        for (Object each : (List<?>) request.get("files")) {
            Map<String, Object> file = RocketMQ.object(each);
            Files.write(folder.resolve((String) file.get("name")), bytes(file));
        }
        return folder;
    }

    private static String[] names(Path folder) {
        File[] found = folder.toFile().listFiles();
        return found == null ? new String[0]
                : Arrays.stream(found).map(File::getName).sorted().toArray(String[]::new);
    }

    private static Map<String, Object> contents(Path path) throws Exception {
        Map<String, Object> file = RocketMQ.one("name", path.getFileName().toString());
        file.put("hex", RocketMQ.hex(path));
        return file;
    }

    private static byte[] bytes(Map<String, Object> file) {
        return HEX.parseHex((String) file.get("hex"));
    }

    private static Object decoder(String name, Object... arguments) throws Exception {
        for (Method found : RocketMQ.type("common.message.MessageDecoder").getMethods()) {
            if (found.getName().equals(name) && found.getParameterCount() == arguments.length) {
                return found.invoke(null, arguments);
            }
        }
        throw new NoSuchMethodException(name);
    }

    private static Object properties(Object message) throws Exception {
        Object found = RocketMQ.call(message, "getProperties");
        return found == null ? Map.of() : found;
    }

    private static void setProperties(Object message, Object properties) throws Exception {
        RocketMQ.type("common.message.MessageAccessor")
                .getMethod("setProperties", RocketMQ.type("common.message.Message"), Map.class)
                .invoke(null, message, properties);
    }

    /** The bytes of a body; RocketMQ leaves one of 0 bytes unset. */
    private static String hexOf(Object body) {
        return body == null ? "" : HEX.formatHex((byte[]) body);
    }

    private static String text(Object host) {
        InetSocketAddress address = (InetSocketAddress) host;
        return HEX.formatHex(address.getAddress().getAddress()) + ":" + address.getPort();
    }

    private static InetSocketAddress address(String text) throws Exception {
        String[] parts = text.split(":");
        return new InetSocketAddress(
                InetAddress.getByAddress(HEX.parseHex(parts[0])), Integer.parseInt(parts[1]));
    }

    private static Map<String, Object> rejected(InvocationTargetException error) {
        return RocketMQ.one("reject", RocketMQ.one("found", String.valueOf(error.getCause())));
    }

    private static Object field(Object target, String name) throws Exception {
        for (Class<?> type = target.getClass(); type != null; type = type.getSuperclass()) {
            for (Field field : type.getDeclaredFields()) {
                if (field.getName().equals(name)) {
                    field.setAccessible(true);
                    return field.get(target);
                }
            }
        }
        throw new NoSuchFieldException(name);
    }

    private static Method declared(Class<?> from, String name, Class<?>... types)
            throws Exception {
        for (Class<?> type = from; type != null; type = type.getSuperclass()) {
            for (Method method : type.getDeclaredMethods()) {
                if (method.getName().equals(name)
                        && Arrays.equals(method.getParameterTypes(), types)) {
                    method.setAccessible(true);
                    return method;
                }
            }
        }
        throw new NoSuchMethodException(name);
    }
}
