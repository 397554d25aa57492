// The end of a line: when it begins, and that it goes on until nobody waits.
#include "line_end.h"

#include <string.h>

#include "clock.h"
#include "maintenance.h"
#include "stage.h"
#include "test.h"

enum { HOUR_MS = 3600000 };

static struct sk_voucher *voucher;
static struct sk_account account;

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
    sk_line_end(&sale, voucher, &account);
    return fake_pg.count - before;
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

SUITE(.setup = setup, .teardown = teardown);
