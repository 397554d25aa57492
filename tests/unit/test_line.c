// Joins of a line: batches, turns, and what each user hears. PostgreSQL is a fake.
#include <stdio.h>
#include <string.h>

#include "course.h"
#include "line.h"
#include "stage.h"
#include "test.h"

enum { VOUCHER = 7, OTHER = 9, MOST = 3, ORDERS = 16 };

#define SLOT "1716" // CRC16 of "7" modulo 16384

static struct sk_line *line;
static struct sk_voucher *voucher, *other;

static void setup(void)
{
    stage_open((struct sk_sale_options){.batch_max = MOST, .orders_max = ORDERS}, 1, ORDERS);
    course_links(&sale);
    voucher = a_voucher(sale.catalogue, VOUCHER);
    other = a_voucher(sale.catalogue, OTHER);
    line = shards[0].line = sk_line_open(&sale, shards);
    ck_assert_ptr_nonnull(line);
}

static void teardown(void)
{
    sk_line_close(line);
    stage_close();
}

// User i, whose request is `i` and whose order ends with `i`, comes for a voucher.
static struct sk_order *join(struct sk_voucher *of, int i, uint64_t key)
{
    struct sk_order *order = sk_order_take(sale.orders, 0);
    ck_assert_ptr_nonnull(order);
    (void)snprintf(order->id, sizeof order->id, "018bcfe5-6800-7000-8000-%012d", i);
    (void)snprintf(order->user, sizeof order->user, "user-%d", i);
    order->handle = (uint64_t)i;
    order->key = key;
    order->offer = 2;
    order->price = (struct sk_price){100, "CNY"};
    sk_line_add(line, of, order);
    return order;
}

static void joins(struct sk_voucher *of, int from, int to)
{
    for (int i = from; i <= to; i++)
        (void)join(of, i, 0);
}

#define ID(i) "018bcfe5-6800-7000-8000-00000000000" #i

TEST(joins_of_a_turn_are_one_call)
{
    (void)join(voucher, 1, 0);
    (void)join(voucher, 2, 0xaa);
    ck_assert(!sk_line_idle(line));
    ck_assert(!course_waits());
    sk_line_flush(line);
    ck_assert_str_eq(course_question(), "pg join_orders " SLOT " 7 {" ID(1) "," ID(2) "} {\"user-1\",\"user-2\"} "
                                                                                      "{NULL,00000000000000aa} {2,2}");
    PG_ANSWERS(2, {"1", "waiting", ID(1), "0"}, {"2", "waiting", ID(2), "1"});
    purchase_must_be(1, SK_PURCHASE_WAITING);
    purchase_must_be(2, SK_PURCHASE_WAITING);
    ck_assert_str_eq(told_to(2)->order_id, ID(2));
    ck_assert_int_eq(told_to(2)->left, 1);
    ck_assert(sk_line_idle(line));
    ck_assert_uint_eq(counted(SK_METRIC_ORDERS_JOINED), 2);
}

TEST(next_batch_gathers_while_one_is_written)
{
    joins(voucher, 1, 5);
    sk_line_flush(line);
    ck_assert_int_eq(course_asked()->argc, 6);
    ck_assert_str_eq(course_asked()->argv[2], "{" ID(1) "," ID(2) "," ID(3) "}");
    (void)join(voucher, 6, 0);
    sk_line_flush(line);
    PG_ANSWERS(3, {"3", "full"}, {"1", "full"}, {"2", "full"});
    for (uint64_t i = 1; i <= MOST; i++)
        purchase_must_be(i, SK_PURCHASE_WAITLIST_FULL);
    ck_assert_str_eq(course_asked()->argv[2], "{" ID(4) "," ID(5) "," ID(6) "}");
    PG_ANSWERS(3, {"1", "full"}, {"2", "full"}, {"3", "full"});
    ck_assert_uint_eq(told_count, 6);
}

TEST(vouchers_take_turns)
{
    joins(voucher, 1, 4);
    (void)join(other, 5, 0);
    sk_line_flush(line);
    ck_assert_str_eq(course_asked()->argv[1], "7");
    pg_answers(NULL);
    ck_assert_str_eq(course_asked()->argv[1], "9");
    pg_answers(NULL);
    ck_assert_str_eq(course_asked()->argv[1], "7");
    pg_answers(NULL);
    ck_assert(!course_waits());
    ck_assert_uint_eq(told_count, 5);
}

// The outcome of one order, and what its user hears.
TEST_EACH(outcomes, 13)
{
    static const struct {
        const char *outcome, *order;
        enum sk_purchase_code code;
        bool repeats;
        const char *voucher;
    } all[] = {
        {"already_ordered", ID(8), SK_PURCHASE_ALREADY_ORDERED, false, "9"},
        {"repeated", ID(8), SK_PURCHASE_ALREADY_ORDERED, true, NULL},
        {"reused", NULL, SK_PURCHASE_IDEMPOTENCY_KEY_REUSED, false, NULL},
        {"most", NULL, SK_PURCHASE_TOO_MANY_ORDERS, false, NULL},
        {"full", NULL, SK_PURCHASE_WAITLIST_FULL, false, NULL},
        {"held", NULL, SK_PURCHASE_WAITLIST_FULL, false, NULL},
        {"none", NULL, SK_PURCHASE_SOLD_OUT, false, NULL},
        {"not_started", NULL, SK_PURCHASE_NOT_STARTED, false, NULL},
        {"paused", NULL, SK_PURCHASE_PAUSED, false, NULL},
        {"ended", NULL, SK_PURCHASE_ENDED, false, NULL},
        {"something new", NULL, SK_PURCHASE_UNAVAILABLE, false, NULL},
        {NULL, NULL, SK_PURCHASE_UNAVAILABLE, false, NULL},
        {"waiting", ID(1), SK_PURCHASE_WAITING, false, NULL},
    };
    (void)join(voucher, 1, 0);
    sk_line_flush(line);
    PG_ANSWERS(1, {"1", all[_i].outcome, all[_i].order, "4", all[_i].voucher});
    purchase_must_be(1, all[_i].code);
    ck_assert_str_eq(told_to(1)->order_id, all[_i].order == NULL ? "" : all[_i].order);
    ck_assert_int_eq(told_to(1)->repeats, all[_i].repeats);
    ck_assert_int_eq(told_to(1)->voucher_id, all[_i].voucher == NULL ? 0 : 9);
    ck_assert_int_eq(told_to(1)->left, all[_i].code == SK_PURCHASE_WAITING ? 4 : 0);
}

// Nothing depends on the order yet: the client repeats its request.
TEST_EACH(failures_are_answered, 4)
{
    static const enum sk_result_kind kinds[] = {SK_RESULT_LOST, SK_RESULT_FAILED, SK_RESULT_LOCKED, SK_RESULT_REFUSED};
    joins(voucher, 1, 2);
    sk_line_flush(line);
    pg_fails(kinds[_i]);
    purchase_must_be(1, SK_PURCHASE_UNAVAILABLE);
    purchase_must_be(2, SK_PURCHASE_UNAVAILABLE);
}

TEST(orders_without_a_row_are_answered)
{
    joins(voucher, 1, 3);
    sk_line_flush(line);
    PG_ANSWERS(4, {"0", "full"}, {"2", "full"}, {"2", "waiting", ID(2), "0"}, {"4", "full"});
    purchase_must_be(1, SK_PURCHASE_UNAVAILABLE);
    purchase_must_be(2, SK_PURCHASE_WAITLIST_FULL);
    purchase_must_be(3, SK_PURCHASE_UNAVAILABLE);
    (void)join(voucher, 4, 0); // what had no row is forgotten
    sk_line_flush(line);
    PG_ANSWERS(2, {"3", "full"}, {"1", "full"});
    ck_assert_uint_eq(told_count, 4);
}

TEST(a_link_that_is_down_is_answered)
{
    fake_pg.down = true;
    joins(voucher, 1, 5);
    sk_line_flush(line);
    ck_assert_uint_eq(told_count, 5);
    purchase_must_be(5, SK_PURCHASE_UNAVAILABLE);
    ck_assert(sk_line_idle(line));
}

TEST(closing_answers_all)
{
    joins(voucher, 1, 2);
    sk_line_flush(line);
    joins(other, 3, 4);
    fake_pg.down = true; // as a link that is closed
    pg_answers(NULL);
    ck_assert_uint_eq(told_count, 4);
    joins(voucher, 5, 6);
    sk_line_close(line);
    line = NULL;
    purchase_must_be(6, SK_PURCHASE_UNAVAILABLE);
    sk_line_close(NULL);
}

SUITE(.setup = setup, .teardown = teardown);
