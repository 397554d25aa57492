// The paged lists of the admin API: the statement of each list, and where its next page begins.
#include "fake_control.h"

#include "admin_lists.h"
#include "test.h"

enum { VOUCHER = 7, TEXT_SIZE = 512 };

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

#define ORDER_A "00000000-0000-7000-8000-00000000000a"
#define ORDER_B "00000000-0000-7000-8000-00000000000b"
#define ORDER_C "00000000-0000-7000-8000-00000000000c"

typedef const char *const rows_t[ROW_COLUMNS];

static const rows_t event_row[] = {{"741", "5", "{\"order_id\":\"a\"}"}};
static const struct sk_rows one_event = {1, event_row};

static const int64_t from_ms = 1700000000000, to_ms = 1800000000000;

static void setup(void)
{
    control_setup();
    (void)a_voucher(sale.catalogue, VOUCHER);
    sale.shards[1].queries = sale.shards[0].queries;
}

static void list_paid(struct sk_control *of, int64_t voucher, const struct sk_page_asked *ask, uint64_t handle)
{
    const struct sk_order_filter filter = {.voucher_id = voucher, .status = "paid", .from = &from_ms, .to = &to_ms};
    sk_list_all_orders(of, &filter, ask, handle);
}

// Checks the start of the document, and returns the next page's cursor from its end.
static const char *must_lead_on(const char *begin)
{
    static char cursor[SK_CURSOR_SIZE];
    char expected[TEXT_SIZE];
    (void)snprintf(cursor, sizeof cursor, "%s", told_next);
    (void)snprintf(expected, sizeof expected, "%s,\"next\":\"%s\"}", begin, cursor);
    ck_assert_uint_eq(strlen(cursor), SK_CURSOR_CHARS);
    must_be_shown(1, expected);
    return cursor;
}

TEST(a_page_goes_on_where_the_last_one_ended)
{
    static const rows_t payments[] = {{ORDER_C, "{\"id\":\"1\"},{\"id\":\"2\"}"}, {ORDER_B, "{}"}}; // all of an order
    static const rows_t events[] = {{"741", "5", "{\"what\":\"paused\"}"}, {"742", "6", "{}"}};
    static const rows_t letters[] = {{"3", "{\"id\":\"3\"}"}, {"4", "{}"}};
    static const struct {
        void (*list)(struct sk_control *of, int64_t voucher, const struct sk_page_asked *ask, uint64_t handle);
        int64_t voucher;
        const char *name;
        const rows_t *rows;
        int document; // its column
        enum sk_statement statement;
        const char *first, *second; // the arguments of both pages
    } lists[] = {
        {list_paid, VOUCHER, "orders", payments, 1, SK_STATEMENT_LIST_ALL_ORDERS,
         "7 paid 1700000000000 1800000000000 - 2", "7 paid 1700000000000 1800000000000 " ORDER_C " 2"},
        {sk_list_payments, VOUCHER, "payments", payments, 1, SK_STATEMENT_LIST_PAYMENTS, "7 - 2", "7 " ORDER_C " 2"},
        {sk_list_to_refund, VOUCHER, "payments", payments, 1, SK_STATEMENT_LIST_TO_REFUND, "7 - 2", "7 " ORDER_C " 2"},
        {sk_list_to_refund, 0, "payments", payments, 1, SK_STATEMENT_LIST_TO_REFUND, "- - 2", "- " ORDER_C " 2"},
        {sk_list_admin_events, VOUCHER, "events", events, 2, SK_STATEMENT_LIST_ADMIN_EVENTS, "7 0 0 2", "7 741 5 2"},
        {sk_list_dead_letters, VOUCHER, "dead_letters", letters, 1, SK_STATEMENT_LIST_DEAD_LETTERS, "1716 7 0 2",
         "1716 7 3 2"},
    };
    for (size_t i = 0; i < COUNT(lists); i++) {
        char page[TEXT_SIZE], end[TEXT_SIZE];
        struct sk_page_asked ask = {.limit = 1};
        (void)snprintf(page, sizeof page, "{\"%s\":[%s]", lists[i].name, lists[i].rows[0][lists[i].document]);
        (void)snprintf(end, sizeof end, "{\"%s\":[]}", lists[i].name);
        lists[i].list(&control, lists[i].voucher, &ask, 1);
        statement_must_be(lists[i].statement, lists[i].first);
        pg_answers(&(const struct sk_rows){2, lists[i].rows}); // there is another row
        ask.cursor = must_lead_on(page);
        lists[i].list(&control, lists[i].voucher + 1, &ask, 1); // another list
        must_be_told(1, SK_VERDICT_BAD_PARAMETER);
        lists[i].list(&control, lists[i].voucher, &ask, 1);
        statement_must_be(lists[i].statement, lists[i].second);
        pg_answers(&no_rows);
        must_be_shown(1, end);
        lists[i].list(&control, lists[i].voucher, &ask, 1);
        pg_answers(NULL);
        must_be_told(1, SK_VERDICT_UNAVAILABLE);
    }
}

// The scan of a page of orders ended after A, before the limit.
TEST(an_empty_page_need_not_be_the_last)
{
    static const rows_t scanned[] = {{ORDER_B, "{\"id\":\"b\"}"}, {ORDER_A, NULL}};
    struct sk_page_asked ask = {.limit = 1};
    for (int i = 0; i < 2; i++) {
        list_paid(&control, VOUCHER, &ask, 1);
        pg_answers(&(const struct sk_rows){2 - (size_t)i, &scanned[i]});
        ask.cursor = must_lead_on(i == 0 ? "{\"orders\":[{\"id\":\"b\"}]" : "{\"orders\":[]");
        list_paid(&control, VOUCHER, &ask, 1);
        ck_assert_str_eq(the_statement(SK_STATEMENT_LIST_ALL_ORDERS)->argv[4], ORDER_A);
        pg_answers(&no_rows);
        must_be_shown(1, "{\"orders\":[]}");
    }
}

TEST(a_cursor_belongs_to_its_filter)
{
    static const rows_t rows[] = {{ORDER_C, "{}"}, {ORDER_B, "{}"}};
    struct sk_page_asked ask = {.limit = 1};
    list_paid(&control, VOUCHER, &ask, 1);
    pg_answers(&(const struct sk_rows){2, rows});
    ask.cursor = must_lead_on("{\"orders\":[{}]");
    const struct sk_order_filter others[] = {
        {.voucher_id = VOUCHER, .from = &from_ms, .to = &to_ms},
        {.voucher_id = VOUCHER, .status = "paid", .to = &to_ms},
        {.voucher_id = VOUCHER, .status = "paid", .from = &from_ms, .to = &from_ms},
    };
    for (size_t i = 0; i < COUNT(others); i++) {
        sk_list_all_orders(&control, &others[i], &ask, 1);
        must_be_told(1, SK_VERDICT_BAD_PARAMETER);
    }
}

static void ask_status(const char *status)
{
    sk_list_all_orders(&control, &(struct sk_order_filter){.voucher_id = VOUCHER, .status = status},
                       &(struct sk_page_asked){.limit = 100}, 1);
}

TEST(statuses_are_those_of_rows)
{
    static const char *const good[] = {"unpaid", "paid", "cancelled", "expired", "refused", "refunded", NULL};
    for (size_t i = 0; i < COUNT(good); i++) {
        ask_status(good[i]);
        const struct asked *asked = the_statement(SK_STATEMENT_LIST_ALL_ORDERS);
        ck_assert_pstr_eq(asked->argv[1], good[i]);
        ck_assert(asked->argv[2] == NULL && asked->argv[3] == NULL);
        pg_answers(&no_rows);
        must_be_told(1, SK_VERDICT_FOUND);
    }
}

TEST_EACH_ABORTS(other_statuses_were_refused_before, 5)
{
    static const char *const bad[] = {"", "pending", "Paid", "paid ", "to_refund"};
    ask_status(bad[_i]);
}

// ---- all shards ----

TEST(what_some_shards_have_is_shown)
{
    static const rows_t payment[] = {{ORDER_C, "{\"reference\":\"r1\"}"}};
    static const struct sk_rows one = {1, payment};
    static const char *const shown[] = {"{\"payments\":[{\"reference\":\"r1\"}],\"complete\":false}",
                                        "{\"payments\":[{\"reference\":\"r1\"},{\"reference\":\"r1\"}]}"};
    sale.shard_count = 2;
    for (int both = 0; both <= 1; both++) {
        sk_list_to_refund(&control, 0, &(struct sk_page_asked){.limit = 100}, 1);
        pg_answers(both ? &one : NULL);
        pg_answers(&one);
        must_be_shown(1, shown[both]);
        sk_find_payment(&control, "r1", 1);
        pg_answers(both ? &one : NULL);
        pg_answers(&one);
        must_be_shown(1, shown[both]);
    }
    sk_find_payment(&control, "r1", 1);
    pg_answers(NULL);
    pg_answers(NULL);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
}

TEST(lists_without_pages_have_their_parameters)
{
    static const rows_t rows[] = {{"8", "{\"voucher_id\":\"8\"}"}, {"7", "{\"voucher_id\":\"7\"}"}};
    sk_find_payment(&control, "r1", 1);
    statement_must_be(SK_STATEMENT_FIND_PAYMENT, "r1");
    pg_answers(&no_rows);
    must_be_shown(1, "{\"payments\":[]}");
    sk_list_troubles(&control, 1);
    statement_must_be(SK_STATEMENT_TROUBLES, "100");
    pg_answers(&(const struct sk_rows){2, rows});
    must_be_shown(1, "{\"troubles\":[{\"voucher_id\":\"8\"},{\"voucher_id\":\"7\"}]}");
    sk_list_webhooks(&control, 1);
    statement_must_be(SK_STATEMENT_WEBHOOK_RECEIVERS, "");
    pg_answers(&no_rows);
    must_be_shown(1, "{\"receivers\":[]}");
}

// A receiver has a row of its own in each shard, and a name is unique only there.
TEST(receivers_have_their_shard_where_there_are_several)
{
    static const rows_t rows[] = {{"pay", "{\"name\":\"pay\"}"}, {"shop", "{\"name\":\"shop\"}"}};
    static const struct sk_rows both = {2, rows}, last = {1, &rows[1]};
    sk_list_webhooks(&control, 1);
    pg_answers(&both);
    must_be_shown(1, "{\"receivers\":[{\"name\":\"pay\"},{\"name\":\"shop\"}]}");
    sale.shard_count = 2;
    sk_list_webhooks(&control, 1);
    pg_answers(&both);
    pg_answers(&last);
    must_be_shown(1, "{\"receivers\":[{\"shard\":0,\"name\":\"pay\"},{\"shard\":0,\"name\":\"shop\"},"
                     "{\"shard\":1,\"name\":\"shop\"}]}");
    sk_list_webhooks(&control, 1);
    pg_answers(NULL);
    pg_answers(&last);
    must_be_shown(1, "{\"receivers\":[{\"shard\":1,\"name\":\"shop\"}],\"complete\":false}");
}

// ---- the feed of order events ----

static void ask_events(unsigned limit, const char *after)
{
    sk_list_order_events(&control, &(struct sk_page_asked){.limit = limit, .cursor = after}, 0, NULL, 1);
}

static void ask_latest(unsigned limit)
{
    sk_list_order_events(&control, &(struct sk_page_asked){.limit = limit}, 7, "moves", 1);
}

// The feed has no last page, and so no next link, or clients that follow links would never end.
static void feed_must_be(const char *events, const char *next)
{
    char expected[TEXT_SIZE];
    (void)snprintf(expected, sizeof expected, "{\"events\":[%s],\"next\":\"%s\"}", events, next);
    ck_assert_str_eq(told_next, "");
    must_be_shown(1, expected);
}

// From its end on it is the same feed, wherever it began.
TEST(the_feed_always_says_where_to_go_on)
{
    static const rows_t rows[] = {{"741", "5", "{\"order_id\":\"a\"}"}, {"742", "6", "{\"order_id\":\"b\"}"}};
    char last[SK_CURSOR_SIZE], first[SK_CURSOR_SIZE], start[SK_CURSOR_SIZE], events[TEXT_SIZE];
    sk_cursor_put(start, SK_CURSOR_ORDER_EVENTS, "", &(struct sk_position){0}, 1);
    sk_cursor_put(first, SK_CURSOR_ORDER_EVENTS, "", &(struct sk_position){.first = 741, .second = 5}, 1);
    sk_cursor_put(last, SK_CURSOR_ORDER_EVENTS, "", &(struct sk_position){.first = 742, .second = 6}, 1);
    (void)snprintf(events, sizeof events, "{\"id\":\"%s\",\"order_id\":\"a\"},{\"id\":\"%s\",\"order_id\":\"b\"}",
                   first, last);
    ask_events(2, NULL);
    statement_must_be(SK_STATEMENT_ORDER_EVENTS, "0 0 2 -");
    pg_answers(&no_rows);
    feed_must_be("", start);
    ask_events(2, start);
    pg_answers(&(const struct sk_rows){2, rows});
    feed_must_be(events, last);
    ask_events(2, last);
    statement_must_be(SK_STATEMENT_ORDER_EVENTS, "742 6 2 -");
    pg_answers(&no_rows);
    feed_must_be("", last);
    ask_latest(2);
    statement_must_be(SK_STATEMENT_LATEST_EVENTS, "7 2 moves");
    pg_answers(&(const struct sk_rows){2, rows});
    feed_must_be(events, last);
    ask_latest(2);
    pg_answers(&no_rows);
    feed_must_be("", start);
    ask_events(2, last);
    pg_answers(NULL);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    ask_events(2, "x");
    must_be_told(1, SK_VERDICT_BAD_PARAMETER);
}

// Without a shard's end, `next` would begin at its first event. With it, it begins right before the shard's first row,
// unless that was shown.
TEST(the_end_of_the_feed_needs_all_shards)
{
    static const struct sk_position shown = {741, 5}, before = {741, 4};
    char first[SK_CURSOR_SIZE], second[SK_CURSOR_SIZE];
    sale.shard_count = 2;
    sk_cursor_put(first, SK_CURSOR_ORDER_EVENTS, "", (struct sk_position[]){shown, before}, 2);
    sk_cursor_put(second, SK_CURSOR_ORDER_EVENTS, "", (struct sk_position[]){before, shown}, 2);
    ask_latest(1);
    pg_answers(NULL);
    pg_answers(&one_event);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    ask_latest(1);
    pg_answers(&one_event);
    pg_answers(&one_event);
    must_be_told(1, SK_VERDICT_FOUND);
    ck_assert(strstr(told_document, first) != NULL || strstr(told_document, second) != NULL);
    ask_events(2, NULL); // from the beginning: its place is known
    pg_answers(NULL);
    pg_answers(&one_event);
    must_be_told(1, SK_VERDICT_FOUND);
    ck_assert_ptr_nonnull(strstr(told_document, "\"complete\":false"));
}

// An event's id has its shard, so that none is a cursor, and no two are equal.
TEST(with_several_shards_no_id_is_a_cursor)
{
    char ids[2][SK_CURSOR_CHARS + 1];
    sale.shard_count = 2;
    ask_events(2, NULL);
    pg_answers(&one_event);
    pg_answers(&one_event);
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

// It hangs: its rows would come late, and those of the other would wait for it. One database alone is waited for.
TEST(a_list_does_not_wait_for_a_shard_that_lags)
{
    static int another;
    sale.shards[1].queries = (struct sk_pg *)(void *)&another;
    fake_lagging = sale.shards[0].queries;
    ask_events(2, NULL);
    pg_answers(&no_rows);
    must_be_told(1, SK_VERDICT_FOUND);
    sale.shard_count = 2;
    ask_events(2, NULL);
    ck_assert_uint_eq(fake_pg.count - fake_pg.answered, 1);
    pg_answers(&one_event);
    must_be_told(1, SK_VERDICT_FOUND);
    ck_assert_ptr_nonnull(strstr(told_document, "\"complete\":false"));
}

// ---- memory that is short ----

static void converse(void)
{
    static const rows_t orders[] = {{ORDER_C, "{}"}, {ORDER_B, "{}"}};
    list_paid(&control, VOUCHER, &(struct sk_page_asked){.limit = 1}, 1);
    while (stores_wait())
        pg_answers(&(const struct sk_rows){2, orders});
}

TEST(every_allocation_may_fail)
{
    must_survive_short_memory(converse, a_voucher(sale.catalogue, VOUCHER));
}

SUITE(.setup = setup, .teardown = control_teardown);
