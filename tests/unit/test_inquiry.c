// What GETs make of every answer that a store can give, and of memory that is short at any moment. The stores are
// stand-ins; the linker sends the allocations of the code under test through the functions below (--wrap). It uses no
// malloc(), which is Check's.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The linker's names.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);
#define calloc __real_calloc // of the stand-ins themselves
#define strdup __real_strdup
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
#include "fake_stores.h"
#undef calloc
#undef strdup

#include "inquiry.h"
#include "rebuild.h"
#include "stack.h"

enum { TEXT_SIZE = 1024, TICKET = 7, ALLOCATIONS_MAX = 200 };

#define USER         "alice"
#define ORDER_A      "00000000-0000-7000-8000-00000000000a"
#define ORDER_B      "00000000-0000-7000-8000-00000000000b"
#define ORDER_C      "00000000-0000-7000-8000-00000000000c"
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static uv_loop_t loop;
static struct sk_config config;
static struct sk_core core;
static struct sk_inquiries *inquiries;

// ---- allocations that fail ----

static int allocations_left; // 0: none fails
static bool has_failed;

static bool fails(void)
{
    if (allocations_left == 0 || --allocations_left > 0)
        return false;
    has_failed = true;
    return true;
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

// ---- what comes out ----

static int told;
static enum sk_verdict told_verdict;
static char told_document[TEXT_SIZE];

static void on_outcome(void *arg, uint64_t ticket, const struct sk_outcome *outcome)
{
    (void)arg;
    ck_assert_uint_eq(ticket, TICKET);
    told++;
    told_verdict = outcome->verdict;
    if (outcome->verdict == SK_VERDICT_FOUND)
        ck_assert_ptr_nonnull(outcome->document); // it is shown as it is
    (void)snprintf(told_document, sizeof told_document, "%s", outcome->document == NULL ? "" : outcome->document);
}

enum sk_status sk_rebuild(const struct sk_core *its_core, struct sk_segment *voucher, sk_rebuild_cb *done, void *arg)
{
    (void)its_core;
    (void)voucher;
    (void)done;
    (void)arg;
    ck_abort_msg("a GET changes nothing");
}

static void must_be_told(enum sk_verdict verdict, const char *document)
{
    ck_assert_int_eq(told, 1);
    ck_assert_int_eq(told_verdict, verdict);
    ck_assert_str_eq(told_document, document);
    told = 0;
}

// ---- fixture ----

static void setup(void)
{
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    core = (struct sk_core){.loop = &loop, .config = &config, .on_outcome = on_outcome};
    core.segments = sk_segments_new(sizeof(struct sk_care));
    inquiries = sk_inquiries_open(&core);
    ck_assert_ptr_nonnull(inquiries);
    told = 0;
    fake_no_memory = fails;
}

static void teardown(void)
{
    allocations_left = 0;
    ck_assert_uint_eq(sk_segments_get(core.segments, 1, 1)->pins, 0);
    sk_inquiries_close(inquiries);
    sk_segments_free(core.segments);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    fake_stores_forget();
}

// ---- answers ----

typedef const char *const rows_t[ROW_COLUMNS];

static const struct sk_rows no_rows;
static const rows_t two_vouchers_rows[] = {{"12"}, {"11"}};
static const struct sk_rows two_vouchers = {2, two_vouchers_rows};
static const rows_t voucher_rows[] = {{"1", "0", "1", "{\"id\":\"1\"}"}};
static const struct sk_rows one_voucher = {1, voucher_rows};

// look_at_voucher.lua of an open voucher; `order` is the user's, or "".
static void look(struct sk_reply items[9], const char *order)
{
    const struct sk_reply open[9] = {TEXT("open"), TEXT("3"), TEXT("epoch-3"), TEXT("5"),  TEXT("run-1"),
                                     NUMBER(2),    NUMBER(1), NUMBER(-1),      TEXT(order)};
    memcpy(items, open, sizeof open);
}

static void answer_look_at(size_t i, const char *order)
{
    struct sk_reply items[9];
    look(items, order);
    redis_answers_at(i, &(const struct sk_reply){.kind = REPLY_LIST, .count = 9, .items = items});
}

static void statement_must_be(enum sk_statement statement)
{
    ck_assert_uint_lt(fake_pg.answered, fake_pg.count);
    ck_assert_int_eq(fake_pg.asked[fake_pg.answered].what, statement);
}

static const char *param(int i)
{
    return fake_pg.asked[fake_pg.answered].argv[i];
}

// ---- lists ----

// The answers come in the wrong order, as after a script that Redis had lost.
START_TEST(an_answer_belongs_to_the_voucher_that_was_asked_about)
{
    sk_inquiry_orders(inquiries, USER, TICKET);
    statement_must_be(SK_STATEMENT_CURRENT_VOUCHERS);
    pg_answers(&two_vouchers);
    ck_assert_uint_eq(fake_redis.count, 2);
    ck_assert_str_eq(fake_redis.asked[0].argv[1], "seckill:{12}:buyers");
    answer_look_at(1, ORDER_A);
    answer_look_at(0, ORDER_B);
    statement_must_be(SK_STATEMENT_LIST_ORDERS);
    ck_assert_str_eq(param(0), USER);
    ck_assert_str_eq(param(1), "{" ORDER_B "," ORDER_A "}");
    ck_assert_str_eq(param(2), "{12,11}");
    static const rows_t rows[] = {{ORDER_C, "{\"id\":\"c\"}", "9"}, {ORDER_A, NULL, "11"}};
    pg_answers(&(const struct sk_rows){2, rows});
    must_be_told(SK_VERDICT_FOUND, "{\"orders\":[{\"id\":\"c\"},{\"id\":\"" ORDER_A
                                   "\",\"voucher_id\":\"11\",\"user_id\":\"" USER "\",\"status\":\"pending\"}]}");
}
END_TEST

START_TEST(an_order_is_pending_under_its_own_voucher)
{
    sk_inquiry_order(inquiries, ORDER_A, USER, TICKET);
    statement_must_be(SK_STATEMENT_FIND_ORDER);
    pg_answers(&no_rows);
    pg_answers(&two_vouchers);
    answer_look_at(1, ORDER_A);
    answer_look_at(0, ORDER_B);
    must_be_told(SK_VERDICT_FOUND,
                 "{\"id\":\"" ORDER_A "\",\"voucher_id\":\"11\",\"user_id\":\"" USER "\",\"status\":\"pending\"}");
}
END_TEST

START_TEST(what_is_no_order_id_is_neither_asked_about_nor_shown)
{
    static const char *const forged[] = {"\",\"status\":\"paid\",\"x\":\"0123456789abc",
                                         "00000000-0000-7000-8000-00000000000A", "x",
                                         "00000000-0000-7000-8000-0000000000000"};
    for (size_t i = 0; i < COUNT(forged); i++) {
        sk_inquiry_orders(inquiries, USER, TICKET);
        pg_answers(&two_vouchers);
        answer_look_at(fake_redis.count - 1, forged[i]);
        answer_look_at(fake_redis.count - 2, "");
        ck_assert_str_eq(param(1), "{}");
        ck_assert_str_eq(param(2), "{}");
        pg_answers(&no_rows);
        must_be_told(SK_VERDICT_FOUND, "{\"orders\":[]}");
    }
}
END_TEST

START_TEST(half_an_answer_is_none)
{
    for (int lost = 0; lost < 2; lost++) {
        sk_inquiry_orders(inquiries, USER, TICKET);
        pg_answers(&two_vouchers);
        redis_answers(lost == 0 ? NULL : &(const struct sk_reply)ERROR("WRONGTYPE"));
        answer_look_at(fake_redis.count - 1, ORDER_A);
        must_be_told(SK_VERDICT_UNAVAILABLE, "");
    }
}
END_TEST

// ---- the admin's view ----

START_TEST(the_admin_sees_what_can_be_read)
{
    static const struct {
        struct sk_reply state;
        const char *shown;
    } rows[] = {
        {TEXT("open"), "open"}, {TEXT("closed"), "closed"},     {TEXT("loading"), "loading"}, {TEXT(""), "missing"},
        {NIL, "unreadable"},    {TEXT("a\",\""), "unreadable"}, {NUMBER(1), "unreadable"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char expected[TEXT_SIZE];
        struct sk_reply items[9];
        look(items, "");
        items[0] = rows[i].state;
        items[1] = (struct sk_reply)TEXT("no number");
        sk_inquiry_inspect(inquiries, 1, TICKET);
        pg_answers(&one_voucher);
        redis_answers(&(const struct sk_reply){.kind = REPLY_LIST, .count = 9, .items = items});
        (void)snprintf(expected, sizeof expected,
                       "{\"id\":\"1\",\"redis\":{\"state\":\"%s\",\"stock\":5,\"buyers\":2,\"journal\":1}}",
                       rows[i].shown);
        must_be_told(SK_VERDICT_FOUND, expected);
    }
    sk_inquiry_inspect(inquiries, 1, TICKET);
    pg_answers(&one_voucher);
    redis_answers(NULL);
    must_be_told(SK_VERDICT_FOUND, "{\"id\":\"1\",\"redis\":{\"state\":\"unknown\"}}");
    sk_inquiry_inspect(inquiries, 1, TICKET);
    pg_answers(&one_voucher);
    redis_answers(&(const struct sk_reply)ERROR("WRONGTYPE"));
    must_be_told(SK_VERDICT_FOUND, "{\"id\":\"1\",\"redis\":{\"state\":\"unreadable\"}}");
}
END_TEST

// ---- memory that is short ----

static void ask_order(void)
{
    sk_inquiry_order(inquiries, ORDER_A, USER, TICKET);
}

static void ask_orders(void)
{
    sk_inquiry_orders(inquiries, USER, TICKET);
}

static void ask_voucher(void)
{
    sk_inquiry_voucher(inquiries, 1, TICKET);
}

static void ask_vouchers(void)
{
    sk_inquiry_vouchers(inquiries, TICKET);
}

static void ask_inspect(void)
{
    sk_inquiry_inspect(inquiries, 1, TICKET);
}

static void answer_statement(void)
{
    static const rows_t orders[] = {{ORDER_C, "{\"id\":\"c\"}", "9"}, {ORDER_A, NULL, "11"}};
    static const rows_t list[] = {{"[{\"id\":\"1\"}]"}};
    switch (fake_pg.asked[fake_pg.answered].what) {
    case SK_STATEMENT_CURRENT_VOUCHERS:
        pg_answers(&two_vouchers);
        break;
    case SK_STATEMENT_FIND_VOUCHER:
        pg_answers(&one_voucher);
        break;
    case SK_STATEMENT_LIST_ORDERS:
        pg_answers(&(const struct sk_rows){2, orders});
        break;
    case SK_STATEMENT_LIST_VOUCHERS:
        pg_answers(&(const struct sk_rows){1, list});
        break;
    default:
        pg_answers(&no_rows);
    }
}

// Asks, and answers whatever the stores are asked.
static void converse(void (*ask)(void))
{
    ask();
    while (fake_pg.answered < fake_pg.count || fake_redis.answered < fake_redis.count) {
        if (fake_pg.answered < fake_pg.count)
            answer_statement();
        else
            answer_look_at(fake_redis.answered, fake_redis.answered == 0 ? ORDER_A : "");
    }
}

// Each allocation of each GET fails once. The answer is then 503, or the right one, and the next GET is as ever.
START_TEST(every_allocation_may_fail)
{
    static void (*const asks[])(void) = {ask_order, ask_orders, ask_voucher, ask_vouchers, ask_inspect};
    void (*ask)(void) = asks[_i];
    int n = 1;
    converse(ask);
    ck_assert_int_eq(told_verdict, SK_VERDICT_FOUND);
    do {
        fake_stores_forget();
        teardown(); // nothing is cached from the last time
        setup();
        has_failed = false;
        allocations_left = n++;
        converse(ask);
        allocations_left = 0;
        ck_assert_msg(told == 1, "told %d times when allocation %d failed", told, n - 1);
        ck_assert_msg(told_verdict == SK_VERDICT_FOUND ||
                          (has_failed && sk_verdict_http_status(told_verdict) == 503 && told_document[0] == '\0'),
                      "verdict %d when allocation %d failed", told_verdict, n - 1);
        ck_assert_uint_eq(sk_segments_get(core.segments, 1, 1)->pins, 0);
        told = 0;
        fake_stores_forget();
        converse(ask);
        ck_assert_int_eq(told, 1);
        ck_assert_int_eq(told_verdict, SK_VERDICT_FOUND);
    } while (has_failed && n < ALLOCATIONS_MAX);
    ck_assert_int_gt(n, 3); // some were there to fail
    ck_assert_int_lt(n, ALLOCATIONS_MAX);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("inquiry");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, an_answer_belongs_to_the_voucher_that_was_asked_about);
    tcase_add_test(tcase, an_order_is_pending_under_its_own_voucher);
    tcase_add_test(tcase, what_is_no_order_id_is_neither_asked_about_nor_shown);
    tcase_add_test(tcase, half_an_answer_is_none);
    tcase_add_test(tcase, the_admin_sees_what_can_be_read);
    tcase_add_loop_test(tcase, every_allocation_may_fail, 0, 5);
    return harness_main(tcase, CK_FORK);
}
