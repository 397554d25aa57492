#include "trouble.h"

#include <inttypes.h>
#include <stdio.h>

#include "instance.h"
#include "judge.h"
#include "net.h"
#include "people.h"
#include "plan.h"
#include "shards.h"
#include "stores.h"
#include "world.h"

enum { LONG_MS = 30000, ACCEPT_MS = 9000, CRASH_UP_MS = 1100, CRASH_DOWN_MS = 300, FLUSH_MS = 1000 };
enum { DETOUR_NS = 300 * MS };

struct trouble {
    enum trouble_kind kind;
    struct instance *instance;
    unsigned server;
    uint64_t for_ns, dice;
};

static struct {
    struct trouble all[TROUBLES_MAX];
    uint64_t long_until;
    uint64_t shaken_at, instances_shaken_at[INSTANCES_MAX]; // when something was wrong
    uint64_t redis_shaken_at, had_postgres_at[INSTANCES_MAX];
    uint64_t servers_shaken_at[SERVERS_MAX], all_shaken_at; // of one server; of any
    uint64_t looped_since;                                  // an instance dies again and again; 0: none
    uint64_t accepted_at;                                   // a shard that had lost commits
    uint64_t lives[INSTANCES_MAX];
    bool over;
} troubles;

static const char *const failpoints[] = {"admit.counted",   "changes.apply",    "expiry.found",     "operate.committed",
                                         "operate.taken",   "place.answered",   "place.sent",       "rebuild.begun",
                                         "rebuild.buyers",  "rebuild.epoch",    "rebuild.opening",  "rebuild.settling",
                                         "rebuild.stock",   "regrant.asked",    "return.committed", "return.noted",
                                         "return.settling", "writer.collected", "writer.committed", "writer.correcting",
                                         "writer.sent"};

const char *trouble_name(enum trouble_kind kind)
{
    static const char *const names[TROUBLE_KINDS] = {
        "kill",          "kill-at",   "crash-loop",  "pause",        "drain",          "memory",
        "no-memory",     "clock",     "drift",       "blind",        "redis-restarts", "redis-loses",
        "redis-emptied", "redis-key", "wrong-key",   "wrong-entry",  "no-scripts",     "slot-moves",
        "fails-over",    "restored",  "store-clock", "row-locked",   "away",           "frozen",
        "slow",          "detour",    "errors",      "late-commits", "breaks",         "break-all"};
    return names[kind];
}

static void trouble_restart(void *arg)
{
    const struct trouble *trouble = arg;
    struct instance *instance = trouble->instance;
    if (instance_state(instance) == INSTANCE_OFF)
        instance_start(instance);
    else if (!troubles.over || instance_drains(instance)) // it has not died yet: it may still
        world_at(world_now() + 1000 * MS, trouble_restart, arg);
}

// Each within a second from then on.
static void trouble_restart_all(const char *why, uint64_t after_ns)
{
    for (size_t i = 0; i < instances_count(); i++) {
        struct trouble *restart = world_alloc(sizeof *restart);
        restart->instance = instance_at(i);
        instance_kill(restart->instance, why);
        world_at(world_now() + after_ns + world_roll(1000) * MS, trouble_restart, restart);
    }
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
    server->slow_ns = server->detour_ns = 0;
    server->error_per_mille = server->break_per_mille = server->late_per_mille = 0;
    net_thaw(trouble->server);
}

static void trouble_sees_again(void *arg)
{
    const struct trouble *trouble = arg;
    world_tell("%c reaches %s again", instance_letter(trouble->instance), servers_name(trouble->server));
    net_cut_off(trouble->instance, trouble->server, NET_OPEN);
}

// Redis may know of orders that PostgreSQL has lost, or not of those whose end it has lost.
static void trouble_flush(void *arg)
{
    (void)arg;
    world_tell("FLUSHALL, since PostgreSQL has lost commits");
    troubles.shaken_at = troubles.all_shaken_at = world_now();
    for (size_t i = 0; i < servers_nodes(); i++)
        stores_redis_harm(i, (const char *const[]){"FLUSHALL", NULL});
}

// An operator then empties Redis (docs/upkeep.md, "Backup and restore").
static void trouble_loses_commits(size_t shard, size_t lost)
{
    stores_postgres_restore(shard, lost);
    people_forget_buyers();
    world_at(world_now() + (uint64_t)FLUSH_MS * MS, trouble_flush, NULL);
}

// Its process ends, and another one begins with what it has kept.
static void trouble_ends_process(struct trouble *trouble, unsigned server, size_t lost, bool replaced)
{
    world_tell("%s is killed; it loses its last %zu commands", servers_name(server), lost);
    trouble->server = server;
    net_server(server)->down = true;
    net_kill(server);
    if (servers_is_redis(server) && replaced)
        stores_redis_replace(server - SERVER_REDIS, lost);
    else if (servers_is_redis(server))
        stores_redis_restart(server - SERVER_REDIS, lost);
    else
        trouble_loses_commits(server - SERVER_POSTGRES, lost);
    world_at(world_now() + trouble->for_ns / 4, trouble_server_is_back, trouble);
}

bool troubles_wait_for_owner(void)
{
    return servers_shards() > 1 && stores_postgres_lost_at() > troubles.accepted_at;
}

// Somebody finds that a shard is closed, since it has lost commits: takes it as it is, and starts all instances again
// (docs/scale.md).
static void trouble_accept(void *arg)
{
    (void)arg;
    if (!troubles_wait_for_owner())
        return;
    troubles.shaken_at = troubles.accepted_at = world_now();
    for (size_t i = 0; i < servers_shards(); i++)
        stores_accept(i);
    trouble_restart_all("to start again", 0);
    trouble_flush(NULL);
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
    if (!servers_may_replace(trouble->server) ||
        (redis && !net_is_well(SERVER_REPLICA + trouble->server - SERVER_REDIS)))
        return; // nobody can take its place
    trouble_ends_process(trouble, trouble->server, synchronous ? 0 : dice / 2 % 20, true);
    servers_replace(trouble->server);
    if (redis)
        trouble_goes(SERVER_REPLICA + trouble->server - SERVER_REDIS, trouble->for_ns);
    world_at(world_now() + (uint64_t)ACCEPT_MS * MS, trouble_accept, NULL);
}

// As docs/upkeep.md describes it: nobody runs meanwhile, and Redis may have anything.
static void trouble_restore(struct trouble *trouble, uint64_t dice)
{
    world_tell("PostgreSQL is restored from an older copy");
    trouble_restart_all("for a restore", trouble->for_ns / 4);
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
    char key[PEOPLE_KEY_SIZE];
    people_key(people_voucher(dice % people_vouchers())->id, "", key);
    if (dice % 4 == 0)
        (void)snprintf(key, sizeof key, "seckill:{shared}:");
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
    static const char *const gone[] = {"voucher", "buyers", "repeats"}, *const others[] = {"voucher", "buyers",
                                                                                           "journal"};
    char name[PEOPLE_KEY_SIZE];
    people_key(people_voucher(trouble->dice % people_vouchers())->id, (wrong ? others : gone)[trouble->dice / 7 % 3],
               name);
    world_tell(wrong ? "the key %s gets another type" : "Redis loses the key %s", name);
    people_forget_buyers();
    stores_redis_harm(servers_node_of_key(name),
                      wrong ? (const char *const[]){"SET", name, "?", NULL} : (const char *const[]){"DEL", name, NULL});
}

// An entry that nobody can read.
static void trouble_forge_entry(const struct trouble *trouble)
{
    char name[PEOPLE_KEY_SIZE];
    int64_t id = people_voucher(trouble->dice % people_vouchers())->id;
    if (judge_epoch(id) == 0)
        return; // nobody looks there any more
    people_key(id, "journal", name);
    world_tell("somebody writes an unreadable entry into %s", name);
    stores_redis_harm(servers_node_of_key(name), (const char *const[]){"XADD", name, "*", "orders", "?", NULL});
}

static void trouble_clock_is_right(void *arg)
{
    const struct trouble *trouble = arg;
    world_tell("the clock of %s is right again", servers_name(trouble->server));
    troubles.shaken_at = world_now();
    stores_shift_clock(trouble->server, 0);
}

static void trouble_lock(int64_t voucher)
{
    world_tell("the row of voucher %" PRId64 " is locked", voucher);
    stores_lock(sk_shard_of_voucher(voucher, servers_shards()), voucher);
}

static void trouble_unlock(void *arg)
{
    (void)arg;
    world_tell("no row is locked");
    troubles.shaken_at = troubles.all_shaken_at = world_now();
    for (size_t i = 0; i < servers_shards(); i++)
        stores_lock(i, 0);
}

// Each time it starts, it dies a moment later.
static void trouble_crash(void *arg)
{
    struct trouble *trouble = arg;
    struct instance *instance = trouble->instance;
    if (troubles.over)
        return;
    if (instance_state(instance) == INSTANCE_OFF)
        instance_start(instance);
    else
        instance_kill(instance, "once more");
    uint64_t next = instance_state(instance) == INSTANCE_OFF ? CRASH_DOWN_MS : CRASH_UP_MS + trouble->dice % 3 * 300;
    trouble->for_ns = trouble->for_ns > next * MS ? trouble->for_ns - next * MS : 0;
    troubles.looped_since = trouble->for_ns == 0 ? 0 : troubles.looped_since == 0 ? world_now() : troubles.looped_since;
    world_at(world_now() + next * MS, trouble->for_ns > 0 ? trouble_crash : trouble_restart, trouble);
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
    world_met("trouble %s", trouble_name(trouble->kind));
    if (trouble->kind > TROUBLE_BLIND)
        troubles.shaken_at = world_now();
    if (trouble->kind <= TROUBLE_BLIND && trouble->kind != TROUBLE_CRASH_LOOP && troubles.looped_since > 0)
        troubles.looped_since = world_now(); // it does not only die
    if (trouble->kind > TROUBLE_BLIND && trouble->kind <= TROUBLE_STORE_CLOCK)
        troubles.redis_shaken_at = world_now();
    if (trouble->kind > TROUBLE_BLIND && trouble->kind < TROUBLE_AWAY)
        troubles.all_shaken_at = world_now();
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
    case TROUBLE_CRASH_LOOP:
        trouble_crash(trouble);
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
        instance_memory(instance)->left = 1 + (unsigned long)(dice % 400);
        instance_memory(instance)->from_then_on = true;
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
        trouble_ends_process(trouble, SERVER_REDIS + (unsigned)node, 0, false);
        break;
    case TROUBLE_REDIS_LOSES:
        trouble_ends_process(trouble, SERVER_REDIS + (unsigned)node, 1 + dice % 20, false);
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
    case TROUBLE_REDIS_ENTRY:
        trouble_forge_entry(trouble);
        break;
    case TROUBLE_STORE_CLOCK:
        stores_shift_clock(trouble->server, ((int64_t)(dice % 40000) - 20000) * MS);
        world_tell("the clock of %s is ahead by %d ms", servers_name(trouble->server), (int)(dice % 40000) - 20000);
        world_at(until, trouble_clock_is_right, trouble);
        break;
    case TROUBLE_LOCKED:
        trouble_lock(people_voucher(dice % people_vouchers())->id);
        world_at(until, trouble_unlock, trouble);
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
    case TROUBLE_DETOUR: // commands are carried out after those who sent them gave up, or their answers come then
        server->detour_back = dice / 3800 % 2 == 1;
        server->detour_ns = (200 + dice % 3800) * MS;
        server->detour_until = world_now() + (trouble->for_ns < DETOUR_NS ? trouble->for_ns : DETOUR_NS);
        world_tell("%s %s now arrive %" PRIu64 " ms later", server->detour_back ? "answers of" : "commands to",
                   servers_name(trouble->server), server->detour_ns / MS);
        world_at(server->detour_until + server->detour_ns, trouble_server_is_back, trouble);
        break;
    case TROUBLE_ERRORS:
        server->error_per_mille = 20 + (unsigned)(dice % 300);
        world_tell("%s refuses %u of 1000", servers_name(trouble->server), server->error_per_mille);
        world_at(until, trouble_server_is_back, trouble);
        break;
    case TROUBLE_LATE_COMMITS:
        server->late_per_mille = 100 + (unsigned)(dice % 600);
        world_tell("%s commits late", servers_name(trouble->server));
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

void troubles_begin(const struct plan *plan)
{
    for (size_t i = 0; i < plan->trouble_count; i++) {
        const struct plan_trouble *one = &plan->troubles[i];
        struct trouble *trouble = &troubles.all[i];
        uint64_t until = (one->at_ms + one->for_ms) * MS;
        *trouble = (struct trouble){.kind = one->kind,
                                    .instance = instance_at(one->instance % instances_count()),
                                    .server = servers_choose(one->server),
                                    .for_ns = one->for_ms * MS,
                                    .dice = one->dice};
        if (one->for_ms > LONG_MS && until > troubles.long_until)
            troubles.long_until = until;
        world_at(one->at_ms * MS, trouble_happens, trouble);
    }
}

uint64_t troubles_over_at(void)
{
    return troubles.long_until;
}

static bool trouble_is_cut_off(const struct instance *instance, unsigned first, unsigned end)
{
    bool cut_off = false;
    for (unsigned server = first; server < end; server++)
        cut_off = cut_off || net_way_of(instance, server) != NET_OPEN;
    return cut_off;
}

static bool trouble_is_unwell(struct instance *instance, size_t i)
{
    bool unwell = instance_state(instance) != INSTANCE_ON || instance_drains(instance) ||
                  instance_life(instance) != troubles.lives[i] || instance_memory(instance)->left > 0 ||
                  trouble_is_cut_off(instance, 0, SERVER_POSTGRES) ||
                  trouble_is_cut_off(instance, SERVER_SENTINEL, SERVERS_MAX);
    troubles.lives[i] = instance_life(instance);
    return unwell;
}

uint64_t troubles_calm(void)
{
    uint64_t now = world_now(), longest = 0;
    bool clocks = !stores_clocks_are_right(), redis = clocks, postgres = false;
    for (unsigned i = 0; i < SERVERS_MAX; i++) {
        redis = redis || (servers_is_redis(i) && !net_is_well(i));
        postgres = postgres || (!servers_is_redis(i) && !net_is_well(i));
        if (!net_is_well(i))
            troubles.servers_shaken_at[i] = now;
    }
    if (clocks)
        troubles.all_shaken_at = now;
    if (redis || postgres)
        troubles.shaken_at = now;
    if (redis)
        troubles.redis_shaken_at = now;
    for (size_t i = 0; i < instances_count(); i++) {
        struct instance *instance = instance_at(i);
        bool unwell = trouble_is_unwell(instance, i);
        bool cut_off = trouble_is_cut_off(instance, SERVER_POSTGRES, SERVER_SENTINEL);
        bool without = cut_off || net_server(SERVER_POSTGRES)->down || net_server(SERVER_POSTGRES)->frozen;
        if (unwell || cut_off)
            troubles.instances_shaken_at[i] = now;
        // Without any memory it keeps its work until somebody restarts it.
        if (instance_memory(instance)->from_then_on)
            troubles.shaken_at = now;
        if (unwell || !without || redis)
            troubles.had_postgres_at[i] = now;
        longest = troubles_well_for(i) > longest ? troubles_well_for(i) : longest;
    }
    return longest;
}

uint64_t troubles_well_for(size_t instance)
{
    uint64_t since = troubles.instances_shaken_at[instance];
    return world_now() - (since > troubles.shaken_at ? since : troubles.shaken_at);
}

uint64_t troubles_without_postgres_for(size_t instance)
{
    uint64_t since = troubles.had_postgres_at[instance];
    return world_now() - (since > troubles.redis_shaken_at ? since : troubles.redis_shaken_at);
}

uint64_t troubles_usable_for(size_t instance, unsigned servers)
{
    uint64_t since = troubles.instances_shaken_at[instance];
    since = since > troubles.all_shaken_at ? since : troubles.all_shaken_at;
    for (unsigned i = 0; i < SERVERS_MAX; i++)
        since =
            (servers & 1U << i) != 0 && troubles.servers_shaken_at[i] > since ? troubles.servers_shaken_at[i] : since;
    return world_now() - since;
}

uint64_t troubles_looped_for(void)
{
    uint64_t since = troubles.looped_since > troubles.shaken_at ? troubles.looped_since : troubles.shaken_at;
    return troubles.looped_since == 0 || instances_count() > 1 ? 0 : world_now() - since;
}

void troubles_end(void)
{
    troubles.over = true;
    net_calm();
    troubles.looped_since = 0;
    troubles.shaken_at = world_now();
    servers_end_move();
    trouble_accept(NULL);
    trouble_unlock(NULL);
    for (unsigned server = 0; server < SERVERS_MAX; server++)
        stores_shift_clock(server, 0);
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
        instance_memory(instance)->left = 0;
        instance_memory(instance)->from_then_on = false;
        instance_kill_at(instance, "", 0);
    }
    if (instance_state(instance_at(0)) == INSTANCE_OFF)
        instance_start(instance_at(0));
}
