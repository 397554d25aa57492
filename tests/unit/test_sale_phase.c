// What a sale has come to: when it is noted, and as what.
#include <string.h>

#include "clock.h"
#include "maintenance.h"
#include "sale_phase.h"
#include "stage.h"
#include "test.h"

enum { HOUR_MS = 3600000 };

static struct sk_voucher *voucher;
static struct sk_account account;
static struct sk_snapshot seen;

// On sale, with stock, and nothing was noted.
static void setup(void)
{
    int64_t now_ms = (int64_t)sk_wall_ms();
    stage_open((struct sk_sale_options){0}, sizeof(struct sk_maintenance), 0);
    voucher = a_voucher(sale.catalogue, 7);
    account = (struct sk_account){
        .terms = {.state = SK_VOUCHER_OPEN, .begin_ms = now_ms - HOUR_MS, .end_ms = now_ms + HOUR_MS}};
    seen = (struct sk_snapshot){.stock = 5};
}

static void teardown(void)
{
    stage_close();
}

// NULL: nothing is.
static void must_note(const char *phase)
{
    fake_stores_forget();
    sk_sale_phase_note(&sale, voucher, &account, &seen);
    ck_assert_uint_eq(fake_pg.count, phase != NULL);
    if (phase == NULL)
        return;
    ck_assert_int_eq(fake_pg.asked[0].what, SK_STATEMENT_NOTE_PHASE);
    ck_assert_str_eq(fake_pg.asked[0].argv[1], "7");
    ck_assert_str_eq(fake_pg.asked[0].argv[2], phase);
    pg_answers(NULL); // lost: the next audit does it
}

static void was(const char *phase)
{
    (void)snprintf(account.phase, sizeof account.phase, "%s", phase);
}

TEST(each_phase_is_noted_unless_it_was)
{
    must_note("open");
    was("open");
    must_note(NULL);
    seen.stock = 0;
    must_note("sold_out");
    was("sold_out");
    must_note(NULL);
    seen.stock = 1;
    must_note("open");
    account.terms.end_ms = (int64_t)sk_wall_ms();
    must_note("ended");
    was("ended");
    must_note(NULL);
}

TEST(before_its_start_nothing_has_happened)
{
    account.terms.begin_ms += 2 * (int64_t)HOUR_MS;
    must_note(NULL);
    account.terms.state = SK_VOUCHER_CLOSED;
    must_note("ended");
}

TEST(a_pause_is_no_event_but_its_end_may_be)
{
    account.terms.state = SK_VOUCHER_PAUSED;
    must_note(NULL);
    account.terms.end_ms = (int64_t)sk_wall_ms();
    must_note("ended");
    account.terms.state = SK_VOUCHER_RETIRED;
    must_note("ended");
}

TEST(a_link_that_takes_nothing_is_no_harm)
{
    fake_pg.down = true;
    sk_sale_phase_note(&sale, voucher, &account, &seen);
    ck_assert_uint_eq(fake_pg.count, 0);
    fake_pg.down = false;
}

SUITE(.setup = setup, .teardown = teardown);
