// The order path when memory is short: batcher, writer and regrant together, each allocation failing once, and all of
// them from one on. Redis and PostgreSQL are played by the test, and the time stands still until it moves it.
//
// The judge: an accepted order is decided by PostgreSQL, or its journal entry is still there and was reported, so that
// a sweep finds it.
#include "failing_memory.h"

#include <stdio.h>
#include <string.h>

#include "admit.h"
#include "batcher.h"
#include "fake_session.h"
#include "fake_timers.h"
#include "offer.h"
#include "recovery.h"
#include "regrant.h"
#include "stage.h"
#include "test.h"
#include "writer.h"

enum { VOUCHER = 7, POOL = 100, ORDERS_MAX = 16, ENTRIES_MAX = 16, ROUNDS = 40, STEP_MS = 100 };

static struct sk_batcher *batcher;
static struct sk_writer *writer;
static struct sk_regrant *regrant;
static struct sk_voucher *voucher;

void sk_rebuild_soon(struct sk_rebuilds *rebuilds, struct sk_voucher *its_voucher, enum sk_doubt doubt)
{
    (void)rebuilds;
    (void)its_voucher;
    (void)doubt;
}

// ---- Redis ----

static struct {
    int stock, epoch;
    size_t buyer_count;
    struct {
        char user[SK_USER_SIZE], id[SK_UUID_SIZE];
    } buyers[ORDERS_MAX];
    size_t entry_count;
    struct {
        bool dropped;
        size_t count;
        char ids[ORDERS_MAX][SK_UUID_SIZE];
    } entries[ENTRIES_MAX]; // with the ids 1-1, 1-2 ...
} redis;

static const char *redis_order_of(const char *user)
{
    for (size_t i = 0; i < redis.buyer_count; i++) {
        if (strcmp(redis.buyers[i].user, user) == 0)
            return redis.buyers[i].id;
    }
    return NULL;
}

static void redis_grant(const char *user, const char *id)
{
    (void)snprintf(redis.buyers[redis.buyer_count].user, SK_USER_SIZE, "%s", user);
    (void)snprintf(redis.buyers[redis.buyer_count++].id, SK_UUID_SIZE, "%s", id);
    (void)snprintf(redis.entries[redis.entry_count].ids[redis.entries[redis.entry_count].count++], SK_UUID_SIZE, "%s",
                   id);
    redis.stock--;
}

static void redis_places(const struct asked *asked)
{
    char results[ORDERS_MAX + 1] = "", last[32], epoch[16];
    struct sk_reply items[7 + ORDERS_MAX] = {TEXT("ok"), NUMBER(5000), NUMBER(4000)};
    size_t more = 0, n = 0;
    for (int i = 14; i < asked->argc; i += 2, n++) {
        const char *order = redis_order_of(asked->argv[i]);
        results[n] = "aps"[order != NULL ? 0 : redis.stock > 0 ? 1 : 2];
        if (order != NULL)
            items[7 + more++] = (struct sk_reply)TEXT(order);
        else if (redis.stock > 0)
            redis_grant(asked->argv[i], asked->argv[i + 1]);
    }
    redis.entry_count += redis.entries[redis.entry_count].count > 0;
    (void)snprintf(last, sizeof last, "1-%zu", redis.entry_count);
    (void)snprintf(epoch, sizeof epoch, "%d", redis.epoch);
    items[3] = (struct sk_reply)TEXT(epoch);
    items[4] = items[5] = (struct sk_reply)TEXT(last);
    items[6] = (struct sk_reply)TEXT(results);
    const struct sk_reply reply = {.kind = REPLY_LIST, .count = 7 + more, .items = items};
    redis_answers(&reply);
}

static void redis_drops(const char *journal_id)
{
    static const struct sk_reply one = NUMBER(1);
    if (journal_id[0] != '\0')
        redis.entries[strtoul(journal_id + 2, NULL, 10) - 1].dropped = true;
    redis_answers(&one);
}

// One page has all buyers, and nobody may repeat an order that has ended.
static void redis_scans(bool buyers)
{
    static struct sk_reply fields[2 * ORDERS_MAX];
    size_t count = buyers ? 2 * redis.buyer_count : 0;
    for (size_t i = 0; i < count; i += 2) {
        fields[i] = (struct sk_reply)TEXT(redis.buyers[i / 2].user);
        fields[i + 1] = (struct sk_reply)TEXT(redis.buyers[i / 2].id);
    }
    const struct sk_reply items[] = {TEXT("0"), {.kind = REPLY_LIST, .count = count, .items = fields}};
    const struct sk_reply reply = LIST_OF(items);
    redis_answers(&reply);
}

static void redis_confirms(void)
{
    char last[32], epoch[16];
    (void)snprintf(last, sizeof last, "1-%zu", redis.entry_count);
    (void)snprintf(epoch, sizeof epoch, "%d", redis.epoch);
    const struct sk_reply items[] = {TEXT("open"), TEXT(last), TEXT("60000"), TEXT(epoch)};
    const struct sk_reply reply = LIST_OF(items);
    redis_answers(&reply);
}

static void redis_acts(void)
{
    static const struct sk_reply five = NUMBER(5);
    const struct asked *asked = &fake_redis.asked[fake_redis.answered];
    if (asked->what == SK_SCRIPT_PLACE_ORDERS)
        redis_places(asked);
    else if (asked->what == SK_SCRIPT_SETTLE_ENTRY)
        redis_drops(asked->argv[5]);
    else if (strcmp(asked->argv[0], "XDEL") == 0)
        redis_drops(asked->argv[2]);
    else if (strcmp(asked->argv[0], "HSCAN") == 0)
        redis_scans(strcmp(asked->argv[1], voucher->keys.buyers) == 0);
    else if (strcmp(asked->argv[0], "HLEN") == 0)
        redis_answers(&five);
    else
        redis_confirms();
}

// ---- PostgreSQL ----

static struct {
    int epoch;
    size_t count;
    char decided[ORDERS_MAX][SK_UUID_SIZE];
} postgres;

static bool postgres_has(const char *id)
{
    size_t i = 0;
    while (i < postgres.count && strcmp(postgres.decided[i], id) != 0)
        i++;
    return i < postgres.count;
}

// The second order of a batch is refused, as of a user who has another one; all others are placed. Or, by `word`, all
// are what it says.
static void postgres_decides(const char *ids, const char *word)
{
    static const char *cells[ORDERS_MAX][ROW_COLUMNS];
    static char numbers[ORDERS_MAX][24];
    size_t n = 0;
    for (const char *id = ids + 1; *id != '\0'; id += SK_UUID_SIZE, n++) {
        if (!postgres_has(id))
            (void)snprintf(postgres.decided[postgres.count++], SK_UUID_SIZE, "%s", id);
        (void)snprintf(numbers[n], sizeof numbers[n], "%zu", n + 1);
        cells[n][0] = numbers[n];
        cells[n][1] = word != NULL ? word : n == 1 ? "duplicate" : "placed";
        cells[n][4] = "1000";
    }
    const struct sk_rows rows = {n, (const char *const(*)[ROW_COLUMNS])cells};
    pg_answers(&rows);
}

static void postgres_acts(void)
{
    static const char *const stale[][ROW_COLUMNS] = {{NULL, "stale"}};
    static const struct sk_rows all_stale = {1, stale};
    const struct asked *asked = &fake_pg.asked[fake_pg.answered];
    if (asked->what == SK_STATEMENT_REFUSE_ORDERS)
        postgres_decides(asked->argv[2], "ended");
    else if (strtol(asked->argv[2], NULL, 10) < postgres.epoch)
        pg_answers(&all_stale);
    else
        postgres_decides(asked->argv[3], NULL);
}

// ---- fixture ----

static void on_recovered(void *arg, struct sk_voucher *its_voucher)
{
    (void)arg;
    (void)its_voucher;
}

static void setup(int stock)
{
    stage_open((struct sk_sale_options){.batch_max = 8, .orders_max = POOL, .sold_out_mark_ms = 60000},
               sizeof(struct sk_maintenance), POOL);
    timer_count = told_count = 0;
    orphans = 0;
    now_ms = 1000;
    redis.entry_count = redis.buyer_count = postgres.count = 0;
    memset(redis.entries, 0, sizeof redis.entries);
    redis.stock = stock;
    redis.epoch = postgres.epoch = 7;
    fake_no_memory = memory_fails;
    regrant = sk_regrant_open(&sale, NULL);
    writer = shards[0].writer =
        sk_writer_open(&sale, shards, &(struct sk_writer_events){on_recovered, sk_regrant_add, NULL, regrant});
    batcher = sk_batcher_open(&sale);
    voucher = a_voucher(sale.catalogue, VOUCHER);
}

static void teardown(void)
{
    sk_batcher_close(batcher);
    sk_regrant_close(regrant);
    sk_writer_close(writer);
    ck_assert(sk_list_is_empty(&voucher->entries.own));
    stage_close();
}

static void request(int user)
{
    struct sk_order *order = sk_order_take(sale.orders, 0);
    if (order == NULL)
        return; // short memory: a 503
    sk_order_name(sale.orders, order, voucher->slot, 7);
    order->handle = (uint64_t)user;
    (void)snprintf(order->user, sizeof order->user, "user-%d", user);
    sk_offered_agree(voucher, order);
    sk_batcher_add(batcher, voucher, order);
}

static void turn(void)
{
    (void)sk_batcher_flush(batcher);
    sk_writer_pump(writer, false);
}

// Both stores answer, and time passes.
static void play(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        turn();
        while (fake_redis.answered < fake_redis.count)
            redis_acts();
        turn();
        while (fake_pg.answered < fake_pg.count)
            postgres_acts();
        time_passes(STEP_MS);
    }
}

// ---- the judge ----

static bool is_in_journal(const char *id)
{
    for (size_t i = 0; i < redis.entry_count; i++) {
        for (size_t j = 0; j < redis.entries[i].count; j++) {
            if (!redis.entries[i].dropped && strcmp(redis.entries[i].ids[j], id) == 0)
                return true;
        }
    }
    return false;
}

// Memory is back, and nothing is in progress any more.
static size_t accepted_must_be_kept(void)
{
    size_t accepted = 0;
    ck_assert_uint_eq(sk_order_pool_out(sale.orders), 0);
    ck_assert(sk_writer_idle(writer) && sk_regrant_idle(regrant));
    for (size_t i = 0; i < told_count; i++) {
        if (told[i].code != SK_PURCHASE_ACCEPTED)
            continue;
        accepted++;
        ck_assert_msg(postgres_has(told[i].order_id) || (is_in_journal(told[i].order_id) && orphans > 0),
                      "the order of user-%d is lost", (int)told[i].handle);
    }
    return accepted;
}

static void winners_must_not_be_refused_from_memory(void)
{
    struct sk_purchase_result result;
    for (size_t i = 0; i < redis.buyer_count; i++)
        ck_assert(!sk_admit_refuses(&sale, voucher, redis.buyers[i].user, NULL, &result));
}

static int refused; // calls, for lack of memory
static size_t most_accepted;
static int searched_for;

static void count_what_came(size_t accepted)
{
    for (size_t i = 0; i < told_count; i++)
        refused += told[i].code == SK_PURCHASE_OVERLOADED || told[i].code == SK_PURCHASE_UNAVAILABLE;
    most_accepted = accepted > most_accepted ? accepted : most_accepted;
    searched_for += orphans;
}

// Plays the scenario with each allocation failing, once or with all after it; and once more when memory is back.
static void for_each_allocation(int stock, bool stays_short, void (*scenario)(void))
{
    memory_has_failed = true;
    memory_stays_short = stays_short;
    for (int nth = 1; memory_has_failed; nth++) {
        setup(stock);
        memory_has_failed = false;
        allocations_left = nth;
        scenario();
        play();
        winners_must_not_be_refused_from_memory();
        allocations_left = 0;
        play();
        winners_must_not_be_refused_from_memory();
        count_what_came(accepted_must_be_kept());
        teardown();
    }
}

// ---- tests ----

// Five buyers, four of whom win; the second winner is refused by PostgreSQL. Then more come, to whom it is sold out.
static void rush(void)
{
    for (int user = 1; user <= 5; user++)
        request(user);
    play();
    request(6);
    request(1);
}

TEST_EACH(a_batch_of_several_winners_loses_none, 2)
{
    for_each_allocation(4, _i == 1, rush);
    ck_assert_int_gt(refused, 0);
    ck_assert_uint_eq(most_accepted, 4);
    ck_assert_int_gt(searched_for, 0);
}

// Redis is rebuilt under a new epoch before PostgreSQL has written a batch: its orders are granted again, but one.
static void loss(void)
{
    for (int user = 1; user <= 4; user++)
        request(user);
    turn();
    while (fake_redis.answered < fake_redis.count)
        redis_acts();
    redis.epoch = postgres.epoch = 8;
    redis.buyer_count = 0;
    redis.stock = 3;
    for (size_t i = 0; i < redis.entry_count; i++)
        redis.entries[i].dropped = true;
}

TEST_EACH(orders_that_are_granted_again_are_not_lost, 2)
{
    for_each_allocation(4, _i == 1, loss);
    ck_assert_int_gt(refused, 0);
    ck_assert_uint_eq(most_accepted, 4);
}
