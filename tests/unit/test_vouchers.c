// Queries for vouchers: their cost when a crowd asks, or asks for made-up ids, and the admin's view.
#include "fake_control.h"

#include "clock.h"
#include "test.h"
#include "vouchers.h"

enum { VOUCHER = 7, OLD = 5, NEW = 9, NEWEST = 8, OLD_MAX = 16, CROWD = 1000 };
enum { TEXT_SIZE = 512 };

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

typedef const char *const rows_t[ROW_COLUMNS];

static const rows_t voucher_rows[] = {{"7", "0", "1", "{\"id\":\"7\"}", "31"}};
static const struct sk_rows one_voucher = {1, voucher_rows};
static const rows_t list_rows[] = {{"7", "{\"id\":\"7\"}"}, {"6", "{\"id\":\"6\"}"}};
static const struct sk_rows list = {2, list_rows};

static void setup(void)
{
    control_setup();
    (void)a_voucher(sale.catalogue, VOUCHER);
    fake_catalogue_sync.newest_id = NEWEST;
}

static void ask_page(unsigned limit, const char *cursor, uint64_t handle)
{
    sk_list_vouchers(&control, &(struct sk_page_asked){.limit = limit, .cursor = cursor}, handle);
}

static void ask_list(uint64_t handle)
{
    ask_page(SK_PAGE_MOST, NULL, handle);
}

// Checks the document without its current values: the server's time, and whether Redis is there.
static void must_show(uint64_t handle, const char *rest)
{
    const char *now = fake_redis.down ? "\"can_sell\":false," : "\"can_sell\":true,";
    must_be_told(handle, SK_VERDICT_FOUND);
    ck_assert_int_eq(strncmp(told_document, "{\"server_time\":\"", 16), 0);
    const char *after = strchr(told_document + 16, ',') + 1;
    ck_assert_msg(strncmp(after, now, strlen(now)) == 0, "%s without %s", after, now);
    ck_assert_str_eq(after + strlen(now), rest);
}

static void a_second_passes(void)
{
    control.shown->vouchers[VOUCHER].until_ms = control.shown->list.until_ms = uv_now(&loop);
}

static void show(uint64_t handle)
{
    sk_show_voucher(&control, VOUCHER, handle);
}

static void inspect(uint64_t handle)
{
    sk_inspect_voucher(&control, VOUCHER, handle);
}

// ---- in the catalogue ----

TEST(a_crowd_costs_a_statement_a_second)
{
    for (int times = 1; times <= 2; times++) {
        for (uint64_t handle = 1; handle <= CROWD; handle++)
            show(handle);
        statement_must_be(SK_STATEMENT_FIND_VOUCHER, "7");
        pg_answers(&one_voucher);
        must_show(1, "\"id\":\"7\"}");
        pg_answers(&one_voucher); // the callers since then share one
        for (uint64_t handle = 2; handle <= CROWD; handle++)
            must_be_told(handle, SK_VERDICT_FOUND);
        for (uint64_t handle = 1; handle <= CROWD; handle++) {
            show(handle);
            must_show(handle, "\"id\":\"7\"}");
            ck_assert_int_eq(told_version, 31);
        }
        ck_assert_uint_eq(fake_pg.count, (size_t)times * 2);
        ck_assert_uint_eq(control.shown->vouchers[VOUCHER].until_ms, uv_now(&loop) + 1000);
        a_second_passes();
    }
    ck_assert_uint_eq(fake_catalogue_sync.waits, 0);
}

// PostgreSQL's stock does not show whether units can be bought, so the cached part does not include that.
TEST(whether_it_can_be_sold_is_of_this_moment)
{
    for (uint64_t handle = 1; handle <= 3; handle++) {
        fake_redis.down = handle == 2; // must_show() checks it
        show(handle);
        if (handle == 1)
            pg_answers(&one_voucher);
        must_show(handle, "\"id\":\"7\"}");
    }
    ck_assert_uint_eq(fake_pg.count, 1);
}

// From the start of a sale, no page gets "upcoming" from an older cached copy.
TEST(what_is_kept_ends_with_a_phase)
{
    for (int over = 0; over <= 1; over++) {
        size_t before = fake_pg.count;
        fake_phase_until_ms = over ? (int64_t)sk_wall_ms() : INT64_MAX;
        show(1);
        pg_answers(&one_voucher);
        show(2);
        ask_list(3);
        pg_answers(over ? &one_voucher : &list);
        if (over)
            pg_answers(&list);
        ask_list(4);
        ck_assert_uint_eq(fake_pg.count - before, over ? 4 : 2);
        a_second_passes();
    }
}

TEST(what_is_kept_ends_with_a_change)
{
    struct sk_voucher *voucher = sk_catalogue_find(sale.catalogue, VOUCHER);
    for (uint64_t handle = 1; handle <= 2; handle++) {
        show(handle);
        ck_assert_uint_eq(fake_pg.count, handle);
        pg_answers(&one_voucher);
        must_show(handle, "\"id\":\"7\"}");
        voucher->change++;
    }
}

// Two vouchers of one place do not show each other's document.
TEST(the_later_voucher_of_a_place_stays)
{
    (void)a_voucher(sale.catalogue, VOUCHER + SK_SHOWN_MAX);
    for (uint64_t handle = 1; handle <= 4; handle++) {
        sk_show_voucher(&control, handle % 2 == 0 ? VOUCHER : VOUCHER + SK_SHOWN_MAX, handle);
        ck_assert_uint_eq(fake_pg.count, handle);
        pg_answers(&one_voucher);
        must_be_told(handle, SK_VERDICT_FOUND);
    }
    show(5);
    must_show(5, "\"id\":\"7\"}");
    ck_assert_uint_eq(fake_pg.count, 4);
}

// The cached list includes the start of the next page.
TEST(the_list_costs_a_statement_a_second)
{
    static const rows_t many[SK_PAGE_MOST + 1] = {[0 ... SK_PAGE_MOST] = {"7", "{}"}};
    static const struct sk_rows whole_page = {SK_PAGE_MOST + 1, many};
    char next[SK_CURSOR_SIZE];
    sk_cursor_put(next, SK_CURSOR_VOUCHERS, "", &(struct sk_position){.first = 7}, 1);
    for (uint64_t handle = 1; handle <= 4; handle++) {
        bool kept = handle % 2 == 0, more = handle <= 2;
        ask_list(handle);
        if (!kept) {
            statement_must_be(SK_STATEMENT_LIST_VOUCHERS, "listed - 101");
            pg_answers(more ? &whole_page : &list); // most of them were removed
        }
        ck_assert_str_eq(told_next, more ? next : "");
        if (more) {
            must_be_told(handle, SK_VERDICT_FOUND);
            ck_assert_ptr_nonnull(strstr(told_document, next));
        } else {
            must_show(handle, "\"vouchers\":[{\"id\":\"7\"},{\"id\":\"6\"}]}");
        }
        ck_assert_uint_eq(control.shown->list.until_ms, uv_now(&loop) + 1000);
        if (kept)
            a_second_passes();
    }
    ck_assert_uint_eq(fake_pg.count, 2);
}

TEST(other_pages_are_asked_for_a_few_at_a_time)
{
    enum { PAGES_MAX = 16 };
    for (int times = 0; times < 2; times++) { // the places are freed
        fake_stores_forget();
        for (unsigned i = 1; i <= PAGES_MAX; i++)
            ask_page(i, NULL, i);
        statement_must_be(SK_STATEMENT_LIST_VOUCHERS, "listed - 2");
        ask_page(1, NULL, 20); // shares a query in progress
        ask_page(50, NULL, 21);
        must_be_told(21, SK_VERDICT_OVERLOADED);
        ask_list(22); // the default list does not count
        sk_list_admin_vouchers(&control, "paused", NULL, &(struct sk_page_asked){.limit = 5}, 23);
        ck_assert_uint_eq(fake_pg.count, PAGES_MAX + 2);
        ck_assert_str_eq(fake_pg.asked[PAGES_MAX + 1].argv[0], "paused");
        while (fake_pg.answered < fake_pg.count)
            pg_answers(fake_pg.answered % 2 == 0 ? &list : NULL);
        for (uint64_t i = 1; i <= PAGES_MAX; i++)
            must_be_told(i, i % 2 == 1 ? SK_VERDICT_FOUND : SK_VERDICT_UNAVAILABLE); // no document is known
        must_be_told(20, SK_VERDICT_FOUND);
        must_be_told(22, SK_VERDICT_FOUND);
        must_be_told(23, SK_VERDICT_UNAVAILABLE);
        a_second_passes();
    }
}

static void ask_admin(const char *state, const char *title, const char *cursor)
{
    sk_list_admin_vouchers(&control, state, title, &(struct sk_page_asked){.limit = 1, .cursor = cursor}, 1);
}

TEST(a_page_of_vouchers_goes_on_where_the_last_one_ended)
{
    char cursor[SK_CURSOR_SIZE], expected[TEXT_SIZE];
    ask_page(1, NULL, 1);
    pg_answers(&list);
    (void)snprintf(expected, sizeof expected, "\"vouchers\":[{\"id\":\"7\"}],\"next\":\"%s\"}", told_next);
    must_show(1, expected);
    (void)snprintf(cursor, sizeof cursor, "%s", told_next);
    ask_page(1, cursor, 1);
    statement_must_be(SK_STATEMENT_LIST_VOUCHERS, "listed 7 2");
    pg_answers(&no_rows);
    must_show(1, "\"vouchers\":[]}");
    ask_admin(NULL, NULL, cursor);
    must_be_told(1, SK_VERDICT_BAD_PARAMETER);
}

TEST(operators_see_all_states_and_find_titles)
{
    static const struct {
        const char *state, *title, *asked;
        enum sk_statement statement;
    } rows[] = {{NULL, NULL, "- - 2", SK_STATEMENT_LIST_VOUCHERS},
                {"paused", NULL, "paused - 2", SK_STATEMENT_LIST_VOUCHERS},
                {NULL, "tea", "- - 2 tea", SK_STATEMENT_FIND_VOUCHERS},
                {"open", "tea", "open - 2 tea", SK_STATEMENT_FIND_VOUCHERS}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        char cursor[SK_CURSOR_SIZE];
        ask_admin(rows[i].state, rows[i].title, NULL);
        statement_must_be(rows[i].statement, rows[i].asked);
        pg_answers(&list);
        must_be_told(1, SK_VERDICT_FOUND);
        (void)snprintf(cursor, sizeof cursor, "%s", told_next);
        for (size_t other = 0; other < COUNT(rows); other++) { // a cursor belongs to its filter
            ask_admin(rows[other].state, rows[other].title, cursor);
            if (other == i)
                pg_answers(NULL); // nothing of the catalogue is shown to operators
            must_be_told(1, other == i ? SK_VERDICT_UNAVAILABLE : SK_VERDICT_BAD_PARAMETER);
        }
    }
}

// Nor are documents of the catalogue known; with them: test_stale.c.
TEST(without_postgres_nothing_is_shown)
{
    static void (*const asks[])(uint64_t) = {show, ask_list, inspect};
    for (size_t i = 0; i < COUNT(asks); i++) {
        fake_pg.down = false;
        asks[i](1);
        pg_answers(NULL);
        must_be_told(1, SK_VERDICT_UNAVAILABLE);
        fake_pg.down = true;
        asks[i](1);
        must_be_told(1, SK_VERDICT_UNAVAILABLE);
    }
    fake_pg.down = false;
    show(1);
    pg_answers(&no_rows); // it has gone from there
    must_be_told(1, SK_VERDICT_UNKNOWN_VOUCHER);
}

// ---- not in the catalogue ----

TEST(a_newer_id_waits_for_the_next_read)
{
    static const struct {
        int64_t id;
        bool complete; // before the catalogue is known all wait for it
        bool comes, ok;
        int64_t newest; // the read's
        enum sk_verdict verdict;
    } rows[] = {{NEW, true, true, true, NEW, SK_VERDICT_FOUND},
                {NEW + 1, true, false, true, NEW, SK_VERDICT_UNKNOWN_VOUCHER},
                {NEW + 1, true, false, false, NEW, SK_VERDICT_UNAVAILABLE},
                {NEW + 1, true, false, true, NEW + 1, SK_VERDICT_FOUND}, // created and retired before the read
                {OLD, false, true, true, NEW, SK_VERDICT_FOUND}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        size_t before = fake_pg.count;
        fake_catalogue_sync.complete = rows[i].complete;
        sk_show_voucher(&control, rows[i].id, 1);
        ck_assert_uint_eq(fake_pg.count, before);
        ck_assert_uint_eq(told_count, i);
        if (rows[i].comes)
            (void)a_voucher(sale.catalogue, rows[i].id);
        fake_catalogue_sync.newest_id = rows[i].newest;
        follow_ends(rows[i].ok);
        if (rows[i].verdict == SK_VERDICT_FOUND) {
            ck_assert_int_eq(atoll(the_statement(SK_STATEMENT_FIND_VOUCHER)->argv[0]), rows[i].id);
            pg_answers(&one_voucher);
        }
        must_be_told(1, rows[i].verdict);
    }
}

TEST(made_up_ids_cost_no_statement)
{
    for (uint64_t i = 1; i <= CROWD; i++)
        sk_show_voucher(&control, NEWEST + (int64_t)i, i);
    ck_assert_uint_eq(fake_catalogue_sync.waits, CROWD);
    follow_ends(true);
    for (uint64_t i = 1; i <= CROWD; i++)
        must_be_told(i, SK_VERDICT_UNKNOWN_VOUCHER);
    ck_assert_uint_eq(fake_pg.count, 0);
}

TEST(an_older_id_is_asked_for_a_few_at_a_time)
{
    for (int times = 0; times < 2; times++) { // the places are freed
        fake_catalogue_sync.newest_id = CROWD;
        fake_stores_forget();
        for (uint64_t i = 1; i <= OLD_MAX; i++)
            sk_show_voucher(&control, 100 + (int64_t)i, i);
        ck_assert_uint_eq(fake_pg.count, OLD_MAX);
        sk_show_voucher(&control, 300, 300);
        must_be_told(300, SK_VERDICT_OVERLOADED);
        sk_inspect_voucher(&control, 300, 300); // an operator needs no place
        sk_show_voucher(&control, 101, 301);    // shares a query in progress
        sk_show_voucher(&control, VOUCHER, 302);
        for (uint64_t i = 1; i <= OLD_MAX; i++) {
            pg_answers(i % 2 == 0 ? &one_voucher : NULL);
            must_be_told(i, i % 2 == 0 ? SK_VERDICT_FOUND : SK_VERDICT_UNAVAILABLE);
        }
        pg_answers(&no_rows);
        must_be_told(300, SK_VERDICT_UNKNOWN_VOUCHER);
        pg_answers(&one_voucher);
        must_be_told(302, SK_VERDICT_FOUND);
        pg_answers(&no_rows);
        must_be_told(301, SK_VERDICT_UNKNOWN_VOUCHER);
        a_second_passes();
    }
}

// ---- the admin's view ----

static void inspect_and_answer(const struct sk_reply *reply)
{
    inspect(1);
    pg_answers(&one_voucher);
    redis_answers(reply);
}

TEST(the_admin_sees_what_can_be_read)
{
    static const struct {
        struct sk_reply state;
        const char *shown;
    } rows[] = {
        {TEXT("open"), "open"},    {TEXT("closed"), "closed"},   {TEXT("loading"), "loading"},
        {TEXT(""), "missing"},     {NIL, "unreadable"},          {TEXT("a\",\""), "unreadable"},
        {NUMBER(1), "unreadable"}, {TEXT("retired"), "retired"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char expected[TEXT_SIZE];
        const struct sk_reply items[] = {rows[i].state, TEXT("no number"), TEXT("epoch-3"), TEXT("5"),
                                         TEXT("run-1"), NUMBER(2),         NUMBER(1),       TEXT("")};
        const struct sk_reply reply = LIST_OF(items);
        inspect_and_answer(&reply);
        (void)snprintf(expected, sizeof expected,
                       "{\"id\":\"7\",\"redis\":{\"state\":\"%s\",\"stock\":5,\"buyers\":2,\"journal\":1}}",
                       rows[i].shown);
        must_be_shown(1, expected);
    }
    const struct sk_reply all[] = {TEXT("open"), TEXT("3"), TEXT("epoch-3"), TEXT("5"), TEXT("run-1"), NUMBER(2),
                                   NUMBER(1),    TEXT(""),  TEXT("9"),       TEXT("1"), TEXT("2"),     NUMBER(420)};
    const struct sk_reply whole = LIST_OF(all);
    inspect_and_answer(&whole);
    must_be_shown(1, "{\"id\":\"7\",\"redis\":{\"state\":\"open\",\"stock\":5,\"epoch\":3,\"buyers\":2,"
                     "\"journal\":1,\"version\":9,\"journal_age_ms\":420}}");
    inspect_and_answer(NULL);
    must_be_shown(1, "{\"id\":\"7\",\"redis\":{\"state\":\"unknown\"}}");
    inspect_and_answer(&(const struct sk_reply)ERROR("WRONGTYPE"));
    must_be_shown(1, "{\"id\":\"7\",\"redis\":{\"state\":\"unreadable\"}}");
    fake_redis.down = true;
    inspect(1);
    pg_answers(&one_voucher);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    sk_inspect_voucher(&control, OLD, 1);
    pg_answers(&one_voucher);
    must_be_shown(1, "{\"id\":\"7\",\"redis\":{\"state\":\"retired\"}}");
}

TEST(what_the_admin_sees_is_never_kept)
{
    inspect(1);
    show(2); // a different query
    ck_assert_uint_eq(fake_pg.count, 2);
    pg_answers(&one_voucher);
    pg_answers(&one_voucher);
    must_show(2, "\"id\":\"7\"}");
    redis_answers(NULL);
    must_be_told(1, SK_VERDICT_FOUND);
    inspect(1);
    ck_assert_uint_eq(fake_pg.count, 3);
    pg_answers(&no_rows);
}

// ---- memory that is short ----

static void (*asking)(uint64_t handle);

static void converse(void)
{
    if (allocations_left > 0) // else from the cache, or from the stores
        a_second_passes();
    asking(1);
    while (stores_wait()) {
        if (fake_pg.answered < fake_pg.count)
            pg_answers(fake_pg.asked[fake_pg.answered].what == SK_STATEMENT_LIST_VOUCHERS ? &list : &one_voucher);
        else
            redis_answers(NULL);
    }
}

TEST_EACH(every_allocation_may_fail, 3)
{
    static void (*const asks[])(uint64_t) = {show, ask_list, inspect};
    asking = asks[_i];
    (void)short_memory_borne(converse);
}

TEST(an_answer_from_memory_may_find_none)
{
    show(1);
    pg_answers(&one_voucher);
    must_be_told(1, SK_VERDICT_FOUND);
    allocations_left = 1;
    show(1);
    must_be_told(1, SK_VERDICT_OVERLOADED);
}

SUITE(.setup = setup, .teardown = control_teardown);
