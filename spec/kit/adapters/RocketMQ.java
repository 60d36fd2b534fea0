import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/**
 * RocketMQ's own classes behind the protocol of the conformance kit.
 *
 * <p>It names them by text, so that one source fits every version, from com.alibaba's 3.2 on:
 * compile this with {@code javac}, and run {@code java -cp JARS:. RocketMQ VERSION EDITION
 * [PACKAGE]}.
 */
public final class RocketMQ {
    private static final String FLUSH_THREAD = "FlushIndexFileThread";
    private static final String[] CHECKPOINT = {
        "PhysicMsgTimestamp", "LogicsMsgTimestamp", "IndexMsgTimestamp", "MasterFlushedOffset",
        "ConfirmPhyOffset",
    };
    private static final String[] CHECKPOINT_FIELDS = {
        "physic_msg_timestamp", "logics_msg_timestamp", "index_msg_timestamp",
        "master_flushed_offset", "confirm_phy_offset",
    };

    private static String version;
    private static String edition;
    private static String root;
    static Path scratch;

    private RocketMQ() {}

    public static void main(String[] arguments) throws Exception {
        version = arguments[0];
        edition = arguments[1];
        root = arguments.length > 2 ? arguments[2] : "org.apache.rocketmq";
        // What RocketMQ prints is no answer.
        PrintStream out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out),
                true, StandardCharsets.US_ASCII);
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(
                new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> request = object(new Json(line).value());
            Map<String, Object> answer = new LinkedHashMap<>();
            answer.put("id", request.get("id"));
            scratch = Files.createTempDirectory("kit");
            try {
                answer.putAll(answer(request));
            } catch (Unsupported error) {
                answer.put("unsupported", error.getMessage());
            } catch (InvocationTargetException error) {
                answer.put("error", String.valueOf(error.getCause()));
            } catch (Exception error) {
                answer.put("error", String.valueOf(error));
            } finally {
                delete(scratch);
            }
            out.println(Json.text(answer));
        }
        System.exit(0); // Threads of RocketMQ may go on.
    }

    private static Map<String, Object> answer(Map<String, Object> request) throws Exception {
        switch ((String) request.get("op")) {
            case "hello": return hello();
            case "hash": return hash(request);
            case "decode_text": return decodeText(request);
            case "create": return create(request);
            case "put": return put(request);
            case "select": return select(request);
            case "time_match": return timeMatch(request);
            case "load": return load(request);
            case "total_size": return totalSize(request);
            case "query": return query(request);
            case "expire": return expire(request);
            case "build":
            case "build_names": return build(request);
            case "decode_properties": return properties(request);
            case "read_checkpoint": return readCheckpoint(request);
            case "write_checkpoint": return writeCheckpoint(request);
            default: return StoreChapters.answer(request);
        }
    }

    private static Map<String, Object> hello() throws Exception {
        List<String> operations = new ArrayList<>(List.of("hash", "decode_text", "create",
                "put", "select", "time_match", "load", "total_size", "query", "expire", "build", "build_names", "decode_properties",
                "read_checkpoint", "write_checkpoint"));
        if (root.startsWith("org")) {
            operations.addAll(StoreChapters.OPERATIONS);
            StoreChapters.clock(); // Compiling takes a while, which only this answer may.
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("protocol", 1L);
        answer.put("name", root.startsWith("org") ? "Apache RocketMQ" : "Alibaba RocketMQ");
        answer.put("version", version);
        answer.put("classes", List.of("strict_writer", "broker_faithful_reader",
                "broker_faithful_loader"));
        answer.put("editions", List.of(edition));
        answer.put("operations", operations);
        return answer;
    }

    private static Map<String, Object> hash(Map<String, Object> request) throws Exception {
        Object file = unsafe().allocateInstance(type("store.index.IndexFile"));
        return one("key_hash", call(file, "indexKeyHashMethod", request.get("key")));
    }

    private static Map<String, Object> decodeText(Map<String, Object> request) throws Exception {
        byte[] bytes = HexFormat.of().parseHex((String) request.get("hex"));
        String text = new String(bytes, StandardCharsets.UTF_8);
        Map<String, Object> answer = one("text", text);
        request.put("key", text);
        answer.putAll(hash(request));
        return answer;
    }

    private static Map<String, Object> create(Map<String, Object> request) throws Exception {
        Path path = scratch.resolve("20260101000000000");
        Object file = file(path, request, number(request.get("prev_end_phy_offset")),
                number(request.get("prev_end_timestamp")));
        Map<String, Object> answer = one("created", hex(path));
        if (method(file, "shutdown", 0) != null) {
            call(file, "shutdown"); // Before 5.0.0 there was none.
        }
        answer.put("closed", hex(path));
        return answer;
    }

    private static Map<String, Object> put(Map<String, Object> request) throws Exception {
        Path path = scratch.resolve("20260101000000000");
        String before = (String) request.get("resume_hex");
        if (before != null) {
            Files.write(path, HexFormat.of().parseHex(before));
        }
        long offset = number(request.getOrDefault("prev_end_phy_offset", 0L));
        long time = number(request.getOrDefault("prev_end_timestamp", 0L));
        Object file = file(path, request, offset, time);
        List<Object> results = new ArrayList<>();
        for (Object each : (List<?>) request.get("puts")) {
            Map<String, Object> put = object(each);
            if (put.containsKey("reopen")) {
                call(file, "flush");
                file = file(path, request, 0, 0);
            } else {
                results.add(call(file, "putKey", put.get("key"), put.get("phy_offset"),
                        put.get("store_timestamp")));
            }
        }
        call(file, "flush");
        Map<String, Object> answer = one("results", results);
        answer.put("hex", hex(path));
        return answer;
    }

    private static Map<String, Object> select(Map<String, Object> request) throws Exception {
        List<Object> found = new ArrayList<>();
        List<Object> asked = new ArrayList<>(List.of(found, request.get("key"),
                (int) number(request.get("max_num")), request.get("begin"), request.get("end")));
        Object file = stored(request);
        if (method(file, "selectPhyOffset", 6) != null) {
            asked.add(false); // Before 4.0 it could lock the file.
        }
        call(file, "selectPhyOffset", asked.toArray());
        return one("phy_offsets", found);
    }

    private static Map<String, Object> timeMatch(Map<String, Object> request) throws Exception {
        return one("matched",
                call(stored(request), "isTimeMatched", request.get("begin"), request.get("end")));
    }

    private static Map<String, Object> load(Map<String, Object> request) throws Exception {
        if (!Boolean.TRUE.equals(request.get("writable"))) {
            return Map.of("unsupported", "RocketMQ never opens a directory to read it only");
        }
        Object service = service(request);
        boolean result = (boolean) call(service, "load", request.get("last_exit_ok"));
        Map<String, Object> answer = one("load_result", result);
        answer.putAll(state(service));
        return answer;
    }

    private static Map<String, Object> totalSize(Map<String, Object> request) throws Exception {
        Object service = service(request);
        call(service, "load", request.get("last_exit_ok"));
        return one("total_size", call(service, "getTotalSize"));
    }

    private static Map<String, Object> query(Map<String, Object> request) throws Exception {
        Object service = service(request);
        call(service, "load", request.get("last_exit_ok"));
        List<Object> asked = new ArrayList<>(List.of(request.get("topic"), request.get("key"),
                (int) number(request.get("max_num")), request.get("begin"), request.get("end")));
        if (request.get("index_type") != null) {
            asked.add(request.get("index_type"));
        }
        Object result;
        try {
            result = call(service, "queryOffset", asked.toArray());
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof IllegalArgumentException) {
                return one("reject", one("found", String.valueOf(error.getCause())));
            }
            throw error;
        }
        Map<String, Object> answer = one("phy_offsets", call(result, "getPhyOffsets"));
        answer.put("index_last_update_timestamp", call(result, "getIndexLastUpdateTimestamp"));
        answer.put("index_last_update_phyoffset", call(result, "getIndexLastUpdatePhyoffset"));
        return answer;
    }

    private static Map<String, Object> expire(Map<String, Object> request) throws Exception {
        if (!Boolean.TRUE.equals(request.get("writable"))) {
            return Map.of("unsupported", "RocketMQ never opens a directory to read it only");
        }
        Object service = service(request);
        call(service, "load", request.get("last_exit_ok"));
        call(service, "deleteExpiredFile", request.get("min_phy_offset"));
        return state(service);
    }

    private static Map<String, Object> build(Map<String, Object> request) throws Exception {
        request.put("directory", List.of());
        request.put("index_msg_timestamp", 0L);
        Object checkpoint = checkpoint(0L);
        Object service = service(request, checkpoint);
        call(service, "load", true);
        List<?> files = files(service);
        Method build = method(service, "buildIndex", 1);
        boolean isOld = build.getParameterTypes()[0].isArray();
        for (Object each : (List<?>) request.get("messages")) {
            Map<String, Object> message = object(each);
            if (isOld && message.get("unique_key") != null) {
                return Map.of("unsupported", "this version knows no unique keys");
            }
            awaitName(files);
            int before = files.size();
            Object dispatched = dispatched(message, isOld);
            build.invoke(service, isOld ? new Object[] {new Object[] {dispatched}}
                    : new Object[] {dispatched});
            if (files.size() > before) {
                joinFlush();
            }
        }
        List<Object> names = new ArrayList<>();
        List<Object> contents = new ArrayList<>();
        for (Object file : files) {
            call(file, "flush");
            Path path = Path.of((String) call(file, "getFileName"));
            names.add(path.getFileName().toString());
            contents.add(hex(path));
        }
        Map<String, Object> answer = one("names", names);
        answer.put("hex", contents);
        answer.put("index_msg_timestamp", call(checkpoint, "getIndexMsgTimestamp"));
        return answer;
    }

    private static Object dispatched(Map<String, Object> message, boolean isOld)
            throws Exception {
        Map<String, String> properties = new HashMap<>();
        if (message.get("tags") != null) {
            properties.put("TAGS", (String) message.get("tags"));
        }
        int flag = (int) number(message.get("sys_flag"));
        for (Constructor<?> made : type("store.DispatchRequest").getConstructors()) {
            if (isOld && made.getParameterCount() == 10) {
                return made.newInstance(message.get("topic"), 0, message.get("phy_offset"), 100,
                        0L, message.get("store_timestamp"), 0L, message.get("keys"), flag, 0L);
            }
            if (!isOld && made.getParameterCount() == 12) {
                return made.newInstance(message.get("topic"), 0, message.get("phy_offset"), 100,
                        0L, message.get("store_timestamp"), 0L, message.get("keys"),
                        message.get("unique_key"), flag, 0L, properties);
            }
        }
        throw new IllegalStateException("no such constructor of DispatchRequest");
    }

    private static Map<String, Object> properties(Map<String, Object> request) throws Exception {
        Method method = type("common.message.MessageDecoder")
                .getMethod("string2messageProperties", String.class);
        return one("properties", method.invoke(null, request.get("text")));
    }

    private static Map<String, Object> readCheckpoint(Map<String, Object> request)
            throws Exception {
        Object checkpoint = checkpoint((String) request.get("hex"));
        Map<String, Object> fields = new LinkedHashMap<>();
        for (int i = 0; i < CHECKPOINT.length; i++) {
            if (method(checkpoint, "get" + CHECKPOINT[i], 0) == null) {
                return Map.of("unsupported", "this version knows no " + CHECKPOINT_FIELDS[i]);
            }
            fields.put(CHECKPOINT_FIELDS[i], call(checkpoint, "get" + CHECKPOINT[i]));
        }
        Map<String, Object> answer = one("fields", fields);
        answer.put("min_timestamp", call(checkpoint, "getMinTimestamp"));
        answer.put("min_timestamp_index", call(checkpoint, "getMinTimestampIndex"));
        return answer;
    }

    private static Map<String, Object> writeCheckpoint(Map<String, Object> request)
            throws Exception {
        Object checkpoint = checkpoint((String) request.get("hex"));
        Map<String, Object> fields = object(request.get("fields"));
        for (int i = 0; i < CHECKPOINT.length; i++) {
            if (method(checkpoint, "set" + CHECKPOINT[i], 1) == null) {
                return Map.of("unsupported", "this version knows no " + CHECKPOINT_FIELDS[i]);
            }
            call(checkpoint, "set" + CHECKPOINT[i], fields.get(CHECKPOINT_FIELDS[i]));
        }
        call(checkpoint, "flush");
        return one("hex", hex(scratch.resolve("checkpoint")));
    }

    /** Open a file as it is in a request. */
    private static Object stored(Map<String, Object> request) throws Exception {
        Map<String, Object> sent = object(request.get("file"));
        Path path = scratch.resolve((String) sent.get("name"));
        Files.write(path, HexFormat.of().parseHex((String) sent.get("hex")));
        return file(path, request, 0, 0);
    }

    private static Object file(Path path, Map<String, Object> request, long offset, long time)
            throws Exception {
        boolean isThere = Files.exists(path);
        Object file = type("store.index.IndexFile")
                .getConstructor(String.class, int.class, int.class, long.class, long.class)
                .newInstance(path.toString(), (int) number(request.get("hash_slot_num")),
                        (int) number(request.get("index_num")), offset, time);
        if (isThere) {
            call(file, "load");
        }
        return file;
    }

    private static Object service(Map<String, Object> request) throws Exception {
        return service(request, checkpoint(number(request.get("index_msg_timestamp"))));
    }

    private static Object service(Map<String, Object> request, Object checkpoint)
            throws Exception {
        Path index = scratch.resolve("index");
        List<?> directory = (List<?>) request.get("directory");
        if (directory != null) {
            Files.createDirectories(index);
        }
        for (Object each : directory == null ? List.of() : directory) {
            Map<String, Object> item = object(each);
            Path path = index.resolve((String) item.get("name"));
            if ("directory".equals(item.get("type"))) {
                Files.createDirectory(path);
            } else {
                Files.write(path, HexFormat.of().parseHex((String) item.get("hex")));
            }
        }
        Object config = type("store.config.MessageStoreConfig").getConstructor().newInstance();
        call(config, "setStorePathRootDir", scratch.toString());
        call(config, "setMaxHashSlotNum", (int) number(request.get("hash_slot_num")));
        call(config, "setMaxIndexNum", (int) number(request.get("index_num")));
        Class<?> stores = type("store.DefaultMessageStore");
        Object store = unsafe().allocateInstance(stores);
        set(store, "messageStoreConfig", config);
        set(store, "storeCheckpoint", checkpoint);
        set(store, "runningFlags", type("store.RunningFlags").getConstructor().newInstance());
        try {
            set(store, "brokerConfig", type("common.BrokerConfig").getConstructor().newInstance());
        } catch (NoSuchFieldException error) {
            // Older stores do without.
        }
        return type("store.index.IndexService").getConstructor(stores).newInstance(store);
    }

    private static Object checkpoint(long indexTime) throws Exception {
        byte[] bytes = new byte[4096];
        java.nio.ByteBuffer.wrap(bytes).putLong(16, indexTime);
        return checkpoint(HexFormat.of().formatHex(bytes));
    }

    private static Object checkpoint(String contents) throws Exception {
        Path path = scratch.resolve("checkpoint");
        Files.write(path, HexFormat.of().parseHex(contents));
        return type("store.StoreCheckpoint").getConstructor(String.class)
                .newInstance(path.toString());
    }

    private static Map<String, Object> state(Object service) throws Exception {
        List<Object> loaded = new ArrayList<>();
        for (Object file : files(service)) {
            loaded.add(Path.of((String) call(file, "getFileName")).getFileName().toString());
        }
        Map<String, Object> sizes = new LinkedHashMap<>();
        Path index = scratch.resolve("index");
        if (Files.isDirectory(index)) {
            try (Stream<Path> paths = Files.list(index)) {
                for (Path path : paths.toList()) {
                    sizes.put(path.getFileName().toString(),
                            Files.isDirectory(path) ? null : Files.size(path));
                }
            }
        }
        Map<String, Object> answer = one("loaded", loaded);
        answer.put("directory", sizes);
        return answer;
    }

    private static List<?> files(Object service) throws Exception {
        Field field = service.getClass().getDeclaredField("indexFileList");
        field.setAccessible(true);
        return (List<?>) field.get(service);
    }

    /** Wait for a millisecond that no file is named after; two files of one would be one. */
    private static void awaitName(List<?> files) throws Exception {
        if (files.isEmpty()) {
            return;
        }
        Object file = files.get(files.size() - 1);
        String last = Path.of((String) call(file, "getFileName")).getFileName().toString();
        Method now = type("common.UtilAll").getMethod("timeMillisToHumanString", long.class);
        while (((String) now.invoke(null, System.currentTimeMillis())).compareTo(last) <= 0) {
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

    static Class<?> type(String name) throws ClassNotFoundException {
        return Class.forName(root + "." + name);
    }

    static Method method(Object target, String name, int arguments) {
        for (Method method : target.getClass().getMethods()) {
            if (method.getName().equals(name) && method.getParameterCount() == arguments) {
                return method;
            }
        }
        return null;
    }

    static Object call(Object target, String name, Object... arguments) throws Exception {
        Method method = method(target, name, arguments.length);
        if (method == null) {
            throw new NoSuchMethodException(name);
        }
        method.setAccessible(true);
        return method.invoke(target, arguments);
    }

    static void set(Object target, String name, Object value) throws Exception {
        Field field = target.getClass().getDeclaredField(name);
        field.setAccessible(true);
        field.set(target, value);
    }

    private static sun.misc.Unsafe unsafe() throws Exception {
        Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        return (sun.misc.Unsafe) field.get(null);
    }

    static long number(Object value) {
        return ((Number) value).longValue();
    }

    static String hex(Path path) throws Exception {
        return HexFormat.of().formatHex(Files.readAllBytes(path));
    }

    static Map<String, Object> one(String name, Object value) {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put(name, value);
        return answer;
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> object(Object value) {
        return (Map<String, Object>) value;
    }

    static void delete(Path path) throws Exception {
        try (Stream<Path> paths = Files.walk(path)) {
            paths.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        }
    }

    /** Says that a version has no answer, which is none of its faults. */
    static final class Unsupported extends RuntimeException {
        private static final long serialVersionUID = 1;

        Unsupported(String what) {
            super(what);
        }
    }

    /** JSON with integers of 64 bits and texts of any UTF-16 code units. */
    private static final class Json {
        private final String text;
        private int at;

        Json(String text) {
            this.text = text;
        }

        Object value() {
            char next = peek();
            if (next == '{' || next == '[') {
                return next == '{' ? map() : list();
            }
            if (next == '"') {
                return string();
            }
            int start = at;
            while (at < text.length() && ",]} ".indexOf(text.charAt(at)) < 0) {
                at++;
            }
            String word = text.substring(start, at);
            switch (word) {
                case "null": return null;
                case "true": return true;
                case "false": return false;
                default: return Long.valueOf(word);
            }
        }

        private char peek() {
            while (text.charAt(at) == ' ') {
                at++;
            }
            return text.charAt(at);
        }

        private Map<String, Object> map() {
            Map<String, Object> found = new LinkedHashMap<>();
            at++;
            while (peek() != '}') {
                String name = string();
                peek();
                at++;
                found.put(name, value());
                if (peek() == ',') {
                    at++;
                    peek();
                }
            }
            at++;
            return found;
        }

        private List<Object> list() {
            List<Object> found = new ArrayList<>();
            at++;
            while (peek() != ']') {
                found.add(value());
                if (peek() == ',') {
                    at++;
                }
            }
            at++;
            return found;
        }

        private String string() {
            StringBuilder found = new StringBuilder();
            for (at++; text.charAt(at) != '"'; at++) {
                char unit = text.charAt(at);
                if (unit == '\\') {
                    unit = text.charAt(++at);
                    int known = "bfnrt".indexOf(unit);
                    if (known >= 0) {
                        unit = "\b\f\n\r\t".charAt(known);
                    } else if (unit == 'u') {
                        unit = (char) Integer.parseInt(text.substring(at + 1, at + 5), 16);
                        at += 4;
                    }
                }
                found.append(unit);
            }
            at++;
            return found.toString();
        }

        static String text(Object value) {
            StringBuilder out = new StringBuilder();
            write(out, value);
            return out.toString();
        }

        private static void write(StringBuilder out, Object value) {
            if (value instanceof Map<?, ?>) {
                String before = "{";
                out.append(((Map<?, ?>) value).isEmpty() ? "{" : "");
                for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                    out.append(before);
                    write(out, entry.getKey());
                    out.append(':');
                    write(out, entry.getValue());
                    before = ",";
                }
                out.append('}');
            } else if (value instanceof List<?>) {
                String before = "[";
                out.append(((List<?>) value).isEmpty() ? "[" : "");
                for (Object each : (List<?>) value) {
                    out.append(before);
                    write(out, each);
                    before = ",";
                }
                out.append(']');
            } else if (value instanceof String) {
                out.append('"');
                for (char unit : ((String) value).toCharArray()) {
                    if (unit < 0x20 || unit > 0x7e || unit == '"' || unit == '\\') {
                        out.append(String.format("\\u%04x", (int) unit));
                    } else {
                        out.append(unit);
                    }
                }
                out.append('"');
            } else {
                out.append(value);
            }
        }
    }
}
