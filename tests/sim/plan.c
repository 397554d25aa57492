#include "plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "instance.h"
#include "servers.h"
#include "world.h"

enum { BEFORE_ACTS_MS = 400, FIRST_TROUBLE_MS = 300, NEAR_MS = 60, LONGEST_MS = 600000, LINE_SIZE = 256 };

// ---- drawing ----
//
// Each world has some kinds of troubles and acts only, so that each kind meets many others alone (A. Groce and others,
// "Swarm testing", 2012).

static const struct {
    enum call_kind kind;
    unsigned weight;
} weights[] = {{CALL_BUY, 50},     {CALL_PAY, 12},     {CALL_CANCEL, 10}, {CALL_REFUND, 8},  {CALL_LOOK, 8},
               {CALL_REPEATED, 2}, {CALL_WAIT, 3},     {CALL_LIST, 3},    {CALL_PAUSE, 2},   {CALL_RESUME, 4},
               {CALL_ADD, 5},      {CALL_PRICE, 3},    {CALL_CLOSE, 1},   {CALL_REBUILD, 2}, {CALL_SETTLEMENT, 2},
               {CALL_VOUCHER, 3},  {CALL_VOUCHERS, 2}, {CALL_LISTS, 4},   {CALL_REQUEUE, 1}, {CALL_WRITE_OFF, 1},
               {CALL_EXTEND, 6},   {CALL_HOLD, 1},     {CALL_RELEASE, 2}};

enum { KINDS = sizeof weights / sizeof *weights };

static void plan_draw_voucher(struct plan_voucher *voucher, bool closing)
{
    static const int64_t pay_within_s[] = {0, 1, 2, 8};
    *voucher = (struct plan_voucher){.stock = (int64_t)world_between(1, 5),
                                     .price_cents = (int64_t)world_between(0, 3),
                                     .pay_within_s = pay_within_s[world_roll(4)],
                                     .limit = (unsigned)world_between(1, 3),
                                     .begins_ms = world_roll(2) == 0 ? -500 : 500,
                                     .ends_ms = closing ? (int64_t)world_between(2000, 9000) : 3600000};
}

static enum call_kind plan_draw_kind(const unsigned factors[KINDS])
{
    uint64_t all = 0, luck;
    size_t which = 0;
    for (size_t i = 0; i < KINDS; i++)
        all += (uint64_t)weights[i].weight * factors[i];
    luck = world_roll(all);
    while (luck >= (uint64_t)weights[which].weight * factors[which]) {
        luck -= (uint64_t)weights[which].weight * factors[which];
        which++;
    }
    return weights[which].kind;
}

static int64_t plan_draw_units(enum call_kind kind)
{
    if (kind == CALL_ADD)
        return world_chance(400) ? -1 : (int64_t)world_between(1, 2);
    return (int64_t)world_roll(6);
}

// Some come just before or after a trouble.
static uint64_t plan_draw_time(const struct plan *plan)
{
    uint64_t at = BEFORE_ACTS_MS + world_roll(plan->for_ms - BEFORE_ACTS_MS);
    if (plan->trouble_count > 0 && world_chance(250)) {
        at = plan->troubles[world_roll(plan->trouble_count)].at_ms + world_roll((uint64_t)2 * NEAR_MS);
        at = at > NEAR_MS ? at - NEAR_MS : at;
    }
    return at;
}

static void plan_draw_acts(struct plan *plan)
{
    unsigned factors[KINDS];
    for (size_t i = 0; i < KINDS; i++)
        factors[i] = weights[i].kind == CALL_BUY ? 1 : (unsigned)world_roll(3);
    plan->act_count = world_between(10, 70);
    for (size_t i = 0; i < plan->act_count; i++) {
        struct plan_act *act = &plan->acts[i];
        enum call_kind kind = plan_draw_kind(factors);
        *act = (struct plan_act){.at_ms = plan_draw_time(plan),
                                 .kind = kind,
                                 .instance = (unsigned)world_roll(60),
                                 .voucher = (unsigned)world_roll(60),
                                 .user = (unsigned)world_roll(plan->users),
                                 .quantity = (unsigned)world_between(1, 6),
                                 .units = plan_draw_units(kind),
                                 .low_priority = world_chance(200),
                                 .key = world_chance(300) ? (unsigned)world_between(1, 2) : 0,
                                 .about = (unsigned)world_roll(1000)};
        if (i > 0 && world_chance(150)) { // one batch
            act->at_ms = act[-1].at_ms;
            act->instance = act[-1].instance;
            act->voucher = act[-1].voucher;
        }
    }
}

static void plan_draw_troubles(struct plan *plan)
{
    enum trouble_kind kinds[TROUBLE_KINDS];
    size_t count = 0;
    for (unsigned kind = 0; kind < TROUBLE_KINDS; kind++) {
        if (world_chance(300))
            kinds[count++] = (enum trouble_kind)kind;
    }
    if (count == 0)
        kinds[count++] = (enum trouble_kind)world_roll(TROUBLE_KINDS);
    bool longest = world_chance(20);
    plan->trouble_count = world_roll(9);
    for (size_t i = 0; i < plan->trouble_count; i++) {
        uint64_t most = i == 0 && longest ? LONGEST_MS : world_chance(200) ? 9000 : 2000;
        if (plan->for_ms >= 20000 && world_chance(500))
            most = 20000;
        plan->troubles[i] =
            (struct plan_trouble){.at_ms = FIRST_TROUBLE_MS + world_roll(plan->for_ms - FIRST_TROUBLE_MS),
                                  .for_ms = world_between(100, most),
                                  .kind = kinds[world_roll(count)],
                                  .instance = (unsigned)world_roll(60),
                                  .server = (unsigned)world_roll(840),
                                  .dice = world_roll(1U << 30)};
    }
}

// ---- themes ----
//
// Some worlds have a sequence that chance would rarely bring together. It is only begun here: when exactly, and what
// else happens, is drawn as in other worlds.

static void plan_add_trouble(struct plan *plan, enum trouble_kind kind, uint64_t at_ms, uint64_t for_ms, uint64_t dice)
{
    if (plan->trouble_count == TROUBLES_MAX)
        return;
    plan->troubles[plan->trouble_count++] = (struct plan_trouble){.at_ms = at_ms,
                                                                  .for_ms = for_ms,
                                                                  .kind = kind,
                                                                  .instance = (unsigned)world_roll(60),
                                                                  .server = 0,
                                                                  .dice = dice};
}

// Acts of this kind, one soon after the other, at one voucher; all at one instance if `together`.
static void plan_add_acts(struct plan *plan, enum call_kind kind, size_t count, uint64_t at_ms, uint64_t for_ms,
                          bool together)
{
    unsigned voucher = (unsigned)world_roll(60), instance = (unsigned)world_roll(60);
    for (size_t i = 0; i < count && plan->act_count < ACTS_MAX; i++) {
        struct plan_act *act = &plan->acts[plan->act_count++];
        *act = (struct plan_act){.at_ms = at_ms + (for_ms == 0 ? 0 : world_roll(for_ms)),
                                 .kind = kind,
                                 .instance = together ? instance : (unsigned)world_roll(60),
                                 .voucher = voucher,
                                 .user = (unsigned)world_roll(plan->users),
                                 .quantity = (unsigned)world_between(1, 6),
                                 .units = (int64_t)world_roll(6),
                                 .low_priority = world_chance(500),
                                 .about = (unsigned)world_roll(1000)};
    }
}

// Buys, pays, takes back.
static void plan_add_lives(struct plan *plan, uint64_t at_ms, uint64_t for_ms)
{
    plan_add_acts(plan, CALL_BUY, 3, at_ms, for_ms / 3, false);
    plan_add_acts(plan, CALL_PAY, 3, at_ms + for_ms / 3, for_ms / 3, false);
    plan_add_acts(plan, world_chance(700) ? CALL_REFUND : CALL_CANCEL, 4, at_ms + for_ms / 2, for_ms / 2, false);
}

// The last acts, from this number on, are those of one instance.
static void plan_move_acts(struct plan *plan, size_t first, unsigned instance)
{
    for (size_t i = first; i < plan->act_count; i++)
        plan->acts[i].instance = instance;
}

// A trouble of PostgreSQL, where Redis is one server.
static void plan_add_to_postgres(struct plan *plan, enum trouble_kind kind, uint64_t at_ms, uint64_t for_ms,
                                 unsigned instance, uint64_t dice)
{
    plan_add_trouble(plan, kind, at_ms, for_ms, dice);
    plan->troubles[plan->trouble_count - 1].server = 1;
    plan->troubles[plan->trouble_count - 1].instance = instance;
}

// Redis's clock goes ahead and back, so that ids stand still; then Redis loses data, and gives ids again.
static void plan_ids_come_again(struct plan *plan, uint64_t at)
{
    uint64_t ahead_ms = world_between(200, 1500);
    plan_add_trouble(plan, TROUBLE_STORE_CLOCK, at, ahead_ms, 20000 + world_between(500, 19000));
    plan_add_lives(plan, at, ahead_ms);
    plan_add_lives(plan, at + ahead_ms, 600);
    uint64_t lost_at = at + ahead_ms + world_roll(700);
    plan_add_trouble(plan, world_chance(700) ? TROUBLE_REDIS_LOSES : TROUBLE_FAILS_OVER, lost_at,
                     world_between(100, 800), world_roll(1U << 30));
    if (world_chance(600)) // with something that it has still to say
        plan_add_trouble(plan, TROUBLE_PAUSE, lost_at - world_roll(60), world_between(300, 2500), 0);
    plan_add_lives(plan, at + ahead_ms + 600, 1200);
}

// A world of one voucher, with units left, in which nothing else happens.
static void plan_begin_again(struct plan *plan)
{
    plan->redis = SERVERS_ALONE;
    plan->shards = 1;
    plan->instances = INSTANCES_MAX;
    plan->act_count = plan->trouble_count = 0;
    plan->voucher_count = 1;
    plan->vouchers[0].begins_ms = -500;
    plan->vouchers[0].stock = 5;
    plan->vouchers[0].limit = 1;
}

// An instance hears of its commit when Redis has lost the entry, and has given its id to another one.
static void plan_id_has_another_owner(struct plan *plan, uint64_t at)
{
    uint64_t ahead_ms = world_between(200, 800), lost_at = at + ahead_ms + world_between(50, 300);
    unsigned instance = (unsigned)world_roll(60);
    plan_begin_again(plan);
    plan->users = USERS_MAX;
    plan_add_trouble(plan, TROUBLE_STORE_CLOCK, at, ahead_ms, 20000 + world_between(500, 19000));
    plan_add_acts(plan, CALL_BUY, 3, at + 50, ahead_ms - 50, false);
    plan_add_to_postgres(plan, TROUBLE_LATE_COMMITS, lost_at - 12, 2500, 0, 599);
    size_t first = plan->act_count;
    plan_add_acts(plan, world_chance(500) ? CALL_BUY : CALL_CANCEL, 2, lost_at - 10, 2, true);
    plan_move_acts(plan, first, instance);
    plan_add_to_postgres(plan, TROUBLE_BLIND, lost_at - 8, world_between(300, 1900), instance, 0);
    plan_add_trouble(plan, TROUBLE_REDIS_LOSES, lost_at, 100, world_roll(4));
    if (world_chance(300))
        plan_add_trouble(plan, TROUBLE_REDIS_LOSES, lost_at + world_between(300, 1200), 100, world_roll(4));
    plan_add_acts(plan, CALL_CANCEL, 3, lost_at + 300, 1500, false);
    plan_add_acts(plan, CALL_BUY, 30, lost_at + 300, 1800, false);
}

// An order is paid and refunded before the instance that holds it has heard of its commit; then it is granted once
// more.
static void plan_order_comes_back(struct plan *plan, uint64_t at)
{
    unsigned instance = (unsigned)world_roll(60);
    plan_begin_again(plan);
    plan_add_trouble(plan, TROUBLE_STORE_CLOCK, at, 1500, 20000 + world_between(3000, 19000));
    plan_add_to_postgres(plan, TROUBLE_LATE_COMMITS, at, 400, 0, 599);
    plan_add_acts(plan, CALL_BUY, world_between(1, 3), at + 200, 3, true);
    plan_move_acts(plan, 0, instance);
    plan_add_to_postgres(plan, TROUBLE_BLIND, at + world_between(201, 206), world_between(2300, 3300), instance, 0);
    plan_add_acts(plan, CALL_PAY, 4, at + 500, 300, false);
    plan_add_acts(plan, CALL_REFUND, 4, at + 900, 500, false);
    plan_add_trouble(plan, world_chance(500) ? TROUBLE_REDIS_EMPTIED : TROUBLE_REDIS_LOSES,
                     at + world_between(1500, 1900), 100, world_roll(1U << 30));
    plan_add_lives(plan, at + 2200, 1500);
}

// An instance dies while Redis's clock is ahead, with orders that it has not written.
static void plan_dies_ahead(struct plan *plan, uint64_t at)
{
    uint64_t ahead_ms = world_between(3000, 5000);
    unsigned instance = (unsigned)world_roll(60);
    plan->instances = (unsigned)world_between(2, INSTANCES_MAX);
    plan->trouble_count = world_roll(2);
    plan_add_trouble(plan, TROUBLE_STORE_CLOCK, at, ahead_ms, 20000 + world_between(5000, 19000));
    size_t first = plan->act_count;
    plan_add_acts(plan, CALL_BUY, 6, at + ahead_ms - 300, 300, true);
    plan_move_acts(plan, first, instance);
    plan_add_to_postgres(plan, TROUBLE_LATE_COMMITS, at + ahead_ms - 500, 400, 0, 599);
    plan_add_trouble(plan, TROUBLE_KILL, at + ahead_ms - world_roll(300), world_between(100, 6000), 0);
    plan->troubles[plan->trouble_count - 1].instance = instance;
}

// A replica takes the place of the master, and the master takes it back: its run id is that of before, its data is not.
// Or a slot moves there and back.
static void plan_masters_take_turns(struct plan *plan, uint64_t at)
{
    plan->redis = world_chance(500) ? SERVERS_WATCHED : SERVERS_CLUSTER;
    bool moves = plan->redis == SERVERS_CLUSTER && world_chance(500);
    uint64_t dice = world_roll(1U << 30);
    if (world_chance(300))
        plan_add_trouble(plan, TROUBLE_LOCKED, at, world_between(500, 3000), dice);
    for (size_t i = 0; i < 3; i++, at += world_between(100, 1500)) {
        plan_add_lives(plan, at > 200 ? at - 200 : at, 600);
        plan_add_trouble(plan, moves ? TROUBLE_SLOT_MOVES : TROUBLE_FAILS_OVER, at, world_between(100, 1200),
                         moves ? dice : world_roll(1U << 30));
    }
}

// Orders are granted, PostgreSQL does not take them, and Redis loses the grants.
static void plan_grants_are_lost(struct plan *plan, uint64_t at)
{
    static const enum trouble_kind holds[] = {TROUBLE_LOCKED, TROUBLE_LATE_COMMITS, TROUBLE_PAUSE, TROUBLE_SLOW,
                                              TROUBLE_BLIND,  TROUBLE_BLIND,        TROUBLE_PAUSE};
    static const enum trouble_kind losses[] = {TROUBLE_REDIS_LOSES, TROUBLE_REDIS_LOSES, TROUBLE_REDIS_EMPTIED,
                                               TROUBLE_FAILS_OVER};
    unsigned held = (unsigned)world_roll(60);
    plan_add_to_postgres(plan, holds[world_roll(7)], at, world_between(200, 3000), held, world_roll(1U << 30));
    plan_add_acts(plan, CALL_BUY, world_between(2, 6), at + world_roll(100), world_roll(60), world_chance(500));
    plan_add_trouble(plan, losses[world_roll(4)], at + world_roll(400), world_between(100, 800), world_roll(1U << 30));
    plan_add_acts(plan, CALL_BUY, world_between(1, 5), at + world_roll(1500), 800, false);
    plan_add_acts(plan, CALL_LOOK, 8, at + 100, 2500, false);
    for (size_t i = plan->act_count; i-- > 0 && plan->acts[i].at_ms >= at;) { // the others look
        if (plan->acts[i].kind == CALL_BUY && world_chance(600))
            plan->acts[i].instance = held;
    }
}

// Memory is short in the middle of a batch.
static void plan_batches_without_memory(struct plan *plan, uint64_t at)
{
    for (size_t i = 0; i < 4; i++, at += world_between(20, 300)) {
        plan_add_trouble(plan, TROUBLE_MEMORY, at, 100, world_roll(1U << 30));
        plan->troubles[plan->trouble_count - 1].instance = 0;
        plan_add_acts(plan, CALL_BUY, world_between(2, 5), at, 1, true);
        for (size_t act = plan->act_count; act > 0 && plan->acts[act - 1].at_ms >= at; act--)
            plan->acts[act - 1].instance = 0;
    }
}

// What an instance has sent is carried out long after it gave up.
static void plan_answers_are_late(struct plan *plan, uint64_t at)
{
    plan_add_trouble(plan, TROUBLE_FROZEN, at, world_between(800, 3000), world_roll(1U << 30));
    plan_add_lives(plan, at > 300 ? at - 300 : at, 600);
    if (world_chance(400))
        plan_add_trouble(plan, TROUBLE_REDIS_LOSES, at + world_between(500, 3000), 200, world_roll(1U << 30));
}

// An instance is cut off for long, or dies again and again, while orders are due.
static void plan_work_is_left(struct plan *plan, uint64_t at)
{
    static const enum trouble_kind kinds[] = {TROUBLE_BLIND,      TROUBLE_BLIND, TROUBLE_CRASH_LOOP,
                                              TROUBLE_CRASH_LOOP, TROUBLE_PAUSE, TROUBLE_LOCKED};
    plan->for_ms = world_between(16000, 26000);
    plan->instances = (unsigned)world_between(1, INSTANCES_MAX);
    for (size_t i = 0; i < plan->voucher_count; i++)
        plan->vouchers[i].pay_within_s = (int64_t)world_between(1, 3);
    plan_add_trouble(plan, kinds[world_roll(6)], at, world_between(12000, 20000), world_roll(1U << 30));
    plan->troubles[plan->trouble_count - 1].server = (unsigned)world_roll(2);
    plan_add_acts(plan, CALL_BUY, 12, at, 10000, false);
}

// A store is away for long: PostgreSQL, or a node of a cluster.
static void plan_store_is_away(struct plan *plan, uint64_t at)
{
    bool node = world_chance(500);
    plan->for_ms = world_between(20000, 28000);
    plan->shards = !node && world_chance(500) ? 2 : 1;
    plan->orders_max = world_chance(500) ? 8 : plan->orders_max;
    plan->users = plan->shards == 2 ? USERS_MAX : plan->users;
    plan->voucher_count = plan->shards == 2 ? VOUCHERS_MAX : plan->voucher_count;
    plan->redis = node ? SERVERS_CLUSTER : SERVERS_ALONE;
    plan->trouble_count = world_roll(2);
    plan_add_trouble(plan, world_chance(500) ? TROUBLE_AWAY : TROUBLE_FROZEN, at, world_between(15000, 19000), 0);
    plan->troubles[plan->trouble_count - 1].server = node ? (unsigned)world_roll(2) : (unsigned)world_between(1, 2);
    for (size_t i = 0; i < 6; i++)
        plan_add_acts(plan, CALL_BUY, 6, at + i * 2500, 5000, plan->shards == 2);
}

// One of two databases loses commits, and is used until somebody notices.
static void plan_shard_loses(struct plan *plan, uint64_t at)
{
    plan->for_ms = world_between(16000, 22000);
    plan->shards = 2;
    plan->standbys = world_chance(500);
    plan->voucher_count = VOUCHERS_MAX;
    plan->trouble_count = world_roll(2);
    plan_add_acts(plan, CALL_BUY, 6, at, 2000, false);
    plan_add_trouble(plan, plan->standbys ? TROUBLE_FAILS_OVER : TROUBLE_RESTORED, at + world_between(1000, 3000),
                     world_between(100, 2000), world_roll(1U << 30));
    plan->troubles[plan->trouble_count - 1].server = (unsigned)world_between(1, 2);
    for (size_t i = 0; i < 4; i++)
        plan_add_acts(plan, CALL_BUY, 4, at + 2000, 12000, false);
}

// A buyer who asks again is refused from a cache, and Redis loses the data from which the cache was read.
static void plan_sold_out_and_lost(struct plan *plan, uint64_t at)
{
    static const enum trouble_kind losses[] = {TROUBLE_REDIS_EMPTIED, TROUBLE_REDIS_LOSES, TROUBLE_REDIS_KEY,
                                               TROUBLE_FAILS_OVER};
    for (size_t i = 0; i < plan->voucher_count; i++) {
        plan->vouchers[i].stock = (int64_t)world_between(1, 2);
        plan->vouchers[i].begins_ms = -500;
    }
    if (world_chance(500))
        plan_add_trouble(plan, TROUBLE_SLOW, at, 3000, world_between(10, 120));
    else if (world_chance(500))
        plan_add_trouble(plan, TROUBLE_LOCKED, at, world_between(200, 2000), world_roll(1U << 30));
    uint64_t lost_at = at + world_between(100, 1500);
    plan_add_acts(plan, CALL_BUY, 6, at, 100, true);
    plan_add_acts(plan, CALL_BUY, 40, lost_at > 600 ? lost_at - 500 : lost_at, 1500, true);
    unsigned voucher = plan->acts[plan->act_count - 1].voucher, instance = plan->acts[plan->act_count - 1].instance;
    for (size_t i = plan->act_count; i-- > 0 && plan->acts[i].at_ms >= at;) {
        plan->acts[i].voucher = voucher;
        plan->acts[i].instance = instance;
    }
    plan_add_trouble(plan, losses[world_roll(4)], lost_at, 100, world_roll(1U << 30));
}

// Redis is rebuilt, and that meets something.
static void plan_rebuild_is_met(struct plan *plan, uint64_t at)
{
    static const enum trouble_kind kinds[] = {TROUBLE_REDIS_KEY,   TROUBLE_REDIS_LOSES, TROUBLE_REDIS_EMPTIED,
                                              TROUBLE_FAILS_OVER,  TROUBLE_KILL,        TROUBLE_PAUSE,
                                              TROUBLE_STORE_CLOCK, TROUBLE_REDIS_KEY};
    plan_add_lives(plan, at > 400 ? at - 400 : at, 600);
    if (world_chance(600))
        plan_add_trouble(plan, TROUBLE_SLOW, at, 3000, world_between(10, 100));
    for (size_t i = 0; i < 3; i++, at += world_between(50, 1500)) {
        plan_add_acts(plan, CALL_REBUILD, 1, at, 0, false);
        plan_add_lives(plan, at, 600);
        plan_add_trouble(plan, kinds[world_roll(8)], at + world_roll(200), world_between(100, 4500),
                         world_roll(1U << 30));
    }
}

static void plan_add_theme(struct plan *plan)
{
    static void (*const themes[])(struct plan *, uint64_t) = {plan_ids_come_again,
                                                              plan_id_has_another_owner,
                                                              plan_id_has_another_owner,
                                                              plan_grants_are_lost,
                                                              plan_batches_without_memory,
                                                              plan_answers_are_late,
                                                              plan_work_is_left,
                                                              plan_store_is_away,
                                                              plan_masters_take_turns,
                                                              plan_masters_take_turns,
                                                              plan_dies_ahead,
                                                              plan_order_comes_back,
                                                              plan_shard_loses,
                                                              plan_rebuild_is_met,
                                                              plan_sold_out_and_lost};
    size_t which = world_roll(sizeof themes / sizeof *themes), keep = world_roll(3);
    plan->trouble_count = keep < plan->trouble_count ? keep : plan->trouble_count;
    plan->act_count = plan->act_count > ACTS_MAX / 3 ? ACTS_MAX / 3 : plan->act_count;
    themes[which](plan, world_between(500, 1500));
}

void plan_draw(struct plan *plan, uint64_t seed)
{
    *plan = (struct plan){.seed = seed,
                          .for_ms = world_chance(150) ? world_between(20000, 40000) : world_between(2000, 8000),
                          .instances = (unsigned)world_between(1, INSTANCES_MAX),
                          .users = (unsigned)world_between(2, USERS_MAX),
                          .redis = world_chance(850)   ? SERVERS_ALONE
                                   : world_chance(333) ? SERVERS_WATCHED
                                                       : SERVERS_CLUSTER,
                          .shards = world_chance(70) ? 2 : 1,
                          .standbys = world_chance(200),
                          .reader = world_chance(300),
                          .orders_max = world_chance(200) ? 8 : 256,
                          .voucher_count = world_between(1, VOUCHERS_MAX),
                          .scope = world_chance(200)};
    bool closing = world_chance(300);
    for (size_t i = 0; i < VOUCHERS_MAX; i++) // a theme may want more
        plan_draw_voucher(&plan->vouchers[i], closing);
    plan_draw_troubles(plan);
    plan_draw_acts(plan);
    if (world_chance(500))
        plan_add_theme(plan);
}

// ---- as text ----

void plan_print(const struct plan *plan)
{
    (void)printf("world seed %" PRIu64 " for %" PRIu64 " instances %u users %u redis %u shards %u standbys %d reader %d"
                 " orders %u scope %d\n",
                 plan->seed, plan->for_ms, plan->instances, plan->users, plan->redis, plan->shards, plan->standbys,
                 plan->reader, plan->orders_max, plan->scope);
    for (size_t i = 0; i < plan->voucher_count; i++) {
        const struct plan_voucher *one = &plan->vouchers[i];
        (void)printf("voucher stock %" PRId64 " price %" PRId64 " limit %u pay_within %" PRId64 " begins %" PRId64
                     " ends %" PRId64 "\n",
                     one->stock, one->price_cents, one->limit, one->pay_within_s, one->begins_ms, one->ends_ms);
    }
    for (size_t i = 0; i < plan->act_count; i++) {
        const struct plan_act *one = &plan->acts[i];
        (void)printf("act %" PRIu64 " %s instance %u voucher %u user %u quantity %u units %" PRId64
                     " low %d key %u about %u\n",
                     one->at_ms, people_kind(one->kind), one->instance, one->voucher, one->user, one->quantity,
                     one->units, one->low_priority, one->key, one->about);
    }
    for (size_t i = 0; i < plan->trouble_count; i++) {
        const struct plan_trouble *one = &plan->troubles[i];
        (void)printf("trouble %" PRIu64 " %s for %" PRIu64 " instance %u server %u dice %" PRIu64 "\n", one->at_ms,
                     trouble_name(one->kind), one->for_ms, one->instance, one->server, one->dice);
    }
}

static bool plan_read_act(struct plan *plan, const char *line)
{
    struct plan_act *one = &plan->acts[plan->act_count];
    char kind[32];
    int low = 0;
    if (plan->act_count == ACTS_MAX ||
        sscanf(line,
               "act %" SCNu64 " %31s instance %u voucher %u user %u quantity %u units %" SCNd64
               " low %d key %u about %u",
               &one->at_ms, kind, &one->instance, &one->voucher, &one->user, &one->quantity, &one->units, &low,
               &one->key, &one->about) != 10)
        return false;
    one->low_priority = low != 0;
    for (unsigned i = 0; i < CALL_KINDS; i++) {
        if (strcmp(people_kind((enum call_kind)i), kind) == 0) {
            one->kind = (enum call_kind)i;
            plan->act_count++;
            return true;
        }
    }
    return false;
}

static bool plan_read_trouble(struct plan *plan, const char *line)
{
    struct plan_trouble *one = &plan->troubles[plan->trouble_count];
    char kind[32];
    if (plan->trouble_count == TROUBLES_MAX ||
        sscanf(line, "trouble %" SCNu64 " %31s for %" SCNu64 " instance %u server %u dice %" SCNu64, &one->at_ms, kind,
               &one->for_ms, &one->instance, &one->server, &one->dice) != 6)
        return false;
    for (unsigned i = 0; i < TROUBLE_KINDS; i++) {
        if (strcmp(trouble_name((enum trouble_kind)i), kind) == 0) {
            one->kind = (enum trouble_kind)i;
            plan->trouble_count++;
            return true;
        }
    }
    return false;
}

static bool plan_read_voucher(struct plan *plan, const char *line)
{
    struct plan_voucher *one = &plan->vouchers[plan->voucher_count];
    if (plan->voucher_count == VOUCHERS_MAX ||
        sscanf(line,
               "voucher stock %" SCNd64 " price %" SCNd64 " limit %u pay_within %" SCNd64 " begins %" SCNd64
               " ends %" SCNd64,
               &one->stock, &one->price_cents, &one->limit, &one->pay_within_s, &one->begins_ms, &one->ends_ms) != 6)
        return false;
    plan->voucher_count++;
    return true;
}

static bool plan_read_world(struct plan *plan, const char *line)
{
    int standbys = 0, reader = 0, scope = 0;
    int read = sscanf(line,
                      "world seed %" SCNu64 " for %" SCNu64 " instances %u users %u redis %u shards %u standbys %d"
                      " reader %d orders %u scope %d",
                      &plan->seed, &plan->for_ms, &plan->instances, &plan->users, &plan->redis, &plan->shards,
                      &standbys, &reader, &plan->orders_max, &scope);
    if (read < 9)     // older stories do not name a scope
        return false; // another kind of line
    plan->scope = scope != 0;
    plan->standbys = standbys != 0;
    plan->reader = reader != 0;
    return true;
}

static bool plan_read_line(struct plan *plan, const char *line)
{
    return line[0] == '#' || line[0] == '\n' || plan_read_world(plan, line) || plan_read_voucher(plan, line) ||
           plan_read_act(plan, line) || plan_read_trouble(plan, line);
}

bool plan_read(struct plan *plan, const char *path)
{
    char line[LINE_SIZE];
    bool good = true;
    FILE *file = fopen(path, "r");
    *plan = (struct plan){0};
    while (file != NULL && good && fgets(line, sizeof line, file) != NULL) {
        good = plan_read_line(plan, line);
        if (!good)
            (void)fprintf(stderr, "sim: %s: %s", path, line);
    }
    if (file != NULL)
        (void)fclose(file);
    return file != NULL && good && plan->voucher_count > 0;
}
