// Listeners of vouchers: their cost in Redis, how often each gets an event, and its content.
#include "fake_timer.h"

#define CONTROL_HAS_PHASES
#include "fake_control.h"

#include "live.h"
#include "test.h"
#include "trust.h"

enum { VOUCHER = 7, LISTENERS_MAX = 20001, TEXT_SIZE = 256, SLICE_MS = 25, READS_PER_S = 400, TOGETHER = 20 };

static struct sk_live *live;
static struct sk_voucher *voucher;

// Indexed by handle.
static struct {
    size_t texts, events;
    bool ended;
    char last[TEXT_SIZE];
} heard[LISTENERS_MAX];
static size_t texts, events;                          // over all listeners
static char newest[SK_LIVE_VOUCHERS_MAX * TEXT_SIZE]; // the newest text, whole
static bool takes;

static bool on_send(void *arg, uint64_t handle, const char *text, size_t len)
{
    ck_assert_ptr_eq(arg, &control);
    ck_assert_uint_lt(handle, LISTENERS_MAX);
    ck_assert_uint_lt(len, sizeof newest);
    ck_assert(len > 2 && memcmp(text + len - 2, "\n\n", 2) == 0 && !heard[handle].ended);
    if (!takes)
        return false;
    memcpy(newest, text, len);
    newest[len] = '\0';
    len = len < TEXT_SIZE ? len : TEXT_SIZE - 1;
    memcpy(heard[handle].last, text, len);
    heard[handle].last[len] = '\0';
    heard[handle].texts++;
    texts++;
    for (const char *at = newest; (at = strstr(at, "data: ")) != NULL; at++) {
        heard[handle].events++;
        events++;
    }
    return true;
}

static void on_end(void *arg, uint64_t handle)
{
    ck_assert_ptr_eq(arg, &control);
    heard[handle].ended = true;
}

static void open_live(int64_t reactors)
{
    struct sk_live_wire wire = {on_send, on_end, &control};
    control.reactors = reactors;
    control.live = live = sk_live_open(&control, &wire);
    ck_assert_ptr_nonnull(live);
}

static void setup(void)
{
    now_ms = 1000000;
    control_setup();
    voucher = a_voucher(sale.catalogue, VOUCHER);
    voucher->end_ms = INT64_MAX;
    memset(heard, 0, sizeof heard);
    texts = events = 0;
    takes = true;
    open_live(1);
}

static void teardown(void)
{
    while (fake_redis.answered < fake_redis.count)
        redis_answers(NULL);
    sk_live_close(live);
    control_teardown();
}

static void redis_has(const char *state, int64_t stock)
{
    struct sk_reply items[] = {TEXT(state),   TEXT("1"), TEXT("5-1"), NUMBER(stock),
                               TEXT("run-1"), NUMBER(0), NUMBER(0),   TEXT("")};
    struct sk_reply reply = LIST_OF(items);
    const struct asked *asked = &fake_redis.asked[fake_redis.answered];
    ck_assert_uint_lt(fake_redis.answered, fake_redis.count);
    ck_assert_int_eq(asked->what, SK_SCRIPT_READ_VOUCHER);
    redis_answers(&reply);
}

// Time passes; the stock in Redis falls by `goes_by` at each read (NOT: no reply). Returns the number of reads.
enum { NOT = -1 };
static size_t pass(uint64_t ms, int64_t stock, int64_t goes_by)
{
    size_t reads = 0;
    for (uint64_t until_ms = now_ms + ms; now_ms < until_ms;) {
        now_ms = due_ms == 0 || due_ms > until_ms ? until_ms : due_ms;
        if (due_ms == now_ms && due_ms != 0)
            time_comes();
        for (; fake_redis.answered < fake_redis.count; reads++) {
            stock -= goes_by;
            if (stock >= 0)
                redis_has("open", stock);
            else
                redis_answers(NULL);
        }
        fake_stores_forget();
    }
    return reads;
}

static bool let_follow(int64_t voucher_id, uint64_t last_id, uint64_t handle)
{
    return sk_live_listen(live, &voucher_id, 1, last_id, handle);
}

static void let_listen(uint64_t from, uint64_t to)
{
    for (uint64_t handle = from; handle <= to; handle++)
        ck_assert(let_follow(VOUCHER, 0, handle));
}

// Vouchers VOUCHER, VOUCHER + 1, ... of one listener.
static void let_follow_many(size_t count, uint64_t handle)
{
    int64_t ids[SK_LIVE_VOUCHERS_MAX];
    for (size_t i = 0; i < count; i++) {
        ids[i] = VOUCHER + (int64_t)i;
        if (sk_catalogue_find(sale.catalogue, ids[i]) == NULL)
            a_voucher(sale.catalogue, ids[i])->end_ms = INT64_MAX;
    }
    ck_assert(sk_live_listen(live, ids, count, 0, handle));
}

static void must_say(uint64_t handle, const char *what)
{
    ck_assert_msg(strstr(heard[handle].last, what) != NULL, "%s, not %s", heard[handle].last, what);
}

// The first listener, after time as for pass().
static void must_hear_after(uint64_t ms, int64_t stock, int64_t goes_by, const char *what)
{
    (void)pass(ms, stock, goes_by);
    must_say(1, what);
}

// By the id of its last event a client knows that no more is to come.
static const char end[] = "id: end\ndata: {\"voucher_id\":\"";

static void must_end(uint64_t handle)
{
    ck_assert(heard[handle].ended);
    must_say(handle, end);
}

TEST(without_redis_nothing_is_known_to_be_left)
{
    let_listen(1, 1);
    must_hear_after(1000, 50, 0, "\"remaining\":50,");
    must_hear_after(1000, NOT, 0, "\"remaining\":50,"); // a late reply does not mean that Redis is away
    for (int i = 0; i < 100; i++) {
        fake_redis.down = true; // the next step clears it
        (void)pass(10, NOT, 0);
    }
    must_say(1, "\"remaining\":null,\"state\":\"open\"");
    ck_assert_uint_eq(heard[1].texts, 3); // once
    fake_redis.down = false;
    must_hear_after(1000, 50, 0, "\"remaining\":50,");
}

// Time alone changes a phase.
TEST(a_phase_is_news)
{
    voucher->begin_ms = INT64_MAX - 1;
    let_listen(1, 1);
    must_hear_after(1000, 50, 0, "\"remaining\":50,\"state\":\"open\",\"phase\":\"upcoming\",");
    voucher->begin_ms = 0;
    must_hear_after(1000, 50, 0, "\"remaining\":50,\"state\":\"open\",\"phase\":\"on_sale\",");
    must_hear_after(1000, 0, 0, "\"remaining\":0,\"state\":\"open\",\"phase\":\"sold_out\",");
    voucher->end_ms = 0;
    must_hear_after(1000, 0, 0, "\"remaining\":0,\"state\":\"open\",\"phase\":\"ended\",");
    ck_assert(!heard[1].ended); // a later end may come
}

TEST(all_share_a_read)
{
    ck_assert_uint_eq(due_ms, 0);
    let_listen(1, TOGETHER);
    ck_assert_uint_le(pass(1000, 50, 0), 5);
    for (uint64_t handle = 1; handle <= TOGETHER; handle++) {
        ck_assert_uint_eq(heard[handle].texts, 2); // `retry`, and the state
        must_say(handle, "data: "
                         "{\"voucher_id\":\"7\",\"remaining\":50,\"state\":\"open\",\"phase\":\"on_sale\",\"rate\":0.0,"
                         "\"server_time\":\"");
    }
    ck_assert_uint_le(pass(1000, 49, 0), 4);
    must_say(TOGETHER, "\"remaining\":49,");
    for (uint64_t handle = 1; handle <= TOGETHER; handle++)
        sk_live_leave(live, handle);
    sk_live_leave(live, 1);
    (void)pass(SLICE_MS * 2, 49, 0);
    ck_assert_uint_eq(pass(10000, 49, 0), 0);
    ck_assert_uint_eq(due_ms, 0);
}

// Each listener gets every change, but at most four events a second.
TEST(a_few_are_told_often)
{
    let_listen(1, TOGETHER);
    (void)pass(10000, 1000000, 100);
    for (uint64_t handle = 1; handle <= TOGETHER; handle++) {
        ck_assert_uint_ge(heard[handle].events, 30);
        ck_assert_uint_le(heard[handle].events, 41);
        must_say(handle, "\"rate\":39"); // nearly 400, in tenths
    }
}

// With more listeners than the pace allows, all get fewer events, equally.
TEST_EACH(many_are_told_less_often, 4)
{
    enum { SECONDS = 20 };
    static const struct {
        int64_t reactors;
        uint64_t listeners;
    } cases[] = {{1, 4000}, {1, 10000}, {4, 2000}, {1, 20000}};
    sk_live_close(live);
    open_live(cases[_i].reactors);
    let_listen(1, cases[_i].listeners);
    (void)pass(5000, 10000000, 100);
    size_t before = events, first[2] = {heard[1].events, heard[cases[_i].listeners].events};
    (void)pass(SECONDS * 1000, 5000000, 100);
    size_t most = (size_t)(4000 / cases[_i].reactors) * SECONDS, each = most / cases[_i].listeners;
    ck_assert_uint_le(events - before, most + 101);
    ck_assert_uint_ge(events - before, most * 8 / 10);
    ck_assert_uint_le(heard[1].events - first[0], each + 1);
    ck_assert_uint_ge(heard[1].events - first[0], each * 7 / 10);
    ck_assert_uint_ge(heard[cases[_i].listeners].events - first[1], each * 7 / 10);
}

TEST(many_vouchers_share_the_reads)
{
    enum { VOUCHERS = 1000 };
    for (int64_t id = 100; id < 100 + VOUCHERS; id++) {
        (void)a_voucher(sale.catalogue, id);
        ck_assert(let_follow(id, 0, (uint64_t)id));
    }
    (void)pass(5000, 10, 0);
    size_t reads = pass(5000, 10, 0);
    ck_assert_uint_le(reads, READS_PER_S * 5 + 11);
    ck_assert_uint_ge(reads, READS_PER_S * 4);
    for (uint64_t handle = 100; handle < 100 + VOUCHERS; handle++)
        must_say(handle, "\"remaining\":10,");
}

// Nor do those that come and go take the reads from those that stay: here 30 a slice, more than the limit.
TEST_EACH(new_vouchers_leave_the_others_half_of_the_reads, 2)
{
    static const int64_t reactors[] = {1, 10}; // with ten, a slice has one read
    enum { NEW = 30, SECONDS = 5 };
    sk_live_close(live);
    open_live(reactors[_i]);
    let_listen(1, 1);
    (void)pass(300, 1000, 0);
    size_t before = heard[1].events, reads = 0;
    for (uint64_t ms = 0; ms < SECONDS * UINT64_C(1000); ms += SLICE_MS) {
        for (int64_t i = 1; i <= NEW; i++) {
            if (sk_catalogue_find(sale.catalogue, VOUCHER + i) == NULL)
                a_voucher(sale.catalogue, VOUCHER + i)->end_ms = INT64_MAX;
            ck_assert(let_follow(VOUCHER + i, 0, 1 + (uint64_t)i));
        }
        reads += pass(SLICE_MS, 1000 - (int64_t)(ms / SLICE_MS), 1);
        for (uint64_t i = 1; i <= NEW; i++)
            sk_live_leave(live, 1 + i);
    }
    ck_assert_uint_ge(heard[1].events - before, SECONDS * 3);
    ck_assert_uint_ge(reads, (size_t)(READS_PER_S / reactors[_i] * SECONDS * 8 / 10)); // nearly all of new ones
}

TEST(a_comment_when_there_is_nothing_else)
{
    let_listen(1, 1);
    (void)pass(14000, 5, 0);
    ck_assert_uint_eq(heard[1].texts, 2);
    (void)pass(2000, 5, 0);
    ck_assert_uint_eq(heard[1].texts, 3);
    must_say(1, ":\n\n");
    (void)pass(16000, NOT, 0); // Redis is away
    ck_assert_uint_eq(heard[1].texts, 4);
    ck_assert_uint_eq(heard[1].events, 1);
}

TEST(the_last_event_id)
{
    let_listen(1, 1);
    (void)pass(1000, 5, 0);
    uint64_t id = strtoull(heard[1].last + 4, NULL, 10);
    ck_assert(let_follow(VOUCHER, id, 2) && let_follow(VOUCHER, id - 1, 3));
    (void)pass(1000, 5, 0);
    ck_assert_uint_eq(heard[2].events, 0);
    ck_assert_uint_eq(heard[3].events, 1);
    (void)pass(1000, 4, 0);
    ck_assert_uint_ge(heard[2].events, 1);
    ck_assert_uint_gt(strtoull(heard[2].last + 4, NULL, 10), id);
}

// Returned units are shown, but are not sales.
TEST(the_rate)
{
    let_listen(1, 1);
    must_hear_after(20000, 100000, 10, "\"rate\":40,"); // 10 every 250 ms
    must_hear_after(40000, 1000, 0, "\"remaining\":1000,\"state\":\"open\",\"phase\":\"on_sale\",\"rate\":0.0");
    size_t before = heard[1].events;
    must_hear_after(1000, 2000, 0, "\"remaining\":2000,\"state\":\"open\",\"phase\":\"on_sale\",\"rate\":0.0");
    ck_assert_uint_eq(heard[1].events, before + 1);
}

TEST(what_redis_says_is_checked)
{
    static const char *const states[] = {"", "loading", "retired", "nonsense"};
    let_listen(1, 1);
    (void)pass(1000, 5, 0);
    size_t before = heard[1].events;
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        now_ms += 250;
        time_comes();
        redis_has(states[i], 4);
        fake_stores_forget();
    }
    now_ms += 250;
    time_comes();
    redis_has("open", -4);
    fake_stores_forget();
    (void)pass(1000, NOT, 0);
    ck_assert_uint_eq(heard[1].events, before);
}

TEST(a_sale_that_is_over)
{
    let_listen(1, 2);
    (void)pass(1000, 5, 0);
    voucher->state = SK_VOUCHER_PAUSED;
    must_hear_after(1000, 5, 0, "\"state\":\"paused\"");
    voucher->state = SK_VOUCHER_CLOSED;
    (void)pass(1000, NOT, 0); // which needs no Redis
    for (uint64_t handle = 1; handle <= 2; handle++) {
        must_say(handle, "\"remaining\":5,\"state\":\"closed\"");
        must_end(handle);
    }
    ck_assert(let_follow(VOUCHER + 1, 0, 3)); // not in the catalogue
    (void)pass(1000, NOT, 0);
    must_say(3, "\"remaining\":null,\"state\":\"retired\"");
    must_end(3);
    ck_assert_uint_eq(sk_live_count(live), 0);
}

// What has changed of a listener's vouchers goes out together, once.
TEST(several_vouchers_share_a_text)
{
    enum { VOUCHERS = 3 };
    let_follow_many(VOUCHERS, 1);
    ck_assert_uint_le(pass(1000, 50, 0), 5 * VOUCHERS);
    ck_assert_uint_eq(heard[1].texts, 2); // `retry`, and the states
    ck_assert_uint_eq(heard[1].events, VOUCHERS);
    for (const char *const *id = (const char *const[]){"7", "8", "9", NULL}; *id != NULL; id++) {
        char data[TEXT_SIZE];
        (void)snprintf(data, sizeof data, "\ndata: {\"voucher_id\":\"%s\",\"remaining\":50,\"state\":\"open\",", *id);
        ck_assert_msg(strstr(newest, data) != NULL, "%s in %s", data, newest);
    }
    sk_catalogue_find(sale.catalogue, VOUCHER + 1)->state = SK_VOUCHER_PAUSED;
    (void)pass(1000, 50, 0);
    ck_assert_uint_eq(heard[1].events, VOUCHERS + 1);
    must_say(1, "data: {\"voucher_id\":\"8\",\"remaining\":50,\"state\":\"paused\"");
    (void)pass(SK_LIVE_BEAT_MS, 50, 0);
    ck_assert_uint_eq(heard[1].texts, 4); // one comment, not one for each
    sk_live_leave(live, 1);
    (void)pass(SLICE_MS * 2, 50, 0);
    ck_assert_uint_eq(pass(10000, 50, 0), 0);
}

// However many vouchers a listener has, its turn costs one text of the limit.
TEST(listeners_of_many_vouchers_wait_no_longer)
{
    enum { LISTENERS = 4000, VOUCHERS = 8, SECONDS = 10 };
    for (uint64_t handle = 1; handle <= LISTENERS; handle++)
        let_follow_many(VOUCHERS, handle);
    (void)pass(5000, 10000000, 100);
    size_t before[] = {texts, heard[1].events, heard[LISTENERS].events};
    (void)pass(SECONDS * 1000, 5000000, 100);
    ck_assert_uint_le(texts - before[0], 4000 * SECONDS + 101);
    ck_assert_uint_ge(texts - before[0], 4000 * SECONDS * 8 / 10);
    ck_assert_uint_ge(heard[1].events - before[1], SECONDS * VOUCHERS * 7 / 10);
    ck_assert_uint_ge(heard[LISTENERS].events - before[2], SECONDS * VOUCHERS * 7 / 10);
}

// The longest events of as many vouchers as may be, and the end.
TEST_EACH(the_longest_text, 2)
{
    static const enum sk_voucher_state states[] = {SK_VOUCHER_PAUSED, SK_VOUCHER_CLOSED};
    int64_t ids[SK_LIVE_VOUCHERS_MAX];
    for (size_t i = 0; i < SK_LIVE_VOUCHERS_MAX; i++) {
        ids[i] = INT64_MAX - (int64_t)i;
        struct sk_voucher *one = a_voucher(sale.catalogue, ids[i]);
        one->state = states[_i];
        one->begin_ms = one->end_ms = INT64_MAX;
    }
    ck_assert(sk_live_listen(live, ids, SK_LIVE_VOUCHERS_MAX, 0, 1));
    (void)pass(1000, SK_TRUST_MAX, 0);
    ck_assert_uint_eq(heard[1].events, SK_LIVE_VOUCHERS_MAX);
    ck_assert_uint_eq(heard[1].texts, 2);
    const char *at = strstr(newest, end);
    ck_assert((at != NULL) == (states[_i] == SK_VOUCHER_CLOSED));
    ck_assert(at == NULL || strstr(at + 1, "id: ") == NULL); // the last of them alone
}

// A slow listener's missed events are not queued: it gets the newest state of each voucher once it can receive.
TEST(a_slow_one_of_several_vouchers)
{
    let_follow_many(2, 1);
    (void)pass(1000, 5, 0);
    takes = false;
    (void)pass(1000, 4, 0);
    sk_catalogue_find(sale.catalogue, VOUCHER)->state = SK_VOUCHER_CLOSED;
    (void)pass(1000, 3, 0);
    ck_assert(!heard[1].ended);
    takes = true;
    (void)pass(SLICE_MS * 11, 3, 0);
    ck_assert_uint_eq(heard[1].events, 4);
    ck_assert_ptr_nonnull(strstr(newest, "{\"voucher_id\":\"7\",\"remaining\":3,\"state\":\"closed\""));
    ck_assert_ptr_nonnull(strstr(newest, "{\"voucher_id\":\"8\",\"remaining\":3,\"state\":\"open\""));
}

// Each voucher that is over leaves with its last state, and is read no more. The last one ends the stream.
TEST(sales_end_one_after_the_other)
{
    enum { VOUCHERS = 3 };
    let_follow_many(VOUCHERS, 1);
    (void)pass(1000, 5, 0);
    for (int64_t left = VOUCHERS - 1; left >= 0; left--) {
        ck_assert(!heard[1].ended);
        size_t before = heard[1].events;
        sk_catalogue_find(sale.catalogue, VOUCHER + left)->state = SK_VOUCHER_CLOSED;
        (void)pass(1000, 5, 0);
        ck_assert_uint_eq(heard[1].events, before + 1);
        must_say(1, "\"state\":\"closed\"");
        ck_assert_uint_le(pass(1000, 5, 0), 4 * (size_t)left);
        ck_assert((strstr(newest, end) != NULL) == (left == 0));
    }
    must_end(1);
    ck_assert_uint_eq(sk_live_count(live), 0);
}

TEST(memory_is_short)
{
    static const int64_t ids[] = {VOUCHER, VOUCHER + 1};
    for (int n = 1; n <= 3; n++) {
        allocations_left = n;
        ck_assert(!sk_live_listen(live, ids, 2, 0, 1));
        allocations_left = 0;
        ck_assert_uint_eq(sk_live_count(live), 0);
    }
}

SUITE(.timeout_s = 60, .setup = setup, .teardown = teardown);
