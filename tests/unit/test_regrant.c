// Orders rejected for an older epoch: Redis's second reply, and their outcome. The stores, the writer, the rebuilds and
// the time are fakes.
#include <stdio.h>
#include <string.h>

#include "fake_session.h"
#include "fake_timer.h"
#include "recovery.h"
#include "regrant.h"
#include "stage.h"
#include "test.h"

enum { POOL = 100, ORDERS_MAX = 32, PAUSE_MS = 200 };

static struct sk_regrant *regrant;
static struct sk_entry *own; // of all orders, before the loss
static struct sk_entry *new_entries[ORDERS_MAX];
static size_t new_entry_count;

// ---- results ----

static size_t added, resumed, left, forgotten;
static int64_t resumed_epoch, added_epoch;
static char added_journal_id[SK_JOURNAL_ID_SIZE];
static int rebuilds;

void sk_writer_add(struct sk_entry *entry, struct sk_order *order)
{
    added++;
    added_epoch = order->epoch;
    (void)snprintf(added_journal_id, sizeof added_journal_id, "%s", entry->journal_id);
    if (entry->open++ == 0)
        new_entries[new_entry_count++] = entry;
    sk_order_give(sale.orders, order);
}

void sk_writer_resume(struct sk_order *order)
{
    resumed++;
    resumed_epoch = order->epoch;
    sk_order_give(sale.orders, order);
}

void sk_writer_leave(struct sk_order *order)
{
    left++;
    sk_order_give(sale.orders, order);
}

void sk_writer_forget(struct sk_order *order)
{
    forgotten++;
    sk_order_give(sale.orders, order);
}

void sk_rebuild_soon(struct sk_rebuilds *its_rebuilds, struct sk_voucher *its_voucher, enum sk_doubt doubt)
{
    (void)its_rebuilds;
    (void)doubt;
    ck_assert_ptr_nonnull(its_voucher);
    rebuilds++;
}

// The list of orders before they are lost.
static struct sk_order_list writing;

static void write_order(struct sk_order *order)
{
    sk_order_move(sale.orders, order, SK_ORDER_GRANTED, &writing);
    sk_order_move(sale.orders, order, SK_ORDER_WRITING, &writing);
}

// ---- fixture ----

static void setup(void)
{
    stage_open((struct sk_sale_options){.batch_max = 4}, sizeof(struct sk_maintenance), POOL);
    regrant = sk_regrant_open(&sale, NULL);
    ck_assert_ptr_nonnull(regrant);
    own = own_entry(a_voucher(sale.catalogue, 1), 7, "10-1");
}

static void teardown(void)
{
    sk_regrant_close(regrant);
    sk_entry_forget(own);
    while (new_entry_count > 0)
        sk_entry_forget(new_entries[--new_entry_count]);
    stage_close();
}

// Orders that wait may be tried again. Returns the number of calls that wait for an answer.
static size_t tick(void)
{
    now_ms += PAUSE_MS;
    time_comes();
    return fake_redis.count - fake_redis.answered + fake_pg.count - fake_pg.answered;
}

static char ids[ORDERS_MAX][SK_UUID_SIZE];

// An order of user-<handle> that was granted under epoch 7.
static void lose_one(uint64_t handle, int32_t offer)
{
    struct sk_order *order = sk_order_take(sale.orders, 0);
    sk_order_name(sale.orders, order, 0, 0);
    order->handle = handle;
    order->epoch = 7;
    order->entry = own;
    order->offer = offer;
    (void)snprintf(order->user, sizeof order->user, "user-%d", (int)handle);
    memcpy(ids[handle], order->id, sizeof ids[handle]);
    write_order(order);
    sk_regrant_add(regrant, order);
}

// Such orders of the handles 1 to `count`. A store is asked about them.
static void lose(uint64_t count)
{
    for (uint64_t handle = 1; handle <= count; handle++)
        lose_one(handle, 0);
    ck_assert_uint_eq(tick(), 1);
}

#define ANSWER(epoch, letters, ...)                                                                  \
    do {                                                                                             \
        const struct sk_reply items_[] = {TEXT("ok"),   NUMBER(5000), NUMBER(4000),  TEXT(epoch),    \
                                          TEXT("20-1"), TEXT("20-1"), TEXT(letters), ##__VA_ARGS__}; \
        const struct sk_reply reply_ = LIST_OF(items_);                                              \
        redis_answers(&reply_);                                                                      \
    } while (0)

// PostgreSQL is asked to write down that these users' orders are refused.
static void must_refuse(const char *users, const char *reasons)
{
    const struct asked *asked = &fake_pg.asked[fake_pg.answered];
    ck_assert_uint_eq(fake_pg.count, fake_pg.answered + 1);
    ck_assert_int_eq(asked->what, SK_STATEMENT_REFUSE_ORDERS);
    ck_assert_str_eq(asked->argv[3], users);
    ck_assert_str_eq(asked->argv[4], reasons);
}

static const char *const ended_rows[][ROW_COLUMNS] = {
    {"1", "ended"}, {"2", "ended", "20"}, {"3", "ended"}, {"4", "ended"}};
static const char *const placed_row[][ROW_COLUMNS] = {{"1", "already_placed"}};
static const struct sk_rows two_ended = {2, ended_rows}, four_ended = {4, ended_rows}, one_placed = {1, placed_row};

// ---- answers ----

TEST(redis_is_asked_again_for_the_same_orders)
{
    lose(2);
    const struct asked *asked = &fake_redis.asked[0];
    ck_assert_int_eq(asked->what, SK_SCRIPT_PLACE_ORDERS);
    ck_assert_str_eq(asked->argv[7], "again");
    ck_assert_str_eq(asked->argv[14], "user-1");
    ck_assert_str_eq(asked->argv[15], ids[1]);
    ck_assert_str_eq(asked->argv[17], ids[2]);
    ck_assert(!sk_regrant_idle(regrant));
    own->voucher->refusals.newest.until_ms = UINT64_MAX;
    ANSWER("8", "pp");
    ck_assert_uint_eq(own->voucher->refusals.newest.until_ms, 0); // else these users would be refused from memory
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_SCRIPT_CALLS), 1);
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_ORDERS_TRIED), 0); // their purchase was already counted
    ck_assert_uint_eq(added, 2);
    ck_assert_int_eq(added_epoch, 8);
    ck_assert_str_eq(added_journal_id, "20-1");
    ck_assert(sk_regrant_idle(regrant));
    ck_assert_uint_eq(told_count, 0); // answered after the commit
}

TEST(what_redis_still_knows_goes_on_as_it_is)
{
    lose(1);
    ANSWER("8", "a", TEXT(ids[1]));
    ck_assert_uint_eq(resumed, 1);
    ck_assert_int_eq(resumed_epoch, 8);
    ck_assert(sk_regrant_idle(regrant));
}

TEST(what_is_lost_permanently_is_refused_on_record)
{
    static const char another[] = "018bcfe5-6800-7000-8000-0123456789ab";
    lose(2);
    ANSWER("8", "as", TEXT(another));
    must_refuse("{\"user-1\",\"user-2\"}", "{ALREADY_ORDERED,GRANT_LOST}");
    ck_assert_uint_eq(told_count, 1); // that she has another order is answered at once
    ck_assert_int_eq(told[0].code, SK_PURCHASE_ALREADY_ORDERED);
    ck_assert_str_eq(told[0].order_id, another);
    ck_assert_uint_eq(left, 0);
    pg_answers(&two_ended);
    ck_assert_uint_eq(left, 2);
    ck_assert_uint_eq(told_count, 2);
    ck_assert_int_eq(told[1].code, SK_PURCHASE_SOLD_OUT);
    ck_assert_uint_eq(own->correction_count, 0); // Redis does not have them
    ck_assert(sk_regrant_idle(regrant));
}

TEST(what_is_no_order_id_is_not_shown)
{
    lose(1);
    ANSWER("8", "a", TEXT("x"));
    must_refuse("{\"user-1\"}", "{ALREADY_ORDERED}");
    ck_assert_int_eq(told[0].code, SK_PURCHASE_ALREADY_ORDERED);
    ck_assert_str_eq(told[0].order_id, "");
    pg_answers(NULL);
}

// P7: no store has refused it. Redis was not rebuilt under the new epoch if its instance died over that.
TEST(without_a_clear_answer_orders_wait)
{
    static const struct sk_reply words[] = {TEXT("missing"), TEXT("loading"), TEXT("unsure")};
    const struct sk_reply error = ERROR("OOM");
    lose(3);
    for (int i = 0; i < 3; i++) {
        const struct sk_reply reply = {.kind = REPLY_LIST, .count = 1, .items = &words[i]};
        redis_answers(&reply);
        ck_assert_int_eq(rebuilds, i + 1);
        ck_assert_uint_eq(tick(), 1);
    }
    redis_answers(NULL);
    ck_assert_int_eq(orphans, 1); // the script may still run
    ck_assert_uint_eq(tick(), 1);
    redis_answers(&error);
    ck_assert_uint_eq(tick(), 1);
    ck_assert_int_eq(rebuilds, 3);
    ANSWER("7", "ppp"); // this epoch is stale itself
    ck_assert_uint_eq(added, 0);
    ck_assert_int_eq(rebuilds, 4);
    ck_assert_uint_eq(tick(), 1);
    ck_assert_int_eq(fake_redis.asked[fake_redis.answered].argc, 14 + 2 * 3); // all of them, each time
    ANSWER("8", "ppp");
    ck_assert_uint_eq(added, 3);
    ck_assert_uint_eq(told_count, 0);
}

// The reply counts for its orders, but shows nothing of the node that has the voucher now.
TEST_EACH(what_the_old_node_answers_is_not_remembered, 2)
{
    bool moves = _i == 1;
    fake_redis.cluster = true;
    fake_redis.second_run_number = fake_redis.run_number + 1;
    lose(1);
    fake_redis.swapped = moves;
    ANSWER("8", "p");
    ck_assert_uint_eq(added, 1);
    ck_assert_int_eq(own->voucher->seen.epoch, moves ? 0 : 8);
}

// ... and PostgreSQL may have the order after all.
TEST(a_refusal_that_is_not_written_is_no_refusal)
{
    lose(1);
    ANSWER("8", "s");
    pg_answers(NULL);
    ck_assert_uint_eq(told_count, 0);
    ck_assert_uint_eq(left, 0);
    ck_assert_uint_eq(tick(), 1);
    fake_pg.down = true;
    ANSWER("8", "s");
    ck_assert(!sk_regrant_idle(regrant));
    ck_assert_uint_eq(tick(), 1);
    fake_pg.down = false;
    ANSWER("8", "s");
    pg_answers(&one_placed);
    ck_assert_int_eq(told[0].code, SK_PURCHASE_PLACED);
    ck_assert_str_eq(told[0].order_id, ids[1]);
    ck_assert(sk_regrant_idle(regrant));
}

// A call names one offer only, and has a bound.
TEST(a_call_has_a_batch_of_orders_of_one_offer)
{
    static const struct {
        const char *offer, *letters;
    } calls[] = {{"4", "pp"}, {"5", "pppp"}, {"5", "p"}};
    fake_redis.down = true;
    for (uint64_t handle = 1; handle <= 7; handle++)
        lose_one(handle, handle <= 2 ? 4 : 5);
    fake_redis.down = false;
    for (size_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(tick(), 1);
        ck_assert_int_eq(fake_redis.asked[i].argc, 14 + 2 * (int)strlen(calls[i].letters));
        ck_assert_str_eq(fake_redis.asked[i].argv[12], calls[i].offer);
        ANSWER("8", calls[i].letters);
    }
    ck_assert_uint_eq(added, 7);
}

TEST(closing_forgets)
{
    lose(6);
    redis_answers(NULL);
    fake_redis.down = true;
    ck_assert(!sk_regrant_idle(regrant));
    sk_regrant_close(regrant);
    ck_assert_uint_eq(forgotten, 6);
    ck_assert_ptr_null((void *)on_time);
    regrant = sk_regrant_open(&sale, NULL); // for the teardown
}

// ---- the end of the process ----

// Waiting orders are refused on record without a query, and Redis, which may still have them, is corrected.
TEST(at_the_end_what_waits_is_refused)
{
    struct sk_left left_over = {0};
    lose(2);
    redis_answers(NULL);
    fake_redis.down = true;
    sk_regrant_count(regrant, &left_over);
    ck_assert_uint_eq(left_over.nowhere, 2);
    sk_regrant_give_up(regrant);
    time_comes(); // at once
    must_refuse("{\"user-1\",\"user-2\"}", "{GRANT_LOST,GRANT_LOST}");
    ck_assert_str_eq(fake_pg.asked[0].argv[5], "{1,1}");
    ck_assert(!sk_regrant_idle(regrant));
    pg_answers(&two_ended);
    ck_assert(sk_regrant_idle(regrant));
    ck_assert_uint_eq(left, 2);
    ck_assert_uint_eq(told_count, 2);
    ck_assert_int_eq(told[0].code, SK_PURCHASE_SOLD_OUT);
    ck_assert_uint_eq(own->correction_count, 2); // sent to Redis when the entry ends
    ck_assert_str_eq(own->corrections.data, "1");
    ck_assert_str_eq(own->corrections.data + sizeof "1", ids[1]);
    ck_assert_str_eq(own->corrections.data + own->corrections.len - sizeof "-20", "-20"); // it was placed, and ended
    ck_assert_uint_eq(fake_redis.count, 1);                                               // no second query to Redis
}

// A call in progress is awaited: orders that get a unit continue, even now.
TEST(at_the_end_an_answer_still_counts)
{
    lose(6); // a call has four of them
    sk_regrant_give_up(regrant);
    ANSWER("8", "pppp");
    ck_assert_uint_eq(added, 4);
    ck_assert_uint_eq(tick(), 1);
    must_refuse("{\"user-5\",\"user-6\"}", "{GRANT_LOST,GRANT_LOST}");
    pg_answers(&two_ended);
    ck_assert(sk_regrant_idle(regrant));
    lose(1); // the writer reports one more, which PostgreSQL has after all
    ck_assert_uint_eq(fake_redis.count, 1);
    pg_answers(&one_placed);
    ck_assert_int_eq(told[told_count - 1].code, SK_PURCHASE_PLACED);
    ck_assert_uint_eq(own->correction_count, 2);
}

TEST(at_the_end_many_are_refused_one_batch_after_the_other)
{
    lose(10);
    redis_answers(NULL);
    fake_redis.down = true;
    sk_regrant_give_up(regrant);
    ck_assert_uint_eq(tick(), 1);
    pg_answers(&four_ended);
    ck_assert_uint_eq(fake_pg.count, 2); // at once
    pg_answers(NULL);                    // not written: it retries
    ck_assert_uint_eq(tick(), 1);
    pg_answers(&four_ended);
    ck_assert_uint_eq(fake_pg.count, 4);
    pg_answers(&two_ended);
    ck_assert(sk_regrant_idle(regrant));
    ck_assert_uint_eq(left, 10);
}

// A dead letter keeps its orders: they are not refused when an instance ends during a retry.
TEST(at_the_end_orders_of_letters_stay_in_their_letters)
{
    struct sk_left left_over = {0};
    struct sk_entry *loose = sk_entry_new(&sale, own->voucher, SK_ENTRY_LOOSE, 0);
    fake_redis.down = true;
    for (int i = 0; i < 2; i++)
        sk_regrant_requeue(regrant, loose, sk_order_take(sale.orders, 0));
    sk_regrant_count(regrant, &left_over);
    ck_assert_uint_eq(left_over.in_letters, 2);
    ck_assert_uint_eq(left_over.nowhere, 0);
    sk_regrant_give_up(regrant);
    ck_assert_uint_eq(tick(), 0);
    ck_assert(sk_regrant_idle(regrant));
    ck_assert_uint_eq(left, 2);
    ck_assert_uint_eq(loose->correction_count, 0);
    ck_assert_uint_eq(fake_pg.count, 0);
    sk_entry_forget(loose);
}

SUITE(.setup = setup, .teardown = teardown);
