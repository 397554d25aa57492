// A scout asks one node at a time for the map, on a connection of its own (asking.h), since a replica may answer as
// well. It begins with the nodes of the URL, and goes on with those of the map.
#include "nodes.h"

#include <stdlib.h>
#include <string.h>

#include "asking.h"
#include "log.h"
#include "redis_info.h"
#include "slot.h"
#include "slot_map.h"
#include "text.h"

enum {
    ASK_MS = 1000,
    HURRY_MS = 100,
    MAP_MAX = 8 << 20, // bytes of a reply: each slot a range of its own, and some replicas
    ROUND = 2,         // replies of a round: CLUSTER INFO, CLUSTER SLOTS
    STATE_SIZE = 16,
    WHY_SIZE = SK_REDIS_HOST_SIZE + 256,
};

struct node {
    struct sk_nodes *nodes;
    struct sk_redis *orders, *queries; // owned; NULL: the number is free
    unsigned slots;
};

struct scout {
    struct sk_nodes *nodes;   // not used after its end
    struct sk_asking *asking; // owned
    struct sk_redis_host at;
    size_t turn; // among the nodes that may be asked
    bool hurry;
    size_t refused;    // nodes since one was believed
    const char *unfit; // why this one is not believed; NULL: it is
    bool elected;      // the epoch has grown since the last map
};

struct sk_nodes {
    uint8_t of_slot[SK_SLOTS]; // numbers
    struct node nodes[SK_NODES_MAX + 1];
    unsigned most;
    uint64_t epoch; // the newest of the cluster
    uv_loop_t *loop;
    struct sk_nodes_options options;
    struct sk_redis_url url;
    struct scout *scout; // NULL: one Redis
};

struct map {
    struct sk_nodes *nodes;
    uint8_t of_slot[SK_SLOTS];
};

// ---- nodes ----

// The callbacks that run here find no link.
static void node_close(struct node *node)
{
    struct sk_redis *orders = node->orders, *queries = node->queries;
    node->orders = node->queries = NULL;
    sk_redis_close(orders);
    sk_redis_close(queries);
}

// A lost link may mean that the cluster replaces the master. The links of a node that is left are not lost.
static void node_on_change(const struct node *node, bool ready, void (*on_change)(void *arg, bool ready))
{
    struct sk_nodes *nodes = node->nodes;
    if (nodes->scout != NULL && node->orders == NULL)
        return;
    if (nodes->scout != NULL && !ready)
        nodes->scout->hurry = true;
    on_change(nodes->options.arg, ready);
}

static void node_on_orders(void *arg, bool ready)
{
    const struct node *node = arg;
    node_on_change(node, ready, node->nodes->options.on_orders);
}

static void node_on_queries(void *arg, bool ready)
{
    const struct node *node = arg;
    node_on_change(node, ready, node->nodes->options.on_queries);
}

static void node_on_moved(void *arg, const char *error);

static bool node_open(struct node *node, struct sk_nodes *nodes, const struct sk_redis_host *at)
{
    struct sk_redis_options redis = nodes->options.redis;
    bool cluster = sk_nodes_is_cluster(nodes);
    *node = (struct node){.nodes = nodes};
    redis.at = cluster ? at : NULL;
    redis.on_moved = cluster ? node_on_moved : NULL;
    redis.arg = node;
    redis.on_change = node_on_orders;
    node->orders = sk_redis_open(nodes->loop, &redis);
    redis.on_change = node_on_queries;
    node->queries = sk_redis_open(nodes->loop, &redis);
    if (node->orders != NULL && node->queries != NULL)
        return true;
    node_close(node);
    return false;
}

static bool node_is_at(const struct node *node, const struct sk_redis_host *at)
{
    return node->orders != NULL && sk_redis_host_same(sk_redis_at(node->orders), at);
}

// The number of the node at this address, which is opened if it is a new one. 0: there is no room or memory.
static unsigned nodes_take(struct sk_nodes *nodes, const struct sk_redis_host *at)
{
    unsigned unused = 0;
    for (unsigned i = nodes->most; i > 0; i--) {
        if (node_is_at(&nodes->nodes[i], at))
            return i;
        if (nodes->nodes[i].orders == NULL)
            unused = i;
    }
    if (unused == 0 && nodes->most < SK_NODES_MAX)
        unused = nodes->most + 1;
    if (unused == 0 || !node_open(&nodes->nodes[unused], nodes, at)) {
        sk_log(SK_LOG_ERROR, "no room for a Redis node", "host=%s port=%d", at->name, at->port);
        return 0;
    }
    if (unused > nodes->most)
        nodes->most = unused;
    return unused;
}

// Corrects this slot; soon the scout reads the whole map.
static void node_on_moved(void *arg, const char *error)
{
    const struct node *node = arg;
    struct sk_nodes *nodes = node->nodes;
    struct sk_moved moved;
    if (!sk_moved_read(error, sk_redis_at(node->orders), &moved)) {
        sk_log_repeat(SK_LOG_WARN, "a Redis node names no other one", "reason", error);
        return;
    }
    unsigned to = nodes_take(nodes, &moved.to), from = nodes->of_slot[moved.slot];
    SK_ASSERT(nodes->nodes[from].slots > 0);
    nodes->nodes[from].slots--;
    nodes->nodes[to].slots++;
    nodes->of_slot[moved.slot] = (uint8_t)to;
    if (nodes->scout != NULL)
        nodes->scout->hurry = true;
}

static void nodes_count_slots(struct sk_nodes *nodes)
{
    for (unsigned i = 0; i <= nodes->most; i++)
        nodes->nodes[i].slots = 0;
    for (unsigned slot = 0; slot < SK_SLOTS; slot++)
        nodes->nodes[nodes->of_slot[slot]].slots++;
}

static void nodes_leave_unused(struct sk_nodes *nodes)
{
    for (unsigned i = 1; i <= nodes->most; i++) {
        struct node *node = &nodes->nodes[i];
        if (node->orders == NULL || node->slots > 0 || !sk_redis_idle(node->orders) || !sk_redis_idle(node->queries))
            continue;
        const struct sk_redis_host *at = sk_redis_at(node->orders);
        sk_log(SK_LOG_INFO, "Redis node has no slots", "host=%s port=%d", at->name, at->port);
        node_close(node);
    }
}

// ---- the scout ----

static bool scout_ask(struct sk_asking *asking, void *arg)
{
    struct scout *scout = arg;
    const char *info[] = {"CLUSTER", "INFO"}, *slots[] = {"CLUSTER", "SLOTS"};
    scout->hurry = false;
    return sk_asking_send(asking, 2, info) && sk_asking_send(asking, 2, slots);
}

static uint32_t scout_tick(void *arg)
{
    const struct scout *scout = arg;
    nodes_leave_unused(scout->nodes);
    return scout->hurry ? HURRY_MS : ASK_MS;
}

// Why the map of this node may not be believed; NULL: it may.
static const char *scout_judge(struct scout *scout, const char *info)
{
    char state[STATE_SIZE], digits[SK_NUMBER_SIZE];
    uint64_t epoch = 0;
    struct sk_nodes *nodes = scout->nodes;
    if (info == NULL || !sk_redis_info_value(info, "cluster_state", state, sizeof state) || strcmp(state, "ok") != 0)
        return "it has no majority";
    if (!sk_redis_info_value(info, "cluster_current_epoch", digits, sizeof digits) ||
        !sk_text_number(digits, UINT64_MAX / 2, &epoch) || epoch < nodes->epoch)
        return "its epoch is behind";
    scout->elected = scout->elected || (nodes->epoch != 0 && epoch > nodes->epoch);
    nodes->epoch = epoch;
    return NULL;
}

static void map_take_range(void *arg, unsigned first, unsigned last, const struct sk_redis_host *at)
{
    struct map *map = arg;
    memset(map->of_slot + first, (int)nodes_take(map->nodes, at), last - first + 1);
}

// Returns why it cannot be read; NULL: it was taken.
static const char *scout_take_map(struct scout *scout, const struct sk_reply *reply)
{
    struct sk_nodes *nodes = scout->nodes;
    struct map map = {.nodes = nodes};
    if (!sk_slots_read(reply, &scout->at, map_take_range, &map))
        return "its map cannot be read";
    unsigned different = 0;
    for (unsigned slot = 0; slot < SK_SLOTS; slot++)
        different += map.of_slot[slot] != nodes->of_slot[slot];
    if (different > 0) {
        memcpy(nodes->of_slot, map.of_slot, sizeof nodes->of_slot);
        nodes_count_slots(nodes);
        sk_log(SK_LOG_INFO, "Redis slots have other nodes", "slots=%u nodes=%u without=%u", different,
               sk_nodes_state(nodes).nodes, nodes->nodes[0].slots);
    }
    scout->refused = 0;
    if (scout->elected && nodes->options.on_elected != NULL)
        nodes->options.on_elected(nodes->options.arg);
    scout->elected = false;
    return NULL;
}

// The replies to AUTH, CLUSTER INFO and CLUSTER SLOTS.
static const char *scout_on_reply(void *arg, unsigned left, const struct sk_reply *reply)
{
    struct scout *scout = arg;
    if (left == ROUND - 1)
        scout->unfit = scout_judge(scout, sk_reply_text(reply, NULL));
    if (left > 0)
        return NULL;
    return scout->unfit != NULL ? scout->unfit : scout_take_map(scout, reply);
}

// The nodes of the URL, then those of the map; free numbers are skipped. If a whole turn finds none to believe, the
// cluster may have been made anew, and begins with low epochs.
static void scout_next(struct scout *scout)
{
    struct sk_nodes *nodes = scout->nodes;
    size_t seeds = nodes->url.seed_count, all = seeds + nodes->most;
    if (scout->refused >= all)
        nodes->epoch = 0;
    const struct sk_redis *node;
    do {
        scout->turn = (scout->turn + 1) % all;
        node = scout->turn < seeds ? NULL : nodes->nodes[scout->turn - seeds + 1].orders;
    } while (scout->turn >= seeds && node == NULL);
    scout->at = node == NULL ? nodes->url.seeds[scout->turn] : *sk_redis_at(node);
}

// The next node is asked at once, but for a pause after each turn.
static void scout_dropped(void *arg, const char *why)
{
    struct scout *scout = arg;
    char text[WHY_SIZE];
    (void)snprintf(text, sizeof text, "%s:%d: %s", scout->at.name, scout->at.port, why);
    sk_log_repeat(SK_LOG_WARN, "no slot map from a Redis node", "reason", text);
    scout->refused++;
    scout_next(scout);
    sk_asking_next(scout->asking, &scout->at, scout->turn != 0);
}

// Instances begin with different nodes.
static struct scout *scout_open(struct sk_nodes *nodes)
{
    struct scout *scout = calloc(1, sizeof *scout);
    if (scout == NULL)
        return NULL;
    *scout = (struct scout){.nodes = nodes, .turn = (size_t)(uv_hrtime() / 1000) % nodes->url.seed_count};
    scout->at = nodes->url.seeds[scout->turn];
    const struct sk_asking_options asking = {.loop = nodes->loop,
                                             .at = &scout->at,
                                             .tls = nodes->url.tls ? &nodes->options.redis.tls : NULL,
                                             .user = nodes->url.user,
                                             .password = nodes->url.password,
                                             .timeout_ms = nodes->options.redis.timeout_ms,
                                             .most_bytes = MAP_MAX,
                                             .ask = scout_ask,
                                             .tick = scout_tick,
                                             .on_reply = scout_on_reply,
                                             .dropped = scout_dropped,
                                             .freed = free,
                                             .arg = scout};
    scout->asking = sk_asking_open(&asking);
    if (scout->asking != NULL)
        return scout;
    free(scout);
    return NULL;
}

// ---- opening and closing ----

struct sk_nodes *sk_nodes_open(uv_loop_t *loop, const struct sk_nodes_options *options)
{
    static const struct sk_redis_host one = {0}; // where it is, is in the URL
    struct sk_nodes *nodes = calloc(1, sizeof *nodes);
    if (nodes == NULL)
        return NULL;
    nodes->loop = loop;
    nodes->options = *options;
    bool good = sk_redis_url_parse(options->redis.url, &nodes->url) == SK_OK;
    if (!good) {
        sk_log_text(SK_LOG_ERROR, "SECKILL_REDIS_URL", "reason", nodes->url.wrong);
    } else if (sk_nodes_is_cluster(nodes)) {
        nodes->scout = scout_open(nodes);
        good = nodes->scout != NULL;
    } else {
        memset(nodes->of_slot, 1, sizeof nodes->of_slot);
        good = nodes_take(nodes, &one) == 1;
        nodes_count_slots(nodes);
    }
    if (good)
        return nodes;
    sk_nodes_end(nodes);
    sk_nodes_close(nodes);
    return NULL;
}

void sk_nodes_end(struct sk_nodes *nodes)
{
    if (nodes == NULL)
        return;
    if (nodes->scout != NULL)
        sk_asking_close(nodes->scout->asking);
    nodes->scout = NULL;
    for (unsigned i = 1; i <= nodes->most; i++)
        node_close(&nodes->nodes[i]);
    memset(nodes->of_slot, 0, sizeof nodes->of_slot);
}

void sk_nodes_close(struct sk_nodes *nodes)
{
    if (nodes == NULL)
        return;
    sk_redis_url_free(&nodes->url);
    free(nodes);
}

// ---- what others ask ----

struct sk_redis *sk_nodes_orders(const struct sk_nodes *nodes, unsigned slot)
{
    return nodes->nodes[nodes->of_slot[slot % SK_SLOTS]].orders;
}

struct sk_redis *sk_nodes_queries(const struct sk_nodes *nodes, unsigned slot)
{
    return nodes->nodes[nodes->of_slot[slot % SK_SLOTS]].queries;
}

unsigned sk_nodes_number(const struct sk_nodes *nodes, unsigned slot)
{
    return nodes->of_slot[slot % SK_SLOTS];
}

struct sk_redis *sk_nodes_orders_of(const struct sk_nodes *nodes, unsigned number)
{
    return nodes->nodes[number % (SK_NODES_MAX + 1)].orders;
}

unsigned sk_nodes_most(const struct sk_nodes *nodes)
{
    return nodes->most;
}

struct sk_nodes_state sk_nodes_state(const struct sk_nodes *nodes)
{
    struct sk_nodes_state state = {0};
    for (unsigned i = 1; i <= nodes->most; i++) {
        const struct node *node = &nodes->nodes[i];
        state.nodes += node->slots > 0;
        state.orders += node->slots > 0 && sk_redis_ready(node->orders);
        state.queries += node->slots > 0 && sk_redis_ready(node->queries);
    }
    return state;
}

void sk_nodes_measure(const struct sk_nodes *nodes, struct sk_server_rows *rows)
{
    for (unsigned i = 1; i <= nodes->most; i++) {
        const struct node *node = &nodes->nodes[i];
        char name[SK_SERVER_NAME_SIZE];
        if (node->orders == NULL || node->slots == 0)
            continue;
        const struct sk_redis_host *at = sk_redis_at(node->orders);
        (void)snprintf(name, sizeof name, at->port == 0 ? "%s" : "%s:%d", at->name, at->port);
        struct sk_server_row *row = sk_server_table_row(rows, "redis", name);
        if (row == NULL)
            return;
        row->up = 1;
        sk_redis_measure(node->orders, row);
        sk_redis_measure(node->queries, row);
    }
}

bool sk_nodes_is_cluster(const struct sk_nodes *nodes)
{
    return nodes->url.seed_count > 0;
}

void sk_nodes_flush(struct sk_nodes *nodes)
{
    for (unsigned i = 1; i <= nodes->most; i++) {
        sk_redis_flush(nodes->nodes[i].orders);
        sk_redis_flush(nodes->nodes[i].queries);
    }
}

bool sk_nodes_idle(const struct sk_nodes *nodes)
{
    bool idle = true;
    for (unsigned i = 1; idle && i <= nodes->most; i++)
        idle = sk_redis_idle(nodes->nodes[i].orders);
    return idle;
}
