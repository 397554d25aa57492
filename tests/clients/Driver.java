package seckill;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.math.BigDecimal;
import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executors;
import java.util.concurrent.locks.LockSupport;

/** Calls the Java client as the lines of its input say, each a JSON object, and prints what came of each. */
final class Driver {
    private static final Map<String, SeckillClient> BASES = new ConcurrentHashMap<>();
    private static final Queue<SeckillClient> DERIVED = new ConcurrentLinkedQueue<>();

    public static void main(String[] words) throws IOException {
        var threads = Executors.newCachedThreadPool();
        var input = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = input.readLine()) != null; ) {
            var task = SeckillClient.Json.readObject(line);
            threads.execute(() -> carryOut(task));
        }
        System.exit(0);
    }

    private static void carryOut(Map<String, Object> task) {
        try {
            say(task, call(task));
        } catch (SeckillClient.Problem problem) {
            say(task, Map.of("outcome", "thrown", "code", problem.code));
        } catch (RuntimeException error) {
            say(task, Map.of("outcome", "thrown", "code", error + " " + Arrays.toString(error.getStackTrace())));
        }
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> call(Map<String, Object> task) throws SeckillClient.Problem {
        var client = client(task);
        var voucher = (String) task.get("voucher");
        var order = (String) task.get("order");
        var path = (String) task.get("path");
        return switch ((String) task.get("call")) {
            case "buy" -> told(buy(client, voucher, task));
            case "follow" -> done(client.follow(order, "pending"));
            case "cancel" -> told(client.cancel(order));
            case "pay" -> told(pay(client, order, (Map<String, Object>) task.get("payment")));
            case "create" -> told(client.createVoucher((Map<String, Object>) task.get("terms")));
            case "settlement" -> done(client.settlement(voucher));
            case "events" -> {
                var wait = (Number) task.get("wait");
                yield done(client.events((String) task.get("after"), wait == null ? 0 : wait.intValue()));
            }
            case "read" -> done(client.read(path));
            case "command" -> told(client.command(path, (Map<String, Object>) task.get("json")));
            case "watch" -> watch(client, voucher, task);
            case "money" -> money((Long) task.get("cents"), (String) task.get("currency"));
            default -> throw new IllegalArgumentException(String.valueOf(task));
        };
    }

    // What is derived is kept, so that whatever it holds open stays open.
    @SuppressWarnings("unchecked")
    private static SeckillClient client(Map<String, Object> task) {
        var headers = (Map<String, String>) task.get("headers");
        var base = BASES.computeIfAbsent((String) task.get("url"), url -> new SeckillClient(url, Map.of()));
        var turns = (List<String>) task.get("turns");
        var client = turns == null ? base.as(headers) : base.as(() -> with(headers, turns.remove(0)));
        DERIVED.add(client);
        return task.get("at_most_ms") instanceof Long ms ? client.within(Duration.ofMillis(ms)) : client;
    }

    // turn null: there is no login
    private static Map<String, String> with(Map<String, String> headers, String turn) {
        if (turn == null) {
            throw new IllegalStateException("no login");
        }
        var more = new LinkedHashMap<>(headers);
        more.put("X-Turn", turn);
        return more;
    }

    private static SeckillClient.Result buy(SeckillClient client, String voucher, Map<String, Object> task) {
        if (!task.containsKey("key")) {
            return client.buy(voucher);
        }
        var quantity = ((Long) task.getOrDefault("quantity", 1L)).intValue();
        return client.buy(voucher, quantity, (String) task.get("key"), Boolean.TRUE.equals(task.get("doubtful")));
    }

    private static SeckillClient.Result pay(SeckillClient client, String order, Map<String, Object> payment) {
        var cents = (Long) payment.get("amount_cents");
        return client.pay(order, (String) payment.get("reference"), cents, (String) payment.get("currency"));
    }

    private static Map<String, Object> watch(SeckillClient client, String voucher, Map<String, Object> task)
            throws SeckillClient.Problem {
        client.watch(voucher, event -> {
            say(task, Map.of("event", event));
            LockSupport.parkNanos((Long) task.getOrDefault("slow_ms", 0L) * 1_000_000);
            return true;
        });
        return done(Map.of());
    }

    private static Map<String, Object> money(long cents, String currency) {
        var text = SeckillClient.amountOf(cents, currency).toPlainString();
        boolean isSame = SeckillClient.centsOf(new BigDecimal(text), currency) == cents;
        return done(Map.of("text", isSame ? text : "other cents"));
    }

    private static Map<String, Object> told(SeckillClient.Result result) {
        var told = done(result.body());
        told.put("outcome", result.outcome().name().toLowerCase());
        told.put("code", result.code());
        told.put("id", result.orderId());
        told.put("key", result.key());
        told.put("cause", result.cause() == null ? null : result.cause().getMessage());
        result.retryAfterMs().ifPresent(ms -> told.put("retry_after_ms", ms));
        return told;
    }

    private static Map<String, Object> done(Map<String, Object> body) {
        var told = new LinkedHashMap<String, Object>();
        told.put("outcome", "done");
        told.put("id", body.get("id"));
        told.put("body", body);
        return told;
    }

    private static void say(Map<String, Object> task, Map<String, Object> what) {
        var line = new LinkedHashMap<String, Object>(what);
        line.put("n", task.get("n"));
        synchronized (System.out) {
            System.out.println(SeckillClient.Json.write(line));
            System.out.flush();
        }
    }

    private Driver() {}
}
