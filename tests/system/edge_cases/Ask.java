import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.DispatchRequest;
import org.apache.rocketmq.store.RunningFlags;
import org.apache.rocketmq.store.StoreCheckpoint;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.index.IndexFile;
import org.apache.rocketmq.store.index.IndexService;
import org.apache.rocketmq.store.index.QueryOffsetResult;

/**
 * Asks RocketMQ's own classes one thing a line, and prints one answer a line.
 *
 * <p>It compiles against every release from 4.0.0-incubating on. What differs is called by name.
 * A call asked for briefly that does not return in time is answered with "hangs", one that throws with "throws".
 */
public final class Ask {
    private static final int PATIENCE = 120;

    private final List<IndexFile> files = new ArrayList<>();
    private IndexService service;
    private StoreCheckpoint checkpoint;

    private Ask() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, "US-ASCII");
        System.setOut(new PrintStream(new ByteArrayOutputStream()));
        BufferedReader questions =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        Ask ask = new Ask();
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            String[] all = line.split(" ");
            boolean isBrief = all[0].equals("briefly");
            String[] words = java.util.Arrays.copyOfRange(all, isBrief ? 2 : 0, all.length);
            int seconds = isBrief ? number(all[1]) : PATIENCE;
            FutureTask<String> task = new FutureTask<>((Callable<String>) () -> ask.answer(words));
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            thread.start();
            String answer;
            try {
                answer = task.get(seconds, TimeUnit.SECONDS);
            } catch (TimeoutException error) {
                answer = "hangs";
            } catch (ExecutionException error) {
                Throwable cause = error.getCause();
                while (cause instanceof InvocationTargetException) {
                    cause = cause.getCause();
                }
                answer = "throws " + cause.getClass().getName();
            }
            answers.println(answer);
        }
        Runtime.getRuntime().halt(0);
    }

    private String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "open":
                files.clear();
                files.add(open(words));
                return "done";
            case "open_again":
                files.add(open(words));
                return "done";
            case "load":
                file().load();
                return "done";
            case "use":
                files.add(files.remove(number(words[1])));
                return "done";
            case "put":
                return "" + file().putKey(text(words[1]), longOf(words[2]), longOf(words[3]));
            case "select":
                return select(words);
            case "matched":
                return "" + file().isTimeMatched(longOf(words[1]), longOf(words[2]));
            case "full":
                return "" + file().isWriteFull();
            case "flush":
                file().flush();
                return "done";
            case "close":
                callIfThere(file(), "shutdown");
                return "done";
            case "bytes":
                return hex(Files.readAllBytes(Path.of(text(words[1]))));
            case "service":
                return startService(words);
            case "build":
                return build(words);
            case "query":
                return query(words);
            case "files":
                return names();
            case "expire":
                service.deleteExpiredFile(longOf(words[1]));
                return names();
            case "shutdown":
                service.shutdown();
                return "done";
            case "index_msg_timestamp":
                return "" + checkpoint.getIndexMsgTimestamp();
            case "total_size":
                return "" + IndexService.class.getMethod("getTotalSize").invoke(service);
            case "parse":
                return isNumber(text(words[1]));
            case "digits":
                return digits();
            case "decode":
                return units(new String(bytes(words[1]), StandardCharsets.UTF_8));
            default:
                throw new IOException("unknown question " + words[0]);
        }
    }

    private IndexFile file() {
        return files.get(files.size() - 1);
    }

    private static IndexFile open(String[] words) throws IOException {
        return new IndexFile(
                text(words[1]),
                number(words[2]),
                number(words[3]),
                longOf(words[4]),
                longOf(words[5]));
    }

    /** Releases before 5.0.0 have one more argument, whether to lock. */
    private String select(String[] words) throws Exception {
        List<Long> found = new ArrayList<>();
        Object[] asked = {
            found, text(words[1]), number(words[2]), longOf(words[3]), longOf(words[4]), false
        };
        for (Method method : IndexFile.class.getMethods()) {
            if (method.getName().equals("selectPhyOffset")) {
                method.invoke(file(), java.util.Arrays.copyOf(asked, method.getParameterCount()));
            }
        }
        return found.toString();
    }

    private String startService(String[] words) throws Exception {
        String root = text(words[1]);
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(root);
        config.setMaxHashSlotNum(number(words[2]));
        config.setMaxIndexNum(number(words[3]));
        config.setMaxMsgsNumBatch(number(words[4]));
        checkpoint = new StoreCheckpoint(root + File.separator + "checkpoint");
        Field unsafe = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
        unsafe.setAccessible(true);
        DefaultMessageStore store = (DefaultMessageStore)
                ((sun.misc.Unsafe) unsafe.get(null)).allocateInstance(DefaultMessageStore.class);
        set(store, "messageStoreConfig", config);
        set(store, "storeCheckpoint", checkpoint);
        set(store, "runningFlags", new RunningFlags());
        set(store, "brokerConfig", new BrokerConfig());
        service = new IndexService(store);
        return "" + service.load(Boolean.parseBoolean(words[5]));
    }

    private static void set(DefaultMessageStore store, String name, Object value)
            throws ReflectiveOperationException {
        Field field = DefaultMessageStore.class.getDeclaredField(name);
        field.setAccessible(true);
        field.set(store, value);
    }

    /** The constructor of a message's request grew an argument. */
    /** Wait for a millisecond that no file is named after; two files of one would be one. */
    private static void awaitMillisecond() {
        long now = System.currentTimeMillis();
        while (System.currentTimeMillis() <= now) {
            Thread.onSpinWait();
        }
    }

    private String build(String[] words) throws Exception {
        Map<String, String> properties = new HashMap<>();
        if (text(words[7]) != null) {
            properties.put("TAGS", text(words[7]));
        }
        Object[] values = {
            text(words[1]), 0, longOf(words[5]), 100, 0L, longOf(words[6]), 0L, text(words[3]),
            text(words[2]), number(words[4]), 0L, properties
        };
        awaitMillisecond();
        int most = 0;
        for (java.lang.reflect.Constructor<?> each : DispatchRequest.class.getConstructors()) {
            most = Math.max(most, each.getParameterCount());
        }
        for (java.lang.reflect.Constructor<?> each : DispatchRequest.class.getConstructors()) {
            if (each.getParameterCount() == most) {
                service.buildIndex((DispatchRequest)
                        each.newInstance(java.util.Arrays.copyOf(values, most)));
            }
        }
        awaitFlush();
        return names();
    }

    private static void awaitFlush() throws InterruptedException {
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            if (thread.getName().equals("FlushIndexFileThread")) {
                thread.join();
            }
        }
    }

    private String query(String[] words) throws Exception {
        QueryOffsetResult result;
        if (text(words[6]) == null) {
            result = service.queryOffset(
                    text(words[1]),
                    text(words[2]),
                    number(words[3]),
                    longOf(words[4]),
                    longOf(words[5]));
        } else {
            result = (QueryOffsetResult) IndexService.class
                    .getMethod(
                            "queryOffset", String.class, String.class, int.class, long.class,
                            long.class, String.class)
                    .invoke(
                            service,
                            text(words[1]),
                            text(words[2]),
                            number(words[3]),
                            longOf(words[4]),
                            longOf(words[5]),
                            text(words[6]));
        }
        return result.getPhyOffsets()
                + " "
                + result.getIndexLastUpdateTimestamp()
                + " "
                + result.getIndexLastUpdatePhyoffset();
    }

    @SuppressWarnings("unchecked")
    private String names() throws ReflectiveOperationException {
        Field field = IndexService.class.getDeclaredField("indexFileList");
        field.setAccessible(true);
        StringBuilder names = new StringBuilder("files");
        for (IndexFile each : (List<IndexFile>) field.get(service)) {
            names.append(' ').append(units(new File(each.getFileName()).getName()));
        }
        return names.toString();
    }

    private static void callIfThere(Object object, String name)
            throws ReflectiveOperationException {
        for (Method method : object.getClass().getMethods()) {
            if (method.getName().equals(name) && method.getParameterCount() == 0) {
                method.invoke(object);
            }
        }
    }

    private static String isNumber(String name) {
        try {
            Long.parseLong(name);
            return "true";
        } catch (NumberFormatException error) {
            return "false";
        }
    }

    /** Every code unit that is a digit, alone and after a sign or a digit. */
    private static String digits() {
        StringBuilder found = new StringBuilder("digits");
        for (int unit = 0; unit <= 0xFFFF; unit++) {
            String text = String.valueOf((char) unit);
            boolean alone = isNumber(text).equals("true");
            if (alone != isNumber("-" + text).equals("true")
                    || alone != isNumber("1" + text).equals("true")) {
                throw new IllegalStateException("depends on its place: " + unit);
            }
            if (alone) {
                found.append(String.format(" %04x", unit));
            }
        }
        return found.toString();
    }

    private static int number(String word) {
        return Integer.parseInt(word);
    }

    private static long longOf(String word) {
        return Long.parseLong(word);
    }

    private static String text(String word) {
        return word.equals("null") ? null : new String(bytes(word), StandardCharsets.UTF_16BE);
    }

    private static byte[] bytes(String word) {
        byte[] bytes = new byte[(word.length() - 1) / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(word.substring(2 * i + 1, 2 * i + 3), 16);
        }
        return bytes;
    }

    private static String units(String text) {
        StringBuilder hex = new StringBuilder("=");
        for (char unit : text.toCharArray()) {
            hex.append(String.format("%04x", (int) unit));
        }
        return hex.toString();
    }

    private static String hex(byte[] bytes) {
        StringBuilder hex = new StringBuilder("=");
        for (byte each : bytes) {
            hex.append(String.format("%02x", each));
        }
        return hex.toString();
    }
}
