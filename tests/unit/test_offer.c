// A voucher's offer, read before a ticket is issued: from the catalogue, or from PostgreSQL.
#include "fake_control.h"

#include "offer.h"

enum { VOUCHER = 7, OLD = 5, NEWEST = 8, NEW = 9, TICKET = 3, OTHER = 4 };

static void setup(void)
{
    control_setup();
    (void)a_voucher(sale.catalogue, VOUCHER);
    fake_follow.newest_id = NEWEST;
}

static void must_be_told_of(uint64_t handle, int64_t voucher_id)
{
    must_be_told(handle, SK_VERDICT_FOUND);
    ck_assert_ptr_eq(told_voucher, sk_catalogue_find(sale.catalogue, voucher_id));
}

START_TEST(the_catalogue_answers_at_once)
{
    sk_query_offer(&control, VOUCHER, TICKET);
    must_be_told_of(TICKET, VOUCHER);
    ck_assert_uint_eq(fake_pg.count, 0);
    ck_assert_uint_eq(fake_follow.waits, 0);
}
END_TEST

START_TEST(a_new_voucher_is_found_by_the_next_look)
{
    sk_query_offer(&control, NEW, TICKET);
    sk_query_offer(&control, NEW, OTHER);
    ck_assert_uint_eq(told_count, 0);
    (void)a_voucher(sale.catalogue, NEW);
    follow_ends(true);
    must_be_told_of(TICKET, NEW);
    must_be_told_of(OTHER, NEW);
    ck_assert_uint_eq(fake_pg.count, 0);
    sk_query_offer(&control, NEW + 1, TICKET);
    follow_ends(true);
    must_be_told(TICKET, SK_VERDICT_UNKNOWN_VOUCHER);
    sk_query_offer(&control, NEW + 1, TICKET);
    follow_ends(false);
    must_be_told(TICKET, SK_VERDICT_UNAVAILABLE);
}
END_TEST

START_TEST(of_a_retired_voucher_there_are_no_tickets)
{
    static const char *const row[1][ROW_COLUMNS] = {{"5", "1000", "2000", "{}", "9"}};
    const struct sk_rows one = {1, row}, none = {0, NULL};
    sk_query_offer(&control, OLD, TICKET);
    ck_assert_str_eq(the_statement(SK_STATEMENT_FIND_VOUCHER)->argv[0], "5");
    pg_answers(&one);
    must_be_told(TICKET, SK_VERDICT_ENDED);
    sk_query_offer(&control, OLD, TICKET);
    pg_answers(&none);
    must_be_told(TICKET, SK_VERDICT_UNKNOWN_VOUCHER);
    sk_query_offer(&control, OLD, TICKET);
    pg_answers(NULL);
    must_be_told(TICKET, SK_VERDICT_UNAVAILABLE);
}
END_TEST

START_TEST(memory_that_is_short)
{
    allocations_left = 1;
    sk_query_offer(&control, OLD, TICKET);
    must_be_told(TICKET, SK_VERDICT_OVERLOADED);
    allocations_left = 1;
    sk_query_offer(&control, VOUCHER, TICKET); // requires no work
    must_be_told_of(TICKET, VOUCHER);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("offer");
    tcase_add_checked_fixture(tcase, setup, control_teardown);
    tcase_add_test(tcase, the_catalogue_answers_at_once);
    tcase_add_test(tcase, a_new_voucher_is_found_by_the_next_look);
    tcase_add_test(tcase, of_a_retired_voucher_there_are_no_tickets);
    tcase_add_test(tcase, memory_that_is_short);
    return harness_main(tcase, CK_FORK);
}
