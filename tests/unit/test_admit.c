// The checks before Redis: cached refusals, which must never hit a buyer in the filter and must expire, and load.
#include <stdio.h>
#include <string.h>

#include "admit.h"
#include "filter.h"
#include "stage.h"
#include "still_clock.h"
#include "test.h"

enum { MARK_MS = 60000, SHORT_MARK_MS = 30 };

static struct sk_voucher *voucher;
static struct sk_purchase_result result;
static const char *allowed_ms; // Redis's cache time for all instances
static int64_t epoch;          // of the voucher in Redis

static void setup(void)
{
    allowed_ms = "60000";
    stage_open((struct sk_sale_options){.sold_out_mark_ms = MARK_MS}, 1, 10);
    voucher = a_voucher(sale.catalogue, 1);
}

static void teardown(void)
{
    while (fake_redis.answered < fake_redis.count)
        redis_answers(NULL);
    stage_close();
}

static void passes(uint64_t ms)
{
    still_at_ms += ms;
    uv_update_time(&loop);
}

static bool refuses(const char *user)
{
    return sk_admit_refuses(&sale, voucher, user, NULL, &result);
}

static void must_refuse(const char *user, enum sk_purchase_code code)
{
    ck_assert_msg(refuses(user), "%s is not refused", user);
    ck_assert_int_eq(result.code, code);
}

static void must_pass(const char *user)
{
    ck_assert_msg(!refuses(user), "%s is refused: %s", user, sk_purchase_code_name(result.code));
}

// Caches a refusal as of now; `begin_in_ms` is used for NOT_STARTED.
static void remember_from(uint64_t asked_at_ms, enum sk_purchase_code code, const char *label, uint64_t begin_in_ms)
{
    struct sk_refusal said = {
        .code = code, .epoch = epoch, .asked_at_ms = asked_at_ms, .begin_at_ms = uv_now(&loop) + begin_in_ms};
    (void)snprintf(said.version, sizeof said.version, "%s", label);
    sk_admit_remember(&sale, voucher, &said);
}

static void remember(enum sk_purchase_code code, const char *label)
{
    remember_from(uv_now(&loop), code, label, 2 * MARK_MS);
}

// ---- load ----

TEST(so_many_a_second_ask_the_stores)
{
    enum { RATE = 10 };
    struct sk_rate rate;
    sk_rate_begin(&rate, RATE);
    sale.purchases = &rate;
    for (int i = 0; i < RATE; i++)
        must_pass("alice");
    must_refuse("alice", SK_PURCHASE_OVERLOADED);
    ck_assert_uint_eq(counted(SK_METRIC_REFUSED_MEMORY), 1);
    STILL_UNTIL(&loop, !refuses("bob"));
}

TEST(so_many_are_under_way)
{
    options.purchases_max = 2;
    struct sk_order *first = sk_order_take(sale.orders, 0);
    must_pass("alice");
    struct sk_order *second = sk_order_take(sale.orders, 0);
    must_refuse("alice", SK_PURCHASE_OVERLOADED);
    sk_order_give(sale.orders, first);
    must_pass("alice");
    sk_order_give(sale.orders, second);
}

// A shard that is away keeps its orders; the others must sell on.
TEST(the_orders_of_one_shard_leave_room_for_the_others)
{
    struct sk_order *taken[3];
    struct sk_voucher *other = a_voucher(sale.catalogue, 2);
    options.purchases_max = 4;
    sk_order_pool_free(sale.orders);
    sale.orders = sk_order_pool_new(100, 2);
    other->shard = 1;
    for (int i = 0; i < 2; i++) {
        must_pass("alice");
        taken[i] = sk_order_take(sale.orders, 0);
    }
    must_refuse("alice", SK_PURCHASE_OVERLOADED);
    ck_assert(!sk_admit_refuses(&sale, other, "alice", NULL, &result));
    taken[2] = sk_order_take(sale.orders, 1);
    ck_assert(sk_admit_refuses(&sale, other, "alice", NULL, &result));
    for (int i = 0; i < 3; i++)
        sk_order_give(sale.orders, taken[i]);
}

TEST(a_closed_shard_is_503)
{
    shards[0].closed = true;
    must_refuse("alice", SK_PURCHASE_UNAVAILABLE);
    ck_assert_uint_eq(counted(SK_METRIC_REFUSED_MEMORY), 1);
}

// ---- the refusal cache ----

static const struct asked *asked_redis(const char *command)
{
    const struct asked *asked = &fake_redis.asked[fake_redis.answered];
    ck_assert_str_eq(asked->argv[0], command);
    return asked;
}

static void answer_length(const char *part, int64_t length)
{
    const struct sk_reply reply = NUMBER(length);
    ck_assert_ptr_nonnull(strstr(asked_redis("HLEN")->argv[1], part));
    redis_answers(&reply);
}

// Answers with this many buyers, and nobody with an ended order that may be repeated.
static void answer_count(int64_t buyers)
{
    answer_length(":buyers", buyers);
    answer_length(":repeats", 0);
}

// One page of HSCAN: a cursor, and users with their orders.
#define ANSWER_PAGE(cursor, ...)                        \
    do {                                                \
        const struct sk_reply pairs_[] = {__VA_ARGS__}; \
        (void)asked_redis("HSCAN");                     \
        REDIS_LISTS(TEXT(cursor), LIST_OF(pairs_));     \
    } while (0)

static void answer_alice(void)
{
    ANSWER_PAGE("0", TEXT("alice"), TEXT("o1"));
}

// After the buyers, users with ended, repeatable orders are read; none, unless a test provides some.
static void answer_state(const char *state, const char *label)
{
    static const struct sk_reply nil = NIL;
    const struct asked *asked = &fake_redis.asked[fake_redis.answered];
    if (strcmp(asked->argv[0], "HSCAN") == 0 && strstr(asked->argv[1], ":repeats") != NULL)
        ANSWER_PAGE("0");
    (void)asked_redis("HMGET");
    REDIS_LISTS(state == NULL ? nil : (struct sk_reply)TEXT(state), label == NULL ? nil : (struct sk_reply)TEXT(label),
                allowed_ms == NULL ? nil : (struct sk_reply)TEXT(allowed_ms), NUMBER(epoch));
}

// The whole reading of one buyer, alice, with no change meanwhile.
static void answer_reading_of_alice(const char *label)
{
    answer_count(1);
    answer_alice();
    answer_state("open", label);
}

static void remember_and_read(enum sk_purchase_code code, const char *label)
{
    remember(code, label);
    answer_reading_of_alice(label);
}

// Makes room: more calls come than the fake keeps.
static void forget_answered(void)
{
    size_t answered = fake_redis.answered, left = fake_redis.count - answered;
    forget_asked(fake_redis.asked, &answered, &fake_redis.answered);
    memmove(fake_redis.asked, fake_redis.asked + fake_redis.count - left, left * sizeof fake_redis.asked[0]);
    fake_redis.count = left;
}

TEST(sold_out_refuses_strangers_and_never_a_buyer)
{
    // Buyers may exist before the start if Redis's clock went back.
    static const enum sk_purchase_code codes[] = {SK_PURCHASE_SOLD_OUT, SK_PURCHASE_ENDED, SK_PURCHASE_NOT_STARTED};
    for (size_t i = 0; i < 3; i++) {
        char label[16];
        (void)snprintf(label, sizeof label, "10-%zu", i);
        remember(codes[i], label);
        must_pass("stranger"); // buyers are unknown, so everybody asks Redis
        answer_count(3);
        must_pass("stranger");
        ANSWER_PAGE("17", TEXT("alice"), TEXT("o1"), TEXT("bob"), TEXT("o2"));
        ck_assert_str_eq(asked_redis("HSCAN")->argv[2], "17");
        must_pass("stranger"); // half of the buyers is not enough
        ANSWER_PAGE("0", TEXT("carol"), TEXT("o3"));
        answer_state("open", label);
        must_refuse("stranger", codes[i]);
        must_pass("alice");
        must_pass("bob");
        must_pass("carol");
    }
}

TEST(what_memory_refuses_is_no_load)
{
    struct sk_rate rate;
    sk_rate_begin(&rate, 1);
    sale.purchases = &rate;
    remember_and_read(SK_PURCHASE_SOLD_OUT, "10-1");
    for (int i = 0; i < 100; i++)
        must_refuse("stranger", SK_PURCHASE_SOLD_OUT);
    must_pass("alice");
    must_refuse("alice", SK_PURCHASE_OVERLOADED);
    must_refuse("stranger", SK_PURCHASE_SOLD_OUT);
}

TEST(the_buyers_are_read_once_for_each_state)
{
    remember(SK_PURCHASE_SOLD_OUT, "10-1");
    remember(SK_PURCHASE_SOLD_OUT, "10-1");
    ck_assert_uint_eq(fake_redis.count, 1); // not twice at once
    answer_reading_of_alice("10-1");
    remember(SK_PURCHASE_SOLD_OUT, "10-1");
    ck_assert_uint_eq(fake_redis.count, 5); // nor again while nothing has changed
    must_refuse("bob", SK_PURCHASE_SOLD_OUT);
    // Somebody has bought since, so the cached buyers are outdated.
    remember(SK_PURCHASE_SOLD_OUT, "10-2");
    ck_assert_uint_eq(fake_redis.count, 6);
    must_pass("bob");
    answer_count(2);
    ANSWER_PAGE("0", TEXT("alice"), TEXT("o1"), TEXT("bob"), TEXT("o2"));
    answer_state("open", "10-2");
    must_pass("bob");
    must_refuse("carol", SK_PURCHASE_SOLD_OUT);
}

// A Redis that has lost data may reuse a journal id, for other buyers.
TEST(the_buyers_are_read_again_under_another_epoch)
{
    for (epoch = 7; epoch <= 8; epoch++) {
        remember(SK_PURCHASE_SOLD_OUT, "10-1");
        must_pass("alice");
        answer_reading_of_alice("10-1");
        must_refuse("bob", SK_PURCHASE_SOLD_OUT);
    }
    remember(SK_PURCHASE_SOLD_OUT, "10-1"); // epoch 9
    answer_count(1);
    epoch = 10; // while they are read
    answer_alice();
    answer_state("open", "10-1");
    must_pass("bob");
    epoch = 9;
    must_pass("bob");
}

TEST(a_reading_that_fails_refuses_no_user_and_is_tried_again)
{
    static const struct sk_reply error = ERROR("LOADING"), nil = NIL, text = TEXT("x");
    static const struct sk_reply *const failures[] = {NULL, &error, &nil, &text};
    static const char *const steps[] = {"HLEN", "HLEN", "HSCAN", "HSCAN", "HMGET"};
    for (int i = 0; i < 4 * 5; i++) {
        remember(SK_PURCHASE_SOLD_OUT, "10-1");
        for (int step = 0; step < i % 5; step++) {
            if (step == 2)
                answer_alice();
            else if (step == 3)
                ANSWER_PAGE("0");
            else
                answer_length(step == 0 ? ":buyers" : ":repeats", 1);
        }
        (void)asked_redis(steps[i % 5]);
        redis_answers(failures[i / 5]);
        must_pass("stranger");
        ck_assert(!voucher->refusals.filtering);
    }
    fake_redis.down = true;
    remember(SK_PURCHASE_SOLD_OUT, "10-1");
    ck_assert(!voucher->refusals.filtering);
    fake_redis.down = false;
    remember_and_read(SK_PURCHASE_SOLD_OUT, "10-1");
    must_refuse("stranger", SK_PURCHASE_SOLD_OUT);
}

// Redis loses its data, or the voucher is rebuilt: the buyers read are not complete (P6).
TEST(buyers_that_go_while_they_are_read)
{
    static const struct {
        const char *state, *label;
    } rows[] = {{NULL, NULL},   {"loading", "10-1"}, {"open", "epoch-2"}, {"open", "10-2"},
                {"open", NULL}, {NULL, "10-1"},      {"closed", "10-1"}}; // the last by its terms: no buyer is removed
    for (size_t i = 0; i < 7; i++) {
        remember(SK_PURCHASE_SOLD_OUT, "10-1");
        answer_count(2);
        answer_alice();
        answer_state(rows[i].state, rows[i].label);
        must_pass("alice");
        if (i < 6)
            must_pass("bob");
        else
            must_refuse("bob", SK_PURCHASE_SOLD_OUT);
    }
}

// The read holds the last pin: the voucher is freed when it ends, not before.
TEST(a_voucher_may_be_retired_while_its_buyers_are_read)
{
    struct sk_catalogue_row row = {.change = 2, .voucher_id = 1, .state = SK_VOUCHER_RETIRED, .tag = "1"};
    remember(SK_PURCHASE_SOLD_OUT, "10-1");
    answer_count(1);
    answer_alice();
    ck_assert_int_eq(sk_catalogue_put(sale.catalogue, &row), SK_OK);
    ck_assert_uint_eq(voucher->pins, 1);
    answer_state("open", "10-1");
    ck_assert_ptr_null(sk_catalogue_find(sale.catalogue, 1));
}

TEST_EACH(a_mark_ends_by_itself_or_is_taken_back, 2)
{
    options.sold_out_mark_ms = SHORT_MARK_MS;
    remember_and_read(SK_PURCHASE_SOLD_OUT, "10-1");
    must_refuse("stranger", SK_PURCHASE_SOLD_OUT);
    if (_i == 0)
        passes(SHORT_MARK_MS);
    else
        sk_admit_forget(voucher);
    must_pass("stranger");
    ck_assert_uint_eq(counted(SK_METRIC_REFUSED_MEMORY), 1);
}

// A returned unit sells once all earlier refusals have expired: these count from the request, not the reply.
TEST(a_mark_counts_from_the_question)
{
    remember_from(uv_now(&loop) - 1, SK_PURCHASE_SOLD_OUT, "10-1", 0);
    ck_assert_uint_eq(voucher->refusals.newest.until_ms, uv_now(&loop) - 1 + MARK_MS);
    answer_reading_of_alice("10-1");
    sk_admit_forget(voucher);
    options.sold_out_mark_ms = 1; // the reply took longer than the cache time
    remember_from(uv_now(&loop) - 1, SK_PURCHASE_SOLD_OUT, "10-1", 0);
    must_pass("stranger");
}

// Redis sets how long any instance may cache a refusal of the voucher: a reopened sale waits that long, and no longer.
TEST(a_mark_lasts_as_long_as_redis_allows)
{
    static const char *const too_short[] = {"1", "0", NULL, "-1", "x", "9999999999999999"};
    for (size_t i = 0; i < sizeof too_short / sizeof too_short[0]; i++) {
        char label[16];
        (void)snprintf(label, sizeof label, "10-%zu", i);
        allowed_ms = too_short[i];
        remember_from(uv_now(&loop) - 1, SK_PURCHASE_PAUSED, label, 0);
        answer_reading_of_alice(label);
        must_pass("stranger");
    }
    allowed_ms = "60000";
    remember_from(uv_now(&loop) - 1, SK_PURCHASE_PAUSED, "11-1", 0);
    answer_reading_of_alice("11-1");
    must_refuse("stranger", SK_PURCHASE_PAUSED);
}

// The instance was paused between reading its loop's clock and the request.
TEST(a_mark_ends_by_the_clock_and_not_by_the_loops)
{
    allowed_ms = "30"; // SHORT_MARK_MS
    remember_and_read(SK_PURCHASE_PAUSED, "10-1");
    still_at_ms += SHORT_MARK_MS; // uv_now() does not advance
    must_pass("stranger");
    allowed_ms = "60000";
    options.sold_out_mark_ms = SHORT_MARK_MS;
    uv_update_time(&loop);
    remember_and_read(SK_PURCHASE_PAUSED, "10-2");
    still_at_ms += SHORT_MARK_MS;
    must_pass("stranger");
}

TEST(not_started_says_when_and_does_not_outlive_the_wait)
{
    remember_from(uv_now(&loop), SK_PURCHASE_NOT_STARTED, "epoch-1", 2 * MARK_MS);
    answer_count(0);
    ANSWER_PAGE("0");
    answer_state("open", "epoch-1");
    must_refuse("alice", SK_PURCHASE_NOT_STARTED);
    ck_assert_uint_eq(result.retry_after_ms, 2 * MARK_MS);
    remember_from(uv_now(&loop), SK_PURCHASE_NOT_STARTED, "epoch-1", SHORT_MARK_MS);
    must_refuse("alice", SK_PURCHASE_NOT_STARTED);
    ck_assert_uint_eq(result.retry_after_ms, SHORT_MARK_MS);
    passes(SHORT_MARK_MS);
    must_pass("alice");
}

TEST(without_a_time_nothing_is_remembered)
{
    options.sold_out_mark_ms = 0;
    remember(SK_PURCHASE_SOLD_OUT, "10-1");
    must_pass("alice");
    ck_assert_uint_eq(fake_redis.count, 0);
}

// Whatever number Redis reports, the filter's size and the read are bounded.
TEST(a_number_that_cannot_be_is_not_believed)
{
    static const int64_t counts[] = {INT64_C(1000000000000000000), INT64_MAX, -1, -2000, INT64_MIN, 100000001};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        remember(SK_PURCHASE_SOLD_OUT, "10-1");
        answer_length(":buyers", counts[i]);
        ck_assert(!voucher->refusals.filtering);
        must_pass("stranger");
        remember(SK_PURCHASE_SOLD_OUT, "10-1");
        answer_length(":buyers", 1);
        answer_length(":repeats", counts[i]);
        ck_assert(!voucher->refusals.filtering);
        must_pass("stranger");
    }
    ck_assert_ptr_null(sk_filter_new(SIZE_MAX));
    ck_assert_ptr_null(sk_filter_new((size_t)1 << 62));
}

// One page of the ended orders with a key, "u<n> <key>", of users from `first` on.
static void answer_page_of_repeats(size_t first, size_t count, const char *cursor)
{
    enum { PAGE = 1000 };
    static char names[PAGE][40];
    static struct sk_reply pairs[2 * PAGE];
    ck_assert_uint_le(count, PAGE);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(names[i], sizeof names[i], "u%zu 0123456789abcdef", first + i);
        pairs[2 * i] = pairs[2 * i + 1] = (struct sk_reply)TEXT(names[i]);
    }
    const struct sk_reply items[] = {TEXT(cursor), {.kind = REPLY_LIST, .count = 2 * count, .items = pairs}};
    const struct sk_reply reply = LIST_OF(items);
    redis_answers(&reply);
}

// Answers a whole read of a voucher with one buyer, in pages as of HSCAN.
static void answer_reading(size_t repeats)
{
    enum { PAGE = 1000 };
    const struct sk_reply one = NUMBER(1), number = NUMBER((int64_t)repeats);
    for (size_t read = 0; voucher->refusals.filtering; forget_answered()) {
        const struct asked *asked = &fake_redis.asked[fake_redis.answered];
        bool of_repeats = strstr(asked->argv[1], ":repeats") != NULL;
        if (strcmp(asked->argv[0], "HLEN") == 0) {
            redis_answers(of_repeats ? &number : &one);
        } else if (strcmp(asked->argv[0], "HSCAN") == 0 && of_repeats) {
            size_t page = repeats - read < PAGE ? repeats - read : PAGE;
            read += page;
            answer_page_of_repeats(read - page, page, read == repeats ? "0" : "17");
        } else if (strcmp(asked->argv[0], "HSCAN") == 0) {
            answer_alice();
        } else {
            answer_state("open", "10-1");
        }
    }
}

// Users with repeatable ended orders can be many more than the buyers.
TEST_EACH(orders_that_have_ended_leave_refusals_in_memory, 3)
{
    static const size_t repeats[] = {0, 60000, 1200000};
    enum { STRANGERS = 1500, FALSELY_KNOWN = 15 };
    remember(SK_PURCHASE_SOLD_OUT, "10-1");
    answer_reading(repeats[_i]);
    must_pass("alice");
    for (size_t i = 0; i < repeats[_i]; i += 997) {
        char user[24];
        (void)snprintf(user, sizeof user, "u%zu", i);
        must_pass(user);
    }
    int refused = 0;
    for (int i = 0; i < STRANGERS; i++) {
        char user[24];
        (void)snprintf(user, sizeof user, "stranger-%d", i);
        refused += refuses(user);
    }
    ck_assert_int_ge(refused, STRANGERS - FALSELY_KNOWN);
}

TEST(a_reading_that_never_ends_is_given_up)
{
    remember(SK_PURCHASE_SOLD_OUT, "10-1");
    answer_count(1);
    int pages = 0;
    for (; voucher->refusals.filtering; pages++) {
        ck_assert_int_lt(pages, 2000);
        ANSWER_PAGE("17", TEXT("alice"), TEXT("o1"));
        forget_answered();
    }
    ck_assert_int_gt(pages, 500);
    must_pass("stranger");
}

// ---- lines ----

// A request with `wait` joins the line instead of getting SOLD_OUT from memory. All other refusals stay.
TEST(who_waits_is_not_refused_for_units)
{
    bool joins = false;
    struct sk_rate one;
    remember_and_read(SK_PURCHASE_SOLD_OUT, "10-1");
    must_refuse("bob", SK_PURCHASE_SOLD_OUT);
    ck_assert(!sk_admit_refuses(&sale, voucher, "bob", &joins, &result));
    ck_assert(joins);
    remember(SK_PURCHASE_PAUSED, "10-1");
    joins = false;
    ck_assert(sk_admit_refuses(&sale, voucher, "bob", &joins, &result));
    ck_assert_int_eq(result.code, SK_PURCHASE_PAUSED);
    ck_assert(!joins);
    remember(SK_PURCHASE_SOLD_OUT, "10-1");
    sk_rate_begin(&one, 1);
    sale.purchases = &one; // it is load, too
    ck_assert(!sk_admit_refuses(&sale, voucher, "bob", &joins, &result));
    ck_assert(sk_admit_refuses(&sale, voucher, "bob", &joins, &result));
    ck_assert_int_eq(result.code, SK_PURCHASE_OVERLOADED);
}

// Of a line that is full, only users who may wait in it ask PostgreSQL.
TEST(a_full_line_refuses_from_memory)
{
    bool joins = false;
    remember_and_read(SK_PURCHASE_SOLD_OUT, "10-1");
    voucher->full_line = (struct sk_full_line){.until_ms = UINT64_MAX, .joined = 2, .filter_joined = 2};
    voucher->full_line.filter = sk_filter_new(10);
    ck_assert_ptr_nonnull(voucher->full_line.filter);
    ck_assert(sk_admit_refuses(&sale, voucher, "bob", &joins, &result));
    ck_assert_int_eq(result.code, SK_PURCHASE_WAITLIST_FULL);
    ck_assert(!joins);
    must_refuse("bob", SK_PURCHASE_SOLD_OUT); // a plain purchase
    sk_filter_add(voucher->full_line.filter, "bob", 3);
    ck_assert(!sk_admit_refuses(&sale, voucher, "bob", &joins, &result));
    ck_assert(joins);
}

SUITE(.timeout_s = 30, .setup = setup, .teardown = teardown);
