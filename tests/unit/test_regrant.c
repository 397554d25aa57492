// Orders rejected for an older epoch: Redis's second reply, and their outcome. The stores, the writer and the reconcile
// are fakes.
#include <stdio.h>
#include <string.h>

#include "fake_session.h"
#include "recovery.h"
#include "regrant.h"
#include "stage.h"
#include "test.h"
#include "wait.h"

enum { POOL = 100, ORDERS_MAX = 32 };

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

#define RUN_UNTIL(condition) WAIT_FOR((uv_run(&loop, UV_RUN_NOWAIT), condition))

static char ids[ORDERS_MAX][SK_UUID_SIZE];

// Orders of user-<handle> granted under epoch 7, starting at handle 1.
static void lose(uint64_t count)
{
    for (uint64_t handle = 1; handle <= count; handle++) {
        struct sk_order *order = sk_order_take(sale.orders, 0);
        sk_order_name(sale.orders, order, 0, 0);
        order->handle = handle;
        order->epoch = 7;
        order->entry = own;
        (void)snprintf(order->user, sizeof order->user, "user-%d", (int)handle);
        memcpy(ids[handle], order->id, sizeof ids[handle]);
        write_order(order);
        sk_regrant_add(regrant, order);
    }
    RUN_UNTIL(fake_redis.count > fake_redis.answered || fake_pg.count > fake_pg.answered);
}

#define ANSWER(epoch, letters, ...)                                                                  \
    do {                                                                                             \
        const struct sk_reply items_[] = {TEXT("ok"),   NUMBER(5000), NUMBER(4000),  TEXT(epoch),    \
                                          TEXT("20-1"), TEXT("20-1"), TEXT(letters), ##__VA_ARGS__}; \
        const struct sk_reply reply_ = LIST_OF(items_);                                              \
        redis_answers(&reply_);                                                                      \
    } while (0)

// ---- tests ----

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
    struct sk_voucher *voucher = sk_catalogue_find(sale.catalogue, 1);
    voucher->refusals.newest.until_ms = UINT64_MAX;
    ANSWER("8", "pp");
    ck_assert_uint_eq(voucher->refusals.newest.until_ms, 0); // else these users would be refused from memory
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
    static const char *const refused[][ROW_COLUMNS] = {{"1", "ended"}, {"2", "ended"}};
    const struct sk_rows rows = {2, refused};
    lose(2);
    ANSWER("8", "as", TEXT(another));
    ck_assert_uint_eq(fake_pg.count, 1);
    const struct asked *asked = &fake_pg.asked[0];
    ck_assert_int_eq(asked->what, SK_STATEMENT_REFUSE_ORDERS);
    ck_assert_str_eq(asked->argv[3], "{\"user-1\",\"user-2\"}");
    ck_assert_str_eq(asked->argv[4], "{ALREADY_ORDERED,GRANT_LOST}");
    ck_assert_uint_eq(told_count, 1); // that she has another order is answered at once
    ck_assert_int_eq(told[0].code, SK_PURCHASE_ALREADY_ORDERED);
    ck_assert_str_eq(told[0].order_id, another);
    ck_assert_uint_eq(left, 0);
    pg_answers(&rows);
    ck_assert_uint_eq(left, 2);
    ck_assert_uint_eq(told_count, 2);
    ck_assert_int_eq(told[1].code, SK_PURCHASE_SOLD_OUT);
    ck_assert(sk_regrant_idle(regrant));
}

TEST(what_is_no_order_id_is_not_shown)
{
    lose(1);
    ANSWER("8", "a", TEXT("x"));
    ck_assert_str_eq(fake_pg.asked[0].argv[4], "{ALREADY_ORDERED}");
    ck_assert_int_eq(told[0].code, SK_PURCHASE_ALREADY_ORDERED);
    ck_assert_str_eq(told[0].order_id, "");
    pg_answers(NULL);
}

TEST(what_postgres_has_after_all_is_placed)
{
    static const char *const placed[][ROW_COLUMNS] = {{"1", "already_placed"}};
    const struct sk_rows rows = {1, placed};
    lose(1);
    ANSWER("8", "s");
    pg_answers(&rows);
    ck_assert_int_eq(told[0].code, SK_PURCHASE_PLACED);
    ck_assert_str_eq(told[0].order_id, ids[1]);
}

// P7: no store has refused it.
TEST(without_a_clear_answer_orders_wait)
{
    static const char *const words[] = {"missing", "loading", "unsure"};
    lose(3);
    for (size_t i = 0; i < 3; i++) {
        const struct sk_reply items[] = {TEXT(words[i])};
        const struct sk_reply reply = LIST_OF(items);
        redis_answers(&reply);
        ck_assert_int_eq(rebuilds, (int)i + 1);
        RUN_UNTIL(fake_redis.count > fake_redis.answered);
    }
    redis_answers(NULL);
    RUN_UNTIL(fake_redis.count > fake_redis.answered);
    const struct sk_reply error = ERROR("OOM");
    redis_answers(&error);
    RUN_UNTIL(fake_redis.count > fake_redis.answered);
    ck_assert_int_eq(fake_redis.asked[fake_redis.answered].argc, 14 + 2 * 3); // all of them, each time
    ck_assert_int_eq(rebuilds, 3);
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

// The instance that should have rebuilt Redis under the new epoch died before it could.
TEST(an_epoch_that_is_stale_itself_is_no_answer)
{
    lose(1);
    ANSWER("7", "p");
    ck_assert_uint_eq(added, 0);
    ck_assert_int_eq(rebuilds, 1);
    RUN_UNTIL(fake_redis.count > fake_redis.answered);
    ANSWER("8", "a", TEXT(ids[1]));
    ck_assert_uint_eq(resumed, 1);
}

TEST(a_refusal_that_is_not_written_is_no_refusal)
{
    lose(1);
    ANSWER("8", "s");
    pg_answers(NULL);
    ck_assert_uint_eq(told_count, 0);
    ck_assert_uint_eq(left, 0);
    RUN_UNTIL(fake_redis.count > fake_redis.answered);
    fake_pg.down = true;
    ANSWER("8", "s");
    ck_assert(!sk_regrant_idle(regrant));
    RUN_UNTIL(fake_redis.count > fake_redis.answered);
    ANSWER("8", "p");
    ck_assert_uint_eq(added, 1);
}

// ---- the end of the process ----

static const char *const refused_rows[][ROW_COLUMNS] = {{"1", "ended"}, {"2", "ended"}, {"3", "ended"}, {"4", "ended"}};
static const char *const one_ended[][ROW_COLUMNS] = {{"1", "ended"}, {"2", "ended", "20"}};
static const struct sk_rows two_refused = {2, one_ended}, four_refused = {4, refused_rows};

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
    RUN_UNTIL(fake_pg.count == 1);
    const struct asked *asked = &fake_pg.asked[0];
    ck_assert_int_eq(asked->what, SK_STATEMENT_REFUSE_ORDERS);
    ck_assert_str_eq(asked->argv[3], "{\"user-1\",\"user-2\"}");
    ck_assert_str_eq(asked->argv[4], "{GRANT_LOST,GRANT_LOST}");
    ck_assert_str_eq(asked->argv[5], "{1,1}");
    ck_assert(!sk_regrant_idle(regrant));
    pg_answers(&two_refused);
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
    static const char *const placed[][ROW_COLUMNS] = {{"1", "already_placed"}};
    const struct sk_rows one = {1, placed};
    lose(6); // a call has four of them
    sk_regrant_give_up(regrant);
    ANSWER("8", "pppp");
    ck_assert_uint_eq(added, 4);
    RUN_UNTIL(fake_pg.count == 1);
    ck_assert_str_eq(fake_pg.asked[0].argv[3], "{\"user-5\",\"user-6\"}");
    pg_answers(&two_refused);
    ck_assert(sk_regrant_idle(regrant));
    lose(1); // the writer reports one more, which PostgreSQL has after all
    ck_assert_uint_eq(fake_redis.count, 1);
    pg_answers(&one);
    ck_assert_int_eq(told[told_count - 1].code, SK_PURCHASE_PLACED);
    ck_assert_uint_eq(own->correction_count, 2);
}

TEST(at_the_end_many_are_refused_one_batch_after_the_other)
{
    lose(10);
    redis_answers(NULL);
    fake_redis.down = true;
    sk_regrant_give_up(regrant);
    RUN_UNTIL(fake_pg.count == 1);
    pg_answers(&four_refused);
    ck_assert_uint_eq(fake_pg.count, 2); // at once
    pg_answers(NULL);                    // not written: it retries
    RUN_UNTIL(fake_pg.count == 3);
    pg_answers(&four_refused);
    ck_assert_uint_eq(fake_pg.count, 4);
    pg_answers(&two_refused);
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
    RUN_UNTIL(sk_regrant_idle(regrant));
    ck_assert_uint_eq(left, 2);
    ck_assert_uint_eq(loose->correction_count, 0);
    ck_assert_uint_eq(fake_pg.count, 0);
    sk_entry_forget(loose);
}

// The orders have different offers, and a call names only one.
TEST(a_call_has_orders_of_one_offer)
{
    struct sk_voucher *voucher = a_voucher(sale.catalogue, 1);
    fake_redis.down = true;
    for (int i = 0; i < 3; i++) {
        struct sk_order *order = sk_order_take(sale.orders, 0);
        sk_order_name(sale.orders, order, 0, 0);
        order->epoch = 7;
        order->entry = own;
        order->offer = i < 2 ? 4 : 5;
        (void)snprintf(order->user, sizeof order->user, "user-%d", i);
        write_order(order);
        sk_regrant_add(regrant, order);
    }
    fake_redis.down = false;
    for (size_t i = 0; i < 2; i++) {
        RUN_UNTIL(fake_redis.count > i);
        ck_assert_int_eq(fake_redis.asked[i].argc, 14 + 2 * (i == 0 ? 2 : 1));
        ck_assert_str_eq(fake_redis.asked[i].argv[12], i == 0 ? "4" : "5");
        if (i == 0)
            ANSWER("8", "pp");
        else
            ANSWER("8", "p");
    }
    ck_assert_ptr_eq(voucher, own->voucher);
}

TEST(batches_have_their_bound_and_closing_forgets)
{
    lose(6);
    ck_assert_int_eq(fake_redis.asked[0].argc, 14 + 2 * 4);
    redis_answers(NULL);
    fake_redis.down = true;
    ck_assert(!sk_regrant_idle(regrant));
    sk_regrant_close(regrant);
    ck_assert_uint_eq(forgotten, 6);
    regrant = sk_regrant_open(&sale, NULL); // for the teardown
}

SUITE(.timeout_s = 30, .setup = setup, .teardown = teardown);
