// Vouchers from the catalogue, while PostgreSQL cannot be asked: which are shown, with which units, and the cost.
#include "fake_control.h"

#include "stale.h"
#include "test.h"

enum { VOUCHER = 7, OLD = 5, NEWEST = 200, ALLOCATIONS_MAX = 60 };
enum { TEXT_SIZE = 512 };

static void setup(void)
{
    control_setup();
    fake_catalogue_sync.newest_id = NEWEST;
    fake_pg.down = true;
}

// A voucher whose document was read when 9 units were left.
static struct sk_voucher *documented(int64_t id)
{
    char document[TEXT_SIZE];
    struct sk_voucher *voucher = a_voucher(sale.catalogue, id);
    (void)snprintf(document, sizeof document,
                   "{\"id\":\"%" PRId64 "\",\"title\":\"\\\"remaining\\\":1\",\"remaining\":9}", id);
    ck_assert_int_eq(sk_voucher_keep_document(voucher, document), SK_OK);
    return voucher;
}

static void ask_page(unsigned limit, const char *cursor, uint64_t handle)
{
    sk_list_vouchers(&control, &(struct sk_page_asked){.limit = limit, .cursor = cursor}, handle);
}

static void ask_list(uint64_t handle)
{
    ask_page(SK_PAGE_MOST, NULL, handle);
}

static const char *state = "open", *stock = "3", *run = "run-1";

static void answer_snapshot(void)
{
    const struct sk_reply items[] = {TEXT(state), TEXT("3"), TEXT("epoch-3"), TEXT(stock), TEXT(run),
                                     NUMBER(2),   NUMBER(1), TEXT(""),        TEXT("9"),   TEXT("1"),
                                     TEXT("2"),   NUMBER(0), TEXT("1")};
    const struct sk_reply reply = LIST_OF(items);
    redis_answers(&reply);
}

static void answer_snapshots(void)
{
    while (fake_redis.answered < fake_redis.count)
        answer_snapshot();
}

// The document without the server's time.
static void must_show(uint64_t handle, const char *rest)
{
    must_be_told(handle, SK_VERDICT_FOUND);
    const char *after = strstr(told_document, "Z\",");
    ck_assert_ptr_nonnull(after);
    ck_assert_str_eq(after + 3, rest);
}

// The ids of the list that was shown last, with what follows it.
static void must_list(uint64_t handle, const char *ids, const char *rest)
{
    char listed[TEXT_SIZE] = "";
    size_t len = 0;
    must_be_told(handle, SK_VERDICT_FOUND);
    ck_assert_ptr_nonnull(strstr(told_document, ",\"stale\":true,\"vouchers\":["));
    for (const char *at = told_document; (at = strstr(at, "{\"id\":\"")) != NULL;) {
        at += 7;
        len += (size_t)snprintf(listed + len, sizeof listed - len, "%s%d", len == 0 ? "" : ",", atoi(at));
    }
    ck_assert_str_eq(listed, ids);
    ck_assert_ptr_nonnull(strstr(told_document, rest));
}

static void must_get_page(unsigned limit, const char *cursor, const char *ids, const char *rest)
{
    ask_page(limit, cursor, 1);
    answer_snapshots();
    must_list(1, ids, rest);
}

// ---- one voucher ----

#define SHOWN(units) \
    "\"can_sell\":true,\"stale\":true,\"id\":\"7\",\"title\":\"\\\"remaining\\\":1\",\"remaining\":" units "}"

TEST(a_voucher_is_shown_with_the_units_of_redis)
{
    (void)documented(VOUCHER);
    sk_show_voucher(&control, VOUCHER, 1);
    sk_show_voucher(&control, VOUCHER, 2);
    ck_assert_uint_eq(fake_redis.count, 1);
    answer_snapshot();
    must_show(1, SHOWN("3"));
    answer_snapshot(); // for those who have asked meanwhile
    must_show(2, SHOWN("3"));
    for (uint64_t handle = 1; handle <= 100; handle++) {
        sk_show_voucher(&control, VOUCHER, handle);
        must_show(handle, SHOWN("3"));
    }
    ck_assert_uint_eq(fake_redis.count, 2); // it is kept for a second
    fake_pg.down = false;
    control.shown->vouchers[VOUCHER].until_ms = uv_now(&loop);
    sk_show_voucher(&control, VOUCHER, 1);
    (void)the_statement(SK_STATEMENT_FIND_VOUCHER);
    pg_answers(&(const struct sk_rows){1, (const char *const[][ROW_COLUMNS]){{"7", "0", "1", "{\"id\":\"7\"}"}}});
    must_show(1, "\"can_sell\":true,\"id\":\"7\"}");
}

// Nothing can be said of the units then; whether something can be bought is `can_sell`.
TEST(units_that_redis_cannot_tell_are_null)
{
    static const char *const states[] = {"", "loading", "open", "open"}, *const runs[] = {"run-1", "run-1", "",
                                                                                          "run-1"};
    (void)documented(VOUCHER);
    for (size_t i = 0; i < 4; i++) {
        state = states[i];
        run = runs[i];
        sk_show_voucher(&control, VOUCHER, 1);
        if (i == 3)
            redis_answers(NULL);
        else
            answer_snapshot();
        must_show(1, SHOWN("null"));
        control.shown->vouchers[VOUCHER].until_ms = uv_now(&loop);
    }
    fake_redis.down = true;
    sk_show_voucher(&control, VOUCHER, 1);
    must_be_told(1, SK_VERDICT_FOUND);
    ck_assert_ptr_nonnull(strstr(told_document, "\"can_sell\":false,\"stale\":true,"));
    ck_assert_ptr_nonnull(strstr(told_document, "\"remaining\":null"));
}

// Its statement fails, or has waited for a second: who asks then does not wait with those who have asked before.
TEST(a_postgresql_that_hangs_is_away)
{
    (void)documented(VOUCHER);
    fake_pg.down = false;
    sk_show_voucher(&control, VOUCHER, 1);
    ask_list(2);
    fake_lagging = sale.shards[0].queries;
    sk_show_voucher(&control, VOUCHER, 3);
    answer_snapshot();
    must_show(3, SHOWN("3"));
    ask_list(4);
    answer_snapshot();
    must_list(4, "7", "\"remaining\":3}]}");
    ck_assert_int_eq(told[1].count + told[2].count, 0);
    pg_answers(NULL);
    pg_answers(NULL);
    answer_snapshots();
    must_be_told(1, SK_VERDICT_FOUND);
    must_be_told(2, SK_VERDICT_FOUND);
}

TEST(what_the_catalogue_does_not_have_is_not_shown)
{
    (void)a_voucher(sale.catalogue, VOUCHER);
    (void)documented(VOUCHER + 1)->id;
    sk_show_voucher(&control, VOUCHER, 1); // its document was not read
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    sk_show_voucher(&control, OLD, 1);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    sk_show_voucher(&control, NEWEST + 1, 1);
    follow_ends(false);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    sk_inspect_voucher(&control, VOUCHER + 1, 1); // an operator sees what both stores have, or nothing
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    sk_list_admin_vouchers(&control, NULL, NULL, &(struct sk_page_asked){.limit = 5}, 1);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    sk_list_admin_vouchers(&control, NULL, "tea", &(struct sk_page_asked){.limit = 5}, 1);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
}

// ---- lists ----

TEST(open_and_paused_ones_are_listed_in_pages)
{
    static const int64_t ids[] = {12, 3, 9, 4, 7, 11, 8};
    char cursor[SK_CURSOR_SIZE];
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        (void)documented(ids[i]);
    sk_catalogue_find(sale.catalogue, 9)->state = SK_VOUCHER_PAUSED;
    sk_catalogue_find(sale.catalogue, 8)->state = SK_VOUCHER_CLOSED;
    must_get_page(SK_PAGE_MOST, NULL, "12,11,9,7,4,3", "\"remaining\":3}]}");
    ck_assert_str_eq(told_next, "");
    ask_list(1);
    must_list(1, "12,11,9,7,4,3", "\"remaining\":3}]}"); // kept
    must_get_page(2, NULL, "12,11", "\"next\":");
    (void)snprintf(cursor, sizeof cursor, "%s", told_next);
    must_get_page(3, cursor, "9,7,4", "\"next\":");
    must_get_page(2, cursor, "9,7", "\"next\":");
    (void)snprintf(cursor, sizeof cursor, "%s", told_next);
    must_get_page(2, cursor, "4,3", "\"remaining\":3}]}");
    fake_pg.down = false; // PostgreSQL goes on where the catalogue ended
    ask_page(2, cursor, 1);
    ck_assert_str_eq(the_statement(SK_STATEMENT_LIST_VOUCHERS)->argv[1], "7");
    pg_answers(&no_rows);
    must_be_told(1, SK_VERDICT_FOUND);
}

TEST(a_list_without_some_documents_is_not_complete)
{
    (void)documented(3);
    (void)a_voucher(sale.catalogue, 4);
    must_get_page(SK_PAGE_MOST, NULL, "3", "\"remaining\":3}],\"complete\":false}");
}

TEST(before_the_catalogue_was_read_there_is_no_list)
{
    fake_catalogue_sync.complete = false;
    ask_list(1);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    fake_catalogue_sync.complete = true;
    ask_list(1);
    must_list(1, "", "\"vouchers\":[]}"); // there is none
}

// The page is from the catalogue as a whole, also where a shard is only found to be away by a statement that fails.
TEST(of_several_shards_one_may_be_away)
{
    char cursor[SK_CURSOR_SIZE];
    sale.shard_count = 2;
    for (int64_t id = 1; id <= 6; id++)
        documented(id)->shard = id % 3 == 0;
    fake_pg.down = false;
    fake_lagging = sale.shards[1].queries;
    ask_page(3, NULL, 1);
    ck_assert_uint_eq(fake_pg.count, 0);
    answer_snapshots();
    must_list(1, "6,5,4", "\"next\":");
    (void)snprintf(cursor, sizeof cursor, "%s", told_next);
    fake_lagging = NULL;
    ask_page(5, cursor, 1);
    ck_assert_uint_eq(fake_pg.count, 2);
    ck_assert_str_eq(fake_pg.asked[0].argv[1], "4"); // of each shard its last one
    ck_assert_str_eq(fake_pg.asked[1].argv[1], "6");
    pg_answers(&(const struct sk_rows){1, (const char *const[][ROW_COLUMNS]){{"2", "{\"id\":\"2\"}"}}});
    pg_answers(NULL);
    answer_snapshots();
    must_list(1, "3,2,1", "\"remaining\":3}]}");
}

// Who reads lists takes no more of Redis than that.
TEST(redis_is_asked_about_so_many_a_second)
{
    enum { MANY = SK_PAGE_MOST };
    for (int64_t id = 1; id <= MANY; id++)
        (void)documented(id);
    control.shown->stale_reads.thousandths = 40 * 1000;
    control.shown->stale_reads.at_ms = uv_now(&loop);
    ask_list(1);
    ck_assert_uint_eq(fake_redis.count, 40);
    answer_snapshots();
    must_be_told(1, SK_VERDICT_FOUND);
    ck_assert_ptr_nonnull(strstr(told_document, "{\"id\":\"61\",\"title\":\"\\\"remaining\\\":1\",\"remaining\":3}"));
    ck_assert_ptr_nonnull(
        strstr(told_document, "{\"id\":\"60\",\"title\":\"\\\"remaining\\\":1\",\"remaining\":null}"));
    ck_assert_uint_eq(SK_STALE_READS_PER_S, 200); // as docs/http.md has it
}

// ---- memory that is short ----

static void ask_for_voucher(void)
{
    fake_pg.down = true;
    control.shown->vouchers[VOUCHER].until_ms = 0;
    sk_show_voucher(&control, VOUCHER, 1);
    answer_snapshots();
}

static void ask_for_list(void)
{
    fake_pg.down = true;
    control.shown->list.until_ms = 0;
    ask_list(1);
    answer_snapshots();
}

// Then the answer is 503, or has no units, and the next one is as ever.
TEST_EACH(every_allocation_may_fail, 2)
{
    const struct sk_voucher *voucher = documented(VOUCHER);
    void (*ask)(void) = _i == 0 ? ask_for_voucher : ask_for_list;
    bool refused = false, unknown = false;
    int n = 1;
    do {
        memory_has_failed = false;
        allocations_left = n;
        ask();
        allocations_left = 0;
        ck_assert_int_eq(told[1].count, 1);
        bool failed = sk_verdict_http_status(told[1].verdict) == 503;
        refused = refused || failed;
        unknown = unknown || strstr(told_document, "\"remaining\":null") != NULL;
        if (!failed)
            ck_assert_int_eq(told[1].verdict, SK_VERDICT_FOUND);
        told[1].count = 0;
        ck_assert_uint_eq(voucher->pins, 0);
        fake_stores_forget();
        ask();
        must_be_told(1, SK_VERDICT_FOUND);
        ck_assert_ptr_nonnull(strstr(told_document, "\"remaining\":3"));
        fake_stores_forget();
    } while (memory_has_failed && n++ < ALLOCATIONS_MAX);
    ck_assert(refused && unknown);
    ck_assert_int_lt(n, ALLOCATIONS_MAX);
}

SUITE(.setup = setup, .teardown = control_teardown);
