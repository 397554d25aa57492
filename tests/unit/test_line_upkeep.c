// The upkeep of a line: when units go to it, when it ends, and that both go on as long as they can.
#include "line_upkeep.h"

#include <string.h>

#include "clock.h"
#include "maintenance.h"
#include "returns.h"
#include "stage.h"
#include "test.h"

enum { HOUR_MS = 3600000 };

static struct sk_voucher *voucher;
static struct sk_account account;
static struct sk_snapshot seen; // no unit is left

// The sale is over, and three wait.
static void setup(void)
{
    int64_t now_ms = (int64_t)sk_wall_ms();
    stage_open((struct sk_sale_options){0}, sizeof(struct sk_maintenance), 0);
    voucher = a_voucher(sale.catalogue, 7);
    account = (struct sk_account){
        .waiting = 3,
        .terms = {.state = SK_VOUCHER_OPEN, .begin_ms = now_ms - 2 * (int64_t)HOUR_MS, .end_ms = now_ms - HOUR_MS}};
}

static void teardown(void)
{
    stage_close();
}

static size_t begins(void)
{
    size_t before = fake_pg.count;
    ck_assert(!sk_line_upkeep(&sale, voucher, &account, &seen));
    return fake_pg.count - before;
}

static struct {
    int calls;
    size_t most;
    enum sk_status status;
    sk_returns_cb *done;
    void *arg;
} promotion;

enum sk_status sk_promote(struct sk_returns *returns, struct sk_voucher *its_voucher, size_t most, sk_returns_cb *done,
                          void *arg)
{
    ck_assert_ptr_eq(returns, shards[0].returns);
    ck_assert_ptr_eq(its_voucher, voucher);
    promotion.calls++;
    promotion.most = most;
    promotion.done = done;
    promotion.arg = arg;
    return promotion.status;
}

static void answers(const char *refused, const char *waiting)
{
    const char *const cells[1][ROW_COLUMNS] = {{refused, waiting}};
    const struct sk_rows rows = {1, cells};
    pg_answers(&rows);
}

TEST(goes_on_until_nobody_waits)
{
    ck_assert_uint_eq(begins(), 1);
    ck_assert_int_eq(fake_pg.asked[0].what, SK_STATEMENT_REFUSE_WAITING);
    ck_assert_str_eq(arguments_of(&fake_pg.asked[0]), "1716 7 500");
    ck_assert_uint_eq(begins(), 0); // it is in progress
    answers("500", "100");
    ck_assert_uint_eq(fake_pg.count, 2);
    answers("100", "0");
    ck_assert_uint_eq(fake_pg.count, 2);
    ck_assert_uint_eq(begins(), 1);
    pg_answers(NULL);
}

TEST(begins_only_once_the_sale_is_over)
{
    account.terms.end_ms += 2 * (int64_t)HOUR_MS;
    ck_assert_uint_eq(begins(), 0);
    account.terms.state = SK_VOUCHER_CLOSED;
    ck_assert_uint_eq(begins(), 1);
    pg_answers(NULL);
    account.waiting = 0;
    ck_assert_uint_eq(begins(), 0);
}

// Its clock may be behind ours.
TEST(stops_if_postgresql_refuses_nobody)
{
    ck_assert_uint_eq(begins(), 1);
    answers("0", "3");
    ck_assert_uint_eq(fake_pg.count, 1);
    ck_assert_uint_eq(begins(), 1);
    pg_answers(NULL);
}

TEST_EACH(failure_ends_it_until_the_next_audit, 3)
{
    static const struct sk_rows none = {0, NULL};
    ck_assert_uint_eq(begins(), 1);
    if (_i == 0)
        pg_answers(NULL);
    else if (_i == 1)
        pg_answers(&none);
    else
        pg_fails(SK_RESULT_LOCKED);
    ck_assert_uint_eq(fake_pg.count, 1);
    fake_pg.down = true;
    ck_assert_uint_eq(begins(), 0);
    fake_pg.down = false;
    ck_assert_uint_eq(begins(), 1);
    pg_answers(NULL);
}

// ---- units for those who wait ----

// The sale goes on.
static void goes_on(int64_t stock, int64_t waiting)
{
    account.terms.end_ms += 2 * (int64_t)HOUR_MS;
    account.waiting = waiting;
    seen.stock = stock;
}

static bool promotes(void)
{
    return sk_line_upkeep(&sale, voucher, &account, &seen);
}

static const struct {
    int64_t stock, waiting;
    size_t most; // 0: nothing begins
} lines[] = {{2, 3, 2}, {3, 2, 2}, {128, 128, 128}, {1000, 1000, 128}, {0, 3, 0}, {3, 0, 0}};

TEST_EACH(units_in_the_stock_go_to_those_who_wait, sizeof lines / sizeof lines[0])
{
    goes_on(lines[_i].stock, lines[_i].waiting);
    ck_assert_int_eq(promotes(), lines[_i].most > 0);
    ck_assert_int_eq(promotion.calls, lines[_i].most > 0);
    ck_assert_uint_eq(promotion.most, lines[_i].most);
    ck_assert_uint_eq(fake_pg.count, 0);
    if (lines[_i].most > 0)
        promotion.done(promotion.arg, SK_RETURN_DONE, 1);
}

TEST(promotion_goes_on_while_batches_are_full)
{
    goes_on(1000, 200);
    ck_assert(promotes() && promotes()); // it is in progress
    ck_assert_int_eq(promotion.calls, 1);
    promotion.done(promotion.arg, SK_RETURN_DONE, 128);
    ck_assert_int_eq(promotion.calls, 2);
    promotion.done(promotion.arg, SK_RETURN_DONE, 72);
    ck_assert_int_eq(promotion.calls, 2);
    ck_assert(promotes());
    promotion.done(promotion.arg, SK_RETURN_UNAVAILABLE, 0);
    ck_assert_int_eq(promotion.calls, 3);
    promotion.status = SK_DOWN;
    (void)promotes();
    promotion.status = SK_OK;
    ck_assert(promotes()); // it may begin again
    promotion.done(promotion.arg, SK_RETURN_DONE, 0);
}

TEST(a_paused_sale_promotes_nobody)
{
    goes_on(3, 3);
    account.terms.state = SK_VOUCHER_PAUSED;
    ck_assert(!promotes());
    ck_assert_int_eq(promotion.calls, 0);
}

SUITE(.setup = setup, .teardown = teardown);
