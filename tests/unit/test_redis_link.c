// The link to Redis, with a server under the test's control: what every link promises (link_stage.h), and what Redis's
// does.
#include <stdio.h>

#include "link_stage.h"
#include "redis_link.h"

static struct sk_redis *redis;

// ---- the server ----

static struct {
    bool hushed;       // reads, and does nothing
    uint32_t pause_ms; // of the whole process, after the reply
    int scripts;       // to be loaded, received
    bool withholds;    // sends no reply to the last of them
    bool replica;      // says that it is one
    int promotions;    // how often it has been one
    int unanswered;    // calls
} process;

static void answer_calls(void)
{
    for (; process.unanswered > 0; process.unanswered--)
        stub_say(&stub, "+OK\r\n");
}

static void on_command(const char *name)
{
    static const char id[] = "0123456789abcdef0123456789abcdef01234567";
    char info[128];
    if (strncmp(name, "INFO", 4) == 0 && server.silent && process.unanswered > 0) {
        process.unanswered++; // replies come in order
    } else if (strncmp(name, "INFO", 4) == 0) {
        (void)snprintf(info, sizeof info, "run_id:%s\r\nrole:%s\r\nmaster_replid2:%d\r\n", id,
                       process.replica ? "slave" : "master", process.promotions);
        stub_say_bulk(&stub, info);
    } else if (strncmp(name, "SCRIPT", 6) == 0) {
        process.scripts++;
        if (!process.withholds || process.scripts < SK_SCRIPT_COUNT)
            stub_say_bulk(&stub, id);
    } else if (strncmp(name, "SELECT", 6) == 0 || strncmp(name, "AUTH", 4) == 0) {
        process.unanswered = 0; // of the connection before
        stub_say(&stub, "+OK\r\n");
    } else {
        process.unanswered++;
        if (process.pause_ms > 0) {
            answer_calls();
            uv_sleep(process.pause_ms);
        } else {
            take_call();
        }
    }
}

// "*2\r\n$4\r\nECHO\r\n$1\r\na\r\n": reads a whole command, or nothing.
static size_t receive(struct stub *of, const char *bytes, size_t n)
{
    (void)of;
    if (process.hushed)
        return n;
    const char *name = NULL, *at = strstr(bytes, "\r\n");
    for (long words = strtol(bytes + 1, NULL, 10); at != NULL && words > 0; words--) {
        long len = strtol(at + 3, NULL, 10);
        at = strstr(at + 2, "\r\n");
        if (at == NULL || len > bytes + n - at - 4)
            return 0;
        name = name == NULL ? at + 2 : name;
        at += 2 + len;
    }
    if (name == NULL)
        return 0;
    on_command(name);
    return (size_t)(at + 2 - bytes);
}

// ---- the client ----

static void on_reply(void *arg, const struct sk_reply *reply)
{
    note_result(arg, reply != NULL);
}

static enum sk_status send_call(int *result)
{
    const char *argv[] = {"PING"};
    return sk_redis_command(redis, 1, argv, NULL, on_reply, result);
}

static void flush_link(void)
{
    sk_redis_flush(redis);
}

static void close_link(void)
{
    sk_redis_close(redis);
    redis = NULL;
}

static void open_link(const char *prefix, size_t most_waiting)
{
    char url[64];
    (void)snprintf(url, sizeof url, "%s127.0.0.1:%d", prefix, stub.port);
    struct sk_redis_options options = {
        .url = url, .timeout_ms = TIMEOUT_MS, .on_change = on_change, .most_waiting = most_waiting};
    redis = sk_redis_open(&loop, &options);
    ck_assert_ptr_nonnull(redis);
    ck_assert_int_eq(call(0), SK_DOWN);
}

static void connect_link(size_t most_waiting)
{
    open_link("redis://", most_waiting);
    RUN_UNTIL(seen.ready == 1);
}

// ---- the tests ----

// The loop runs the link's timer before it reads the reply.
TEST(a_reply_that_came_in_a_pause_is_read)
{
    connect_link(1);
    process.pause_ms = TIMEOUT_MS * 2;
    must_take(0, 1);
    flush_link();
    RUN_UNTIL(seen.total == 1);
    ck_assert_int_eq(seen.good, 1);
    ck_assert_int_eq(seen.lost, 0);
}

TEST(what_was_not_asked_for_costs_the_connection)
{
    connect_link(3);
    stub_say(&stub, "+OK\r\n");
    RUN_UNTIL(seen.lost == 1);
    RUN_UNTIL(seen.ready == 2);
    ck_assert_int_eq(seen.total, 0);
}

// No call is made: a link that only reads, or nothing at all, must notice as well.
TEST(a_master_that_became_a_replica_is_left)
{
    connect_link(3);
    process.replica = true;
    RUN_UNTIL(seen.lost == 1);
    int clients = stub.clients;
    RUN_UNTIL(stub.clients >= clients + 2); // it retries, and takes no replica
    ck_assert_int_eq(seen.ready, 1);
    process.replica = false;
    RUN_UNTIL(seen.ready == 2);
}

// Between two questions for its role it was a replica, and has what the master of then had.
TEST(a_master_that_has_been_a_replica_is_left)
{
    connect_link(3);
    process.promotions++;
    RUN_UNTIL(seen.lost == 1);
    RUN_UNTIL(seen.ready == 2);
}

// A script that is not loaded could not be called. Nor may a TLS handshake without an answer last.
TEST_EACH(it_is_ready_once_all_is_answered, 3)
{
    static const char *const prefixes[] = {"redis://", "redis://:secret@", "rediss://"};
    uint64_t since_ms = sk_monotonic_ms();
    process.hushed = _i == 2;
    process.withholds = true;
    open_link(prefixes[_i], 3);
    RUN_UNTIL(stub.clients == 2 || seen.ready > 0); // until it tries anew
    ck_assert_uint_ge(sk_monotonic_ms() - since_ms, TIMEOUT_MS);
    ck_assert_int_eq(seen.ready, 0);
    ck_assert(process.hushed || process.scripts >= SK_SCRIPT_COUNT);
    process.withholds = false;
    if (!process.hushed)
        RUN_UNTIL(seen.ready == 1);
}
