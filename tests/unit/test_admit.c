// The gates before Redis: refusals from memory, which must never hit a buyer whom the filter knows, and end by
// themselves; and load.
#include <stdio.h>
#include <string.h>

#include "admit.h"
#include "fake_catalogue.h"
#include "fake_stores.h"
#include "stack.h"
#include "wait.h"

enum { MARK_MS = 60000, SHORT_MARK_MS = 30 };

static uv_loop_t loop;
static struct sk_config config;
static struct sk_sale sale;
static struct sk_metrics metrics;
static struct sk_admit *admit;
static struct sk_segment *voucher;
static struct sk_outcome outcome;

static void open_admit(int64_t mark_ms)
{
    config = (struct sk_config){.sold_out_mark_ms = mark_ms};
    admit = sk_admit_open(&sale);
    ck_assert_ptr_nonnull(admit);
}

static void setup(void)
{
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    sale = (struct sk_sale){.loop = &loop, .config = &config, .metrics = &metrics, .catalogue = sk_catalogue_new(1)};
    voucher = a_segment(sale.catalogue, 1);
}

static void teardown(void)
{
    while (fake_redis.answered < fake_redis.count)
        redis_answers(NULL);
    sk_admit_close(admit);
    sk_catalogue_free(sale.catalogue);
    fake_stores_forget();
    (void)uv_loop_close(&loop);
}

static bool refuses(const char *user)
{
    return sk_admit_refuses(admit, voucher, user, &outcome);
}

static void must_refuse(const char *user, enum sk_verdict verdict)
{
    ck_assert_msg(refuses(user), "%s is not refused", user);
    ck_assert_int_eq(outcome.verdict, verdict);
}

static void must_pass(const char *user)
{
    ck_assert_msg(!refuses(user), "%s is refused: %s", user, sk_verdict_code(outcome.verdict));
}

// As of now; `begin_in_ms` counts for NOT_STARTED.
static void remember_from(uint64_t asked_at_ms, enum sk_verdict verdict, const char *label, uint64_t begin_in_ms)
{
    struct sk_mark said = {.verdict = verdict, .begin_at_ms = uv_now(&loop) + begin_in_ms};
    (void)snprintf(said.version, sizeof said.version, "%s", label);
    sk_admit_remember(admit, voucher, &said, asked_at_ms);
}

static void remember(enum sk_verdict verdict, const char *label)
{
    remember_from(uv_now(&loop), verdict, label, 2 * MARK_MS);
}

// ---- load ----

START_TEST(so_many_a_second_ask_the_stores)
{
    enum { RATE = 10 };
    struct sk_rate rate;
    sk_rate_begin(&rate, RATE);
    sale.purchases = &rate;
    open_admit(MARK_MS);
    for (int i = 0; i < RATE; i++)
        must_pass("alice");
    must_refuse("alice", SK_VERDICT_OVERLOADED);
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_REFUSED_MEMORY), 1);
    WAIT_FOR((uv_update_time(&loop), !refuses("bob")));
}
END_TEST

START_TEST(so_many_are_under_way)
{
    sale.orders = sk_order_pool_new(10);
    open_admit(MARK_MS);
    config.purchases_max = 2;
    struct sk_order *first = sk_order_take(sale.orders);
    must_pass("alice");
    struct sk_order *second = sk_order_take(sale.orders);
    must_refuse("alice", SK_VERDICT_OVERLOADED);
    sk_order_give(sale.orders, first);
    must_pass("alice");
    sk_order_give(sale.orders, second);
    sk_order_pool_free(sale.orders);
}
END_TEST

// ---- marks ----

static void answer_count(int64_t buyers)
{
    const struct sk_reply reply = NUMBER(buyers);
    ck_assert_str_eq(fake_redis.asked[fake_redis.answered].argv[0], "HLEN");
    redis_answers(&reply);
}

// One page of HSCAN: a cursor, and users with their orders.
#define ANSWER_PAGE(cursor, ...)                                                  \
    do {                                                                          \
        const struct sk_reply pairs_[] = {__VA_ARGS__};                           \
        const struct sk_reply items_[] = {TEXT(cursor), LIST_OF(pairs_)};         \
        const struct sk_reply reply_ = LIST_OF(items_);                           \
        ck_assert_str_eq(fake_redis.asked[fake_redis.answered].argv[0], "HSCAN"); \
        redis_answers(&reply_);                                                   \
    } while (0)

// After the buyers those whose orders have ended and may be repeated are read; none, unless a test says so.
static void answer_repeats(void)
{
    const struct asked *asked = &fake_redis.asked[fake_redis.answered];
    if (strcmp(asked->argv[0], "HSCAN") == 0 && strstr(asked->argv[1], ":repeats") != NULL)
        ANSWER_PAGE("0");
}

static void answer_state(const char *state, const char *label)
{
    static const struct sk_reply nil = NIL;
    const struct sk_reply items[] = {state == NULL ? nil : (struct sk_reply)TEXT(state),
                                     label == NULL ? nil : (struct sk_reply)TEXT(label)};
    const struct sk_reply reply = LIST_OF(items);
    answer_repeats();
    ck_assert_str_eq(fake_redis.asked[fake_redis.answered].argv[0], "HMGET");
    redis_answers(&reply);
}

// All of HSCAN, and nothing has changed meanwhile.
#define ANSWER_LAST_PAGE(label, ...)   \
    do {                               \
        ANSWER_PAGE("0", __VA_ARGS__); \
        answer_state("open", label);   \
    } while (0)

START_TEST(sold_out_refuses_strangers_and_never_a_buyer)
{
    // Before the start there are buyers where Redis's clock has gone back.
    static const enum sk_verdict verdicts[] = {SK_VERDICT_SOLD_OUT, SK_VERDICT_ENDED, SK_VERDICT_NOT_STARTED};
    open_admit(MARK_MS);
    for (size_t i = 0; i < 3; i++) {
        char label[16];
        (void)snprintf(label, sizeof label, "10-%zu", i);
        remember(verdicts[i], label);
        must_pass("stranger"); // who has bought is not known yet, so everybody asks Redis
        answer_count(3);
        must_pass("stranger");
        ANSWER_PAGE("17", TEXT("alice"), TEXT("o1"), TEXT("bob"), TEXT("o2"));
        ck_assert_str_eq(fake_redis.asked[fake_redis.answered].argv[2], "17");
        must_pass("stranger"); // half of them is not enough
        ANSWER_LAST_PAGE(label, TEXT("carol"), TEXT("o3"));
        must_refuse("stranger", verdicts[i]);
        must_pass("alice");
        must_pass("bob");
        must_pass("carol");
    }
}
END_TEST

START_TEST(what_memory_refuses_is_no_load)
{
    struct sk_rate rate;
    sk_rate_begin(&rate, 1);
    sale.purchases = &rate;
    open_admit(MARK_MS);
    remember(SK_VERDICT_SOLD_OUT, "10-1");
    answer_count(1);
    ANSWER_LAST_PAGE("10-1", TEXT("alice"), TEXT("o1"));
    for (int i = 0; i < 100; i++)
        must_refuse("stranger", SK_VERDICT_SOLD_OUT);
    must_pass("alice");
    must_refuse("alice", SK_VERDICT_OVERLOADED);
    must_refuse("stranger", SK_VERDICT_SOLD_OUT);
}
END_TEST

START_TEST(the_buyers_are_read_once_for_each_state)
{
    open_admit(MARK_MS);
    remember(SK_VERDICT_SOLD_OUT, "10-1");
    remember(SK_VERDICT_SOLD_OUT, "10-1");
    ck_assert_uint_eq(fake_redis.count, 1); // not twice at a time
    answer_count(1);
    ANSWER_LAST_PAGE("10-1", TEXT("alice"), TEXT("o1"));
    remember(SK_VERDICT_SOLD_OUT, "10-1");
    ck_assert_uint_eq(fake_redis.count, 4); // nor again while nothing has changed
    must_refuse("bob", SK_VERDICT_SOLD_OUT);
    // Somebody has bought since: what is known of the buyers is out of date.
    remember(SK_VERDICT_SOLD_OUT, "10-2");
    ck_assert_uint_eq(fake_redis.count, 5);
    must_pass("bob");
    answer_count(2);
    ANSWER_LAST_PAGE("10-2", TEXT("alice"), TEXT("o1"), TEXT("bob"), TEXT("o2"));
    must_pass("bob");
    must_refuse("carol", SK_VERDICT_SOLD_OUT);
}
END_TEST

START_TEST(a_reading_that_fails_refuses_no_user_and_is_tried_again)
{
    static const struct sk_reply error = ERROR("LOADING"), nil = NIL, text = TEXT("x");
    static const struct sk_reply *const failures[] = {NULL, &error, &nil, &text};
    open_admit(MARK_MS);
    for (size_t i = 0; i < 4; i++) {
        remember(SK_VERDICT_SOLD_OUT, "10-1");
        redis_answers(failures[i]); // to HLEN
        must_pass("stranger");
        remember(SK_VERDICT_SOLD_OUT, "10-1");
        answer_count(1);
        redis_answers(failures[i]); // to HSCAN
        must_pass("stranger");
        remember(SK_VERDICT_SOLD_OUT, "10-1");
        answer_count(1);
        ANSWER_PAGE("0", TEXT("alice"), TEXT("o1"));
        redis_answers(failures[i]); // to HMGET
        must_pass("stranger");
    }
    ck_assert(!voucher->gate.filtering);
    fake_redis.down = true;
    remember(SK_VERDICT_SOLD_OUT, "10-1");
    ck_assert(!voucher->gate.filtering);
    fake_redis.down = false;
    remember(SK_VERDICT_SOLD_OUT, "10-1");
    answer_count(0);
    ANSWER_LAST_PAGE("10-1", TEXT("alice"), TEXT("o1"));
    must_refuse("stranger", SK_VERDICT_SOLD_OUT);
}
END_TEST

// Redis loses its data, or somebody rebuilds the voucher: what was read is no list of all buyers (P6).
START_TEST(buyers_that_go_while_they_are_read)
{
    static const struct {
        const char *state, *label;
    } rows[] = {{NULL, NULL},     {"loading", "10-1"}, {"open", "epoch-2"},
                {"open", "10-2"}, {"open", NULL},      {NULL, "10-1"}};
    open_admit(MARK_MS);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        remember(SK_VERDICT_SOLD_OUT, "10-1");
        answer_count(2);
        ANSWER_PAGE("0", TEXT("alice"), TEXT("o1"));
        answer_state(rows[i].state, rows[i].label);
        must_pass("bob");
    }
    remember(SK_VERDICT_SOLD_OUT, "10-1");
    answer_count(2);
    ANSWER_PAGE("0", TEXT("alice"), TEXT("o1"));
    answer_state("closed", "10-1"); // by its terms: nothing goes
    must_pass("alice");
    must_refuse("bob", SK_VERDICT_SOLD_OUT);
}
END_TEST

// The reading has the last pin: the segment goes with its end, and not before.
START_TEST(a_voucher_may_be_retired_while_its_buyers_are_read)
{
    struct sk_catalogue_row row = {
        .change = 2, .voucher_id = 1, .state = SK_VOUCHER_RETIRED, .segment_count = 1, .tag = "1"};
    open_admit(MARK_MS);
    remember(SK_VERDICT_SOLD_OUT, "10-1");
    answer_count(1);
    ANSWER_PAGE("0", TEXT("alice"), TEXT("o1"));
    ck_assert_int_eq(sk_catalogue_put(sale.catalogue, &row), SK_OK);
    ck_assert_uint_eq(voucher->voucher->pins, 1);
    answer_state("open", "10-1");
    ck_assert_ptr_null(sk_catalogue_find(sale.catalogue, 1));
}
END_TEST

START_TEST(a_mark_ends_by_itself)
{
    open_admit(SHORT_MARK_MS);
    remember(SK_VERDICT_SOLD_OUT, "10-1");
    answer_count(1);
    ANSWER_LAST_PAGE("10-1", TEXT("alice"), TEXT("o1"));
    must_refuse("stranger", SK_VERDICT_SOLD_OUT);
    uint64_t until_ms = uv_now(&loop) + SHORT_MARK_MS;
    WAIT_FOR((uv_update_time(&loop), uv_now(&loop) >= until_ms));
    must_pass("stranger");
}
END_TEST

// A unit that returns sells once all refusals of before are forgotten: they count from the question, not the answer.
START_TEST(a_mark_counts_from_the_question)
{
    open_admit(MARK_MS);
    WAIT_FOR((uv_update_time(&loop), uv_now(&loop) >= 2));
    remember_from(uv_now(&loop) - 1, SK_VERDICT_SOLD_OUT, "10-1", 0);
    ck_assert_uint_eq(voucher->gate.mark.until_ms, uv_now(&loop) - 1 + MARK_MS);
    answer_count(1);
    ANSWER_LAST_PAGE("10-1", TEXT("alice"), TEXT("o1"));
    sk_admit_forget(voucher);
    config.sold_out_mark_ms = 1; // the answer took longer than a refusal is remembered
    remember_from(uv_now(&loop) - 1, SK_VERDICT_SOLD_OUT, "10-1", 0);
    must_pass("stranger");
}
END_TEST

START_TEST(a_mark_can_be_taken_back)
{
    open_admit(MARK_MS);
    remember(SK_VERDICT_SOLD_OUT, "10-1");
    answer_count(0);
    ANSWER_LAST_PAGE("10-1", TEXT("alice"), TEXT("o1"));
    must_refuse("bob", SK_VERDICT_SOLD_OUT);
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_REFUSED_MEMORY), 1);
    sk_admit_forget(voucher);
    must_pass("bob");
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_REFUSED_MEMORY), 1);
}
END_TEST

START_TEST(not_started_says_when_and_does_not_outlive_the_wait)
{
    open_admit(MARK_MS);
    remember_from(uv_now(&loop), SK_VERDICT_NOT_STARTED, "epoch-1", 2 * MARK_MS);
    answer_count(0);
    ANSWER_PAGE("0");
    answer_state("open", "epoch-1");
    must_refuse("alice", SK_VERDICT_NOT_STARTED);
    ck_assert_uint_eq(outcome.retry_after_ms, 2 * MARK_MS);
    remember_from(uv_now(&loop), SK_VERDICT_NOT_STARTED, "epoch-1", SHORT_MARK_MS);
    must_refuse("alice", SK_VERDICT_NOT_STARTED);
    ck_assert_uint_eq(outcome.retry_after_ms, SHORT_MARK_MS);
    uint64_t until_ms = uv_now(&loop) + SHORT_MARK_MS;
    WAIT_FOR((uv_update_time(&loop), uv_now(&loop) >= until_ms));
    must_pass("alice");
}
END_TEST

START_TEST(without_a_time_nothing_is_remembered)
{
    open_admit(0);
    remember(SK_VERDICT_SOLD_OUT, "10-1");
    must_pass("alice");
    ck_assert_uint_eq(fake_redis.count, 0);
}
END_TEST

// Whatever Redis says there are: the size of the filter is bounded, and so is the reading.
START_TEST(a_number_of_buyers_that_cannot_be_is_not_believed)
{
    static const int64_t counts[] = {INT64_C(1000000000000000000), INT64_MAX, -1, -2000, INT64_MIN, 100000001};
    open_admit(MARK_MS);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        remember(SK_VERDICT_SOLD_OUT, "10-1");
        answer_count(counts[i]);
        ck_assert(!voucher->gate.filtering);
        must_pass("stranger");
    }
    ck_assert_ptr_null(sk_filter_new(SIZE_MAX));
    ck_assert_ptr_null(sk_filter_new((size_t)1 << 62));
}
END_TEST

// Makes room for more questions than are kept.
static void forget_answered(void)
{
    size_t answered = fake_redis.answered, left = fake_redis.count - answered;
    forget_asked(fake_redis.asked, &answered, &fake_redis.answered);
    memmove(fake_redis.asked, fake_redis.asked + fake_redis.count - left, left * sizeof fake_redis.asked[0]);
    fake_redis.count = left;
}

START_TEST(a_reading_that_never_ends_is_given_up)
{
    open_admit(MARK_MS);
    remember(SK_VERDICT_SOLD_OUT, "10-1");
    answer_count(1);
    int pages = 0;
    for (; voucher->gate.filtering; pages++) {
        ck_assert_int_lt(pages, 2000);
        ANSWER_PAGE("17", TEXT("alice"), TEXT("o1"));
        forget_answered();
    }
    ck_assert_int_gt(pages, 500);
    must_pass("stranger");
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("admit");
    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, so_many_a_second_ask_the_stores);
    tcase_add_test(tcase, so_many_are_under_way);
    tcase_add_test(tcase, what_memory_refuses_is_no_load);
    tcase_add_test(tcase, sold_out_refuses_strangers_and_never_a_buyer);
    tcase_add_test(tcase, the_buyers_are_read_once_for_each_state);
    tcase_add_test(tcase, a_reading_that_fails_refuses_no_user_and_is_tried_again);
    tcase_add_test(tcase, buyers_that_go_while_they_are_read);
    tcase_add_test(tcase, a_voucher_may_be_retired_while_its_buyers_are_read);
    tcase_add_test(tcase, a_mark_ends_by_itself);
    tcase_add_test(tcase, a_mark_counts_from_the_question);
    tcase_add_test(tcase, a_mark_can_be_taken_back);
    tcase_add_test(tcase, not_started_says_when_and_does_not_outlive_the_wait);
    tcase_add_test(tcase, without_a_time_nothing_is_remembered);
    tcase_add_test(tcase, a_number_of_buyers_that_cannot_be_is_not_believed);
    tcase_add_test(tcase, a_reading_that_never_ends_is_given_up);
    return harness_main(tcase, CK_FORK);
}
