// A full line: whom it refuses, for how long, and when its filter counts. PostgreSQL is a fake.
#include "full_line.h"

#include <stdio.h>
#include <string.h>

#include "stage.h"
#include "test.h"

enum { MARK_MS = 10000, PAGE = 5000 };

#define ID(i) "018bcfe5-6800-7000-8000-00000000000" #i

static struct sk_voucher *voucher;

static void setup(void)
{
    stage_open((struct sk_sale_options){.sold_out_mark_ms = MARK_MS}, 1, 0);
    voucher = a_voucher(sale.catalogue, 7);
    voucher->refusals.cache_ms = MARK_MS;
}

static void teardown(void)
{
    while (fake_pg.answered < fake_pg.count)
        pg_answers(NULL);
    stage_close();
}

static void is_full_when(int64_t joined)
{
    sk_full_line_note(&sale, voucher, uv_now(&loop), joined);
}

static void must_ask(const char *after)
{
    char arguments[128];
    (void)snprintf(arguments, sizeof arguments, "1716 7 %s 5000", after);
    ck_assert_uint_eq(fake_pg.count, fake_pg.answered + 1);
    ck_assert_int_eq(fake_pg.asked[fake_pg.answered].what, SK_STATEMENT_LINE_USERS);
    ck_assert_str_eq(arguments_of(&fake_pg.asked[fake_pg.answered]), arguments);
}

// Alice and bob wait, and `joined` have ever joined.
static void they_wait(const char *full, const char *joined)
{
    const char *const cells[2][ROW_COLUMNS] = {{ID(1), "alice", "2", full, joined}, {ID(2), "bob", "2", full, joined}};
    pg_answers(&(const struct sk_rows){2, cells});
}

TEST(refuses_whoever_does_not_wait)
{
    is_full_when(5);
    must_ask("-");
    ck_assert(!sk_full_line_refuses(voucher, "carol")); // it is not known who waits
    they_wait("t", "5");
    ck_assert(sk_full_line_refuses(voucher, "carol"));
    ck_assert(!sk_full_line_refuses(voucher, "alice") && !sk_full_line_refuses(voucher, "bob"));
    is_full_when(5);
    ck_assert_uint_eq(fake_pg.count, 1); // once for a number
}

static const struct {
    const char *full, *joined;
} later[] = {{"f", "5"}, {"t", "6"}, {"f", "6"}};

// Somebody has left it, or joined, while it was read.
TEST_EACH(filter_of_another_line_does_not_count, sizeof later / sizeof later[0])
{
    is_full_when(5);
    they_wait(later[_i].full, later[_i].joined);
    ck_assert(!sk_full_line_refuses(voucher, "carol"));
}

TEST(another_number_needs_another_filter)
{
    is_full_when(5);
    they_wait("t", "5");
    voucher->full_line.read_after_ms = 0;
    is_full_when(6);
    ck_assert(!sk_full_line_refuses(voucher, "carol"));
    must_ask("-");
    they_wait("t", "6");
    ck_assert(sk_full_line_refuses(voucher, "carol"));
}

TEST(refusals_expire)
{
    is_full_when(5);
    they_wait("t", "5");
    sk_full_line_note(&sale, voucher, uv_now(&loop) - MARK_MS, 5);
    ck_assert(!sk_full_line_refuses(voucher, "carol"));
    is_full_when(5);
    ck_assert(sk_full_line_refuses(voucher, "carol"));
    voucher->refusals.cache_ms = 0; // no instance may cache anything
    is_full_when(5);
    ck_assert(!sk_full_line_refuses(voucher, "carol"));
}

TEST(pages_follow_each_other)
{
    static char ids[PAGE][SK_UUID_SIZE], users[PAGE][16];
    static const char *cells[PAGE][ROW_COLUMNS];
    const char *const end[1][ROW_COLUMNS] = {{NULL, NULL, "5000", "t", "5"}};
    for (int i = 0; i < PAGE; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "018bcfe5-6800-7000-8000-%012d", i);
        (void)snprintf(users[i], sizeof users[i], "u%d", i);
        cells[i][0] = ids[i];
        cells[i][1] = users[i];
        cells[i][2] = "5000";
        cells[i][3] = "t";
        cells[i][4] = "5";
    }
    is_full_when(5);
    pg_answers(&(const struct sk_rows){PAGE, (const char *const(*)[ROW_COLUMNS])cells});
    ck_assert(!sk_full_line_refuses(voucher, "carol"));
    must_ask(ids[PAGE - 1]);
    pg_answers(&(const struct sk_rows){1, end});
    ck_assert(sk_full_line_refuses(voucher, "carol"));
    ck_assert(!sk_full_line_refuses(voucher, "u0") && !sk_full_line_refuses(voucher, "u4999"));
}

TEST_EACH(failure_ends_the_reading, 3)
{
    static const struct sk_rows none = {0, NULL};
    fake_pg.down = _i == 0;
    is_full_when(5);
    if (_i == 1)
        pg_answers(NULL);
    else if (_i == 2)
        pg_answers(&none);
    ck_assert(!sk_full_line_refuses(voucher, "carol"));
    fake_pg.down = false;
    voucher->full_line.read_after_ms = 0;
    is_full_when(5);
    they_wait("t", "5");
    ck_assert(sk_full_line_refuses(voucher, "carol"));
}

SUITE(.setup = setup, .teardown = teardown);
