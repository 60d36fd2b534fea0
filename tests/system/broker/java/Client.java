import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyRemotingClient;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * RocketMQ's own producers, consumers and administrator, told what to do by lines of JSON.
 *
 * <p>Arguments are the name server's address and the broker's. Each line of the standard input is a
 * request, and each line of the standard output its answer.
 */
public class Client {
    private static final int QUERY_MESSAGE = 12;
    private static final int VIEW_MESSAGE_BY_ID = 33;
    private static final int NO_MESSAGE = 208;
    private static final long TIMEOUT = 60_000;
    private static final int COMPRESS_OVER = 4096;
    private static final int TRIES = 1800;

    private final String nameServer;
    private final String broker;
    private final DefaultMQAdminExt admin = new DefaultMQAdminExt(TIMEOUT);
    private final NettyRemotingClient remoting = new NettyRemotingClient(new NettyClientConfig());
    private final ExecutorService threads = Executors.newFixedThreadPool(4);
    private final Map<String, DefaultMQProducer> producers = new HashMap<>();
    private final Map<String, DefaultMQPushConsumer> consumers = new HashMap<>();
    private final List<Object> consumed = Collections.synchronizedList(new ArrayList<>());
    private TransactionMQProducer transactions;

    private Client(String nameServer, String broker) throws Exception {
        this.nameServer = nameServer;
        this.broker = broker;
        admin.setNamesrvAddr(nameServer);
        admin.setInstanceName("admin");
        admin.start();
        remoting.start();
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        // What RocketMQ itself prints is no answer.
        System.setOut(System.err);
        Client client = new Client(arguments[0], arguments[1]);
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Object> answer = new HashMap<>();
            try {
                answer.put("answer", client.run(map(RemotingSerializable.fromJson(line, Map.class))));
            } catch (Throwable error) {
                error.printStackTrace();
                answer.put("error", String.valueOf(error));
            }
            out.println(RemotingSerializable.toJson(answer, false));
        }
        // Its consumers would wait for what they hold.
        Runtime.getRuntime().halt(0);
    }

    private Object run(Map<String, Object> request) throws Exception {
        switch (text(request, "do")) {
            case "register":
                return register(text(request, "broker"));
            case "topic":
                return makeTopic(request);
            case "send":
                return sendAll(list(request.get("messages")));
            case "consume":
                return consume(request);
            case "consumed":
                synchronized (consumed) {
                    return new ArrayList<>(consumed);
                }
            case "progress":
                return progress(text(request, "group"));
            case "stop":
                consumers.values().forEach(DefaultMQPushConsumer::shutdown);
                return true;
            case "query":
                return each(request, question -> query(list(question), request));
            case "ask":
                return each(request, question -> ask(list(question), request));
            case "view":
                return each(request, offset -> view((Number) offset));
            case "pull":
                return pull(request);
            default:
                throw new IllegalArgumentException(text(request, "do"));
        }
    }

    /** Have the broker register with the name server now: at its start it may have failed to. */
    private Object register(String name) throws Exception {
        Properties permission = new Properties();
        permission.setProperty("brokerPermission", "6");
        await(
                () -> {
                    if (String.valueOf(admin.examineBrokerClusterInfo().getBrokerAddrTable())
                            .contains(name)) {
                        return true;
                    }
                    admin.updateBrokerConfig(broker, permission);
                    return false;
                });
        return true;
    }

    private Object makeTopic(Map<String, Object> request) throws Exception {
        String topic = text(request, "topic");
        int queues = number(request, "queues");
        TopicConfig config = new TopicConfig(topic, queues, queues, 6);
        if (request.get("attributes") != null) {
            Map<String, String> attributes = new HashMap<>();
            map(request.get("attributes")).forEach((name, value) -> attributes.put(name, "" + value));
            // Versions before 5 have none.
            TopicConfig.class.getMethod("setAttributes", Map.class).invoke(config, attributes);
        }
        admin.createAndUpdateTopicConfig(broker, config);
        await(() -> admin.examineTopicRouteInfo(topic) != null);
        return topic;
    }

    private static void await(Callable<Boolean> condition) throws Exception {
        for (int tries = 0; ; tries++) {
            try {
                if (condition.call()) {
                    return;
                }
            } catch (MQClientException error) {
                if (tries >= TRIES) {
                    throw error;
                }
            }
            if (tries >= TRIES) {
                throw new IllegalStateException("waited in vain");
            }
            Thread.sleep(100);
        }
    }

    private Object sendAll(List<Object> messages) throws Exception {
        List<Object> results = new ArrayList<>();
        for (Object each : messages) {
            Map<String, Object> spec = map(each);
            SendResult result;
            if (spec.get("members") != null) {
                List<Message> members = new ArrayList<>();
                for (Object member : list(spec.get("members"))) {
                    members.add(message(map(member)));
                }
                result = producer(spec).send(members, TIMEOUT);
            } else if (spec.get("transaction") != null) {
                result = transactions().sendMessageInTransaction(message(spec), spec.get("transaction"));
            } else if (spec.get("queue") != null) {
                MessageQueue queue =
                        new MessageQueue(text(spec, "topic"), text(spec, "broker"), number(spec, "queue"));
                result = producer(spec).send(message(spec), queue, TIMEOUT);
            } else {
                result = producer(spec).send(message(spec), TIMEOUT);
            }
            Map<String, Object> row = new LinkedHashMap<>();
            row.put("status", String.valueOf(result.getSendStatus()));
            row.put("msgId", result.getMsgId());
            row.put("offsetMsgId", result.getOffsetMsgId());
            row.put("queueId", result.getMessageQueue().getQueueId());
            row.put("queueOffset", result.getQueueOffset());
            results.add(row);
        }
        return results;
    }

    private static Message message(Map<String, Object> spec) {
        Message message = new Message(text(spec, "topic"), body(spec));
        if (spec.get("tags") != null) {
            message.setTags(text(spec, "tags"));
        }
        if (spec.get("keys") != null) {
            message.setKeys(text(spec, "keys"));
        }
        if (spec.get("delay") != null) {
            message.setDelayTimeLevel(number(spec, "delay"));
        }
        if (spec.get("flag") != null) {
            message.setFlag(number(spec, "flag"));
        }
        if (spec.get("properties") != null) {
            map(spec.get("properties"))
                    .forEach((name, value) -> MessageAccessor.putProperty(message, name, "" + value));
        }
        return message;
    }

    private static byte[] body(Map<String, Object> spec) {
        byte[] unit = text(spec, "body").getBytes(StandardCharsets.UTF_8);
        int times = spec.get("times") == null ? 1 : number(spec, "times");
        ByteBuffer body = ByteBuffer.allocate(unit.length * times);
        for (int time = 0; time < times; time++) {
            body.put(unit);
        }
        return body.array();
    }

    /** A producer for each kind of compression, which is asked for when it is made. */
    private DefaultMQProducer producer(Map<String, Object> spec) throws Exception {
        String type = spec.get("compression") == null ? "ZLIB" : text(spec, "compression");
        DefaultMQProducer producer = producers.get(type);
        if (producer == null) {
            System.setProperty("rocketmq.message.compressType", type);
            producer = new DefaultMQProducer("producers-" + type);
            producer.setNamesrvAddr(nameServer);
            producer.setInstanceName("producer-" + type);
            producer.setCompressMsgBodyOverHowmuch(COMPRESS_OVER);
            producer.setRetryTimesWhenSendFailed(0);
            producer.start();
            producers.put(type, producer);
        }
        return producer;
    }

    private TransactionMQProducer transactions() throws Exception {
        if (transactions == null) {
            transactions = new TransactionMQProducer("transactions");
            transactions.setNamesrvAddr(nameServer);
            transactions.setInstanceName("transactions");
            transactions.setTransactionListener(
                    new TransactionListener() {
                        @Override
                        public LocalTransactionState executeLocalTransaction(Message message, Object state) {
                            return LocalTransactionState.valueOf((String) state);
                        }

                        @Override
                        public LocalTransactionState checkLocalTransaction(MessageExt message) {
                            return LocalTransactionState.UNKNOW;
                        }
                    });
            transactions.start();
        }
        return transactions;
    }

    /** Consume a topic; a message fails as often as its property {@code fails} says. */
    private Object consume(Map<String, Object> request) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(text(request, "group"));
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName("consumer-" + text(request, "group"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setMaxReconsumeTimes(number(request, "most"));
        // It learns of its retry topic when the first message has failed.
        consumer.setPollNameServerInterval(1000);
        consumer.setConsumeThreadMin(2);
        consumer.setConsumeThreadMax(2);
        String tags = text(request, "tags");
        consumer.subscribe(text(request, "topic"), tags == null ? "*" : tags);
        consumer.registerMessageListener(
                (MessageListenerConcurrently)
                        (messages, context) -> {
                            MessageExt message = messages.get(0);
                            consumed.add(row(message));
                            String fails = message.getProperty("fails");
                            // A second, not the ten of the first retry.
                            context.setDelayLevelWhenNextConsume(1);
                            return fails != null && message.getReconsumeTimes() < Integer.parseInt(fails)
                                    ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                                    : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
                        });
        consumer.start();
        consumers.put(text(request, "group"), consumer);
        return true;
    }

    /** What mqadmin consumerProgress shows: topic, queue, the broker's and the group's offset. */
    private Object progress(String group) throws Exception {
        List<Object> rows = new ArrayList<>();
        admin.examineConsumeStats(group)
                .getOffsetTable()
                .forEach(
                        (queue, offsets) -> {
                            List<Object> row = new ArrayList<>();
                            row.add(queue.getTopic());
                            row.add(queue.getQueueId());
                            row.add(offsets.getBrokerOffset());
                            row.add(offsets.getConsumerOffset());
                            rows.add(row);
                        });
        return rows;
    }

    /** What the administrator's client makes of the broker's answer: messages with that very key. */
    private Object query(List<Object> question, Map<String, Object> request) throws Exception {
        List<MessageExt> found;
        try {
            found =
                    admin.queryMessage(
                                    (String) question.get(0),
                                    (String) question.get(1),
                                    number(request, "maxNum"),
                                    0,
                                    Long.MAX_VALUE)
                            .getMessageList();
        } catch (MQClientException error) {
            if (error.getResponseCode() != NO_MESSAGE) {
                throw error;
            }
            found = Collections.emptyList();
        }
        return rows(found);
    }

    /** The broker's answer as it comes. */
    private Object ask(List<Object> question, Map<String, Object> request) throws Exception {
        RemotingCommand command = RemotingCommand.createRequestCommand(QUERY_MESSAGE, null);
        HashMap<String, String> fields = new HashMap<>();
        fields.put("topic", (String) question.get(0));
        fields.put("key", (String) question.get(1));
        fields.put("maxNum", String.valueOf(number(request, "maxNum")));
        fields.put("beginTimestamp", "0");
        fields.put("endTimestamp", String.valueOf(Long.MAX_VALUE));
        String type = (String) question.get(2);
        if ("U".equals(type)) {
            fields.put("_UNIQUE_KEY_QUERY", "true");
        } else if (type != null) {
            fields.put("indexType", type);
        }
        command.setExtFields(fields);
        return rows(decode(remoting.invokeSync(broker, command, TIMEOUT)));
    }

    /** The message at an offset, with all that RocketMQ's own decoder reads. */
    private Object view(Number offset) throws Exception {
        RemotingCommand command = RemotingCommand.createRequestCommand(VIEW_MESSAGE_BY_ID, null);
        HashMap<String, String> fields = new HashMap<>();
        fields.put("offset", String.valueOf(offset));
        fields.put("topic", "");
        command.setExtFields(fields);
        byte[] record = remoting.invokeSync(broker, command, TIMEOUT).getBody();
        // The body as it is stored: who unpacks it also clears the flag that says so.
        MessageExt message = MessageDecoder.decode(ByteBuffer.wrap(record), true, false);
        Map<String, Object> row = row(message);
        row.put("storeSize", message.getStoreSize());
        row.put("flag", message.getFlag());
        row.put("bornTimestamp", message.getBornTimestamp());
        row.put("bornHost", host(message.getBornHost()));
        row.put("storeHost", host(message.getStoreHost()));
        row.put("preparedTransactionOffset", message.getPreparedTransactionOffset());
        row.put("bodyCRC", message.getBodyCRC());
        row.put("properties", new TreeMap<>(message.getProperties()));
        row.put("body", Base64.getEncoder().encodeToString(message.getBody()));
        return row;
    }

    private static String host(java.net.SocketAddress address) {
        return address.toString().substring(1);
    }

    private static List<MessageExt> decode(RemotingCommand answer) {
        byte[] body = answer.getBody();
        return body == null
                ? Collections.emptyList()
                : MessageDecoder.decodes(ByteBuffer.wrap(body), true);
    }

    /** A consumer's view of a queue: its bounds, and the messages between them. */
    private Object pull(Map<String, Object> request) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("pullers");
        consumer.setNamesrvAddr(nameServer);
        consumer.setInstanceName("puller");
        consumer.start();
        try {
            List<Object> answers = new ArrayList<>();
            for (Object each : list(request.get("questions"))) {
                List<Object> question = list(each);
                MessageQueue queue =
                        new MessageQueue(
                                (String) question.get(0),
                                text(request, "broker"),
                                ((Number) question.get(1)).intValue());
                Map<String, Object> answer = new LinkedHashMap<>();
                long stop = consumer.maxOffset(queue);
                long next = consumer.minOffset(queue);
                answer.put("minOffset", next);
                answer.put("maxOffset", stop);
                List<Object> rows = new ArrayList<>();
                while (next < stop) {
                    PullResult result = consumer.pull(queue, "*", next, 32, TIMEOUT);
                    if (result.getMsgFoundList() != null) {
                        rows.addAll(rows(result.getMsgFoundList()));
                    }
                    if (result.getNextBeginOffset() <= next) {
                        break;
                    }
                    next = result.getNextBeginOffset();
                }
                answer.put("messages", rows);
                answers.add(answer);
            }
            return answers;
        } finally {
            consumer.shutdown();
        }
    }

    private static List<Object> rows(List<? extends MessageExt> messages) {
        List<Object> rows = new ArrayList<>();
        for (MessageExt message : messages) {
            rows.add(row(message));
        }
        return rows;
    }

    private static Map<String, Object> row(MessageExt message) {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("topic", message.getTopic());
        row.put("queueId", message.getQueueId());
        row.put("queueOffset", message.getQueueOffset());
        row.put("commitLogOffset", message.getCommitLogOffset());
        row.put("sysFlag", message.getSysFlag());
        row.put("storeTimestamp", message.getStoreTimestamp());
        row.put("reconsumeTimes", message.getReconsumeTimes());
        row.put("keys", message.getKeys());
        row.put("tags", message.getTags());
        row.put("uniqKey", message.getProperty("UNIQ_KEY"));
        return row;
    }

    private interface Question {
        Object put(Object question) throws Exception;
    }

    private List<Object> each(Map<String, Object> request, Question question) throws Exception {
        List<Future<Object>> running = new ArrayList<>();
        for (Object each : list(request.get("questions"))) {
            running.add(threads.submit(() -> question.put(each)));
        }
        List<Object> answers = new ArrayList<>();
        for (Future<Object> each : running) {
            answers.add(each.get());
        }
        return answers;
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> map(Object value) {
        return (Map<String, Object>) value;
    }

    @SuppressWarnings("unchecked")
    private static List<Object> list(Object value) {
        return (List<Object>) value;
    }

    private static String text(Map<String, Object> values, String name) {
        return (String) values.get(name);
    }

    private static int number(Map<String, Object> values, String name) {
        return ((Number) values.get(name)).intValue();
    }
}
