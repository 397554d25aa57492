#include "trouble.h"

#include <inttypes.h>
#include <stdio.h>

#include "instance.h"
#include "net.h"
#include "people.h"
#include "stores.h"
#include "world.h"

enum trouble_kind {
    TROUBLE_KILL,
    TROUBLE_KILL_AT,
    TROUBLE_PAUSE,
    TROUBLE_DRAIN,
    TROUBLE_MEMORY,
    TROUBLE_NO_MEMORY,
    TROUBLE_CLOCK,
    TROUBLE_DRIFT,
    TROUBLE_REDIS_RESTARTS,
    TROUBLE_REDIS_LOSES,
    TROUBLE_REDIS_EMPTIED,
    TROUBLE_REDIS_KEY,
    TROUBLE_REDIS_WRONG_KEY,
    TROUBLE_REDIS_SCRIPTS,
    TROUBLE_SLOT_MOVES,
    TROUBLE_FAILS_OVER,
    TROUBLE_RESTORED,
    TROUBLE_BLIND,
    TROUBLE_AWAY,
    TROUBLE_FROZEN,
    TROUBLE_SLOW,
    TROUBLE_ERRORS,
    TROUBLE_BREAKS,
    TROUBLE_BREAK_ALL,
    TROUBLE_KINDS
};

enum { LONG_MS = 30000, ACCEPT_MS = 3000 };

struct trouble {
    enum trouble_kind kind;
    struct instance *instance;
    unsigned server;
    uint64_t for_ns, dice;
};

static struct {
    struct trouble all[TROUBLES_MAX];
    size_t count;
    uint64_t long_until;
    uint64_t shaken_at, instances_shaken_at[INSTANCES_MAX]; // when something was wrong
    uint64_t lives[INSTANCES_MAX];
    bool over;
} troubles;

static const char *const failpoints[] = {"admit.counted",   "changes.apply",    "expiry.found",     "operate.committed",
                                         "operate.taken",   "place.answered",   "place.sent",       "rebuild.begun",
                                         "rebuild.buyers",  "rebuild.epoch",    "rebuild.opening",  "rebuild.settling",
                                         "rebuild.stock",   "regrant.asked",    "return.committed", "return.noted",
                                         "return.settling", "writer.collected", "writer.committed", "writer.correcting",
                                         "writer.sent"};

static const char *const kinds[TROUBLE_KINDS] = {
    "kill",      "kill at",    "pause",          "drain",       "memory",        "no memory",
    "clock",     "drift",      "Redis restarts", "Redis loses", "Redis emptied", "Redis's keys",
    "wrong key", "no scripts", "slot moves",     "fails over",  "restored",      "blind",
    "away",      "frozen",     "slow",           "errors",      "breaks",        "break all"};

static void trouble_restart(void *arg)
{
    const struct trouble *trouble = arg;
    struct instance *instance = trouble->instance;
    if (instance_state(instance) == INSTANCE_OFF)
        instance_start(instance);
    else if (!troubles.over || instance_drains(instance)) // it has not died yet: it may still
        world_at(world_now() + 1000 * MS, trouble_restart, arg);
}

static void trouble_go_on(void *arg)
{
    instance_go_on(((const struct trouble *)arg)->instance);
}

static void trouble_server_is_back(void *arg)
{
    const struct trouble *trouble = arg;
    struct net_server *server = net_server(trouble->server);
    world_tell("%s is well again", servers_name(trouble->server));
    server->down = false;
    server->slow_ns = 0;
    server->error_per_mille = server->break_per_mille = 0;
    net_thaw(trouble->server);
}

static void trouble_sees_again(void *arg)
{
    const struct trouble *trouble = arg;
    world_tell("%c reaches %s again", instance_letter(trouble->instance), servers_name(trouble->server));
    net_cut_off(trouble->instance, trouble->server, NET_OPEN);
}

// Redis may know of orders that PostgreSQL has lost, or not of those whose end it has lost.
static void trouble_loses_commits(size_t shard, size_t lost)
{
    stores_postgres_restore(shard, lost);
    people_forget_buyers();
}

// Its process ends, and another one begins with what it has kept.
static void trouble_ends_process(struct trouble *trouble, unsigned server, size_t lost)
{
    world_tell("%s is killed; it loses its last %zu commands", servers_name(server), lost);
    trouble->server = server;
    net_server(server)->down = true;
    net_kill(server);
    if (servers_is_redis(server))
        stores_redis_restart(server - SERVER_REDIS, lost);
    else
        trouble_loses_commits(server - SERVER_POSTGRES, lost);
    world_at(world_now() + trouble->for_ns / 4, trouble_server_is_back, trouble);
}

// Somebody finds that a shard is closed, since it has lost commits, and takes it as it is.
static void trouble_accept(void *arg)
{
    (void)arg;
    troubles.shaken_at = world_now();
    for (size_t i = 0; servers_shards() > 1 && i < servers_shards(); i++)
        stores_accept(i);
}

// The server that was replaced comes back later, as a replica.
static void trouble_goes(unsigned server, uint64_t for_ns)
{
    struct trouble *away = world_alloc(sizeof *away);
    away->server = server;
    net_server(server)->down = true;
    net_kill(server);
    world_at(world_now() + for_ns, trouble_server_is_back, away);
}

static void trouble_fails_over(struct trouble *trouble, uint64_t dice)
{
    bool redis = trouble->server < SERVER_POSTGRES, synchronous = !redis && dice % 2 == 0;
    if (!servers_may_replace(trouble->server))
        return;
    trouble_ends_process(trouble, trouble->server, synchronous ? 0 : dice / 2 % 20);
    servers_replace(trouble->server);
    if (redis)
        trouble_goes(SERVER_REPLICA + trouble->server - SERVER_REDIS, trouble->for_ns);
    world_at(world_now() + (uint64_t)ACCEPT_MS * MS, trouble_accept, NULL);
}

// As docs/operations.md describes it: nobody runs meanwhile, and Redis may have anything.
static void trouble_restore(struct trouble *trouble, uint64_t dice)
{
    world_tell("PostgreSQL is restored from an older copy");
    for (size_t i = 0; i < instances_count(); i++) {
        struct trouble *restart = world_alloc(sizeof *restart);
        restart->instance = instance_at(i);
        instance_kill(restart->instance, "for a restore");
        world_at(world_now() + trouble->for_ns / 4 + world_roll(1000) * MS, trouble_restart, restart);
    }
    trouble_loses_commits(dice % servers_shards(), dice / 2 % 40);
    if (dice % 3 == 0)
        stores_redis_harm(dice / 64 % servers_nodes(), (const char *const[]){"FLUSHALL", NULL});
    world_at(world_now() + (uint64_t)ACCEPT_MS * MS, trouble_accept, NULL);
}

static void trouble_end_move(void *arg)
{
    (void)arg;
    servers_end_move();
}

static void trouble_move_slot(const struct trouble *trouble, uint64_t dice)
{
    char tag[32], key[64];
    (void)snprintf(tag, sizeof tag, "%" PRId64, people_voucher(dice % people_vouchers())->id);
    (void)snprintf(key, sizeof key, "seckill:{%s}:", dice % 4 == 0 ? "shared" : tag);
    if (!servers_begin_move(key))
        return;
    world_tell("the slot of %s begins to move", key);
    world_at(world_now() + trouble->for_ns / 4, trouble_end_move, NULL);
}

static void trouble_end_instance(void *arg)
{
    struct trouble *trouble = arg;
    instance_kill(trouble->instance, "by somebody");
    world_at(world_now() + 100 * MS, trouble_restart, arg);
}

// Of a voucher, by hand: the key is gone, or of another type.
static void trouble_damage_key(const struct trouble *trouble, bool wrong)
{
    static const char *const keys[] = {"voucher", "buyers", "journal"};
    char name[64];
    int64_t id = people_voucher(trouble->dice % people_vouchers())->id;
    (void)snprintf(name, sizeof name, "seckill:{%" PRId64 "}:%s", id, keys[trouble->dice / 7 % (wrong ? 3 : 2)]);
    world_tell(wrong ? "the key %s gets another type" : "Redis loses the key %s", name);
    people_forget_buyers();
    stores_redis_harm(servers_node_of_key(name),
                      wrong ? (const char *const[]){"SET", name, "?", NULL} : (const char *const[]){"DEL", name, NULL});
}

static void trouble_happens(void *arg)
{
    struct trouble *trouble = arg;
    struct net_server *server = net_server(trouble->server);
    struct instance *instance = trouble->instance;
    char letter = instance_letter(instance);
    uint64_t dice = trouble->dice, until = world_now() + trouble->for_ns;
    size_t node = dice / 128 % servers_nodes();
    if (troubles.over)
        return;
    world_met("trouble %s", kinds[trouble->kind]);
    if (trouble->kind >= TROUBLE_REDIS_RESTARTS && trouble->kind != TROUBLE_BLIND)
        troubles.shaken_at = world_now();
    switch (trouble->kind) {
    case TROUBLE_KILL:
        instance_kill(instance, "between two events");
        world_at(until, trouble_restart, trouble);
        break;
    case TROUBLE_KILL_AT:
        world_tell("%c is to die at %s", letter, failpoints[dice % (sizeof failpoints / sizeof *failpoints)]);
        instance_kill_at(instance, failpoints[dice % (sizeof failpoints / sizeof *failpoints)],
                         1 + (unsigned)(dice / 64 % 3));
        world_at(until, trouble_restart, trouble);
        break;
    case TROUBLE_PAUSE:
        instance_pause(instance);
        world_at(until, trouble_go_on, trouble);
        break;
    case TROUBLE_DRAIN:
        instance_drain(instance);
        world_at(until, trouble_restart, trouble);
        break;
    case TROUBLE_MEMORY:
        world_tell("%c runs short of memory", letter);
        instance_memory(instance)->left = 1 + (unsigned long)(dice % 40);
        break;
    case TROUBLE_NO_MEMORY: // somebody restarts it, as it answers 503 to everything
        world_tell("%c has no memory any more", letter);
        *instance_memory(instance) = (struct memory){1 + (unsigned long)(dice % 400), true};
        world_at(until, trouble_end_instance, trouble);
        break;
    case TROUBLE_CLOCK:
        instance_clock(instance)->wrong_ns = ((int64_t)(dice % 8000) - 4000) * MS;
        world_tell("%c's clock is ahead by %" PRId64 " ms", letter, instance_clock(instance)->wrong_ns / MS);
        break;
    case TROUBLE_DRIFT:
        world_drift(instance_clock(instance), (int64_t)(dice % 20000) - 10000);
        world_tell("%c's clock drifts by %" PRId64 " ppm", letter, instance_clock(instance)->drift_ppm);
        break;
    case TROUBLE_REDIS_RESTARTS:
        trouble_ends_process(trouble, SERVER_REDIS + (unsigned)node, 0);
        break;
    case TROUBLE_REDIS_LOSES:
        trouble_ends_process(trouble, SERVER_REDIS + (unsigned)node, 1 + dice % 20);
        break;
    case TROUBLE_REDIS_EMPTIED:
        world_tell("FLUSHALL at %s", servers_name(SERVER_REDIS + (unsigned)node));
        stores_redis_harm(node, (const char *const[]){"FLUSHALL", NULL});
        break;
    case TROUBLE_REDIS_KEY:
        trouble_damage_key(trouble, false);
        break;
    case TROUBLE_REDIS_WRONG_KEY:
        trouble_damage_key(trouble, true);
        break;
    case TROUBLE_REDIS_SCRIPTS:
        world_tell("SCRIPT FLUSH at %s", servers_name(SERVER_REDIS + (unsigned)node));
        stores_forget_scripts(node);
        break;
    case TROUBLE_SLOT_MOVES:
        trouble_move_slot(trouble, dice);
        break;
    case TROUBLE_FAILS_OVER:
        trouble_fails_over(trouble, dice);
        break;
    case TROUBLE_RESTORED:
        trouble_restore(trouble, dice);
        break;
    case TROUBLE_BLIND:
        world_tell("%c alone has lost %s: %s", letter, servers_name(trouble->server),
                   dice % 2 == 0 ? "silent" : "refused");
        net_cut_off(instance, trouble->server, dice % 2 == 0 ? NET_SILENT : NET_REFUSED);
        world_at(until, trouble_sees_again, trouble);
        break;
    case TROUBLE_AWAY:
        world_tell("%s is away", servers_name(trouble->server));
        server->down = true;
        net_break_all(trouble->server, "connection reset");
        world_at(until, trouble_server_is_back, trouble);
        break;
    case TROUBLE_FROZEN:
        world_tell("%s stands still", servers_name(trouble->server));
        server->frozen = true;
        world_at(until, trouble_server_is_back, trouble);
        break;
    case TROUBLE_SLOW:
        server->slow_ns = (1 + dice % 300) * MS;
        world_tell("%s is slow: up to %" PRIu64 " ms", servers_name(trouble->server), server->slow_ns / MS);
        world_at(until, trouble_server_is_back, trouble);
        break;
    case TROUBLE_ERRORS:
        server->error_per_mille = 20 + (unsigned)(dice % 300);
        world_tell("%s refuses %u of 1000", servers_name(trouble->server), server->error_per_mille);
        world_at(until, trouble_server_is_back, trouble);
        break;
    case TROUBLE_BREAKS:
        server->break_per_mille = 10 + (unsigned)(dice % 100);
        world_tell("%s loses connections", servers_name(trouble->server));
        world_at(until, trouble_server_is_back, trouble);
        break;
    case TROUBLE_BREAK_ALL:
        world_tell("all connections to %s break", servers_name(trouble->server));
        net_break_all(trouble->server, "connection reset");
        break;
    default:
        break;
    }
}

void troubles_begin(uint64_t for_ns, uint64_t without)
{
    troubles.count = world_roll(9);
    for (size_t i = 0; i < troubles.count; i++) {
        struct trouble *trouble = &troubles.all[i];
        uint64_t most = world_chance(20) ? 600000 : world_chance(200) ? 9000 : 2000;
        *trouble = (struct trouble){.kind = (enum trouble_kind)world_roll(TROUBLE_KINDS),
                                    .instance = instance_at(world_roll(instances_count())),
                                    .server = servers_choose(world_roll(840)),
                                    .for_ns = world_between(100, most) * MS,
                                    .dice = world_roll(1U << 30)};
        uint64_t at = world_now() + 300 * MS + world_roll(for_ns - 300 * MS);
        if ((without >> i & 1) != 0)
            continue;
        if (trouble->for_ns > (uint64_t)LONG_MS * MS && at + trouble->for_ns > troubles.long_until)
            troubles.long_until = at + trouble->for_ns;
        world_at(at, trouble_happens, trouble);
    }
}

size_t troubles_count(void)
{
    return troubles.count;
}

uint64_t troubles_over_at(void)
{
    return troubles.long_until;
}

static bool trouble_is_cut_off(const struct instance *instance)
{
    bool cut_off = false;
    for (unsigned server = 0; server < SERVERS_MAX; server++)
        cut_off = cut_off || net_way_of(instance, server) != NET_OPEN;
    return cut_off;
}

uint64_t troubles_calm(void)
{
    uint64_t now = world_now(), longest = 0;
    for (unsigned i = 0; i < SERVERS_MAX; i++) {
        const struct net_server *server = net_server(i);
        if (server->down || server->frozen || server->slow_ns > 0 || server->error_per_mille > 0 ||
            server->break_per_mille > 0)
            troubles.shaken_at = now;
    }
    for (size_t i = 0; i < instances_count(); i++) {
        struct instance *instance = instance_at(i);
        if (instance_state(instance) != INSTANCE_ON || instance_drains(instance) ||
            instance_life(instance) != troubles.lives[i] || instance_memory(instance)->left > 0 ||
            trouble_is_cut_off(instance))
            troubles.instances_shaken_at[i] = now;
        troubles.lives[i] = instance_life(instance);
        uint64_t shaken =
            troubles.instances_shaken_at[i] > troubles.shaken_at ? troubles.instances_shaken_at[i] : troubles.shaken_at;
        longest = now - shaken > longest ? now - shaken : longest;
    }
    return longest;
}

void troubles_end(void)
{
    troubles.over = true;
    servers_end_move();
    trouble_accept(NULL);
    for (unsigned server = 0; server < SERVERS_MAX; server++) {
        struct trouble well = {.server = server};
        trouble_server_is_back(&well);
    }
    for (size_t i = 0; i < instances_count(); i++) {
        struct instance *instance = instance_at(i);
        for (unsigned server = 0; server < SERVERS_MAX; server++)
            net_cut_off(instance, server, NET_OPEN);
        instance_go_on(instance);
        world_set_right(instance_clock(instance));
        *instance_memory(instance) = (struct memory){0};
        instance_kill_at(instance, "", 0);
    }
    if (instance_state(instance_at(0)) == INSTANCE_OFF)
        instance_start(instance_at(0));
}
