import org.apache.rocketmq.client.java.message.MessageIdCodec;

/** Prints ids as a gRPC client makes them, with the time before and after each. */
public final class GrpcIds {
    private GrpcIds() {}

    public static void main(String[] arguments) {
        for (int i = 0; i < 3; i++) {
            long before = System.currentTimeMillis();
            String id = MessageIdCodec.getInstance().nextMessageId().toString();
            System.out.println(id + " " + before + " " + System.currentTimeMillis());
        }
    }
}
