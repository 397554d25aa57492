// The order writer: how granted orders become batches, the effect of each outcome in PostgreSQL, and that no failure of
// a store loses an order. The stores are fakes.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "distribution.h"
#include "histogram.h"
#include "listening.h"
#include "slot.h"
#include "stage.h"
#include "test.h"
#include "wait.h"
#include "write_queue.h"
#include "writer.h"

enum { BATCH_MAX = 4, POOL = 5000 };

static struct sk_writer *writer;
static int recovered;

// ---- results ----

static void on_recovered(void *arg, struct sk_voucher *voucher)
{
    ck_assert_ptr_eq(arg, &recovered);
    ck_assert_ptr_nonnull(voucher);
    recovered++;
}

static struct sk_order *stale[TOLD_MAX];
static size_t stale_count;
static struct sk_order_list lost, regranting;

static void on_stale(void *arg, struct sk_order *order)
{
    ck_assert_ptr_eq(arg, &stale_count);
    sk_order_move(sale.orders, order, SK_ORDER_LOST, &lost);
    sk_order_move(sale.orders, order, SK_ORDER_REGRANTING, &regranting); // so that it can come back
    stale[stale_count++] = order;
}

static const struct sk_writer_events events = {on_recovered, on_stale, &recovered, &stale_count};

static void must_be_told(uint64_t handle, enum sk_purchase_code code)
{
    for (size_t i = 0; i < told_count; i++) {
        if (told[i].handle == handle) {
            ck_assert_msg(told[i].code == code, "handle %d is told %s instead of %s", (int)handle,
                          sk_purchase_code_name(told[i].code), sk_purchase_code_name(code));
            return;
        }
    }
    ck_abort_msg("handle %d is told nothing", (int)handle);
}

// ---- fixture ----

static void setup(void)
{
    stage_open((struct sk_sale_options){.batch_max = BATCH_MAX, .orders_max = POOL, .sold_out_mark_ms = 200}, 1, POOL);
    writer = shards[0].writer = sk_writer_open(&sale, shards, &events);
    ck_assert_ptr_nonnull(writer);
}

// Entries end with Redis's reply.
static void answer_all_of_redis(void)
{
    static const struct sk_reply done = NUMBER(1);
    while (fake_redis.answered < fake_redis.count)
        redis_answers(&done);
}

static void teardown(void)
{
    answer_all_of_redis();
    sk_writer_close(writer);
    stage_close();
}

// Lets time pass until the condition holds, for orders that return after a pause.
#define RUN_UNTIL(condition) WAIT_FOR((uv_run(&loop, UV_RUN_NOWAIT), condition))

static struct sk_entry *entry_under(int64_t epoch, int64_t voucher_id, const char *journal_id)
{
    struct sk_voucher *voucher = a_voucher(sale.catalogue, voucher_id);
    return own_entry(voucher, epoch, journal_id);
}

static struct sk_entry *entry_of(int64_t voucher_id, const char *journal_id)
{
    return entry_under(7, voucher_id, journal_id);
}

// Grants orders of user-<handle>, starting at handle `first`; they belong to one entry.
static void grant_under(int64_t epoch, struct sk_entry *entry, uint64_t first, uint64_t count, bool low_priority)
{
    for (uint64_t handle = first; handle < first + count; handle++) {
        struct sk_order *order = sk_order_take(sale.orders, 0);
        sk_order_name(sale.orders, order, 0, 0);
        order->handle = handle;
        order->epoch = epoch;
        order->low_priority = low_priority;
        (void)snprintf(order->user, sizeof order->user, "user-%d", (int)handle);
        sk_writer_add(entry, order);
    }
}

static void grant(struct sk_entry *entry, uint64_t first, uint64_t count, bool low_priority)
{
    grant_under(7, entry, first, count, low_priority);
}

static void pump(void)
{
    sk_writer_pump(writer, false);
}

// The order id at place `i` of the latest batch.
static void id_at(int i, char out[SK_UUID_SIZE])
{
    const struct asked *asked = &fake_pg.asked[fake_pg.count - 1];
    memcpy(out, asked->argv[3] + 1 + (size_t)i * (SK_UUID_CHARS + 1), SK_UUID_CHARS);
    out[SK_UUID_CHARS] = '\0';
}

static void must_ask_pg(const char *voucher, const char *epoch, const char *users)
{
    char slot[8];
    ck_assert_uint_gt(fake_pg.count, fake_pg.answered);
    const struct asked *asked = &fake_pg.asked[fake_pg.count - 1];
    ck_assert_int_eq(asked->what, SK_STATEMENT_PLACE_ORDERS);
    (void)snprintf(slot, sizeof slot, "%u", sk_slot(voucher, strlen(voucher)));
    ck_assert_str_eq(asked->argv[0], slot);
    ck_assert_str_eq(asked->argv[1], voucher);
    ck_assert_str_eq(asked->argv[2], epoch);
    ck_assert_str_eq(asked->argv[4], users);
}

#define OUTCOMES(...)                                                           \
    do {                                                                        \
        static const char *const rows_[][ROW_COLUMNS] = {__VA_ARGS__};          \
        const struct sk_rows result_ = {sizeof rows_ / sizeof rows_[0], rows_}; \
        pg_answers(&result_);                                                   \
    } while (0)

static void must_drop_entry(size_t i, const char *journal_key, const char *journal_id)
{
    ck_assert_uint_lt(i, fake_redis.count);
    const struct asked *asked = &fake_redis.asked[i];
    ck_assert_int_eq(asked->what, PLAIN_COMMAND);
    ck_assert_str_eq(asked->argv[0], "XDEL");
    ck_assert_str_eq(asked->argv[1], journal_key);
    ck_assert_str_eq(asked->argv[2], journal_id);
}

static uint64_t counted(enum sk_metric metric)
{
    return sk_metrics_read(&metrics, metric);
}

static uint64_t gauge(enum sk_metric metric)
{
    sk_order_pool_measure(sale.orders, &metrics);
    return counted(metric);
}

static struct sk_distributed measured(enum sk_distribution_id id)
{
    struct sk_distributed values = {.sum = 0};
    sk_distribution_read(&metrics.distributions[id], &values);
    return values;
}

static uint64_t measured_count(enum sk_distribution_id id)
{
    struct sk_distributed values = measured(id);
    uint64_t count = 0;
    for (size_t i = 0; i <= SK_DISTRIBUTION_BOUNDS; i++)
        count += values.counts[i];
    return count;
}

// ---- the path of a batch ----

TEST(an_order_goes_to_its_commit)
{
    ck_assert(sk_writer_idle(writer));
    grant(entry_of(1, "10-1"), 1, 2, false);
    ck_assert(!sk_writer_idle(writer));
    ck_assert_uint_eq(fake_pg.count, 0); // nothing starts before the turn ends
    pump();
    must_ask_pg("1", "7", "{\"user-1\",\"user-2\"}");
    ck_assert_uint_eq(gauge(SK_METRIC_ORDERS_WRITING), 2);
    ck_assert_uint_eq(told_count, 0);
    ck_assert_uint_eq(fake_redis.count, 0); // the journal keeps them until the commit, and no lock is taken
    OUTCOMES({"1", "placed"}, {"2", "placed"});
    must_be_told(1, SK_PURCHASE_PLACED);
    must_be_told(2, SK_PURCHASE_PLACED);
    ck_assert_uint_eq(told_count, 2);
    ck_assert_uint_eq(counted(SK_METRIC_BATCHES_WRITTEN), 1);
    ck_assert_uint_eq(counted(SK_METRIC_ORDERS_PLACED), 2);
    ck_assert_uint_eq(fake_redis.count, 1);
    must_drop_entry(0, "seckill:{1}:journal", "10-1");
    ck_assert(sk_writer_idle(writer));
}

// Measured from the batcher to the commit; recovered orders began elsewhere.
TEST(the_time_to_durable_is_noted)
{
    static const uint64_t ages_ms[] = {0, 40, 5000, 700};
    struct sk_durations durations;
    uint64_t now_ns = uv_hrtime();
    grant(entry_of(1, "10-1"), 1, 4, false);
    struct sk_order *order = a_voucher(sale.catalogue, 1)->granted.orders.head;
    for (size_t i = 0; i < 4; i++, order = order->next)
        order->began_ns = ages_ms[i] == 0 ? 0 : now_ns - ages_ms[i] * 1000000;
    grant(entry_of(2, "10-1"), 5, 1, false);
    a_voucher(sale.catalogue, 2)->granted.orders.head->began_ns = now_ns;
    pump();
    OUTCOMES({"1", "placed"}, {"2", "already_placed"}, {"3", "placed"}, {"4", "ended"});
    sk_durations_read(1, &durations);
    ck_assert_uint_eq(durations.count, 2); // without the refused one
    ck_assert_uint_eq(measured_count(SK_DISTRIBUTION_DURABLE), 2);
    ck_assert_uint_ge(sk_durations_at(&durations, 0.5), UINT64_C(40000000));
    ck_assert_uint_lt(sk_durations_at(&durations, 0.5), UINT64_C(5000000000));
    ck_assert_uint_ge(durations.most_ns, UINT64_C(5000000000));
    OUTCOMES({NULL, "placed"});
    sk_durations_read(2, &durations);
    ck_assert_uint_eq(durations.count, 1);
    sk_durations_read(3, &durations);
    ck_assert_uint_eq(durations.count, 0);
}

// Each order counts in its first batch only; recovered orders were granted elsewhere.
TEST(the_legs_are_measured)
{
    uint64_t now_ns = uv_hrtime();
    grant(entry_of(1, "10-1"), 1, 3, false);
    struct sk_order *order = a_voucher(sale.catalogue, 1)->granted.orders.head;
    order->granted_ns = now_ns - UINT64_C(5000000000);
    order->next->granted_ns = now_ns - UINT64_C(5000000000);
    pump();
    ck_assert_uint_eq(measured(SK_DISTRIBUTION_BATCH_PG).sum, 3);
    ck_assert_uint_eq(measured_count(SK_DISTRIBUTION_LEG_QUEUE), 2);
    ck_assert_uint_ge(measured(SK_DISTRIBUTION_LEG_QUEUE).sum, UINT64_C(10000000000));
    ck_assert_uint_eq(measured_count(SK_DISTRIBUTION_LEG_COMMIT), 0);
    pg_answers(NULL); // lost: the batch is put back
    ck_assert_uint_eq(counted(SK_METRIC_BATCHES_PUT_BACK), 1);
    ck_assert_uint_eq(measured_count(SK_DISTRIBUTION_LEG_COMMIT), 0);
    RUN_UNTIL(fake_pg.count == 2);
    OUTCOMES({NULL, "placed"});
    ck_assert_uint_eq(measured(SK_DISTRIBUTION_BATCH_PG).sum, 6);
    ck_assert_uint_eq(measured_count(SK_DISTRIBUTION_BATCH_PG), 2);
    ck_assert_uint_eq(measured_count(SK_DISTRIBUTION_LEG_QUEUE), 2);
    ck_assert_uint_eq(measured_count(SK_DISTRIBUTION_LEG_COMMIT), 3);
    ck_assert_uint_lt(measured(SK_DISTRIBUTION_LEG_COMMIT).sum, UINT64_C(3) * (uv_hrtime() - now_ns));
    ck_assert_uint_eq(measured_count(SK_DISTRIBUTION_DURABLE), 0); // none began here
}

TEST(one_answer_may_stand_for_the_batch)
{
    grant(entry_of(1, "10-1"), 1, 3, false);
    pump();
    OUTCOMES({NULL, "placed"});
    for (uint64_t handle = 1; handle <= 3; handle++)
        must_be_told(handle, SK_PURCHASE_PLACED);
    ck_assert_uint_eq(counted(SK_METRIC_ORDERS_PLACED), 3);
    must_drop_entry(0, "seckill:{1}:journal", "10-1");
    answer_all_of_redis();
    grant(entry_of(1, "10-2"), 4, 2, false);
    pump();
    OUTCOMES({NULL, "stale"}); // regrant has them now
    ck_assert_uint_eq(told_count, 3);
    for (int i = 0; i < 2; i++) {
        stale[i]->epoch = 8;
        sk_writer_resume(stale[i]);
    }
    pump();
    OUTCOMES({NULL, "placed"});
    ck_assert_uint_eq(counted(SK_METRIC_ORDERS_PLACED), 5);
    answer_all_of_redis();
    ck_assert(sk_writer_idle(writer));
}

TEST(while_one_batch_commits_the_next_gathers)
{
    grant(entry_of(1, "10-1"), 1, 1, false);
    pump();
    ck_assert_uint_eq(fake_pg.count, 1);
    grant(entry_of(1, "10-2"), 2, 1, false);
    pump();
    grant(entry_of(1, "10-3"), 3, 2, false);
    pump();
    ck_assert_uint_eq(fake_pg.count, 1); // one at a time
    OUTCOMES({"1", "placed"});
    must_ask_pg("1", "7", "{\"user-2\",\"user-3\",\"user-4\"}"); // group commit over several entries
    OUTCOMES({"1", "placed"}, {"2", "placed"}, {"3", "placed"});
    ck_assert_uint_eq(told_count, 4);
    ck_assert_uint_eq(fake_redis.count, 3);
    ck_assert(sk_writer_idle(writer));
}

// A batch of several vouchers.
static void must_ask_pg_of_many(const char *vouchers, const char *epochs, const char *counts, const char *users,
                                const char *journals)
{
    ck_assert_uint_gt(fake_pg.count, fake_pg.answered);
    const struct asked *asked = &fake_pg.asked[fake_pg.count - 1];
    ck_assert_int_eq(asked->what, SK_STATEMENT_PLACE_BATCHES);
    ck_assert_str_eq(asked->argv[1], vouchers);
    ck_assert_str_eq(asked->argv[2], epochs);
    ck_assert_str_eq(asked->argv[3], counts);
    ck_assert_str_eq(asked->argv[5], users);
    ck_assert_str_eq(asked->argv[6], journals);
}

TEST(a_part_is_of_one_voucher_and_one_epoch_and_a_batch_has_its_bound)
{
    grant(entry_of(1, "10-1"), 1, 2, false);
    grant_under(8, entry_under(8, 1, "10-2"), 3, 1, false);
    grant(entry_of(2, "10-1"), 4, 1, false);
    grant_under(1, sk_entry_new(&sale, a_voucher(sale.catalogue, 3), SK_ENTRY_LOOSE, 0), 5, 6, false);
    pump();
    must_ask_pg_of_many("{1,2,3}", "{7,7,1}", "{2,1,1}", "{\"user-1\",\"user-2\",\"user-4\",\"user-5\"}",
                        "{10-1,10-1,NULL}");
    ck_assert_str_eq(fake_pg.asked[0].argv[0], "{9842,5649,1584}");
    OUTCOMES({NULL, "placed", NULL, NULL, NULL, NULL, "2"}, {NULL, "placed", NULL, NULL, NULL, NULL, "1"},
             {"1", "placed", NULL, NULL, NULL, NULL, "3"}); // in any order
    ck_assert_uint_eq(told_count, 4);
    must_ask_pg_of_many("{1,3}", "{8,1}", "{1,3}", "{\"user-3\",\"user-6\",\"user-7\",\"user-8\"}", "{10-2,NULL}");
    OUTCOMES({NULL, "placed", NULL, NULL, NULL, NULL, "1"}, {"3", "placed", NULL, NULL, NULL, NULL, "2"},
             {"1", "sold_out", NULL, NULL, NULL, NULL, "2"}, {"2", "placed", NULL, NULL, NULL, NULL, "2"});
    must_be_told(6, SK_PURCHASE_SOLD_OUT);
    must_be_told(8, SK_PURCHASE_PLACED);
    must_ask_pg("3", "1", "{\"user-9\",\"user-10\"}"); // one part only
    OUTCOMES({NULL, "placed"});
    ck_assert_uint_eq(told_count, 10);
    ck_assert_uint_eq(counted(SK_METRIC_BATCHES_WRITTEN), 3);
    ck_assert(sk_writer_idle(writer));
}

static const char *const misfits[][4][ROW_COLUMNS] = {
    {{NULL, "placed", NULL, NULL, NULL, NULL, "1"}}, // one part of three
    {{NULL, "placed", NULL, NULL, NULL, NULL, "1"},
     {NULL, "placed", NULL, NULL, NULL, NULL, "2"},
     {"1", "placed", NULL, NULL, NULL, NULL, "0"}}, // no such part
    {{NULL, "placed", NULL, NULL, NULL, NULL, "1"},
     {NULL, "placed", NULL, NULL, NULL, NULL, "2"},
     {"1", "placed", NULL, NULL, NULL, NULL, "4"}},
    {{NULL, "placed", NULL, NULL, NULL, NULL, "1"},
     {NULL, "placed", NULL, NULL, NULL, NULL, "2"},
     {"1", "placed", NULL, NULL, NULL, NULL, "3"},
     {"1", "placed", NULL, NULL, NULL, NULL, "3"}},
};

// Writing each part alone finds the one that failed. The others are written, and then share batches again.
TEST_EACH(a_shared_batch_that_failed_is_parted, 3 + sizeof misfits / sizeof misfits[0])
{
    static const enum sk_result_kind kinds[] = {SK_RESULT_LOCKED, SK_RESULT_FAILED, SK_RESULT_REFUSED};
    static const size_t counts[] = {1, 3, 3, 4};
    grant(entry_of(1, "10-1"), 1, 1, false);
    grant(entry_of(2, "10-1"), 2, 1, false);
    grant(entry_of(3, "10-1"), 3, 1, false);
    pump();
    must_ask_pg_of_many("{1,2,3}", "{7,7,7}", "{1,1,1}", "{\"user-1\",\"user-2\",\"user-3\"}", "{10-1,10-1,10-1}");
    if (_i < 3) {
        pg_fails(kinds[_i]);
    } else {
        const struct sk_rows rows = {counts[_i - 3], misfits[_i - 3]};
        pg_answers(&rows);
    }
    ck_assert_uint_eq(told_count, 0);
    must_ask_pg("1", "7", "{\"user-1\"}"); // at once
    OUTCOMES({NULL, "placed"});
    must_ask_pg("2", "7", "{\"user-2\"}");
    pg_fails(SK_RESULT_LOCKED);
    must_ask_pg("3", "7", "{\"user-3\"}");
    grant(entry_of(1, "10-2"), 4, 1, false);
    OUTCOMES({NULL, "placed"});
    must_ask_pg("1", "7", "{\"user-4\"}"); // 2 pauses
    grant(entry_of(3, "10-2"), 5, 1, false);
    grant(entry_of(1, "10-3"), 6, 1, false);
    OUTCOMES({NULL, "placed"});
    must_ask_pg_of_many("{3,1}", "{7,7}", "{1,1}", "{\"user-5\",\"user-6\"}", "{10-2,10-3}");
    OUTCOMES({NULL, "placed", NULL, NULL, NULL, NULL, "1"}, {NULL, "placed", NULL, NULL, NULL, NULL, "2"});
    RUN_UNTIL(fake_pg.count > fake_pg.answered);
    must_ask_pg("2", "7", "{\"user-2\"}");
    OUTCOMES({NULL, "placed"});
    ck_assert_uint_eq(told_count, 6);
    ck_assert(sk_writer_idle(writer));
}

TEST(a_shared_batch_that_is_lost_is_written_again)
{
    char first[SK_UUID_SIZE], again[SK_UUID_SIZE];
    grant(entry_of(1, "10-1"), 1, 1, false);
    grant(entry_of(2, "10-1"), 2, 1, false);
    pump();
    memcpy(first, fake_pg.asked[0].argv[4] + 1, SK_UUID_CHARS);
    pg_answers(NULL);
    ck_assert_uint_eq(fake_pg.count, fake_pg.answered); // the link pauses
    RUN_UNTIL(fake_pg.count > fake_pg.answered);
    must_ask_pg_of_many("{1,2}", "{7,7}", "{1,1}", "{\"user-1\",\"user-2\"}", "{10-1,10-1}");
    memcpy(again, fake_pg.asked[1].argv[4] + 1, SK_UUID_CHARS);
    ck_assert_mem_eq(first, again, SK_UUID_CHARS);
    OUTCOMES({NULL, "placed", NULL, NULL, NULL, NULL, "1"}, {NULL, "stale", NULL, NULL, NULL, NULL, "2"});
    ck_assert_uint_eq(told_count, 1);
    ck_assert_uint_eq(stale_count, 1);
    stale[0]->epoch = 8;
    sk_writer_resume(stale[0]);
    pump();
    OUTCOMES({NULL, "placed"});
    ck_assert(sk_writer_idle(writer));
}

// Orders once rejected by PostgreSQL are searched without sharing batches.
TEST(a_suspect_shares_no_batch)
{
    grant(entry_of(1, "10-1"), 1, 4, false);
    pump();
    grant(entry_of(2, "10-1"), 5, 1, false);
    pg_fails(SK_RESULT_REFUSED);
    must_ask_pg("2", "7", "{\"user-5\"}"); // it was queued first
    OUTCOMES({NULL, "placed"});
    grant(entry_of(2, "10-2"), 6, 1, false);
    must_ask_pg("1", "7", "{\"user-1\",\"user-2\"}");
    OUTCOMES({NULL, "placed"}); // not alone any more, but its next orders are suspected
    must_ask_pg("1", "7", "{\"user-3\",\"user-4\"}");
    OUTCOMES({NULL, "placed"});
    must_ask_pg("2", "7", "{\"user-6\"}");
    OUTCOMES({NULL, "placed"});
    ck_assert(sk_writer_idle(writer));
}

TEST(an_entry_is_dropped_when_the_last_of_its_orders_is_settled)
{
    grant(entry_of(1, "10-1"), 1, 6, false); // more than one batch
    pump();
    OUTCOMES({"1", "placed"}, {"2", "placed"}, {"3", "placed"}, {"4", "placed"});
    ck_assert_uint_eq(told_count, 4);
    ck_assert_uint_eq(fake_redis.count, 0);
    OUTCOMES({"2", "placed"}, {"1", "placed"}); // in any order
    ck_assert_uint_eq(fake_redis.count, 1);
    must_drop_entry(0, "seckill:{1}:journal", "10-1");
}

TEST(entries_are_kept_in_their_order_until_they_are_settled)
{
    struct sk_entry *first = entry_of(1, "10-1"), *second = entry_of(1, "10-2"), *third = entry_of(1, "10-3");
    struct sk_voucher *voucher = first->voucher;
    grant(second, 2, 1, false);
    grant(first, 1, 1, false);
    ck_assert_ptr_eq(voucher->entries.oldest, first);
    ck_assert_ptr_eq(voucher->entries.youngest, third);
    pump();
    OUTCOMES({"1", "placed"}, {"2", "stale"}); // the second is settled first
    answer_all_of_redis();
    ck_assert_ptr_eq(voucher->entries.oldest, first);
    grant(third, 3, 1, false);
    pump();
    OUTCOMES({"1", "placed"});
    answer_all_of_redis();
    ck_assert_ptr_eq(voucher->entries.oldest, first);
    ck_assert_ptr_eq(voucher->entries.youngest, first);
    stale[0]->epoch = 8;
    sk_writer_resume(stale[0]);
    pump();
    OUTCOMES({"1", "placed"});
    answer_all_of_redis();
    ck_assert_ptr_null(voucher->entries.oldest);
    ck_assert_ptr_null(voucher->entries.youngest);
}

// ---- outcomes ----

// A refund kept the units of these orders: those granted after it get back the units that Redis took for them.
TEST(what_was_granted_after_its_units_were_gone_returns)
{
    char ids[4][SK_UUID_SIZE];
    grant(entry_of(1, "10-2"), 1, 4, false);
    pump();
    for (int i = 0; i < 4; i++)
        id_at(i, ids[i]);
    OUTCOMES({"1", "gone", NULL, NULL, NULL, "10-1"}, {"2", "gone", NULL, NULL, NULL, "10-3"},
             {"3", "gone", NULL, NULL, NULL, NULL}, {"4", "gone", NULL, NULL, NULL, "9-99"});
    for (int i = 1; i <= 4; i++)
        must_be_told(i, SK_PURCHASE_UNAVAILABLE);
    ck_assert_uint_eq(fake_redis.count, 1);
    const struct asked *asked = &fake_redis.asked[0];
    const char *const words[] = {"1", ids[0], "user-1", "", "1", ids[2], "user-3", "", "1", ids[3], "user-4", ""};
    ck_assert_int_eq(asked->argc, 7 + 12);
    for (int i = 0; i < 12; i++)
        ck_assert_str_eq(asked->argv[7 + i], words[i]);
}

// Redis gets the number of the user's ended orders, under any epoch.
TEST(what_ended_before_it_was_settled_is_counted)
{
    static const char live[] = "018bcfe5-6800-7000-8000-0123456789ab";
    char ids[4][SK_UUID_SIZE];
    grant(entry_of(1, "10-2"), 1, 4, false);
    pump();
    for (int i = 0; i < 4; i++)
        id_at(i, ids[i]);
    OUTCOMES({"1", "ended", NULL, NULL, NULL, NULL, "1", NULL, "20"},
             {"2", "ended", NULL, NULL, NULL, NULL, "1", NULL, "3"},
             {"3", "ended", live, NULL, NULL, NULL, "1", live, "4"},
             {"4", "gone", NULL, NULL, NULL, "10-1", "1", NULL, "21"});
    const struct asked *asked = &fake_redis.asked[0];
    const char *const words[] = {"1", ids[0], "user-1", "-20", "1", ids[1], "user-2", "-3",
                                 "1", ids[2], "user-3", live,  "1", ids[3], "user-4", "-21"};
    ck_assert_int_eq(asked->argc, 7 + 16);
    ck_assert_str_eq(asked->argv[6], "");
    for (int i = 0; i < 16; i++)
        ck_assert_str_eq(asked->argv[7 + i], words[i]);
}

// Ids are in order only under one epoch: a Redis that has lost data may reuse them. What counts is the entry's
// epoch: an order that was found again under a newer one has the entry of before.
TEST(the_epoch_decides_first_what_was_granted_after_a_refund)
{
    char ids[4][SK_UUID_SIZE];
    grant_under(9, entry_of(1, "10-2"), 1, 4, false); // the entry is of epoch 7
    pump();
    for (int i = 0; i < 4; i++)
        id_at(i, ids[i]);
    OUTCOMES({"1", "gone", NULL, NULL, NULL, "99-1@6"}, {"2", "gone", NULL, NULL, NULL, "10-1@8"},
             {"3", "gone", NULL, NULL, NULL, "10-1@7"}, {"4", "gone", NULL, NULL, NULL, "10-3@7"});
    const struct asked *asked = &fake_redis.asked[0];
    const char *const words[] = {"1", ids[0], "user-1", "", "1", ids[2], "user-3", ""};
    ck_assert_int_eq(asked->argc, 7 + 8);
    for (int i = 0; i < 8; i++)
        ck_assert_str_eq(asked->argv[7 + i], words[i]);
}

TEST(a_loose_order_whose_units_are_gone_is_left_to_others)
{
    grant(sk_entry_new(&sale, a_voucher(sale.catalogue, 1), SK_ENTRY_LOOSE, 0), 1, 1, false);
    pump();
    OUTCOMES({"1", "gone", NULL, NULL, NULL, "10-1@7"});
    must_be_told(1, SK_PURCHASE_UNAVAILABLE);
    ck_assert_uint_eq(fake_redis.count, 0);
}

TEST(refused_orders_correct_redis_with_the_end_of_their_entry)
{
    static const char live[] = "018bcfe5-6800-7000-8000-0123456789ab",
                      kept[] = "018bcfe5-6800-7000-8000-0123456789ab 2 0123456789abcdef"; // in Redis
    char ids[4][SK_UUID_SIZE];
    grant(entry_of(1, "10-1"), 1, 4, false);
    pump();
    for (int i = 0; i < 4; i++)
        id_at(i, ids[i]);
    OUTCOMES({"1", "duplicate", live, NULL, NULL, NULL, "1", kept}, {"2", "already_placed"}, {"3", "sold_out"},
             {"4", "ended"});
    ck_assert_uint_eq(counted(SK_METRIC_ORDERS_PLACED), 1);
    ck_assert_uint_eq(counted(SK_METRIC_ORDERS_REFUSED), 3);
    must_be_told(1, SK_PURCHASE_ALREADY_ORDERED);
    ck_assert_str_eq(told[0].order_id, live);
    must_be_told(2, SK_PURCHASE_PLACED);
    must_be_told(3, SK_PURCHASE_SOLD_OUT);
    must_be_told(4, SK_PURCHASE_UNAVAILABLE); // its live order was cancelled meanwhile: try again
    ck_assert_uint_eq(fake_redis.count, 1);
    const struct asked *asked = &fake_redis.asked[0];
    const char *const words[] = {
        "seckill:{1}:voucher",
        "seckill:{1}:buyers",
        "seckill:{1}:journal",
        "seckill:{1}:repeats",
        "seckill:{1}:ended",
        "10-1",
        "", //
        "1",
        ids[0],
        "user-1",
        kept, //
        "0",
        ids[2],
        "user-3",
        "", //
        "1",
        ids[3],
        "user-4",
        "", //
    };
    ck_assert_int_eq(asked->what, SK_SCRIPT_SETTLE_ENTRY);
    ck_assert_int_eq(asked->keys, 5);
    ck_assert_int_eq(asked->argc, (int)(sizeof words / sizeof words[0]));
    for (int i = 0; i < asked->argc; i++)
        ck_assert_str_eq(asked->argv[i], words[i]);
    ck_assert(sk_writer_idle(writer));
}

TEST(refusals_of_several_batches_gather_in_their_entry)
{
    grant(entry_of(1, "10-1"), 1, 6, false);
    pump();
    OUTCOMES({"1", "sold_out"}, {"2", "placed"}, {"3", "placed"}, {"4", "placed"});
    ck_assert_uint_eq(fake_redis.count, 0);
    OUTCOMES({"1", "placed"}, {"2", "sold_out"});
    ck_assert_uint_eq(fake_redis.count, 1);
    ck_assert_int_eq(fake_redis.asked[0].argc, 7 + 2 * 4);
    ck_assert_str_eq(fake_redis.asked[0].argv[9], "user-1");
    ck_assert_str_eq(fake_redis.asked[0].argv[13], "user-6");
}

// The epoch has advanced since Redis granted it: it is handed out, and may return in two ways.
TEST(a_stale_order_is_handed_out)
{
    struct sk_entry *entry = entry_of(1, "10-1");
    grant(entry, 1, 2, false);
    pump();
    OUTCOMES({"1", "stale"}, {"2", "stale"});
    ck_assert_uint_eq(told_count, 0);
    ck_assert_uint_eq(stale_count, 2);
    ck_assert_ptr_eq(stale[0]->entry, entry);
    ck_assert(sk_writer_idle(writer)); // the writer no longer has it
    ck_assert_uint_eq(fake_redis.count, 0);
    stale[0]->epoch = stale[1]->epoch = 9;
    sk_writer_resume(stale[0]); // Redis still knows it: it stays with its entry
    pump();
    must_ask_pg("1", "9", "{\"user-1\"}");
    OUTCOMES({"1", "placed"});
    ck_assert_uint_eq(fake_redis.count, 0);
    sk_writer_add(entry_of(1, "20-1"), stale[1]); // granted again: it moves, and its old entry ends
    must_drop_entry(0, "seckill:{1}:journal", "10-1");
    pump();
    must_ask_pg("1", "9", "{\"user-2\"}");
    OUTCOMES({"1", "placed"});
    must_drop_entry(1, "seckill:{1}:journal", "20-1");
    must_be_told(1, SK_PURCHASE_PLACED);
    must_be_told(2, SK_PURCHASE_PLACED);
}

TEST(postgres_learns_the_newest_journal_id_of_a_batch)
{
    grant(entry_of(1, "10-9"), 1, 1, false);
    grant(entry_of(1, "10-10"), 2, 1, false);
    grant(entry_of(1, "9-99"), 3, 1, false);
    pump();
    ck_assert_str_eq(fake_pg.asked[0].argv[5], "10-10");
    OUTCOMES({"1", "placed"}, {"2", "placed"}, {"3", "placed"});
    grant(sk_entry_new(&sale, a_voucher(sale.catalogue, 1), SK_ENTRY_LOOSE, 0), 4, 1, false);
    pump();
    ck_assert_ptr_null(fake_pg.asked[1].argv[5]);
    OUTCOMES({"1", "placed"});
    ck_assert_uint_eq(fake_redis.count, 3); // without an entry there is no call
}

// An order that was found again has the entry of before: its id is of no use under the newer epoch.
TEST(the_newest_journal_id_is_of_the_batchs_epoch)
{
    grant_under(8, entry_of(1, "10-1"), 1, 1, false);
    grant_under(8, entry_under(8, 1, "9-1"), 2, 1, false);
    pump();
    ck_assert_str_eq(fake_pg.asked[0].argv[5], "9-1");
    OUTCOMES({"1", "placed"}, {"2", "placed"});
    grant_under(8, entry_of(1, "10-2"), 3, 1, false);
    pump();
    ck_assert_ptr_null(fake_pg.asked[1].argv[5]);
    OUTCOMES({"1", "placed"});
}

// The other Redis process was rebuilt from PostgreSQL: an entry with the same id may be another's.
TEST(entries_of_another_redis_process_are_not_dropped)
{
    grant(entry_of(1, "10-1"), 1, 1, false);
    grant(entry_of(1, "10-2"), 2, 1, false);
    pump();
    fake_redis.run_number++;
    OUTCOMES({"1", "placed"}, {"2", "sold_out"});
    ck_assert_uint_eq(fake_redis.count, 1);
    ck_assert_int_eq(fake_redis.asked[0].what, SK_SCRIPT_SETTLE_ENTRY); // the correction checks the buyer itself
    ck_assert_str_eq(fake_redis.asked[0].argv[5], "");
}

static void refused_permanently(void)
{
    pg_fails(SK_RESULT_REFUSED);
}

// One bad entry: it is written alone while the others are settled; finally it becomes a dead letter.
TEST(what_postgres_refuses_permanently_becomes_a_dead_letter)
{
    static const struct sk_rows done = {0};
    char id[SK_UUID_SIZE], letter[128];
    grant(entry_of(1, "10-1"), 1, 1, false);
    grant(entry_of(1, "10-2"), 2, 1, false);
    pump();
    must_ask_pg("1", "7", "{\"user-1\",\"user-2\"}");
    refused_permanently();
    for (size_t tries = 0; tries < 5; tries++) {
        RUN_UNTIL(fake_pg.count == fake_pg.answered + 1);
        if (strcmp(fake_pg.asked[fake_pg.count - 1].argv[4], "{\"user-2\"}") == 0) {
            OUTCOMES({"1", "placed"}); // the good one is also alone
            RUN_UNTIL(fake_pg.count == fake_pg.answered + 1);
        }
        must_ask_pg("1", "7", "{\"user-1\"}");
        id_at(0, id);
        refused_permanently();
    }
    const struct asked *asked = &fake_pg.asked[fake_pg.count - 1];
    ck_assert_int_eq(asked->what, SK_STATEMENT_SET_ASIDE);
    ck_assert_str_eq(asked->argv[0], "9842"); // the slot of {1}
    ck_assert_str_eq(asked->argv[1], "1");
    ck_assert_str_eq(asked->argv[2], "10-1");
    (void)snprintf(letter, sizeof letter, "%s user-1", id);
    ck_assert_str_eq(asked->argv[4], letter);
    ck_assert_uint_eq(fake_redis.count, 1); // the good one's entry
    ck_assert_uint_eq(counted(SK_METRIC_DEAD_LETTERS), 0);
    pg_answers(&done);
    ck_assert_uint_eq(counted(SK_METRIC_DEAD_LETTERS), 1);
    ck_assert_uint_eq(fake_redis.count, 2);
    must_drop_entry(1, "seckill:{1}:journal", "10-1");
    must_be_told(2, SK_PURCHASE_PLACED);
    ck_assert_uint_eq(told_count, 1); // the other stays pending
    ck_assert(sk_writer_idle(writer));
}

static bool is_bad(const char *users, const char *const *bad)
{
    for (; *bad != NULL; bad++) {
        if (strstr(users, *bad) != NULL)
            return true;
    }
    return false;
}

// Answers like PostgreSQL that rejects every batch with one of these users ("\"user-3\"" ...), until all is settled.
// Returns how many batches with good orders were rejected; *letters: the users in dead letters.
static size_t refuse_users(const char *const *bad, struct sk_buf *letters)
{
    static const char *const places[][ROW_COLUMNS] = {
        {"1", "placed"}, {"2", "placed"}, {"3", "placed"}, {"4", "placed"}};
    static const struct sk_rows done = {0};
    size_t refused = 0;
    while (!sk_writer_idle(writer)) {
        RUN_UNTIL(fake_pg.count > fake_pg.answered);
        const struct asked *asked = &fake_pg.asked[fake_pg.answered];
        if (asked->what == SK_STATEMENT_SET_ASIDE) {
            sk_buf_printf(letters, "%s;", asked->argv[4] + SK_UUID_SIZE);
            pg_answers(&done);
        } else if (is_bad(asked->argv[4], bad)) {
            refused += strchr(asked->argv[4], ',') != NULL;
            refused_permanently();
        } else {
            size_t n = 1;
            for (const char *comma = asked->argv[4]; (comma = strchr(comma, ',')) != NULL; comma++)
                n++;
            const struct sk_rows rows = {n, places};
            pg_answers(&rows);
        }
    }
    return refused;
}

// Bad orders among good ones, in one entry or several: all good ones are placed, each bad one becomes a dead letter.
TEST_EACH(only_the_bad_orders_of_an_entry_are_set_aside, 4)
{
    static const char *const bad[][4] = {
        {"\"user-3\""}, {"\"user-1\""}, {"\"user-8\""}, {"\"user-1\"", "\"user-4\"", "\"user-5\""}};
    struct sk_buf letters = {0};
    size_t bad_count = 0, innocents = 0;
    sk_buf_puts(&letters, "");
    grant(entry_of(1, "10-1"), 1, 6, false); // more than one batch
    grant(entry_of(1, "10-2"), 7, 2, false);
    grant(entry_of(1, "10-3"), 9, 1, false);
    pump();
    size_t refused = refuse_users(bad[_i], &letters);
    for (uint64_t user = 1; user <= 9; user++) {
        char quoted[16], named[16];
        (void)snprintf(quoted, sizeof quoted, "\"user-%d\"", (int)user);
        (void)snprintf(named, sizeof named, "user-%d;", (int)user);
        bool is_bad_one = is_bad(quoted, bad[_i]);
        bad_count += is_bad_one;
        if (!is_bad_one)
            must_be_told(user, SK_PURCHASE_PLACED);
        innocents += !is_bad_one;
        ck_assert_msg((strstr(letters.data, named) != NULL) == is_bad_one, "%s: %s", named, letters.data);
    }
    ck_assert_uint_eq(told_count, innocents);
    ck_assert_uint_eq(letters.len, bad_count * strlen("user-1;"));
    ck_assert_uint_le(refused, 4 * bad_count); // halving, not one by one
    ck_assert_uint_eq(fake_redis.count, 3);    // each entry leaves the journal, once
    sk_buf_free(&letters);
}

// Only the order itself is delayed: neither its entry nor other vouchers are.
TEST(no_order_waits_for_a_bad_one)
{
    grant(entry_of(1, "10-1"), 1, 4, false);
    pump();
    refused_permanently();
    must_ask_pg("1", "7", "{\"user-1\",\"user-2\"}"); // at once
    refused_permanently();
    must_ask_pg("1", "7", "{\"user-1\"}");
    refused_permanently();
    must_ask_pg("1", "7", "{\"user-2\"}");
    OUTCOMES({"1", "placed"});
    must_ask_pg("1", "7", "{\"user-3\",\"user-4\"}"); // after a success the next part is larger
    OUTCOMES({"1", "placed"}, {"2", "placed"});
    ck_assert_uint_eq(fake_pg.count, fake_pg.answered); // the bad one waits
    grant(entry_of(2, "10-1"), 5, 1, false);
    pump();
    must_ask_pg("2", "7", "{\"user-5\"}");
    OUTCOMES({"1", "placed"});
    RUN_UNTIL(fake_pg.count > fake_pg.answered);
    must_ask_pg("1", "7", "{\"user-1\"}");
}

// If the letter could not be stored, the order stays where it was.
TEST(a_letter_that_is_not_kept_is_tried_again)
{
    static const struct sk_rows done = {0};
    grant(entry_of(1, "10-1"), 1, 1, false);
    pump();
    for (size_t tries = 0; tries < 5; tries++) {
        RUN_UNTIL(fake_pg.count == fake_pg.answered + 1);
        refused_permanently();
    }
    ck_assert_int_eq(fake_pg.asked[fake_pg.count - 1].what, SK_STATEMENT_SET_ASIDE);
    pg_answers(NULL);
    ck_assert_uint_eq(counted(SK_METRIC_DEAD_LETTERS), 0);
    RUN_UNTIL(fake_pg.count == fake_pg.answered + 1);
    must_ask_pg("1", "7", "{\"user-1\"}");
    refused_permanently();
    ck_assert_int_eq(fake_pg.asked[fake_pg.count - 1].what, SK_STATEMENT_SET_ASIDE);
    ck_assert_uint_eq(fake_redis.count, 0);
    pg_answers(&done);
    ck_assert_uint_eq(fake_redis.count, 1);
}

TEST(a_clash_is_an_internal_error_and_ends)
{
    grant(entry_of(1, "10-1"), 1, 2, false);
    pump();
    OUTCOMES({"1", "clash"}, {"2", "no such outcome"});
    must_be_told(1, SK_PURCHASE_INTERNAL);
    must_be_told(2, SK_PURCHASE_INTERNAL);
    ck_assert_int_eq(fake_redis.asked[0].what, SK_SCRIPT_SETTLE_ENTRY); // the unit returns
    ck_assert(sk_writer_idle(writer));
}

// Recovery settles orders that no request waits for.
TEST(recovered_entries_are_reported_when_settled)
{
    struct sk_voucher *voucher = a_voucher(sale.catalogue, 1);
    struct sk_entry *entry = sk_entry_new(&sale, voucher, SK_ENTRY_RECOVERED, fake_redis.run_number);
    sk_entry_name(entry, 7, "10-1");
    grant(entry, 0, 1, true);
    ck_assert_ptr_null(voucher->entries.oldest); // not one of our own
    pump();
    must_ask_pg("1", "7", "{\"user-0\"}");
    ck_assert_int_eq(recovered, 0);
    OUTCOMES({"1", "placed"});
    ck_assert_int_eq(recovered, 1);
    ck_assert_uint_eq(told_count, 0); // handle 0: no request
    must_drop_entry(0, "seckill:{1}:journal", "10-1");
}

// ---- failures ----

// A locked row or a failing statement concerns one voucher; others continue meanwhile.
TEST_EACH(a_voucher_that_cannot_be_written_pauses_alone, 2)
{
    static const struct {
        enum sk_result_kind kind;
        uint64_t least_ms;
    } rows[] = {{SK_RESULT_LOCKED, 100}, {SK_RESULT_FAILED, 10}};
    char first[SK_UUID_SIZE], again[SK_UUID_SIZE];
    grant(entry_of(1, "10-1"), 1, 2, false);
    pump();
    must_ask_pg("1", "7", "{\"user-1\",\"user-2\"}");
    id_at(0, first);
    for (int tries = 0; tries < 2; tries++) {
        uv_update_time(&loop);
        uint64_t failed_ms = uv_now(&loop);
        pg_fails(rows[_i].kind);
        ck_assert_uint_eq(fake_pg.count, fake_pg.answered); // it waits ...
        grant(entry_of(2, "10-1"), 3, 1, false);
        pump();
        must_ask_pg("2", "7", "{\"user-3\"}"); // ... alone
        OUTCOMES({"1", "placed"});
        grant(entry_of(1, "10-2"), 4, 1, false); // later orders wait behind it
        RUN_UNTIL(fake_pg.count > fake_pg.answered);
        ck_assert_uint_ge(uv_now(&loop), failed_ms + rows[_i].least_ms);
        ck_assert_uint_le(uv_now(&loop), failed_ms + 3000);
        ck_assert_str_eq(fake_pg.asked[fake_pg.count - 1].argv[1], "1");
        id_at(0, again);
        ck_assert_str_eq(first, again);
    }
    must_ask_pg("1", "7", "{\"user-1\",\"user-2\",\"user-4\",\"user-4\"}");
    OUTCOMES({"1", "placed"}, {"2", "placed"}, {"3", "placed"}, {"4", "placed"});
    ck_assert(sk_writer_idle(writer));
}

// One log line for each pause that is longer than the earlier ones.
TEST(a_locked_row_is_told_until_the_pauses_stop_growing)
{
    struct sk_voucher *voucher = a_voucher(sale.catalogue, 1);
    size_t lines = 0;
    begin_listening();
    for (int tries = 0; tries < 20; tries++)
        sk_write_queue_pause(voucher, SK_PAUSE_LOCKED, 0);
    for (int tries = 0; tries < 20; tries++)
        sk_write_queue_pause(voucher, SK_PAUSE_FAILED, 0);
    end_listening();
    for (const char *at = heard; (at = strstr(at, "another transaction holds the row")) != NULL; at++)
        lines++;
    ck_assert_uint_eq(lines, 4);
    ck_assert_ptr_nonnull(strstr(heard, "voucher=1 pause_ms="));
    ck_assert_uint_ge(voucher->granted.not_before_ms, 1000);
    sk_write_queue_settled(voucher); // both kinds begin anew
    sk_write_queue_pause(voucher, SK_PAUSE_FAILED, 0);
    ck_assert_uint_le(voucher->granted.not_before_ms, 20);
    begin_listening();
    sk_write_queue_pause(voucher, SK_PAUSE_LOCKED, 0);
    end_listening();
    ck_assert_ptr_nonnull(strstr(heard, "voucher=1 pause_ms="));
}

// PostgreSQL rejects everything of one voucher: bisecting must not keep the link from other vouchers.
TEST(a_voucher_of_nothing_but_bad_orders_pauses)
{
    static const size_t in_a_row = 12;
    grant(entry_of(1, "10-1"), 1, 40, false);
    pump();
    while (fake_pg.count > fake_pg.answered) {
        ck_assert_uint_le(fake_pg.count, in_a_row);
        pg_fails(SK_RESULT_REFUSED);
    }
    ck_assert_uint_eq(fake_pg.count, in_a_row);
    grant(entry_of(2, "10-1"), 50, 1, false);
    pump();
    must_ask_pg("2", "7", "{\"user-50\"}");
    OUTCOMES({"1", "placed"});
    RUN_UNTIL(fake_pg.count > fake_pg.answered); // then it is retried
}

// P7: a lost answer leaves the commit unknown, so the same ids are written again.
TEST(a_failed_batch_is_said_again_under_the_same_ids)
{
    static const char *const half[1][ROW_COLUMNS] = {{"1", "placed"}};
    static const struct sk_rows one_row = {1, half};
    const struct sk_result failures[] = {
        {.kind = SK_RESULT_LOST},   {.kind = SK_RESULT_ROWS, .rows = &one_row},
        {.kind = SK_RESULT_FAILED}, {.kind = SK_RESULT_LOCKED},
        {.kind = SK_RESULT_LOST},
    };
    char first[SK_UUID_SIZE], again[SK_UUID_SIZE];
    grant(entry_of(1, "10-1"), 1, 2, false);
    pump();
    id_at(0, first);
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        pg_gives(failures[i]);
        ck_assert_uint_eq(told_count, 0);
        pump();
        ck_assert_uint_eq(fake_pg.count, i + 1); // not at once
        RUN_UNTIL(fake_pg.count == i + 2);
        must_ask_pg("1", "7", "{\"user-1\",\"user-2\"}");
        id_at(0, again);
        ck_assert_str_eq(first, again);
    }
    OUTCOMES({"1", "already_placed"}, {"2", "placed"});
    must_be_told(1, SK_PURCHASE_PLACED);
    must_be_told(2, SK_PURCHASE_PLACED);
    ck_assert_uint_eq(fake_redis.count, 1);
}

TEST(while_postgres_is_away_orders_wait)
{
    grant(entry_of(1, "10-1"), 1, 1, false);
    fake_pg.down = true;
    pump();
    ck_assert_uint_eq(fake_pg.count, 0);
    fake_pg.down = false;
    pump();
    must_ask_pg("1", "7", "{\"user-1\"}");
    OUTCOMES({"1", "placed"});
    must_be_told(1, SK_PURCHASE_PLACED);
}

TEST_ABORTS(an_answer_twice_for_one_order_is_a_programmers_error)
{
    grant(entry_of(1, "10-1"), 1, 2, false);
    pump();
    OUTCOMES({"1", "placed"}, {"1", "placed"});
}

// Redis may be down when an entry ends: recovery will find it in the journal.
TEST(an_entry_that_cannot_be_dropped_is_left_to_recovery)
{
    grant(entry_of(1, "10-1"), 1, 2, false);
    pump();
    fake_redis.down = true;
    OUTCOMES({"1", "placed"}, {"2", "sold_out"});
    ck_assert_uint_eq(told_count, 2);
    ck_assert_uint_eq(fake_redis.count, 0);
    ck_assert_int_eq(orphans, 1);
    ck_assert(sk_writer_idle(writer));
}

// It is held until Redis confirms its removal. Any entry in the journal that is not held is an orphan.
TEST_EACH(an_entry_is_held_until_it_is_dropped, 3)
{
    static const struct sk_reply done = NUMBER(1), error = ERROR("OOM");
    const struct sk_reply *const answers[] = {&done, &error, NULL};
    struct sk_entry *entry = entry_of(1, "10-1");
    const struct sk_voucher *voucher = entry->voucher;
    const struct sk_entry *at = NULL;
    grant(entry, 1, 1, false);
    pump();
    OUTCOMES({"1", "placed"});
    ck_assert(sk_entry_holds(&sale, voucher, &at, "10-1", 7));
    redis_answers(answers[_i]);
    at = NULL;
    ck_assert(!sk_entry_holds(&sale, voucher, &at, "10-1", 7));
    ck_assert_int_eq(orphans, _i == 0 ? 0 : 1);
}

TEST(own_entries_are_told_from_others_along_the_journal)
{
    static const struct {
        const char *id;
        bool held;
    } rows[] = {{"9-5", false}, {"10-1", true}, {"10-2", false}, {"10-3", true}, {"11-0", false}};
    const struct sk_entry *at = NULL;
    grant(entry_of(1, "10-1"), 1, 1, false);
    grant(entry_of(1, "10-3"), 2, 1, false);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert(sk_entry_holds(&sale, a_voucher(sale.catalogue, 1), &at, rows[i].id, 7) == rows[i].held);
    fake_redis.run_number++; // another process: its entries are not ours
    at = NULL;
    ck_assert(!sk_entry_holds(&sale, a_voucher(sale.catalogue, 1), &at, "10-1", 7));
}

TEST(the_largest_entry_refused_as_a_whole_can_be_settled)
{
    enum { LARGEST = 2048 };
    static char places[LARGEST][8];
    static const char *rows[LARGEST][ROW_COLUMNS];
    struct sk_rows result = {LARGEST, (const char *const(*)[ROW_COLUMNS])rows};
    teardown();
    setup();
    options.batch_max = LARGEST;
    sk_writer_close(writer);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    writer = shards[0].writer = sk_writer_open(&sale, shards, &events);
    grant(entry_of(1, "10-1"), 1, LARGEST, false);
    pump();
    for (int i = 0; i < LARGEST; i++) {
        (void)snprintf(places[i], sizeof places[i], "%d", i + 1);
        rows[i][0] = places[i];
        rows[i][1] = "sold_out";
    }
    pg_answers(&result);
    ck_assert_uint_eq(fake_redis.count, 1);
    ck_assert_int_eq(fake_redis.asked[0].what, SK_SCRIPT_SETTLE_ENTRY);
    ck_assert_int_eq(fake_redis.asked[0].argc, 7 + 4 * LARGEST);
}

// ---- low priority ----

TEST(patient_orders_give_way_to_a_rush_but_not_for_ever)
{
    grant(entry_of(1, "10-1"), 1, 1, true);
    sk_writer_pump(writer, true);
    ck_assert_uint_eq(fake_pg.count, 1); // none was written recently
    OUTCOMES({"1", "placed"});
    grant(entry_of(1, "10-2"), 2, 1, true);
    sk_writer_pump(writer, true);
    ck_assert_uint_eq(fake_pg.count, 1); // now one was
    ck_assert(!sk_writer_idle(writer));
    RUN_UNTIL(fake_pg.count == 2);
    OUTCOMES({"1", "placed"});
    grant(entry_of(1, "10-3"), 3, 1, true);
    sk_writer_pump(writer, true);
    ck_assert_uint_eq(fake_pg.count, 2);
    sk_writer_pump(writer, false); // the rush is over
    ck_assert_uint_eq(fake_pg.count, 3);
    OUTCOMES({"1", "placed"});
}

TEST(a_request_that_waits_for_the_commit_does_not_wait_longer)
{
    grant(entry_of(1, "10-1"), 1, 1, true);
    sk_writer_pump(writer, true);
    OUTCOMES({"1", "placed"});
    grant(entry_of(1, "10-2"), 2, 2, true);
    sk_writer_pump(writer, true);
    ck_assert_uint_eq(fake_pg.count, 1);
    grant(entry_of(1, "10-3"), 4, 1, false);
    sk_writer_pump(writer, true);
    ck_assert_uint_eq(fake_pg.count, 2);
    must_ask_pg("1", "7", "{\"user-2\",\"user-3\",\"user-4\"}");
    OUTCOMES({"1", "placed"}, {"2", "placed"}, {"3", "placed"});
}

// ---- closing ----

// Where the remaining orders are when the process ends: in the journal, in a dead letter, or in neither.
TEST(what_is_left_is_counted_by_who_keeps_it)
{
    struct sk_left left = {0}, later = {0};
    grant(entry_of(1, "10-1"), 1, 2, false);
    pump(); // these are being written, the others wait
    grant(entry_of(1, "10-2"), 3, 5, false);
    grant(sk_entry_new(&sale, a_voucher(sale.catalogue, 2), SK_ENTRY_LOOSE, 0), 8, 3, false);
    pump();
    sk_writer_count(writer, &left);
    ck_assert_uint_eq(left.in_journal, 7);
    ck_assert_uint_eq(left.in_letters, 3);
    ck_assert_uint_eq(left.nowhere, 0);
    fake_redis.run_number++; // a new Redis process, which may have lost them
    sk_writer_count(writer, &later);
    ck_assert_uint_eq(later.in_journal, 0);
    ck_assert_uint_eq(later.in_letters, 3);
    ck_assert_uint_eq(later.nowhere, 7);
}

// Orders in every stage at once; the journal has them, and the teardown checks that none is left.
TEST(closing_forgets_what_is_under_way)
{
    grant(entry_of(1, "10-1"), 1, 1, false);
    pump();
    refused_permanently(); // it waits for a retry
    grant(entry_of(1, "10-2"), 3, 6, false);
    grant(entry_of(2, "10-1"), 9, 1, false);
    pump(); // four are being written, the others wait
    ck_assert_uint_eq(gauge(SK_METRIC_ORDERS_DELAYED), 1);
    ck_assert_uint_eq(gauge(SK_METRIC_ORDERS_WRITING), 4);
    ck_assert_uint_eq(gauge(SK_METRIC_ORDERS_WAITING), 3);
    ck_assert_uint_eq(told_count, 0);
}

SUITE(.timeout_s = 30, .setup = setup, .teardown = teardown);
