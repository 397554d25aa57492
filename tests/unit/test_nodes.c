// The slot map under servers of the test's own: which node is believed, and what the map leads to. No Redis runs, so no
// link becomes ready.
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "nodes.h"
#include "slot.h"
#include "stub.h"
#include "test.h"

enum { SEEDS = 2, TIMEOUT_MS = 300, URL_SIZE = 256 };

#define RANGE(from, to, port) "*3\r\n:" #from "\r\n:" #to "\r\n*3\r\n$9\r\n127.0.0.1\r\n:" #port "\r\n$1\r\nx\r\n"
#define WHOLE                 "*1\r\n" RANGE(0, 16383, 1)
#define HALVES                "*2\r\n" RANGE(0, 8191, 1) RANGE(8192, 16383, 2)
#define GAP                   "*1\r\n" RANGE(0, 99, 2)

static uv_loop_t loop;
static struct stub stubs[SEEDS];
static int open_stubs;
static struct {
    const char *state, *map; // map NULL: it is silent
    int epoch;
} nodes_say[SEEDS];
static int asked[SEEDS], elections;
static struct sk_nodes *nodes;

static void all_say(const char *state, const char *map, int epoch)
{
    for (int i = 0; i < SEEDS; i++) {
        nodes_say[i].state = state;
        nodes_say[i].map = map;
        nodes_say[i].epoch = epoch;
        asked[i] = 0;
    }
}

// A command comes with one write.
static size_t receive(struct stub *stub, const char *bytes, size_t n)
{
    int i = (int)(stub - stubs);
    const char *map = nodes_say[i].map;
    char info[128];
    if (strstr(bytes, "AUTH") != NULL) {
        ck_assert_ptr_nonnull(strstr(bytes, "secret"));
        stub_say(stub, "+OK\r\n");
    }
    (void)snprintf(info, sizeof info, "cluster_state:%s\r\ncluster_current_epoch:%d\r\n", nodes_say[i].state,
                   nodes_say[i].epoch);
    if (strstr(bytes, "INFO") != NULL && map != NULL)
        stub_say_bulk(stub, info);
    if (strstr(bytes, "SLOTS") != NULL && map != NULL)
        stub_say(stub, map);
    asked[i] += strstr(bytes, "SLOTS") != NULL;
    return n;
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

static void open_nodes(const char *url)
{
    const struct sk_nodes_options options = {.redis = {.url = url, .timeout_ms = TIMEOUT_MS, .most_waiting = 8},
                                             .on_orders = on_change,
                                             .on_queries = on_change,
                                             .on_elected = on_elected,
                                             .arg = &elections};
    nodes = sk_nodes_open(&loop, &options);
}

static void begin(int count)
{
    static char url[URL_SIZE];
    size_t n = (size_t)snprintf(url, sizeof url, "redis+cluster://:secret@");
    for (open_stubs = 0; open_stubs < count; open_stubs++) {
        stub_open(&stubs[open_stubs], &loop, receive);
        n += (size_t)snprintf(url + n, sizeof url - n, "%s127.0.0.1:%d", open_stubs == 0 ? "" : ",",
                              stubs[open_stubs].port);
    }
    open_nodes(url);
    ck_assert(sk_nodes_is_cluster(nodes));
}

static void setup(void)
{
    ck_assert_int_eq(uv_loop_init(&loop), 0);
}

static void teardown(void)
{
    sk_nodes_end(nodes);
    if (nodes != NULL)
        ck_assert_ptr_null(sk_nodes_orders(nodes, 0));
    sk_nodes_close(nodes);
    while (open_stubs > 0)
        stub_close(&stubs[--open_stubs]);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

TEST(slots_lead_to_nodes)
{
    all_say("ok", HALVES, 0);
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
    all_say("ok", WHOLE, 5);
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
}

// A master may have been replaced and taken back meanwhile, which the map does not show.
TEST(a_newer_epoch_is_reported_once)
{
    begin(SEEDS);
    for (int epoch = 5; epoch < 7; epoch++) {
        all_say("ok", WHOLE, epoch);
        RUN_UNTIL(asked[0] + asked[1] > 2); // twice under this epoch at least
        ck_assert_int_eq(elections, epoch - 5);
    }
}

// At the same addresses: its epochs begin again. Nodes without a majority are not believed meanwhile.
TEST(a_cluster_that_was_made_anew_is_believed)
{
    all_say("ok", WHOLE, 40);
    begin(SEEDS);
    RUN_UNTIL(sk_nodes_number(nodes, 16383) != 0);
    all_say("fail", GAP, 3);
    RUN_UNTIL(asked[0] > 3 && asked[1] > 3);
    ck_assert_uint_ne(sk_nodes_number(nodes, 16383), 0);
    all_say("ok", GAP, 3);
    RUN_UNTIL(sk_nodes_number(nodes, 16383) == 0);
}

TEST(one_redis_has_all_slots)
{
    open_nodes("redis://127.0.0.1:1");
    ck_assert_ptr_nonnull(nodes);
    ck_assert(!sk_nodes_is_cluster(nodes));
    for (unsigned slot = 0; slot < SK_SLOTS; slot++)
        ck_assert_ptr_eq(sk_nodes_orders(nodes, slot), sk_nodes_orders_of(nodes, 1));
    ck_assert_uint_eq(sk_nodes_state(nodes).nodes, 1);
    ck_assert(sk_nodes_idle(nodes));
    sk_nodes_flush(nodes);
}

TEST(a_wrong_url_opens_nothing)
{
    open_nodes("redis+cluster://");
    ck_assert_ptr_null(nodes);
}

SUITE(.timeout_s = 60, .setup = setup, .teardown = teardown);
