// The batcher: how requests become script calls, and their outcome under every reply, also malformed ones. The stores,
// the writer and the loading are fakes.
#include <string.h>

#include "batcher.h"
#include "fake_session.h"
#include "line.h"
#include "offer.h"
#include "stage.h"
#include "test.h"
#include "wait.h"

enum { GRANTED_MAX = 64, POOL = 1000, CALL_ARGS = 14 };

#define FIRST  "018bcfe5-6800-7000-8000-000000000001"
#define SECOND "018bcfe5-6800-7000-8000-000000000002"

static struct sk_batcher *batcher;

// ---- results ----

static struct sk_order *granted[GRANTED_MAX];
static struct sk_order_list granted_list;
static size_t granted_count;

void sk_writer_add(struct sk_entry *entry, struct sk_order *order)
{
    order->entry = entry;
    sk_order_move(sale.orders, order, SK_ORDER_GRANTED, &granted_list);
    granted[granted_count++] = order;
}

static struct sk_order_list joined;

void sk_line_add(struct sk_line *line, struct sk_voucher *voucher, struct sk_order *order)
{
    ck_assert_ptr_null(line);
    ck_assert_ptr_nonnull(voucher);
    sk_order_move(sale.orders, order, SK_ORDER_JOINING, &joined);
}

static uint64_t begins_in_ms; // the sale
static int differences;
static int32_t last_offer; // the offer that Redis had
static bool released_at_once;

static void on_offers_differ(void *recovery, struct sk_voucher *voucher, int32_t offer)
{
    ck_assert_ptr_eq(recovery, &suspicions);
    last_offer = offer;
    differences++;
    if (released_at_once)
        sk_batcher_release(voucher);
}

// ---- fixture ----

static void setup(void)
{
    stage_open((struct sk_sale_options){.batch_max = 5, .sold_out_mark_ms = 60000}, 1, POOL);
    sale.offers_differ = on_offers_differ;
    batcher = sk_batcher_open(&sale);
    ck_assert_ptr_nonnull(batcher);
}

// By now every call has been answered, and each order was answered or is with the writer. What is left is the reading
// of the buyers, which a refusal has begun.
static void teardown(void)
{
    for (; fake_redis.answered < fake_redis.count; redis_answers(NULL))
        ck_assert_int_eq(fake_redis.asked[fake_redis.answered].what, PLAIN_COMMAND);
    while (sk_batcher_busy(batcher)) // a rush ends shortly after its last call; the test's time-out is the bound
        uv_update_time(&loop);
    for (size_t i = 0; i < granted_count; i++) {
        if (i == 0 || granted[i]->entry != granted[i - 1]->entry)
            sk_entry_forget(granted[i]->entry);
    }
    while (granted_list.head != NULL)
        sk_order_give(sale.orders, granted_list.head);
    sk_batcher_close(batcher);
    stage_close();
}

static struct sk_voucher *voucher(int64_t id)
{
    return a_voucher(sale.catalogue, id);
}

static const struct sk_refusal *cached(void)
{
    return &voucher(1)->refusals.newest;
}

// Requests of user-<handle>, starting at handle `first`.
static void request(int64_t voucher_id, uint64_t first, uint64_t count)
{
    for (uint64_t handle = first; handle < first + count; handle++) {
        struct sk_order *order = sk_order_take(sale.orders, 0);
        sk_order_name(sale.orders, order, 0, 0);
        order->handle = handle;
        (void)snprintf(order->user, sizeof order->user, "user-%d", (int)handle);
        sk_offered_agree(voucher(voucher_id), order);
        sk_batcher_add(batcher, voucher(voucher_id), order);
    }
}

// ... at the end of their turn.
static void ask(int64_t voucher_id, uint64_t first, uint64_t count)
{
    request(voucher_id, first, count);
    (void)sk_batcher_flush(batcher);
}

static void all_must_be(uint64_t first, uint64_t count, enum sk_purchase_code code)
{
    ck_assert_uint_eq(told_count, count);
    for (uint64_t handle = first; handle < first + count; handle++)
        purchase_must_be(handle, code);
    for (size_t i = 0; i < told_count; i++)
        ck_assert_uint_eq(told[i].retry_after_ms, told[i].code == SK_PURCHASE_NOT_STARTED ? begins_in_ms : 0);
}

// The script's reply when letters decide; then the existing ids.
#define ANSWER(letters, ...)                                                                                  \
    REDIS_LISTS(TEXT("ok"), NUMBER(5000), NUMBER(4000), TEXT("7"), TEXT("10-1"), TEXT("10-1"), TEXT(letters), \
                ##__VA_ARGS__)

// The same for a voucher with another offer.
#define ANSWER_OTHER(offer, letters, ...)                                                                       \
    REDIS_LISTS(TEXT("other"), NUMBER(5000), NUMBER(4000), TEXT("7"), TEXT("10-1"), TEXT(offer), TEXT(letters), \
                ##__VA_ARGS__)

// ---- batches ----

TEST(the_requests_of_a_turn_are_one_call)
{
    char words[512];
    request(1, 1, 3);
    ck_assert_uint_eq(fake_redis.count, 0); // nothing is sent before the turn ends
    ck_assert(sk_batcher_busy(batcher));
    sk_batcher_flush(batcher);
    ck_assert_uint_eq(fake_redis.count, 1);
    const struct asked *asked = &fake_redis.asked[0];
    ck_assert_int_eq(asked->what, SK_SCRIPT_PLACE_ORDERS);
    ck_assert_int_eq(asked->keys, 5);
    ck_assert_int_eq(asked->argc, CALL_ARGS + 2 * 3);
    for (int i = 15; i < 20; i += 2)
        ck_assert(sk_uuid_valid(asked->argv[i]));
    // Of this Redis process; nothing was seen so far; the last is the bound of orders for each user. Then the users, as
    // they came.
    (void)snprintf(words, sizeof words,
                   "seckill:{1}:voucher seckill:{1}:buyers seckill:{1}:journal seckill:{1}:repeats seckill:{1}:ended "
                   "100000 run-1 new 0 '' " FAKE_SESSION " - 1 20 user-1 %s user-2 %s user-3 %s",
                   asked->argv[15], asked->argv[17], asked->argv[19]);
    ck_assert_str_eq(words_from(asked, 0), words);
    sk_batcher_flush(batcher);
    ck_assert_uint_eq(fake_redis.count, 1); // one call for each
    ck_assert_uint_eq(told_count, 0);
    redis_answers(NULL);
}

// Vouchers of a scope have the first one's tag. Other vouchers in the slot are none of its.
TEST(the_script_sees_the_buyers_of_the_scope)
{
    static const struct sk_catalogue_row rows[] = {
        {.change = 9, .voucher_id = 9, .tag = "1", .user_limit = 1, .orders_per_user = 20, .offer = 1},
        {.change = 12, .voucher_id = 12, .tag = "1", .user_limit = 1, .orders_per_user = 20, .offer = 1}};
    (void)voucher(1);
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(sk_catalogue_put(sale.catalogue, &rows[i]), SK_OK);
    ask(9, 1, 2);
    const struct asked *asked = &fake_redis.asked[0];
    ck_assert_int_eq(asked->keys, 7);
    ck_assert_str_eq(asked->argv[1], "seckill:{1}{9}:buyers");
    ck_assert_str_eq(asked->argv[5], "seckill:{1}{12}:buyers");
    ck_assert_str_eq(asked->argv[6], "seckill:{1}:buyers");
    ANSWER("bb", TEXT("018bcfe5-6800-7000-8000-0123456789ab"), TEXT("12"), TEXT("018bcfe5-6800-7000-8000-0123456789ac"),
           TEXT("1x"));
    all_must_be(1, 2, SK_PURCHASE_ALREADY_ORDERED);
    ck_assert_str_eq(told_to(1)->order_id, "018bcfe5-6800-7000-8000-0123456789ab");
    ck_assert_int_eq(told_to(1)->voucher_id, 12);
    ck_assert_str_eq(told_to(2)->order_id, ""); // it is no voucher's
}

TEST(the_clock_is_read_once_a_turn)
{
    uint64_t before = uv_hrtime(), first;
    request(1, 1, 2);
    request(2, 3, 1);
    const struct sk_order *order = voucher(1)->asking.orders.head;
    first = order->began_ns;
    ck_assert_uint_ge(first, before);
    ck_assert_uint_eq(order->next->began_ns, first);
    ck_assert_uint_eq(voucher(2)->asking.orders.head->began_ns, first);
    fake_redis.busy = true;
    sk_batcher_flush(batcher); // the turn ends, but nothing can be sent
    while (uv_hrtime() == first) {}
    request(1, 4, 1);
    ck_assert_uint_gt(voucher(1)->asking.orders.tail->began_ns, first);
    ck_assert_uint_le(voucher(1)->asking.orders.tail->began_ns, uv_hrtime());
    fake_redis.busy = false;
    sk_batcher_flush(batcher);
    redis_answers(NULL);
    redis_answers(NULL);
}

TEST(a_batch_is_of_one_voucher_and_has_its_bound)
{
    int sizes[3][3] = {{0}}; // by voucher
    request(1, 1, 2);
    request(2, 3, 1);
    request(1, 4, 10);
    sk_batcher_flush(batcher);
    ck_assert_uint_eq(fake_redis.count, 4);
    for (size_t i = 0, n[3] = {0}; i < 4; i++) {
        int id = fake_redis.asked[i].argv[0][strlen("seckill:{")] - '0';
        ck_assert_int_lt(id, 3);
        sizes[id][n[id]++] = fake_redis.asked[i].argc - CALL_ARGS;
    }
    ck_assert_int_eq(sizes[1][0], 2 * 5);
    ck_assert_int_eq(sizes[1][1], 2 * 5);
    ck_assert_int_eq(sizes[1][2], 2 * 2);
    ck_assert_int_eq(sizes[2][0], 2 * 1);
    for (size_t i = 0; i < 4; i++)
        redis_answers(NULL);
    all_must_be(1, 13, SK_PURCHASE_UNAVAILABLE);
}

TEST(while_redis_is_busy_requests_gather)
{
    fake_redis.busy = true;
    ask(1, 1, 2);
    ask(1, 3, 2);
    ck_assert_uint_eq(fake_redis.count, 0);
    ck_assert(sk_batcher_busy(batcher));
    fake_redis.busy = false;
    sk_batcher_flush(batcher);
    ck_assert_uint_eq(fake_redis.count, 1);
    ck_assert_int_eq(fake_redis.asked[0].argc, CALL_ARGS + 2 * 4);
    redis_answers(NULL);
    all_must_be(1, 4, SK_PURCHASE_UNAVAILABLE);
}

// ---- answers ----

static const struct {
    const char *letter;
    struct sk_reply more;
    enum sk_purchase_code code;
    const char *order_id;
    int64_t left;
    bool repeats, remembered; // remembered: it refuses other users, too
} letters[] = {
    {"s", NIL, SK_PURCHASE_SOLD_OUT, "", 0, false, true},
    {"e", NIL, SK_PURCHASE_ENDED, "", 0, false, true},
    {"u", NIL, SK_PURCHASE_PAUSED, "", 0, false, true},
    {"n", NIL, SK_PURCHASE_NOT_STARTED, "", 0, false, false}, // but its start is over
    {"f", NIL, SK_PURCHASE_OVERLOADED, "", 0, false, false},
    {"h", NIL, SK_PURCHASE_LOADING, "", 0, false, false}, // it has just reopened, and sells shortly
    {"t", NIL, SK_PURCHASE_TOO_MANY_ORDERS, "", 0, false, false},
    {"m", NUMBER(2), SK_PURCHASE_NOT_ENOUGH, "", 2, false, false}, // a request for fewer units may succeed
    {"m", TEXT("99999"), SK_PURCHASE_NOT_ENOUGH, "", 99999, false, false},
    {"k", TEXT(FIRST), SK_PURCHASE_ALREADY_ORDERED, FIRST, 0, true, false},
    {"d", TEXT(FIRST), SK_PURCHASE_ALREADY_ORDERED, FIRST, 0, true, false},
    {"q", TEXT(FIRST), SK_PURCHASE_IDEMPOTENCY_KEY_REUSED, "", 0, false, false},
    {"a", TEXT(FIRST), SK_PURCHASE_ALREADY_ORDERED, FIRST, 0, false, false},
    // The order exists, but its id cannot be shown.
    {"a", TEXT("no id"), SK_PURCHASE_ALREADY_ORDERED, "", 0, false, false},
    {"k", TEXT("no id"), SK_PURCHASE_UNAVAILABLE, "", 0, false, false},
    {"d", TEXT("no id"), SK_PURCHASE_UNAVAILABLE, "", 0, false, false},
    {"q", TEXT("no id"), SK_PURCHASE_UNAVAILABLE, "", 0, false, false},
};

TEST_EACH(each_letter_is_told_with_what_belongs_to_it, sizeof letters / sizeof letters[0])
{
    ask(1, 1, 1);
    if (letters[_i].more.kind == REPLY_NIL)
        ANSWER(letters[_i].letter);
    else
        ANSWER(letters[_i].letter, letters[_i].more);
    all_must_be(1, 1, letters[_i].code);
    ck_assert_str_eq(told[0].order_id, letters[_i].order_id);
    ck_assert_int_eq(told[0].left, letters[_i].left);
    ck_assert_int_eq(told[0].repeats, letters[_i].repeats);
    ck_assert_int_eq(cached()->until_ms != 0, letters[_i].remembered);
    ck_assert(!letters[_i].remembered || cached()->code == letters[_i].code);
    ck_assert_uint_eq(fake_redis.count, letters[_i].remembered ? 2 : 1); // the buyers are read
}

TEST(what_belongs_to_letters_comes_in_their_order)
{
    static const enum sk_purchase_code codes[] = {
        SK_PURCHASE_NOT_ENOUGH, SK_PURCHASE_ALREADY_ORDERED, SK_PURCHASE_ACCEPTED, SK_PURCHASE_NOT_ENOUGH,
        SK_PURCHASE_SOLD_OUT,   SK_PURCHASE_ALREADY_ORDERED, SK_PURCHASE_ACCEPTED};
    options.batch_max = 7;
    ask(1, 1, 7);
    char *const *ids = fake_redis.asked[0].argv + 15;
    const char *const order_ids[] = {"", FIRST, ids[4], "", "", SECOND, ids[12]};
    ANSWER("mkpmsap", NUMBER(4), TEXT(FIRST), NUMBER(3), TEXT(SECOND));
    ck_assert_uint_eq(told_count, 7);
    for (int i = 0; i < 7; i++) {
        purchase_must_be((uint64_t)i + 1, codes[i]);
        ck_assert_str_eq(told_to((uint64_t)i + 1)->order_id, order_ids[i]);
        ck_assert_int_eq(told_to((uint64_t)i + 1)->left, i == 0 ? 4 : i == 3 ? 3 : 0);
        ck_assert_int_eq(told_to((uint64_t)i + 1)->repeats, i == 1);
    }
    ck_assert_uint_eq(granted_count, 2);
}

// The reply may take long: the cached start counts from the request, so it may be early, but never late.
TEST(who_comes_too_early_is_told_when_to_come)
{
    ask(1, 1, 2);
    uint64_t asked_at_ms = uv_now(&loop);
    WAIT_FOR((uv_update_time(&loop), uv_now(&loop) > asked_at_ms + 20));
    begins_in_ms = 2500;
    REDIS_LISTS(TEXT("ok"), TEXT("5000"), TEXT("7500"), TEXT("7"), TEXT("epoch-7"), TEXT(""), TEXT("nn"));
    all_must_be(1, 2, SK_PURCHASE_NOT_STARTED);
    ck_assert_uint_eq(cached()->asked_at_ms, asked_at_ms);
    ck_assert_uint_eq(cached()->begin_at_ms, asked_at_ms + 2500);
    ck_assert_uint_lt(cached()->until_ms, asked_at_ms + 2500);
}

TEST(what_is_asked_and_granted_is_counted)
{
    ask(1, 1, 7); // two calls: a batch has five
    ck_assert_uint_eq(counted(SK_METRIC_ORDERS_GRANTED), 0);
    ANSWER("psphn");
    REDIS_LISTS(TEXT("loading"));
    fake_redis.down = true;
    ask(1, 8, 1); // it is refused without a call
    ck_assert_uint_eq(counted(SK_METRIC_ORDERS_GRANTED), 2);
    ck_assert_uint_eq(counted(SK_METRIC_SCRIPT_CALLS), 2);
    ck_assert_uint_eq(counted(SK_METRIC_ORDERS_TRIED), 7);
}

// Times of each order, whatever its outcome; for a call without a reply only how long its orders had waited.
TEST(the_legs_are_measured)
{
    uint64_t before = uv_hrtime();
    request(1, 1, 2);
    voucher(1)->asking.orders.head->began_ns -= UINT64_C(5000000000);
    sk_batcher_flush(batcher);
    ck_assert_uint_eq(measured(SK_DISTRIBUTION_BATCH_REDIS).sum, 2);
    ck_assert_uint_eq(measured_count(SK_DISTRIBUTION_BATCH_REDIS), 1);
    ck_assert_uint_ge(measured(SK_DISTRIBUTION_LEG_GATHER).sum, UINT64_C(5000000000));
    ck_assert_uint_eq(measured(SK_DISTRIBUTION_LEG_GATHER).counts[16], 1);
    ck_assert_uint_eq(measured_count(SK_DISTRIBUTION_LEG_GATHER), 2);
    ck_assert_uint_eq(measured_count(SK_DISTRIBUTION_LEG_REDIS), 0);
    ANSWER("ph");
    ck_assert_uint_gt(measured(SK_DISTRIBUTION_LEG_REDIS).sum, 0);
    ck_assert_uint_eq(measured_count(SK_DISTRIBUTION_LEG_REDIS), 2);
    ck_assert_uint_ge(granted[0]->granted_ns, before);
    ck_assert_uint_le(granted[0]->granted_ns, uv_hrtime());
    ask(1, 3, 1);
    redis_answers(NULL);
    ck_assert_uint_eq(measured_count(SK_DISTRIBUTION_LEG_REDIS), 2);
    ck_assert_uint_eq(measured_count(SK_DISTRIBUTION_LEG_GATHER), 3);
}

TEST(winners_go_to_the_writer_as_one_entry)
{
    request(1, 1, 4);
    voucher(1)->asking.orders.head->quantity = 3;
    voucher(1)->asking.orders.head->key = 0xabc;
    sk_batcher_flush(batcher);
    ANSWER("pphp");
    ck_assert_uint_eq(granted_count, 3);
    ck_assert_uint_eq(counted(SK_METRIC_ORDERS_GRANTED), 3); // orders, not units
    ck_assert_uint_eq(granted[0]->quantity, 3);
    ck_assert_uint_eq(granted[0]->key, 0xabc);
    const struct sk_entry *entry = granted[0]->entry;
    ck_assert_ptr_eq(entry->voucher, voucher(1));
    ck_assert_str_eq(entry->journal_id, "10-1");
    ck_assert_int_eq(entry->kind, SK_ENTRY_OWN);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_ptr_eq(granted[i]->entry, entry);
        ck_assert_int_eq(granted[i]->epoch, 7);
    }
    ck_assert_str_eq(granted[2]->user, "user-4");
    ask(1, 5, 1); // the next call reports how far Redis was
    ck_assert_str_eq(fake_redis.asked[1].argv[8], "7");
    ck_assert_str_eq(fake_redis.asked[1].argv[9], "10-1");
    redis_answers(NULL);
}

// ---- no answer, or no such answer ----

// Another instance's rebuild may have died. Keys of a wrong type, and a journal at its end, persist until a rebuild.
TEST(a_voucher_that_cannot_be_relied_on_is_503_and_rebuilt)
{
    static const struct {
        struct sk_reply reply;
        enum sk_doubt doubt;
    } rows[] = {
        {TEXT("missing"), SK_DOUBT_CLOSED},
        {TEXT("loading"), SK_DOUBT_CLOSED},
        {TEXT("unsure"), SK_DOUBT_BEHIND},
        {ERROR("WRONGTYPE Operation against a key holding the wrong kind of value script: x"), SK_DOUBT_DAMAGED},
        {ERROR("ERR The stream has exhausted the last possible ID, unable to add more items script: x"),
         SK_DOUBT_DAMAGED},
    };
    for (int i = 0; i < 5; i++) {
        ask(1, (uint64_t)i + 1, 1);
        if (rows[i].reply.kind == REPLY_TEXT)
            REDIS_LISTS(rows[i].reply);
        else
            redis_answers(&rows[i].reply);
        purchase_must_be((uint64_t)i + 1, SK_PURCHASE_LOADING);
        ck_assert_int_eq(suspicions, i + 1);
        ck_assert_int_eq(last_doubt, rows[i].doubt);
    }
}

// The call may have been or may yet be executed: its journal entry must be searched for.
TEST(a_dead_link_is_503_and_never_a_refusal)
{
    ask(1, 1, 3);
    redis_answers(NULL);
    all_must_be(1, 3, SK_PURCHASE_UNAVAILABLE);
    ck_assert_int_eq(orphans, 1);
    fake_redis.down = true;
    ask(1, 4, 2);
    all_must_be(1, 5, SK_PURCHASE_UNAVAILABLE);
    fake_redis.down = false;
    ask(1, 6, 1);
    ANSWER("s");
    ck_assert_int_eq(orphans, 1);
}

// What replaces the elements of a good reply for three orders from `at` on, before it is cut to `count`.
static const struct {
    size_t at, count;
    struct sk_reply with[4];
} misfits[] = {
    {0, 7, {NIL}},
    {1, 7, {NIL}},
    {2, 7, {NIL}},
    {3, 7, {NIL}},
    {4, 7, {NIL}},
    {5, 7, {NIL}},
    {6, 7, {NIL}},
    {6, 6, {NIL}},
    {6, 8, {TEXT("pps"), TEXT("id-too-many")}},
    {6, 7, {TEXT("pp")}},
    {6, 7, {TEXT("ppss")}},
    {6, 7, {TEXT("")}},
    {6, 7, {TEXT("ppx")}},
    {6, 7, {TEXT("pp\x01")}},
    {6, 7, {TEXT("PPS")}},
    {6, 7, {TEXT("ppa")}},
    {6, 7, {NUMBER(3)}},
    {6, 7, {{.kind = REPLY_TEXT, .text = "pp", .len = 3}}}, // with a NUL
    {6, 7, {TEXT("ssm")}},
    {6, 8, {TEXT("ssm"), NIL}},
    {6, 8, {TEXT("ssm"), TEXT(FIRST)}},
    {6, 8, {TEXT("ssm"), NUMBER(-1)}},
    {6, 8, {TEXT("ssm"), NUMBER(1000000000000000)}},
    {6, 9, {TEXT("ssm"), NUMBER(1), NUMBER(1)}},
    {6, 7, {TEXT("ssk")}},
    {6, 8, {TEXT("ssk"), NIL}},
    {6, 8, {TEXT("ssk"), NUMBER(1)}},
    {6, 9, {TEXT("ska"), TEXT(FIRST), NUMBER(1)}},
    {6, 7, {TEXT("ssd")}},
    {6, 7, {TEXT("ssq")}},
    {6, 8, {TEXT("ssu"), TEXT(FIRST)}},
    {6, 8, {TEXT("ssh"), TEXT(FIRST)}},
    {6, 8, {TEXT("ssM"), NUMBER(1)}},
    {6, 7, {TEXT("sso")}}, // with another status
};

// ... or the whole reply. A slot that is not stable has no node that can execute it.
static const struct sk_reply no_answers[] = {
    NIL,
    NUMBER(1),
    TEXT("ok"),
    TEXT("missing"), // only a word, where a list is required
    {.kind = REPLY_LIST},
    ERROR("OOM command not allowed"),
    ERROR("NOSCRIPT"),
    ERROR("READONLY You can't write against a read only replica."),
    ERROR("ASK 9842 127.0.0.1:7000"),
    ERROR("TRYAGAIN Multiple keys request during rehashing of slot"),
    ERROR("CLUSTERDOWN Hash slot not served"),
};
enum { MISFITS = sizeof misfits / sizeof misfits[0], NO_ANSWERS = sizeof no_answers / sizeof no_answers[0] };

static void must_be_no_answer(const struct sk_reply *reply)
{
    size_t calls = fake_redis.count;
    told_count = 0;
    ask(1, 1, 3);
    redis_answers(reply);
    all_must_be(1, 3, SK_PURCHASE_UNAVAILABLE);
    ck_assert_uint_eq(granted_count, 0);
    ck_assert_uint_eq(fake_redis.count, calls + 1);
    ck_assert_int_eq(suspicions + differences + orphans, 0);
}

TEST_EACH(a_malformed_answer_is_503_for_all, MISFITS + NO_ANSWERS)
{
    struct sk_reply items[10] = {TEXT("ok"),   NUMBER(5000), NUMBER(4000), TEXT("7"),
                                 TEXT("10-1"), TEXT("10-1"), TEXT("pps")};
    struct sk_reply reply = LIST_OF(items);
    if (_i < MISFITS) {
        reply.count = misfits[_i].count;
        for (int i = 0; i < 4 && (i == 0 || misfits[_i].with[i].kind != REPLY_NIL); i++)
            items[misfits[_i].at + (size_t)i] = misfits[_i].with[i];
        must_be_no_answer(&reply);
    } else {
        must_be_no_answer(&no_answers[_i - MISFITS]);
    }
}

TEST(another_offer_is_a_number_and_grants_nothing)
{
    static const char *const offers[] = {"", "-1", "2147483648", "x", "2"};
    for (size_t i = 0; i < 5; i++) {
        const struct sk_reply items[] = {TEXT("other"),
                                         NUMBER(5000),
                                         NUMBER(4000),
                                         TEXT("7"),
                                         TEXT("10-1"),
                                         TEXT(offers[i]),
                                         TEXT(i < 4 ? "ooo" : "oop")};
        const struct sk_reply reply = LIST_OF(items);
        must_be_no_answer(&reply);
    }
}

// Granted orders go to the writer even if the journal id is impossible; only the comparison with later ids is skipped.
TEST(a_journal_id_out_of_range_stops_no_order)
{
    static const char id[] = "9999999999999999999-1";
    ask(1, 1, 2);
    REDIS_LISTS(TEXT("ok"), NUMBER(5000), NUMBER(4000), TEXT("7"), TEXT(id), TEXT(id), TEXT("ps"));
    purchase_must_be(1, SK_PURCHASE_ACCEPTED);
    ck_assert_uint_eq(granted_count, 1);
    ck_assert_str_eq(granted[0]->entry->journal_id, id);
    ck_assert_str_eq(voucher(1)->seen.last, "");
    ck_assert_uint_eq(cached()->until_ms, 0);
}

// ---- nodes of a cluster: vouchers 1 and 2 are on two ----

static const struct sk_reply moved = ERROR("MOVED 9842 127.0.0.1:7000");

TEST(a_busy_node_holds_up_no_other)
{
    fake_redis.cluster = fake_redis.first_busy = true;
    request(1, 1, 2);
    request(2, 3, 1);
    ck_assert(sk_batcher_flush(batcher));
    ck_assert_uint_eq(fake_redis.count, 1);
    ck_assert_str_eq(fake_redis.asked[0].argv[0], "seckill:{2}:voucher");
    ck_assert_ptr_eq(fake_redis.asked[0].link, sk_nodes_orders_of(NULL, 2));
    ANSWER("p");
    all_must_be(3, 1, SK_PURCHASE_ACCEPTED);
    ck_assert(!sk_batcher_flush(batcher));
    ck_assert(sk_batcher_busy(batcher));
    fake_redis.first_busy = false;
    ck_assert(sk_batcher_flush(batcher));
    ck_assert_ptr_eq(fake_redis.asked[1].link, sk_nodes_orders_of(NULL, 1));
    ANSWER("pp");
    all_must_be(1, 3, SK_PURCHASE_ACCEPTED);
}

// Nothing was executed. The link has corrected the map by now.
TEST(a_voucher_that_has_moved_is_asked_at_its_new_node)
{
    ask(2, 1, 2);
    fake_redis.cluster = true;
    redis_answers(&moved);
    ck_assert_uint_eq(told_count, 0);
    ck_assert_uint_eq(fake_redis.count, 1);
    ck_assert(sk_batcher_flush(batcher));
    ck_assert_ptr_eq(fake_redis.asked[1].link, sk_nodes_orders_of(NULL, 2));
    ck_assert_str_eq(fake_redis.asked[1].argv[15], fake_redis.asked[0].argv[15]); // the same order
    ANSWER("pp");
    all_must_be(1, 2, SK_PURCHASE_ACCEPTED);
    ck_assert_uint_eq(granted_count, 2);
}

TEST(a_voucher_that_moves_for_ever_is_503)
{
    request(1, 1, 1);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(told_count, 0);
        sk_batcher_flush(batcher);
        redis_answers(&moved);
    }
    all_must_be(1, 1, SK_PURCHASE_LOADING);
    ck_assert(!sk_batcher_flush(batcher));
}

// The reply counts for its orders, but shows nothing of the node that has the voucher now.
TEST_EACH(what_the_old_node_answers_is_not_remembered, 2)
{
    bool moves = _i == 1;
    fake_redis.cluster = true;
    fake_redis.second_run_number = fake_redis.run_number + 1;
    ask(1, 1, 2);
    fake_redis.swapped = moves;
    ANSWER("ps");
    purchase_must_be(1, SK_PURCHASE_ACCEPTED);
    purchase_must_be(2, SK_PURCHASE_SOLD_OUT);
    ck_assert_str_eq(voucher(1)->seen.last, moves ? "" : "10-1");
    ck_assert_int_eq(cached()->until_ms == 0, moves);
    fake_redis.swapped = false;
}

// ---- quantity and Idempotency-Key ----

// One more request, of user-<handle>.
static void request_of(uint64_t handle, unsigned quantity, uint64_t key)
{
    request(1, handle, 1);
    voucher(1)->asking.orders.tail->quantity = (uint16_t)quantity;
    voucher(1)->asking.orders.tail->key = key;
}

TEST(quantity_and_key_are_asked_with_all_or_none)
{
    request_of(1, 1, 0);
    request_of(2, 3, 0);
    request_of(3, 1, 0xabc);
    request_of(4, 1000, UINT64_MAX);
    sk_batcher_flush(batcher);
    ck_assert_str_eq(fake_redis.asked[0].argv[11], "1,3,1 0000000000000abc,1000 ffffffffffffffff");
    ck_assert_int_eq(fake_redis.asked[0].argc, CALL_ARGS + 2 * 4);
    redis_answers(NULL);
    request_of(5, 1, 1); // an order with only a key is not plain either
    sk_batcher_flush(batcher);
    ck_assert_str_eq(fake_redis.asked[1].argv[11], "1 0000000000000001");
    redis_answers(NULL);
    ck_assert_uint_eq(told_count, 5);
}

// ---- the session, and closing ----

// Without a session no purchase is sent: others could not know whose its entry is.
TEST(purchases_wait_for_the_session_that_was_asked_for)
{
    fake_session.lost = fake_session.asked = true;
    request(1, 1, 2);
    ck_assert(!sk_batcher_flush(batcher));
    ck_assert_uint_eq(fake_redis.count + told_count, 0);
    fake_session.lost = false;
    ck_assert(sk_batcher_flush(batcher));
    ck_assert_uint_eq(fake_redis.count, 1);
    ANSWER("hh");
    all_must_be(1, 2, SK_PURCHASE_LOADING);
}

TEST(purchases_are_refused_where_there_will_be_no_session)
{
    fake_session.lost = true;
    request(1, 1, 2);
    ask(2, 3, 1);
    ck_assert_uint_eq(fake_redis.count, 0);
    all_must_be(1, 3, SK_PURCHASE_UNAVAILABLE);
}

TEST(closing_answers_those_that_still_wait)
{
    fake_redis.busy = true;
    request(1, 1, 2);
    ask(2, 3, 1);
    sk_batcher_close(batcher);
    all_must_be(1, 3, SK_PURCHASE_UNAVAILABLE);
    batcher = sk_batcher_open(&sale); // for the teardown
}

// ---- offers ----

// The instance's catalogue learns of another offer.
static void offer(int32_t number, int64_t cents, unsigned user_limit, bool ticket)
{
    struct sk_voucher *of = voucher(1);
    of->offer = number;
    of->price.cents = cents;
    of->user_limit = user_limit;
    of->ticket = ticket;
}

// A call names the offer. Nothing is sent until the background job is done; requests that arrived meanwhile are
// included then.
TEST(another_offer_in_redis_holds_the_voucher)
{
    ask(1, 1, 3);
    ck_assert_str_eq(fake_redis.asked[0].argv[12], "1");
    ANSWER_OTHER("2", "oao", TEXT(FIRST));
    all_must_be(2, 1, SK_PURCHASE_ALREADY_ORDERED); // P6 does not depend on terms
    ck_assert_int_eq(differences, 1);
    ck_assert_int_eq(last_offer, 2);
    ck_assert_uint_eq(granted_count, 0);
    request(1, 4, 1);
    ck_assert(!sk_batcher_flush(batcher));
    ck_assert_uint_eq(fake_redis.count, 1);
    ask(2, 5, 1); // another voucher is not held up
    ANSWER("h");
    offer(2, 100, 1, false);
    sk_batcher_release(voucher(1));
    ck_assert(sk_batcher_flush(batcher));
    ck_assert_str_eq(fake_redis.asked[2].argv[12], "2");
    ck_assert_int_eq(fake_redis.asked[2].argc, CALL_ARGS + 2 * 3);
    ANSWER("ppp");
    ck_assert_int_eq(granted[0]->offer, 2);
    ck_assert_uint_eq(granted_count, 3);
}

static const struct {
    int64_t cents;
    const char *currency;
    unsigned user_limit;
    bool ticket;
    enum sk_purchase_code code;
} changes_of_terms[] = {
    {200, "CNY", 2, false, SK_PURCHASE_OFFER_CHANGED}, // the buyer saw another price
    {50, "CNY", 2, false, SK_PURCHASE_OFFER_CHANGED},  // a lower one, too
    {100, "JPY", 2, false, SK_PURCHASE_OFFER_CHANGED},  {100, "CNY", 1, false, SK_PURCHASE_INVALID},
    {100, "CNY", 2, true, SK_PURCHASE_TICKET_REQUIRED}, {200, "CNY", 1, true, SK_PURCHASE_OFFER_CHANGED},
};

TEST_EACH(an_order_is_checked_again_by_the_new_offer, sizeof changes_of_terms / sizeof changes_of_terms[0])
{
    offer(1, 100, 2, false);
    request_of(1, 2, 0);
    voucher(1)->asking.orders.head->sent.kind = SK_ASK_NO_TICKET;
    sk_batcher_flush(batcher);
    ANSWER_OTHER("2", "o");
    offer(2, changes_of_terms[_i].cents, changes_of_terms[_i].user_limit, changes_of_terms[_i].ticket);
    (void)strcpy(voucher(1)->price.currency, changes_of_terms[_i].currency);
    sk_batcher_release(voucher(1));
    sk_batcher_flush(batcher);
    ck_assert_uint_eq(fake_redis.count, 1); // nothing is left to send
    all_must_be(1, 1, changes_of_terms[_i].code);
    ck_assert_int_eq(told[0].left, changes_of_terms[_i].code == SK_PURCHASE_INVALID ? 1 : 0);
}

// The catalogue was updated while the order waited for its first call.
TEST(what_waits_is_checked_again_before_it_is_sent)
{
    request(1, 1, 1);
    offer(2, 200, 1, false);
    ask(1, 2, 1);
    all_must_be(1, 1, SK_PURCHASE_OFFER_CHANGED);
    ck_assert_int_eq(fake_redis.asked[0].argc, CALL_ARGS + 2);
    ck_assert_str_eq(fake_redis.asked[0].argv[12], "2");
    ANSWER("p");
}

// Only what SOLD_OUT would refuse goes to the line.
TEST(who_waits_joins_the_line_when_it_is_sold_out)
{
    request(1, 1, 4);
    for (struct sk_order *order = voucher(1)->asking.orders.head; order != NULL; order = order->next)
        order->waits = order->handle < 4;
    (void)sk_batcher_flush(batcher);
    ANSWER("spas", TEXT(FIRST));
    ck_assert_uint_eq(joined.count, 1);
    ck_assert_uint_eq(joined.head->handle, 1);
    purchase_must_be(2, SK_PURCHASE_ACCEPTED);
    purchase_must_be(3, SK_PURCHASE_ALREADY_ORDERED);
    purchase_must_be(4, SK_PURCHASE_SOLD_OUT);
    sk_order_give(sale.orders, joined.head);
}

// An instance that cannot update sells nothing under its old terms, and sends Retry-After.
TEST(after_three_rounds_it_is_503)
{
    released_at_once = true;
    request(1, 1, 2);
    for (size_t round = 1; round <= 3; round++) {
        ck_assert_uint_eq(told_count, 0);
        sk_batcher_flush(batcher);
        ck_assert_uint_eq(fake_redis.count, round);
        ANSWER_OTHER("2", "oo");
    }
    all_must_be(1, 2, SK_PURCHASE_LOADING);
    ck_assert_int_eq(differences, 2); // nobody waits after the last round
    ck_assert_uint_eq(granted_count, 0);
}

TEST(a_hold_has_its_bound)
{
    ask(1, 1, 1);
    ANSWER_OTHER("2", "o");
    ck_assert(!sk_batcher_flush(batcher));
    while (!sk_batcher_flush(batcher)) // the background job never returns; the test's time-out is the bound
        uv_update_time(&loop);
    ck_assert_uint_eq(fake_redis.count, 2);
    redis_answers(NULL);
    all_must_be(1, 1, SK_PURCHASE_UNAVAILABLE);
}

SUITE(.setup = setup, .teardown = teardown);
