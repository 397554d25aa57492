#include "servers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keys.h"
#include "slot.h"
#include "world.h"

enum { ADDRESS_SIZE = 24, URL_SIZE = 128, PORT = 6379, HALF = SK_SLOTS / 2, ANSWER_SIZE = 2048, TELL_MS = 3000 };

static struct {
    enum servers_kind kind;
    size_t shards;
    unsigned replaced[SERVERS_MAX]; // how often
    unsigned told[SENTINELS];       // what each sentinel knows of it
    uint8_t node_of_slot[SK_SLOTS];
    unsigned epoch;
    int moving;    // a slot; -1: none
    bool standbys; // PostgreSQL has them
    char redis_url[URL_SIZE], postgres_urls[STORES_SHARDS][URL_SIZE];
} servers;

static void servers_address(unsigned server, unsigned replaced, char out[ADDRESS_SIZE])
{
    (void)snprintf(out, ADDRESS_SIZE, "10.0.%u.%u", server + 1, replaced % 2 + 1);
}

static void servers_present_address(unsigned server, char out[ADDRESS_SIZE])
{
    if (server >= SERVER_REPLICA)
        servers_address(server - SERVER_REPLICA, servers.replaced[server - SERVER_REPLICA] + 1, out);
    else
        servers_address(server, servers.replaced[server], out);
}

void servers_open(enum servers_kind kind, size_t shards, bool standbys)
{
    servers.kind = kind;
    servers.shards = shards;
    servers.standbys = standbys;
    servers.epoch = 1;
    servers.moving = -1;
    char at[SERVERS_MAX][ADDRESS_SIZE];
    for (unsigned i = 0; i < SERVERS_MAX; i++)
        servers_address(i, 0, at[i]);
    for (unsigned slot = HALF; servers_nodes() > 1 && slot < SK_SLOTS; slot++)
        servers.node_of_slot[slot] = 1;
    if (servers.kind == SERVERS_ALONE)
        (void)snprintf(servers.redis_url, URL_SIZE, "redis://seckill:sim@%s", at[SERVER_REDIS]);
    else if (servers.kind == SERVERS_WATCHED)
        (void)snprintf(servers.redis_url, URL_SIZE, "redis+sentinel://seckill:sim@%s,%s,%s/it", at[SERVER_SENTINEL],
                       at[SERVER_SENTINEL + 1], at[SERVER_SENTINEL + 2]);
    else
        (void)snprintf(servers.redis_url, URL_SIZE, "redis+cluster://seckill:sim@%s,%s", at[SERVER_REDIS],
                       at[SERVER_REDIS + 1]);
    for (unsigned i = 0; i < STORES_SHARDS; i++) {
        char second[ADDRESS_SIZE];
        servers_address(SERVER_POSTGRES + i, 1, second);
        (void)snprintf(servers.postgres_urls[i], URL_SIZE, "postgresql://%s%s%s/seckill", at[SERVER_POSTGRES + i],
                       servers.standbys ? "," : "", servers.standbys ? second : "");
    }
}

size_t servers_nodes(void)
{
    return servers.kind == SERVERS_CLUSTER ? STORES_NODES : 1;
}

size_t servers_shards(void)
{
    return servers.shards;
}

bool servers_move(void)
{
    return servers.moving >= 0;
}

const char *servers_redis_url(void)
{
    return servers.redis_url;
}

const char *servers_postgres_url(size_t shard)
{
    return servers.postgres_urls[shard];
}

const char *servers_name(unsigned server)
{
    static const char *const names[SERVERS_MAX + 1] = {"Redis",         "Redis 2",    "PostgreSQL", "PostgreSQL 2",
                                                       "sentinel 1",    "sentinel 2", "sentinel 3", "the replica",
                                                       "the replica 2", "nobody"};
    return names[server];
}

bool servers_is_redis(unsigned server)
{
    return server < SERVER_POSTGRES || server >= SERVER_SENTINEL;
}

static bool servers_has(unsigned server)
{
    return server < SERVER_POSTGRES   ? server - SERVER_REDIS < servers_nodes()
           : server < SERVER_SENTINEL ? server - SERVER_POSTGRES < servers.shards
           : server < SERVER_REPLICA  ? servers.kind == SERVERS_WATCHED
                                      : servers.kind != SERVERS_ALONE && server - SERVER_REPLICA < servers_nodes();
}

unsigned servers_choose(uint64_t dice)
{
    unsigned there[SERVERS_MAX], count = 0;
    for (unsigned i = 0; i < SERVERS_MAX; i++) {
        if (servers_has(i))
            there[count++] = i;
    }
    return there[dice % count];
}

unsigned servers_at(const char *address)
{
    for (unsigned i = 0; i < SERVERS_MAX; i++) {
        char at[ADDRESS_SIZE];
        servers_present_address(i, at);
        if (servers_has(i) && strcmp(at, address) == 0)
            return i;
    }
    return SERVER_NONE;
}

size_t servers_node_of_key(const char *key)
{
    return servers.node_of_slot[sk_key_slot(key)];
}

// ---- what they say ----

static char *servers_bulk(const char *text)
{
    char answer[ANSWER_SIZE];
    (void)snprintf(answer, sizeof answer, "$%zu\r\n%s\r\n", strlen(text), text);
    return world_copy(answer);
}

static char *servers_slots(void)
{
    char answer[ANSWER_SIZE], ranges[ANSWER_SIZE] = "";
    size_t count = 0, len = 0;
    for (unsigned first = 0, last; first < SK_SLOTS; first = last + 1, count++) {
        unsigned node = servers.node_of_slot[first];
        char at[ADDRESS_SIZE];
        for (last = first; last + 1 < SK_SLOTS && servers.node_of_slot[last + 1] == node;)
            last++;
        servers_present_address(SERVER_REDIS + node, at);
        len += (size_t)snprintf(ranges + len, sizeof ranges - len, "*3\r\n:%u\r\n:%u\r\n*2\r\n$%zu\r\n%s\r\n:%d\r\n",
                                first, last, strlen(at), at, PORT);
    }
    (void)snprintf(answer, sizeof answer, "*%zu\r\n%.*s", count, (int)len, ranges);
    return world_copy(answer);
}

static char *servers_master(unsigned sentinel)
{
    char answer[ANSWER_SIZE], at[ADDRESS_SIZE];
    servers_address(SERVER_REDIS, servers.told[sentinel], at);
    (void)snprintf(answer, sizeof answer, "*2\r\n$%zu\r\n%s\r\n$4\r\n%d\r\n", strlen(at), at, PORT);
    return world_copy(answer);
}

static char *servers_redirect(unsigned node, const struct command *command)
{
    static const char *const unstable[] = {"-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
                                           "-ASK %d %s:%d\r\n"};
    char answer[ANSWER_SIZE], at[ADDRESS_SIZE];
    int slot = command_slot(command);
    if (slot < 0)
        return NULL;
    unsigned owner = servers.node_of_slot[slot];
    servers_present_address(SERVER_REDIS + owner, at);
    if (owner != node)
        (void)snprintf(answer, sizeof answer, "-MOVED %d %s:%d\r\n", slot, at, PORT);
    else if (slot == servers.moving && world_chance(500))
        (void)snprintf(answer, sizeof answer, unstable[world_roll(2)], slot, at, PORT);
    else
        return NULL;
    world_tell("%s does not have slot %d: %.*s", servers_name(SERVER_REDIS + node), slot, (int)strcspn(answer, "\r"),
               answer);
    world_met("redirect %.*s", (int)strcspn(answer, " "), answer);
    return world_copy(answer);
}

char *servers_answer(unsigned server, const struct command *command)
{
    char info[64];
    if (command_is(command, 0, "AUTH") || command_is(command, 0, "SELECT"))
        return world_copy("+OK\r\n");
    if (server >= SERVER_SENTINEL && server < SERVER_REPLICA)
        return servers_master(server - SERVER_SENTINEL);
    if (command_is(command, 0, "INFO") && server >= SERVER_REPLICA)
        return servers_bulk("run_id:7\r\nrole:slave\r\n");
    if (command_is(command, 0, "INFO"))
        return servers_bulk(stores_redis_info(server - SERVER_REDIS));
    if (command_is(command, 0, "CLUSTER") && command_is(command, 1, "SLOTS"))
        return servers_slots();
    if (command_is(command, 0, "CLUSTER")) {
        (void)snprintf(info, sizeof info, "cluster_state:ok\r\ncluster_current_epoch:%u\r\n", servers.epoch);
        return servers_bulk(info);
    }
    if (server >= SERVER_REPLICA)
        return world_copy("-READONLY You can't write against a read only replica.\r\n");
    return servers.kind == SERVERS_CLUSTER ? servers_redirect(server - SERVER_REDIS, command) : NULL;
}

// ---- troubles ----

static void servers_tell_sentinel(void *arg)
{
    unsigned sentinel = (unsigned)((unsigned *)arg - servers.told);
    servers.told[sentinel] = servers.replaced[SERVER_REDIS];
}

bool servers_may_replace(unsigned server)
{
    return server < SERVER_POSTGRES ? servers.kind != SERVERS_ALONE : server < SERVER_SENTINEL && servers.standbys;
}

void servers_replace(unsigned server)
{
    servers.replaced[server]++;
    servers.epoch++;
    for (size_t i = 0; server == SERVER_REDIS && i < SENTINELS; i++)
        world_at(world_now() + world_roll(TELL_MS) * MS, servers_tell_sentinel, &servers.told[i]);
}

bool servers_begin_move(const char *key)
{
    if (servers.kind != SERVERS_CLUSTER || servers.moving >= 0)
        return false;
    servers.moving = (int)sk_key_slot(key);
    return true;
}

void servers_end_move(void)
{
    if (servers.moving < 0)
        return;
    unsigned from = servers.node_of_slot[servers.moving], to = 1 - from;
    stores_redis_migrate(from, to, (unsigned)servers.moving);
    servers.node_of_slot[servers.moving] = (uint8_t)to;
    world_tell("slot %d is at %s now", servers.moving, servers_name(SERVER_REDIS + to));
    servers.moving = -1;
    servers.epoch += world_chance(500);
}
