// The slot map under servers of the test's own: which node is believed, and what the map leads to. No Redis runs, so no
// link becomes ready.
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "nodes.h"
#include "slot.h"
#include "stub.h"
#include "test.h"

enum { SEEDS = 2, TIMEOUT_MS = 300, URL_SIZE = 256, INFO_SIZE = 128 };

#define RANGE(from, to, port) "*3\r\n:" #from "\r\n:" #to "\r\n*3\r\n$9\r\n127.0.0.1\r\n:" #port "\r\n$1\r\nx\r\n"
#define WHOLE                 "*1\r\n" RANGE(0, 16383, 1)
#define HALVES                "*2\r\n" RANGE(0, 8191, 1) RANGE(8192, 16383, 2)
#define GAP                   "*1\r\n" RANGE(0, 99, 2)

static uv_loop_t loop;
static struct stub stubs[SEEDS];
static struct {
    const char *state, *map;
    int epoch;
} nodes_say[SEEDS];
static int asked[SEEDS], elections;
static struct sk_nodes *nodes;

// A command comes with one write.
static size_t receive(int i, const char *bytes, size_t n)
{
    char text[STUB_BYTES_MAX], info[INFO_SIZE], out[INFO_SIZE + 32];
    ck_assert_uint_lt(n, sizeof text);
    memcpy(text, bytes, n);
    text[n] = '\0';
    if (strstr(text, "AUTH") != NULL) {
        ck_assert_ptr_nonnull(strstr(text, "secret"));
        stub_send(&stubs[i], "+OK\r\n", 5);
    }
    (void)snprintf(info, sizeof info, "cluster_state:%s\r\ncluster_current_epoch:%d\r\n", nodes_say[i].state,
                   nodes_say[i].epoch);
    (void)snprintf(out, sizeof out, "$%zu\r\n%s\r\n", strlen(info), info);
    if (strstr(text, "INFO") != NULL && nodes_say[i].map != NULL)
        stub_send(&stubs[i], out, strlen(out));
    if (strstr(text, "SLOTS") != NULL && nodes_say[i].map != NULL)
        stub_send(&stubs[i], nodes_say[i].map, strlen(nodes_say[i].map));
    asked[i] += strstr(text, "SLOTS") != NULL;
    return n;
}

static size_t receive_0(const char *bytes, size_t n)
{
    return receive(0, bytes, n);
}

static size_t receive_1(const char *bytes, size_t n)
{
    return receive(1, bytes, n);
}

static void on_change(void *arg, bool ready)
{
    (void)arg;
    (void)ready;
}

static void on_elected(void *arg)
{
    ck_assert_ptr_eq(arg, &elections);
    elections++;
}

static void begin(int count)
{
    size_t (*const receivers[SEEDS])(const char *, size_t) = {receive_0, receive_1};
    static char text[URL_SIZE];
    size_t n = (size_t)snprintf(text, sizeof text, "redis+cluster://:secret@");
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    for (int i = 0; i < count; i++) {
        stub_open(&stubs[i], &loop, receivers[i]);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s127.0.0.1:%d", i == 0 ? "" : ",", stubs[i].port);
    }
    const struct sk_nodes_options options = {.redis = {.url = text, .timeout_ms = TIMEOUT_MS, .most_waiting = 8},
                                             .on_orders = on_change,
                                             .on_queries = on_change,
                                             .on_elected = on_elected,
                                             .arg = &elections};
    nodes = sk_nodes_open(&loop, &options);
    ck_assert_ptr_nonnull(nodes);
    ck_assert(sk_nodes_is_cluster(nodes));
}

static void end(int count)
{
    sk_nodes_end(nodes);
    ck_assert_ptr_null(sk_nodes_orders(nodes, 0));
    sk_nodes_close(nodes);
    for (int i = 0; i < count; i++)
        stub_close(&stubs[i]);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

TEST(slots_lead_to_nodes)
{
    nodes_say[0].state = "ok";
    nodes_say[0].map = HALVES;
    begin(1);
    ck_assert_ptr_null(sk_nodes_orders(nodes, 0)); // no map yet
    ck_assert_uint_eq(sk_nodes_number(nodes, 0), 0);
    RUN_UNTIL(sk_nodes_number(nodes, 0) != 0);
    unsigned low = sk_nodes_number(nodes, 8191), high = sk_nodes_number(nodes, 8192);
    ck_assert_uint_ne(low, high);
    ck_assert_ptr_eq(sk_nodes_orders(nodes, 5), sk_nodes_orders_of(nodes, low));
    ck_assert_ptr_ne(sk_nodes_orders(nodes, 5), sk_nodes_queries(nodes, 5));
    ck_assert_ptr_ne(sk_nodes_orders(nodes, 5), sk_nodes_orders(nodes, 16383));
    ck_assert_uint_eq(sk_nodes_state(nodes).nodes, 2);
    ck_assert_uint_eq(sk_nodes_state(nodes).orders, 0);
    // All slots move to the first node. The other is left, and its number may be used again.
    nodes_say[0].map = WHOLE;
    RUN_UNTIL(sk_nodes_orders_of(nodes, high) == NULL);
    ck_assert_uint_eq(sk_nodes_number(nodes, 16383), low);
    nodes_say[0].map = GAP;
    RUN_UNTIL(sk_nodes_number(nodes, 16383) == 0);
    ck_assert_ptr_null(sk_nodes_orders(nodes, 16383));
    ck_assert_ptr_nonnull(sk_nodes_orders(nodes, 99));
    ck_assert_uint_eq(sk_nodes_most(nodes), 2);
    end(1);
}

// Each changes nothing: the map of the other node counts, or the one of before.
static const struct {
    const char *state, *map;
    int epoch;
} unfit[] = {
    {"fail", HALVES, 5},                    // it is with the minority
    {"ok", HALVES, 4},                      // it is behind
    {"ok", "*1\r\n*1\r\n:1\r\n", 5},        // it makes no sense
    {"ok", "-ERR no cluster\r\n", 5},       // nor is it a node
    {"ok", NULL, 5},                        // it is silent
    {"ok", "*1\r\n" RANGE(0, 16384, 1), 5}, // there is no such slot
};

TEST_EACH(a_node_is_not_believed_blindly, sizeof unfit / sizeof unfit[0])
{
    nodes_say[0].state = nodes_say[1].state = "ok";
    nodes_say[0].map = nodes_say[1].map = WHOLE;
    nodes_say[0].epoch = nodes_say[1].epoch = 5;
    begin(SEEDS);
    RUN_UNTIL(sk_nodes_number(nodes, 0) != 0);
    int one = asked[0] > 0 ? 0 : 1, other = 1 - one;
    nodes_say[one].state = unfit[_i].state;
    nodes_say[one].map = unfit[_i].map;
    nodes_say[one].epoch = unfit[_i].epoch;
    RUN_UNTIL(asked[other] > 0); // it is left
    for (unsigned slot = 0; slot < SK_SLOTS; slot++)
        ck_assert_uint_eq(sk_nodes_number(nodes, slot), sk_nodes_number(nodes, 0));
    nodes_say[other].map = GAP;
    RUN_UNTIL(sk_nodes_number(nodes, 16383) == 0);
    end(SEEDS);
}

// A master may have been replaced and taken back meanwhile, which the map does not show.
TEST(a_newer_epoch_is_reported_once)
{
    nodes_say[0].state = nodes_say[1].state = "ok";
    nodes_say[0].map = nodes_say[1].map = WHOLE;
    for (int epoch = 5; epoch < 7; epoch++) {
        nodes_say[0].epoch = nodes_say[1].epoch = epoch;
        if (epoch == 5)
            begin(SEEDS);
        asked[0] = asked[1] = 0;
        RUN_UNTIL(asked[0] + asked[1] > 2); // twice under this epoch at least
        ck_assert_int_eq(elections, epoch - 5);
    }
    end(SEEDS);
}

// At the same addresses: its epochs begin again. Nodes without a majority are not believed meanwhile.
TEST(a_cluster_that_was_made_anew_is_believed)
{
    nodes_say[0].state = nodes_say[1].state = "ok";
    nodes_say[0].map = nodes_say[1].map = WHOLE;
    nodes_say[0].epoch = nodes_say[1].epoch = 40;
    begin(SEEDS);
    RUN_UNTIL(sk_nodes_number(nodes, 16383) != 0);
    asked[0] = asked[1] = 0;
    nodes_say[0].map = nodes_say[1].map = GAP;
    nodes_say[0].epoch = nodes_say[1].epoch = 3;
    nodes_say[0].state = nodes_say[1].state = "fail";
    RUN_UNTIL(asked[0] > 3 && asked[1] > 3);
    ck_assert_uint_ne(sk_nodes_number(nodes, 16383), 0);
    nodes_say[0].state = nodes_say[1].state = "ok";
    RUN_UNTIL(sk_nodes_number(nodes, 16383) == 0);
    end(SEEDS);
}

TEST(one_redis_has_all_slots)
{
    const struct sk_nodes_options options = {
        .redis = {.url = "redis://127.0.0.1:1", .timeout_ms = TIMEOUT_MS, .most_waiting = 8},
        .on_orders = on_change,
        .on_queries = on_change};
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    nodes = sk_nodes_open(&loop, &options);
    ck_assert_ptr_nonnull(nodes);
    ck_assert(!sk_nodes_is_cluster(nodes));
    for (unsigned slot = 0; slot < SK_SLOTS; slot++)
        ck_assert_ptr_eq(sk_nodes_orders(nodes, slot), sk_nodes_orders_of(nodes, 1));
    ck_assert_uint_eq(sk_nodes_state(nodes).nodes, 1);
    ck_assert(sk_nodes_idle(nodes));
    sk_nodes_flush(nodes);
    end(0);
}

TEST(a_wrong_url_opens_nothing)
{
    const struct sk_nodes_options options = {.redis = {.url = "redis+cluster://", .most_waiting = 8}};
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_ptr_null(sk_nodes_open(&loop, &options));
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    sk_nodes_end(NULL);
    sk_nodes_close(NULL);
}

SUITE(.timeout_s = 60);
