// The paged lists of the admin API: the statement of each list, and where its next page begins.
#include "fake_control.h"

#include "admin_lists.h"
#include "test.h"

enum { VOUCHER = 7, TEXT_SIZE = 512 };

#define ORDER_A "00000000-0000-7000-8000-00000000000a"
#define ORDER_B "00000000-0000-7000-8000-00000000000b"
#define ORDER_C "00000000-0000-7000-8000-00000000000c"

typedef const char *const rows_t[ROW_COLUMNS];

static char cursor[SK_CURSOR_SIZE];

static const int64_t from_ms = 1700000000000, to_ms = 1800000000000;

static void ask_orders(unsigned limit, const char *from)
{
    const struct sk_order_filter filter = {.voucher_id = VOUCHER, .status = "paid", .from = &from_ms, .to = &to_ms};
    sk_list_all_orders(&control, &filter, &(struct sk_page_asked){.limit = limit, .cursor = from}, 1);
}

// Checks the start of the document; keeps the next page's cursor from its end.
static void must_lead_on(const char *begin)
{
    char expected[TEXT_SIZE];
    (void)snprintf(cursor, sizeof cursor, "%s", told_next);
    (void)snprintf(expected, sizeof expected, "%s,\"next\":\"%s\"}", begin, cursor);
    ck_assert_uint_eq(strlen(cursor), SK_CURSOR_CHARS);
    must_be_shown(1, expected);
}

TEST(a_page_of_orders_goes_on_where_it_ended)
{
    static const rows_t first[] = {{ORDER_C, "{\"id\":\"c\"}"}, {ORDER_B, "{\"id\":\"b\"}"}};
    static const rows_t scanned[] = {{ORDER_B, "{\"id\":\"b\"}"}, {ORDER_A, NULL}};
    ask_orders(1, NULL);
    const struct asked *asked = the_statement(SK_STATEMENT_LIST_ALL_ORDERS);
    static const char *const expected[] = {"7", "paid", "1700000000000", "1800000000000", NULL, "2"};
    for (int i = 0; i < 6; i++)
        ck_assert_pstr_eq(asked->argv[i], expected[i]);
    pg_answers(&(const struct sk_rows){2, first}); // there is another row
    must_lead_on("{\"orders\":[{\"id\":\"c\"}]");
    ask_orders(1, cursor);
    asked = the_statement(SK_STATEMENT_LIST_ALL_ORDERS);
    ck_assert_str_eq(asked->argv[4], ORDER_C);
    pg_answers(&(const struct sk_rows){2, scanned}); // the scan ended after A, before the limit
    must_lead_on("{\"orders\":[{\"id\":\"b\"}]");
    ask_orders(100, cursor);
    asked = the_statement(SK_STATEMENT_LIST_ALL_ORDERS);
    ck_assert_str_eq(asked->argv[4], ORDER_A);
    pg_answers(&(const struct sk_rows){1, &scanned[1]}); // an empty page that is not the last
    must_lead_on("{\"orders\":[]");
    ask_orders(100, cursor);
    pg_answers(&no_rows);
    must_be_shown(1, "{\"orders\":[]}");
}

TEST(what_is_not_filtered_is_not_said)
{
    sk_list_all_orders(&control, &(struct sk_order_filter){.voucher_id = VOUCHER},
                       &(struct sk_page_asked){.limit = 100}, 1);
    const struct asked *asked = the_statement(SK_STATEMENT_LIST_ALL_ORDERS);
    for (int i = 1; i <= 3; i++)
        ck_assert_ptr_null(asked->argv[i]);
    pg_answers(NULL);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
}

TEST(a_cursor_belongs_to_its_filter)
{
    static const rows_t rows[] = {{ORDER_C, "{}", "0"}, {ORDER_B, "{}", "0"}};
    struct sk_order_filter filter = {.voucher_id = VOUCHER, .status = "paid", .from = &from_ms, .to = &to_ms};
    ask_orders(1, NULL);
    pg_answers(&(const struct sk_rows){2, rows});
    must_lead_on("{\"orders\":[{}]");
    for (int i = 0; i < 5; i++) {
        struct sk_order_filter other = filter;
        if (i == 0)
            other.voucher_id = VOUCHER + 1;
        else if (i == 1)
            other.status = NULL;
        else if (i == 2)
            other.from = NULL;
        else if (i == 3)
            other.to = &from_ms;
        sk_list_all_orders(&control, &other, &(struct sk_page_asked){.limit = 1, .cursor = cursor}, 1);
        if (i == 4)
            pg_answers(&no_rows);
        must_be_told(1, i == 4 ? SK_VERDICT_FOUND : SK_VERDICT_BAD_PARAMETER);
    }
}

TEST(a_page_of_payments_has_whole_orders)
{
    static const rows_t first[] = {{ORDER_C, "{\"reference\":\"r1\"},{\"reference\":\"r2\"}"}, {ORDER_B, "{}"}};
    sk_list_payments(&control, VOUCHER, &(struct sk_page_asked){.limit = 1}, 1);
    const struct asked *asked = the_statement(SK_STATEMENT_LIST_PAYMENTS);
    ck_assert_str_eq(asked->argv[0], "7");
    ck_assert_ptr_null(asked->argv[1]);
    ck_assert_str_eq(asked->argv[2], "2");
    pg_answers(&(const struct sk_rows){2, first});
    must_lead_on("{\"payments\":[{\"reference\":\"r1\"},{\"reference\":\"r2\"}]");
    sk_list_payments(&control, VOUCHER + 1, &(struct sk_page_asked){.limit = 1, .cursor = cursor}, 1);
    must_be_told(1, SK_VERDICT_BAD_PARAMETER);
    sk_list_payments(&control, VOUCHER, &(struct sk_page_asked){.limit = 1, .cursor = cursor}, 1);
    asked = the_statement(SK_STATEMENT_LIST_PAYMENTS);
    ck_assert_str_eq(asked->argv[1], ORDER_C);
    pg_answers(&no_rows);
    must_be_shown(1, "{\"payments\":[]}");
}

// Of all vouchers, or of one, which are different lists.
TEST(what_is_to_be_refunded_is_asked_of_all_shards)
{
    static const rows_t first[] = {{ORDER_C, "{\"reference\":\"r1\"}"}, {ORDER_B, "{}"}};
    for (int64_t voucher = 0; voucher <= VOUCHER; voucher += VOUCHER) {
        sk_list_to_refund(&control, voucher, &(struct sk_page_asked){.limit = 1}, 1);
        const struct asked *asked = the_statement(SK_STATEMENT_LIST_TO_REFUND);
        ck_assert_pstr_eq(asked->argv[0], voucher == 0 ? NULL : "7");
        ck_assert_ptr_null(asked->argv[1]);
        ck_assert_str_eq(asked->argv[2], "2");
        pg_answers(&(const struct sk_rows){2, first});
        must_lead_on("{\"payments\":[{\"reference\":\"r1\"}]");
        sk_list_to_refund(&control, VOUCHER - voucher, &(struct sk_page_asked){.limit = 1, .cursor = cursor}, 1);
        must_be_told(1, SK_VERDICT_BAD_PARAMETER);
        sk_list_to_refund(&control, voucher, &(struct sk_page_asked){.limit = 1, .cursor = cursor}, 1);
        asked = the_statement(SK_STATEMENT_LIST_TO_REFUND);
        ck_assert_str_eq(asked->argv[1], ORDER_C);
        pg_answers(&no_rows);
        must_be_shown(1, "{\"payments\":[]}");
    }
    sale.shard_count = 2;
    sale.shards[1].queries = sale.shards[0].queries;
    sk_list_to_refund(&control, 0, &(struct sk_page_asked){.limit = 100}, 1);
    pg_answers(NULL);
    pg_answers(&(const struct sk_rows){1, first});
    must_be_shown(1, "{\"payments\":[{\"reference\":\"r1\"}],\"complete\":false}");
}

TEST(a_payment_is_found_by_its_reference)
{
    static const rows_t row[] = {{ORDER_C, "{\"reference\":\"r1\"}"}};
    sk_find_payment(&control, "r1", 1);
    const struct asked *asked = the_statement(SK_STATEMENT_FIND_PAYMENT);
    ck_assert_str_eq(asked->argv[0], "r1");
    pg_answers(&(const struct sk_rows){1, row});
    must_be_shown(1, "{\"payments\":[{\"reference\":\"r1\"}]}");
    sk_find_payment(&control, "r2", 1);
    pg_answers(&no_rows);
    must_be_shown(1, "{\"payments\":[]}");
    sk_find_payment(&control, "r2", 1);
    pg_answers(NULL);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
}

TEST(troubles_are_bounded)
{
    static const rows_t rows[] = {{"8", "{\"voucher_id\":\"8\"}"}, {"7", "{\"voucher_id\":\"7\"}"}};
    sk_list_troubles(&control, 1);
    const struct asked *asked = the_statement(SK_STATEMENT_TROUBLES);
    ck_assert_str_eq(asked->argv[0], "100");
    pg_answers(&(const struct sk_rows){2, rows});
    must_be_shown(1, "{\"troubles\":[{\"voucher_id\":\"8\"},{\"voucher_id\":\"7\"}]}");
}

static void ask_status(const char *status)
{
    sk_list_all_orders(&control, &(struct sk_order_filter){.voucher_id = VOUCHER, .status = status},
                       &(struct sk_page_asked){.limit = 1}, 1);
}

TEST(statuses_are_those_of_rows)
{
    static const char *const good[] = {"unpaid", "paid", "cancelled", "expired", "refused", "refunded"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ask_status(good[i]);
        ck_assert_str_eq(the_statement(SK_STATEMENT_LIST_ALL_ORDERS)->argv[1], good[i]);
        pg_answers(&no_rows);
        must_be_told(1, SK_VERDICT_FOUND);
    }
}

TEST_EACH_ABORTS(other_statuses_were_refused_before, 5)
{
    static const char *const bad[] = {"", "pending", "Paid", "paid ", "to_refund"};
    ask_status(bad[_i]);
}

TEST(the_operators_record_is_a_vouchers)
{
    static const rows_t rows[] = {{"741", "5", "{\"what\":\"paused\"}"}, {"742", "6", "{}"}};
    sk_list_admin_events(&control, VOUCHER, &(struct sk_page_asked){.limit = 1}, 1);
    const struct asked *asked = the_statement(SK_STATEMENT_LIST_ADMIN_EVENTS);
    static const char *const expected[] = {"7", "0", "0", "2"};
    for (int i = 0; i < 4; i++)
        ck_assert_str_eq(asked->argv[i], expected[i]);
    pg_answers(&(const struct sk_rows){2, rows});
    must_lead_on("{\"events\":[{\"what\":\"paused\"}]");
    sk_list_admin_events(&control, VOUCHER + 1, &(struct sk_page_asked){.limit = 1, .cursor = cursor}, 1);
    must_be_told(1, SK_VERDICT_BAD_PARAMETER);
    sk_list_admin_events(&control, VOUCHER, &(struct sk_page_asked){.limit = 1, .cursor = cursor}, 1);
    asked = the_statement(SK_STATEMENT_LIST_ADMIN_EVENTS);
    ck_assert_str_eq(asked->argv[1], "741");
    ck_assert_str_eq(asked->argv[2], "5");
    pg_answers(NULL);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
}

static void ask_events(unsigned limit, const char *after)
{
    sk_list_order_events(&control, &(struct sk_page_asked){.limit = limit, .cursor = after}, 0, 1);
}

// The feed has no last page, and so no next link, or clients that follow links would never end.
TEST(the_feed_always_says_where_to_go_on)
{
    static const rows_t rows[] = {{"741", "5", "{\"order_id\":\"a\"}"}, {"742", "6", "{\"order_id\":\"b\"}"}};
    char last[SK_CURSOR_SIZE], first[SK_CURSOR_SIZE], start[SK_CURSOR_SIZE], expected[TEXT_SIZE];
    sk_cursor_put(start, SK_CURSOR_ORDER_EVENTS, "", &(struct sk_position){0}, 1);
    sk_cursor_put(first, SK_CURSOR_ORDER_EVENTS, "", &(struct sk_position){.first = 741, .second = 5}, 1);
    sk_cursor_put(last, SK_CURSOR_ORDER_EVENTS, "", &(struct sk_position){.first = 742, .second = 6}, 1);
    ask_events(2, NULL);
    const struct asked *asked = the_statement(SK_STATEMENT_ORDER_EVENTS);
    ck_assert_str_eq(asked->argv[0], "0");
    ck_assert_str_eq(asked->argv[1], "0");
    ck_assert_str_eq(asked->argv[2], "2");
    pg_answers(&no_rows);
    (void)snprintf(expected, sizeof expected, "{\"events\":[],\"next\":\"%s\"}", start);
    ck_assert_str_eq(told_next, "");
    must_be_shown(1, expected);
    ask_events(2, start);
    pg_answers(&(const struct sk_rows){2, rows});
    (void)snprintf(
        expected, sizeof expected,
        "{\"events\":[{\"id\":\"%s\",\"order_id\":\"a\"},{\"id\":\"%s\",\"order_id\":\"b\"}],\"next\":\"%s\"}", first,
        last, last);
    ck_assert_str_eq(told_next, "");
    must_be_shown(1, expected);
    ask_events(2, last);
    asked = the_statement(SK_STATEMENT_ORDER_EVENTS);
    ck_assert_str_eq(asked->argv[0], "742");
    ck_assert_str_eq(asked->argv[1], "6");
    pg_answers(&no_rows);
    (void)snprintf(expected, sizeof expected, "{\"events\":[],\"next\":\"%s\"}", last);
    must_be_shown(1, expected);
    ask_events(2, last);
    pg_answers(NULL);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    ask_events(2, "x");
    must_be_told(1, SK_VERDICT_BAD_PARAMETER);
}

// From its end on it is the same feed, wherever it began.
TEST(the_feed_may_begin_before_its_end)
{
    static const rows_t rows[] = {{"741", "5", "{\"order_id\":\"a\"}"}};
    char cursor_of_it[SK_CURSOR_SIZE], start[SK_CURSOR_SIZE], expected[TEXT_SIZE];
    sk_cursor_put(start, SK_CURSOR_ORDER_EVENTS, "", &(struct sk_position){0}, 1);
    sk_cursor_put(cursor_of_it, SK_CURSOR_ORDER_EVENTS, "", &(struct sk_position){.first = 741, .second = 5}, 1);
    for (int there = 0; there <= 1; there++) {
        sk_list_order_events(&control, &(struct sk_page_asked){.limit = 2}, 7, 1);
        const struct asked *asked = the_statement(SK_STATEMENT_LATEST_EVENTS);
        ck_assert_str_eq(asked->argv[0], "7");
        ck_assert_str_eq(asked->argv[1], "2");
        pg_answers(there ? &(const struct sk_rows){1, rows} : &no_rows);
        (void)snprintf(expected, sizeof expected, "{\"events\":[{\"id\":\"%s\",\"order_id\":\"a\"}],\"next\":\"%s\"}",
                       cursor_of_it, cursor_of_it);
        if (!there)
            (void)snprintf(expected, sizeof expected, "{\"events\":[],\"next\":\"%s\"}", start);
        ck_assert_str_eq(told_next, "");
        must_be_shown(1, expected);
    }
}

// Without a shard's end, `next` would begin at its first event.
TEST(the_end_of_the_feed_needs_all_shards)
{
    static const rows_t rows[] = {{"741", "5", "{\"order_id\":\"a\"}"}};
    sale.shard_count = 2;
    sk_list_order_events(&control, &(struct sk_page_asked){.limit = 2}, 7, 1);
    ck_assert_str_eq(the_statement(SK_STATEMENT_LATEST_EVENTS)->argv[0], "7");
    pg_answers(NULL);
    pg_answers(&(const struct sk_rows){1, rows});
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    ask_events(2, NULL); // from the beginning: its place is known
    pg_answers(NULL);
    pg_answers(&(const struct sk_rows){1, rows});
    ck_assert_ptr_nonnull(strstr(told_document, "\"complete\":false"));
}

// An event's id has its shard, so that none is a cursor, and no two are equal.
TEST(with_several_shards_no_id_is_a_cursor)
{
    static const rows_t rows[] = {{"741", "5", "{\"order_id\":\"a\"}"}};
    char ids[2][SK_CURSOR_CHARS + 1];
    sale.shard_count = 2;
    ask_events(2, NULL);
    pg_answers(&(const struct sk_rows){1, rows});
    pg_answers(&(const struct sk_rows){1, rows});
    const char *at = told_document;
    for (int i = 0; i < 2; i++) {
        at = strstr(at, "\"id\":\"") + strlen("\"id\":\"");
        (void)snprintf(ids[i], sizeof ids[i], "%.*s", SK_CURSOR_CHARS, at);
    }
    must_be_told(1, SK_VERDICT_FOUND);
    ck_assert_str_ne(ids[0], ids[1]);
    for (int i = 0; i < 2; i++) {
        ask_events(2, ids[i]);
        must_be_told(1, SK_VERDICT_BAD_PARAMETER);
    }
}

// It hangs: its rows would come late, and those of the other would wait for it.
TEST(a_list_does_not_wait_for_a_shard_that_lags)
{
    static const rows_t rows[] = {{"741", "5", "{\"order_id\":\"a\"}"}};
    sale.shard_count = 2;
    fake_lagging = sale.shards[1].queries;
    ask_events(2, NULL);
    ck_assert_uint_eq(fake_pg.count - fake_pg.answered, 1);
    pg_answers(&(const struct sk_rows){1, rows});
    must_be_told(1, SK_VERDICT_FOUND);
    ck_assert_ptr_nonnull(strstr(told_document, "\"complete\":false"));
    fake_lagging = NULL;
    ask_events(2, NULL);
    ck_assert_uint_eq(fake_pg.count - fake_pg.answered, 2);
    pg_answers(&no_rows);
    pg_answers(&no_rows);
    must_be_told(1, SK_VERDICT_FOUND);
}

TEST(one_database_alone_is_waited_for)
{
    fake_lagging = sale.shards[0].queries;
    ask_events(2, NULL);
    pg_answers(&no_rows);
    must_be_told(1, SK_VERDICT_FOUND);
}

// ---- memory that is short ----

static void converse(void)
{
    static const rows_t orders[] = {{ORDER_C, "{}", "0"}, {ORDER_B, "{}", "0"}};
    ask_orders(1, NULL);
    while (stores_wait())
        pg_answers(&(const struct sk_rows){2, orders});
}

TEST(every_allocation_may_fail)
{
    must_survive_short_memory(converse, a_voucher(sale.catalogue, VOUCHER));
}

SUITE(.setup = control_setup, .teardown = control_teardown);
