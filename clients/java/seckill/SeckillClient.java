package seckill;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.math.BigDecimal;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Predicate;
import java.util.function.Supplier;

/**
 * A client of seckill in one file, for Java 17 and later. It repeats what may be repeated, follows what was accepted to
 * its end, and never takes a time-out for a refusal. Its calls block; any number of threads may share a client. Make
 * one for the process, and derive from it one for each user ({@link #as}) or limit of time ({@link #within}), which
 * share its connections and threads.
 *
 * <p>A command that was not answered may have been carried out. Asking again is safe (a purchase is, and every move
 * is), but from then on only an answer that was given after looking at the order is a refusal: any other one, such as
 * 401, tells nothing about the first try. Where that cannot be learnt, the outcome is UNKNOWN.
 */
public final class SeckillClient {
    private static final int TRIES_MOST = 12;
    private static final long CALL_MS = 10_000;
    private static final long PURCHASE_MS = 8_000;
    private static final long START_SOON_MS = 5_000; // a start that is no further away is waited for
    private static final long LONGEST_WAIT_MS = 60_000; // for what takes longer the caller decides whether to wait
    private static final long SILENCE_MS = 40_000; // the service writes into a stream every 15 s at least
    private static final long POLL_MS = 3_000;
    private static final int WAIT_S = 20;
    private static final long NEVER = Long.MAX_VALUE / 2;
    private static final Set<Integer> LATER = Set.of(408, 425, 429);
    private static final Set<String> TICKET_CODES =
            Set.of("TICKET_REQUIRED", "TICKET_INVALID", "WORK_REQUIRED", "WORK_INVALID");
    // Of ISO 4217; all others have 2. web/money.js names the edition. The JDK's Currency has that of the JDK.
    private static final Set<String> NO_DIGITS = Set.of(
            "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "VND", "VUV", "XAF", "XOF",
            "XPF");
    private static final Set<String> THREE_DIGITS = Set.of("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND");

    private final HttpClient http;
    private final String url;
    private final Supplier<Map<String, String>> headers;
    private final long mostMs;

    /** {@code url} has no slash at its end; {@code headers} say who asks. */
    public SeckillClient(String url, Map<String, String> headers) {
        this(url, fixed(headers));
    }

    /**
     * {@code headers} is called before each try, from any thread: for a token that expires. If it throws, nothing is
     * sent, and the code is NO_LOGIN.
     */
    public SeckillClient(String url, Supplier<Map<String, String>> headers) {
        this(HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build(), url, headers);
    }

    /** With connections of yours: their TLS, proxy and threads. */
    public SeckillClient(HttpClient http, String url, Supplier<Map<String, String>> headers) {
        this(http, url, headers, NEVER);
    }

    private SeckillClient(HttpClient http, String url, Supplier<Map<String, String>> headers, long mostMs) {
        this.http = http;
        this.url = url;
        this.headers = headers;
        this.mostMs = mostMs;
    }

    private static Supplier<Map<String, String>> fixed(Map<String, String> headers) {
        var copy = Map.copyOf(headers);
        return () -> copy;
    }

    /** The same service with these headers instead of this client's. */
    public SeckillClient as(Map<String, String> headers) {
        return as(fixed(headers));
    }

    public SeckillClient as(Supplier<Map<String, String>> headers) {
        return new SeckillClient(http, url, headers, mostMs);
    }

    /** The same service, and each call ends within {@code atMost}, whatever it waits for. */
    public SeckillClient within(Duration atMost) {
        return new SeckillClient(http, url, headers, Math.min(NEVER, atMost.toMillis()));
    }

    // ---- what there is to know of an answer ----

    public enum Outcome {
        /** A command was carried out. */
        DONE,
        /** A purchase was won. */
        WON,
        /** A purchase was accepted, and its end has not come in time. It will: follow the order. */
        ACCEPTED,
        /** Nothing was bought: the buyer has a place in the voucher's line, which is an order of the status waiting. */
        WAITING,
        /** A purchase was won, but the order has ended; or a payment came after that, and is to be paid back. */
        ENDED,
        /** The service has said no: nothing was done. */
        REFUSED,
        /** It may have been done or not: show neither success nor failure, and ask again. */
        UNKNOWN
    }

    /**
     * {@code body} is the order or voucher, or the problem; {@code code} is one of docs/http.md; {@code key} is the
     * Idempotency-Key, under which the same can be asked again, and null where none was sent; {@code cause} is what
     * your {@code headers} have thrown.
     */
    public record Result(
            Outcome outcome,
            String code,
            int status,
            OptionalLong retryAfterMs,
            Map<String, Object> body,
            String key,
            Throwable cause) {
        /** Of a purchase or a move; null: none is known. */
        public String orderId() {
            return (String) body.getOrDefault("order_id", body.get("id"));
        }

        private Result as(Outcome other, String otherCode) {
            return new Result(other, otherCode, status, retryAfterMs, body, key, cause);
        }

        private Result under(String usedKey) {
            return new Result(outcome, code, status, retryAfterMs, body, usedKey, cause);
        }
    }

    /**
     * A query that got no answer, or no success. {@code code}: the service's, NO_ANSWER, NOT_OURS, NO_LOGIN or ABORTED.
     */
    public static final class Problem extends IOException {
        private static final long serialVersionUID = 1;
        public final String code;
        public final int status;
        public final transient OptionalLong retryAfterMs;
        public final transient Map<String, Object> body;

        Problem(String code, int status, OptionalLong retryAfterMs, Map<String, Object> body) {
            super(code + " (" + status + ")");
            this.code = code;
            this.status = status;
            this.retryAfterMs = retryAfterMs;
            this.body = body;
        }

        static Problem noAnswer() {
            return new Problem("NO_ANSWER", 0, OptionalLong.empty(), Map.of());
        }

        Problem from(Throwable cause) {
            initCause(cause);
            return this;
        }
    }

    // ---- for buyers ----

    public Result buy(String voucherId) {
        return buy(voucherId, 1, UUID.randomUUID().toString(), false);
    }

    /**
     * Buys, and follows an accepted order to its end. {@code key} is the Idempotency-Key; with the same one and {@code
     * isDoubtful} the purchase is repeated whose outcome was UNKNOWN.
     */
    public Result buy(String voucherId, int quantity, String key, boolean isDoubtful) {
        long until = until();
        var purchase = new Purchase(voucherId, quantity, key, until);
        var result = insist(purchase::ask, purchase::judge, isDoubtful, until);
        boolean isEarlier = "ALREADY_ORDERED".equals(result.code());
        return (isEarlier || result.outcome() == Outcome.ACCEPTED ? settle(result, until) : result).under(key);
    }

    private Result settle(Result result, long until) {
        try {
            var settled = outcomeOf(follow(result.orderId(), "pending", until));
            return settled.code() == null ? settled.as(settled.outcome(), result.code()) : settled;
        } catch (Problem problem) {
            // What asking again may change has only run out of time, or was interrupted.
            var outcome = judge(problem).isAgain ? Outcome.ACCEPTED : Outcome.UNKNOWN;
            var order = Map.<String, Object>of("order_id", result.orderId());
            var cause = problem.getCause();
            return new Result(outcome, problem.code, problem.status, problem.retryAfterMs, order, null, cause);
        }
    }

    /**
     * The order once its status is not {@code status} any more, or as it is when the time of {@link #within} is over.
     * Throws what asking again does not change.
     */
    public Map<String, Object> follow(String orderId, String status) throws Problem {
        return follow(orderId, status, until());
    }

    private Map<String, Object> follow(String orderId, String status, long until) throws Problem {
        Map<String, Object> order = null;
        for (int failures = 0; ; ) {
            long delay = retryDelay(OptionalLong.empty(), 0); // for a gateway that does not let it wait
            var failure = Problem.noAnswer();
            try {
                order = askForChange(orderId, status, until);
                failures = 0;
                if (!status.equals(order.get("status"))) {
                    return order;
                }
            } catch (Problem problem) {
                if (!judge(problem).isAgain) {
                    throw problem;
                }
                failure = problem;
                delay = retryDelay(problem.retryAfterMs, failures++);
            }
            if (delay < leftMs(until)) {
                pause(delay);
            } else if (order != null) {
                return order;
            } else {
                throw failure;
            }
        }
    }

    // The service has a place for so many that wait: where it has none, the order is asked for without.
    private Map<String, Object> askForChange(String orderId, String status, long until) throws Problem {
        try {
            long waitS = Math.max(0, Math.min(WAIT_S, leftMs(until) / 1000 - 1));
            var path = "/orders/" + orderId + "?wait=" + waitS + "&while=" + status;
            return get(path, "voucher_id", waitS * 1000 + CALL_MS, until).body();
        } catch (Problem problem) {
            long delay = retryDelay(problem.retryAfterMs, 0);
            if (!problem.code.equals("OVERLOADED") || delay >= leftMs(until)) {
                throw problem;
            }
            pause(delay);
            return get("/orders/" + orderId, "voucher_id", CALL_MS, until).body();
        }
    }

    public Map<String, Object> order(String orderId) throws Problem {
        return read("/orders/" + orderId, "voucher_id");
    }

    /** {@code cursor}: the {@code next} of the page before; null: the first page. */
    public Map<String, Object> orders(String cursor) throws Problem {
        return read("/orders" + query("cursor", cursor), "orders");
    }

    public Map<String, Object> voucher(String voucherId) throws Problem {
        return read("/vouchers/" + voucherId, "phase");
    }

    public Map<String, Object> vouchers(String cursor) throws Problem {
        return read("/vouchers" + query("cursor", cursor), "vouchers");
    }

    private static String query(String name, String value) {
        return value == null ? "" : "?" + name + "=" + URLEncoder.encode(value, StandardCharsets.UTF_8);
    }

    public Result cancel(String orderId) {
        return command("/orders/" + orderId + "/cancel", null, Map.of(), "voucher_id");
    }

    /**
     * Gives states of a voucher to {@code hears}, each time the newest there is, until that returns false or the sale
     * is over ({@code phase} is {@code ended}): from the stream while there is one, and from the voucher itself while
     * there is none. {@code remaining} is null while it is not known, as while Redis is away.
     */
    public void watch(String voucherId, Predicate<Map<String, Object>> hears) throws Problem {
        long until = until();
        var isOver = new boolean[1];
        Predicate<Map<String, Object>> hear = event -> {
            isOver[0] = !hears.test(event) || "ended".equals(event.get("phase"));
            return !isOver[0];
        };
        for (int failures = 1; !isOver[0] && leftMs(until) > 0; failures++) {
            var retryAfter = OptionalLong.empty();
            try {
                failures = readStream(voucherId, hear, until) ? 1 : failures;
            } catch (Problem problem) {
                retryAfter = problem.retryAfterMs;
            }
            long most = Math.min(60_000, 1_000L << Math.min(failures, 6));
            long streamAt = now() + Math.max(most / 2, retryAfter.orElse(0)) + random(most / 2);
            poll(voucherId, hear, isOver, Math.min(streamAt, until), until);
        }
    }

    private void poll(
            String voucherId, Predicate<Map<String, Object>> hear, boolean[] isOver, long streamAt, long until)
            throws Problem {
        for (int failures = 0; leftMs(streamAt) > 0 && !isOver[0]; ) {
            long delay = POLL_MS * 4 / 5 + random(POLL_MS * 2 / 5);
            try {
                var voucher = get("/vouchers/" + voucherId, "phase", CALL_MS, until).body();
                if (Boolean.FALSE.equals(voucher.get("can_sell"))) {
                    voucher.put("remaining", null); // as in a stream; it is PostgreSQL's number
                }
                hear.test(voucher);
                failures = 0;
            } catch (Problem problem) {
                if (!judge(problem).isAgain) {
                    throw problem;
                }
                delay = retryDelay(problem.retryAfterMs, failures++);
            }
            pause(isOver[0] ? 0 : Math.max(0, Math.min(leftMs(streamAt), delay)));
        }
    }

    // ---- for a shop's own servers, with an admin token ----

    /**
     * Repeated under one reference, a payment is one payment. ENDED: the order had ended before, and the payment is
     * {@code to_refund}. DONE: it is {@code accepted}, or {@code refunded}, if it was given back since.
     */
    public Result pay(String orderId, String reference, long amountCents, String currency) {
        var payment = Map.of("reference", reference, "amount_cents", amountCents, "currency", currency);
        var result = command("/orders/" + orderId + "/pay", payment, Map.of(), "payments");
        if (result.outcome() != Outcome.DONE) {
            return result;
        }
        var payments = result.body().get("payments") instanceof List<?> list ? list : List.of();
        for (var one : payments) {
            if (one instanceof Map<?, ?> recorded && reference.equals(recorded.get("reference"))) {
                return "to_refund".equals(recorded.get("state")) ? result.as(Outcome.ENDED, null) : result;
            }
        }
        return result.as(Outcome.UNKNOWN, "NOT_OURS");
    }

    /** {@code details}: restock, why, reference. */
    public Result refund(String orderId, Map<String, ?> details) {
        return command("/orders/" + orderId + "/refund", details, Map.of(), "voucher_id");
    }

    public Result createVoucher(Map<String, ?> terms) {
        return createVoucher(terms, UUID.randomUUID().toString());
    }

    public Result createVoucher(Map<String, ?> terms, String key) {
        return command("/admin/vouchers", terms, Map.of("Idempotency-Key", key), "phase").under(key);
    }

    public Map<String, Object> settlement(String voucherId) throws Problem {
        return read("/admin/vouchers/" + voucherId + "/settlement", "verdict");
    }

    /**
     * The feed of what happens to orders, payments and sales: {@code after} is the {@code next} of the time before; null:
     * from the start. It waits for the next event, at most {@code waitS} seconds of 60.
     */
    public Map<String, Object> events(String after, int waitS) throws Problem {
        var path = "/admin/events?wait=" + waitS + query("after", after).replace('?', '&');
        return read(path, "events", waitS * 1000L + CALL_MS);
    }

    public Map<String, Object> events(String after) throws Problem {
        return events(after, 0);
    }

    // ---- money ----

    /** Cents of an ISO 4217 currency as people write them: 990 of CNY is 9.90. */
    public static BigDecimal amountOf(long cents, String currency) {
        return BigDecimal.valueOf(cents, digitsOf(currency));
    }

    /** The same backwards. Throws an ArithmeticException if the amount has more digits than the currency. */
    public static long centsOf(BigDecimal amount, String currency) {
        return amount.movePointRight(digitsOf(currency)).longValueExact();
    }

    private static int digitsOf(String currency) {
        return NO_DIGITS.contains(currency) ? 0 : THREE_DIGITS.contains(currency) ? 3 : 2;
    }

    // ---- any other call of docs/http.md ----

    /** What a GET of {@code path} answers; {@code path} may have a query. */
    public Map<String, Object> read(String path) throws Problem {
        return read(path, null);
    }

    private Map<String, Object> read(String path, String member) throws Problem {
        return read(path, member, CALL_MS);
    }

    private Map<String, Object> read(String path, String member, long mostMs) throws Problem {
        long until = until();
        var result = insist(() -> get(path, member, mostMs, until), SeckillClient::judge, false, until);
        if (result.outcome() != Outcome.DONE) {
            throw new Problem(result.code(), result.status(), result.retryAfterMs(), result.body())
                    .from(result.cause());
        }
        return result.body();
    }

    /** A POST, such as {@code /admin/vouchers/7/stock}. All its tries have one key, so it is carried out once. */
    public Result command(String path, Map<String, ?> json) {
        return command(path, json, UUID.randomUUID().toString());
    }

    public Result command(String path, Map<String, ?> json, String key) {
        return command(path, json, Map.of("Idempotency-Key", key), null).under(key);
    }

    private Result command(String path, Map<String, ?> json, Map<String, String> more, String member) {
        long until = until();
        return insist(() -> post(path, json, more, member, CALL_MS, until), SeckillClient::judge, false, until);
    }

    // ---- one purchase ----

    private final class Purchase {
        private final String path;
        private final Map<String, Object> json;
        private final String voucherId;
        private final String key;
        private final long until;
        private String ticket;
        private boolean needsTicket;
        private boolean isAsked;

        Purchase(String voucherId, int quantity, String key, long until) {
            this.path = "/seckill/" + voucherId;
            this.json = Map.of("quantity", quantity);
            this.voucherId = voucherId;
            this.key = key;
            this.until = until;
        }

        Result ask() throws Problem {
            isAsked = false;
            if (needsTicket) {
                ticket = takeTicket(voucherId, until);
                needsTicket = false;
            }
            isAsked = true;
            var more = new LinkedHashMap<>(Map.of("Idempotency-Key", key));
            if (ticket != null) {
                more.put("X-Seckill-Ticket", ticket);
            }
            return outcomeOf(post(path, json, more, "voucher_id", PURCHASE_MS, until).body());
        }

        Judged judge(Problem problem) {
            var judged = SeckillClient.judge(problem);
            boolean isSoon = problem.code.equals("NOT_STARTED")
                    && problem.retryAfterMs.orElse(Long.MAX_VALUE) <= START_SOON_MS;
            if (!isAsked) {
                judged = new Judged(judged.isAgain, false, false, null); // it was the ticket's
            } else if (problem.code.equals("ALREADY_ORDERED")) {
                judged = new Judged(false, false, true, Outcome.WON);
            }
            needsTicket |= TICKET_CODES.contains(problem.code);
            return isSoon || TICKET_CODES.contains(problem.code)
                    ? new Judged(true, judged.isLost, judged.isKnown, null)
                    : judged;
        }
    }

    private static Result outcomeOf(Map<String, Object> order) {
        return switch (String.valueOf(order.get("status"))) {
            case "pending" -> resultOf(Outcome.ACCEPTED, null, order);
            case "unpaid", "paid" -> resultOf(Outcome.WON, null, order);
            case "waiting" -> resultOf(Outcome.WAITING, null, order);
            case "refused" -> resultOf(Outcome.REFUSED, (String) order.get("reason"), order);
            case "cancelled", "expired", "refunded" -> resultOf(Outcome.ENDED, null, order);
            default -> resultOf(Outcome.UNKNOWN, "NOT_OURS", order);
        };
    }

    // A ticket may take work: a nonce of which SHA-256 of challenge, dot and nonce begins with so many bits 0.
    private String takeTicket(String voucherId, long until) throws Problem {
        var path = "/vouchers/" + voucherId + "/ticket";
        var task = get(path, "work_bits", CALL_MS, until).body();
        var challenge = (String) task.get("challenge");
        var work = challenge == null ? null
                : Map.<String, Object>of("challenge", challenge, "nonce",
                        solve(challenge, ((Number) task.get("work_bits")).intValue(), until));
        return (String) post(path, work, Map.of(), "ticket", CALL_MS, until).body().get("ticket");
    }

    private static String solve(String challenge, int bits, long until) throws Problem {
        try {
            var begun = MessageDigest.getInstance("SHA-256");
            begun.update((challenge + ".").getBytes(StandardCharsets.US_ASCII));
            for (long nonce = 0; ; nonce++) {
                var digest = (MessageDigest) begun.clone();
                byte[] hash = digest.digest(Long.toString(nonce).getBytes(StandardCharsets.US_ASCII));
                int first = (hash[0] & 255) << 24 | (hash[1] & 255) << 16 | (hash[2] & 255) << 8 | hash[3] & 255;
                if (Integer.numberOfLeadingZeros(first) >= bits) {
                    return Long.toString(nonce);
                }
                if (nonce % 4096 == 0) {
                    checkTime(until);
                }
            }
        } catch (GeneralSecurityException | CloneNotSupportedException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void checkTime(long until) throws Problem {
        if (Thread.interrupted()) {
            throw aborted();
        }
        if (leftMs(until) <= 0) {
            throw Problem.noAnswer();
        }
    }

    // ---- to ask until there is an outcome ----

    private interface Question {
        Result ask() throws Problem;
    }

    private interface Judge {
        Judged judge(Problem problem);
    }

    // isLost: the command may have been carried out all the same. isKnown: the service has looked at the order.
    private record Judged(boolean isAgain, boolean isLost, boolean isKnown, Outcome outcome) {}

    // A page of somebody else's, as of a gateway, may stand for any answer of the service.
    private static Judged judge(Problem problem) {
        boolean isOther = problem.code.equals("NO_ANSWER") || problem.code.equals("NOT_OURS");
        boolean isClients = problem.status >= 400 && problem.status < 500;
        if (problem.code.equals("TICKETS_OFF")) {
            return new Judged(false, false, false, null);
        }
        if (Set.of("PENDING", "NO_LOGIN").contains(problem.code) || LATER.contains(problem.status)) {
            return new Judged(true, isOther, false, null);
        }
        if (isClients) {
            return new Judged(false, isOther, problem.status == 409 && !isOther, null);
        }
        return new Judged(true, true, false, null);
    }

    private Result insist(Question question, Judge judge, boolean isDoubtful, long until) {
        boolean wasLost = isDoubtful;
        for (int tries = 1; ; tries++) {
            try {
                return question.ask();
            } catch (Problem problem) {
                var judged = judge.judge(problem);
                if (problem.code.equals("ABORTED")) {
                    return resultOf(problem, Outcome.UNKNOWN);
                }
                if (judged.outcome != null) {
                    return resultOf(problem, judged.outcome);
                }
                long delay = TICKET_CODES.contains(problem.code) ? 0 : retryDelay(problem.retryAfterMs, tries - 1);
                boolean isLong = problem.retryAfterMs.orElse(0) > LONGEST_WAIT_MS || delay >= leftMs(until);
                if (!judged.isAgain || tries == TRIES_MOST || isLong) {
                    boolean isOpen = judged.isLost || (wasLost && !judged.isKnown);
                    return resultOf(problem, isOpen ? Outcome.UNKNOWN : Outcome.REFUSED);
                }
                wasLost |= judged.isLost;
                try {
                    pause(delay);
                } catch (Problem aborted) {
                    return resultOf(aborted, Outcome.UNKNOWN);
                }
            }
        }
    }

    private static Result resultOf(Problem problem, Outcome outcome) {
        var cause = problem.getCause();
        return new Result(outcome, problem.code, problem.status, problem.retryAfterMs, problem.body, null, cause);
    }

    private static Result resultOf(Outcome outcome, String code, Map<String, Object> order) {
        return new Result(outcome, code, 0, OptionalLong.empty(), order, null, null);
    }

    // When a call that begins now must have ended.
    private long until() {
        return mostMs == NEVER ? NEVER : now() + mostMs;
    }

    private static long leftMs(long until) {
        return until - now();
    }

    private static long now() {
        return System.nanoTime() / 1_000_000;
    }

    // A crowd that was refused together must not come back together, so there is always jitter, and never less than the
    // service asked for.
    private static long retryDelay(OptionalLong retryAfterMs, int attempt) {
        if (retryAfterMs.isPresent()) {
            long asked = retryAfterMs.getAsLong();
            return asked + random(Math.max(250, asked / 2));
        }
        long most = Math.min(8_000, 400L << Math.min(attempt, 5));
        return most / 2 + random(most / 2);
    }

    private static long random(long bound) {
        return bound <= 0 ? 0 : ThreadLocalRandom.current().nextLong(bound);
    }

    private static void pause(long ms) throws Problem {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException interrupted) {
            throw aborted();
        }
    }

    private static Problem aborted() {
        Thread.currentThread().interrupt();
        return new Problem("ABORTED", 0, OptionalLong.empty(), Map.of());
    }

    // ---- one call ----

    private Result get(String path, String member, long mostMs, long until) throws Problem {
        return call("GET", path, null, Map.of(), member, Math.min(mostMs, leftMs(until)));
    }

    private Result post(
            String path, Object json, Map<String, String> more, String member, long mostMs, long until)
            throws Problem {
        return call("POST", path, json, more, member, Math.min(mostMs, leftMs(until)));
    }

    // member: one that the service's answer has; null: not known
    private Result call(
            String method, String path, Object json, Map<String, String> more, String member, long timeoutMs)
            throws Problem {
        var request = request(path).method(method, json == null
                ? HttpRequest.BodyPublishers.noBody()
                : HttpRequest.BodyPublishers.ofString(Json.write(json)));
        more.forEach(request::setHeader);
        if (json != null) {
            request.setHeader("Content-Type", "application/json");
        }
        var answer = await(http.sendAsync(request.build(), BodyHandlers.ofString()), timeoutMs);
        var body = Json.readObject(answer.body());
        boolean isGood = answer.statusCode() / 100 == 2;
        if (isGood && body != null && (member == null || body.containsKey(member))) {
            return new Result(Outcome.DONE, null, answer.statusCode(), OptionalLong.empty(), body, null, null);
        }
        throw problemOf(answer, isGood ? null : body);
    }

    private HttpRequest.Builder request(String path) throws Problem {
        var request = HttpRequest.newBuilder(URI.create(url + path));
        try {
            headers.get().forEach(request::setHeader);
        } catch (RuntimeException cause) {
            throw new Problem("NO_LOGIN", 0, OptionalLong.empty(), Map.of()).from(cause);
        }
        return request;
    }

    private static Problem problemOf(HttpResponse<?> answer, Map<String, Object> body) {
        var seconds = answer.headers().firstValue("Retry-After").filter(value -> value.matches("[0-9]{1,9}"));
        var retryAfter = seconds.stream().mapToLong(value -> Long.parseLong(value) * 1000).findFirst();
        if (body != null && body.get("code") instanceof String code) {
            return new Problem(code, answer.statusCode(), retryAfter, body);
        }
        return new Problem("NOT_OURS", answer.statusCode(), retryAfter, Map.of());
    }

    // HttpRequest.timeout() ends with the head of an answer, and a body may never come.
    private static <T> T await(CompletableFuture<T> answer, long timeoutMs) throws Problem {
        try {
            return answer.get(timeoutMs, TimeUnit.MILLISECONDS);
        } catch (InterruptedException interrupted) {
            answer.cancel(true);
            throw aborted();
        } catch (ExecutionException | TimeoutException error) {
            answer.cancel(true);
            throw Problem.noAnswer();
        }
    }

    // ---- one stream ----

    // Reads until the stream breaks or ends, `hear` returns false, or the time is over. Whether there was an event.
    private boolean readStream(String voucherId, Predicate<Map<String, Object>> hear, long until) throws Problem {
        var request = request("/vouchers/" + voucherId + "/events").setHeader("Accept", "text/event-stream").build();
        var answer = await(http.sendAsync(request, BodyHandlers.ofInputStream()), Math.min(CALL_MS, leftMs(until)));
        try (InputStream body = answer.body()) {
            var type = answer.headers().firstValue("Content-Type").orElse("");
            if (answer.statusCode() != 200 || !type.startsWith("text/event-stream")) {
                throw problemOf(answer, null);
            }
            return hearLines(body, hear, until);
        } catch (IOException error) {
            throw error instanceof Problem problem ? problem : Problem.noAnswer();
        }
    }

    private static boolean hearLines(InputStream body, Predicate<Map<String, Object>> hear, long until)
            throws Problem {
        var lines = new LinkedBlockingQueue<String>();
        var end = new String("end"); // told from a line by its identity
        var reader = new Thread(() -> {
            try (var text = new BufferedReader(new InputStreamReader(body, StandardCharsets.UTF_8))) {
                text.lines().forEach(line -> {
                    if (line.startsWith("data:")) {
                        lines.clear(); // who hears may be slower, and only the newest state counts
                    }
                    lines.add(line);
                });
            } catch (IOException | RuntimeException broken) {
                // the same as an end
            } finally {
                lines.add(end);
            }
        }, "seckill-events");
        reader.setDaemon(true);
        reader.start();
        boolean isHeard = false;
        try {
            for (String line = ""; line != null && line != end; ) {
                line = lines.poll(Math.min(SILENCE_MS, leftMs(until)), TimeUnit.MILLISECONDS);
                var event = line != null && line.startsWith("data:") ? Json.readObject(line.substring(5)) : null;
                if (event != null) {
                    isHeard = true;
                    if (!hear.test(event)) {
                        break;
                    }
                }
            }
        } catch (InterruptedException interrupted) {
            throw aborted();
        }
        return isHeard;
    }

    // ---- JSON ----

    /** As much of JSON as the service speaks: objects, lists, strings, whole numbers as Long, others as Double. */
    static final class Json {
        private final String text;
        private int at;

        private Json(String text) {
            this.text = text;
        }

        /** null: it is no object. */
        @SuppressWarnings("unchecked")
        static Map<String, Object> readObject(String text) {
            try {
                var json = new Json(text);
                var value = json.value();
                json.blanks();
                return value instanceof Map && json.at == text.length() ? (Map<String, Object>) value : null;
            } catch (RuntimeException malformed) {
                return null;
            }
        }

        private Object value() {
            blanks();
            char first = text.charAt(at);
            switch (first) {
                case '{':
                    return object();
                case '[':
                    return list();
                case '"':
                    return string();
                default:
                    int from = at;
                    while (at < text.length() && ",]} \n\r\t".indexOf(text.charAt(at)) < 0) {
                        at++;
                    }
                    var word = text.substring(from, at);
                    return switch (word) {
                        case "null" -> null;
                        case "true" -> true;
                        case "false" -> false;
                        default -> word.matches("-?[0-9]{1,18}") ? (Object) Long.valueOf(word) : Double.valueOf(word);
                    };
            }
        }

        private Map<String, Object> object() {
            var members = new LinkedHashMap<String, Object>();
            for (boolean isFirst = true; more('}', isFirst); isFirst = false) {
                blanks();
                var name = string();
                blanks();
                take(':');
                members.put(name, value());
            }
            return members;
        }

        private List<Object> list() {
            var items = new ArrayList<>();
            for (boolean isFirst = true; more(']', isFirst); isFirst = false) {
                items.add(value());
            }
            return items;
        }

        // Takes the bracket or comma before the next item, or the closing bracket.
        private boolean more(char closing, boolean isFirst) {
            if (isFirst) {
                at++;
            }
            blanks();
            if (text.charAt(at) == closing) {
                at++;
                return false;
            }
            if (!isFirst) {
                take(',');
            }
            return true;
        }

        private String string() {
            take('"');
            var made = new StringBuilder();
            for (char next; (next = text.charAt(at++)) != '"'; ) {
                if (next != '\\') {
                    made.append(next);
                    continue;
                }
                char escaped = text.charAt(at++);
                if (escaped == 'u') {
                    made.append((char) Integer.parseInt(text.substring(at, at += 4), 16));
                } else {
                    int which = "bfnrt".indexOf(escaped);
                    made.append(which < 0 ? escaped : "\b\f\n\r\t".charAt(which));
                }
            }
            return made.toString();
        }

        private void take(char wanted) {
            if (text.charAt(at++) != wanted) {
                throw new IllegalArgumentException("no " + wanted);
            }
        }

        private void blanks() {
            while (at < text.length() && " \n\r\t".indexOf(text.charAt(at)) >= 0) {
                at++;
            }
        }

        static String write(Object value) {
            if (value instanceof Map<?, ?> map) {
                var members = new ArrayList<String>();
                map.forEach((name, member) -> members.add(write(String.valueOf(name)) + ":" + write(member)));
                return "{" + String.join(",", members) + "}";
            }
            if (value instanceof Iterable<?> items) {
                var written = new ArrayList<String>();
                items.forEach(item -> written.add(write(item)));
                return "[" + String.join(",", written) + "]";
            }
            if (value == null || value instanceof Number || value instanceof Boolean) {
                return String.valueOf(value);
            }
            var made = new StringBuilder("\"");
            for (char next : String.valueOf(value).toCharArray()) {
                if (next == '"' || next == '\\') {
                    made.append('\\').append(next);
                } else if (next < ' ') {
                    made.append(String.format("\\u%04x", (int) next));
                } else {
                    made.append(next);
                }
            }
            return made.append('"').toString();
        }
    }
}
