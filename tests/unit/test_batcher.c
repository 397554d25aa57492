// The batcher: how requests become script calls, and their outcome under every reply, also malformed ones. The stores,
// the writer and the loading are fakes.
#include <stdio.h>
#include <string.h>

#include "batcher.h"
#include "fake_session.h"
#include "offer.h"
#include "stage.h"
#include "test.h"
#include "wait.h"

enum { GRANTED_MAX = 64, POOL = 1000 };

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
    stage_open((struct sk_sale_options){.batch_max = 5, .orders_per_user = 20}, 1, POOL);
    sale.offers_differ = on_offers_differ;
    batcher = sk_batcher_open(&sale);
    ck_assert_ptr_nonnull(batcher);
}

// By now every call has been answered, and each order was answered or is with the writer.
static void teardown(void)
{
    ck_assert_uint_eq(fake_redis.answered, fake_redis.count);
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

static void must_be_told(size_t i, uint64_t handle, enum sk_purchase_code code)
{
    ck_assert_uint_lt(i, told_count);
    ck_assert_uint_eq(told[i].handle, handle);
    ck_assert_msg(told[i].code == code, "handle %d is told %s instead of %s", (int)handle,
                  sk_purchase_code_name(told[i].code), sk_purchase_code_name(code));
}

static void all_must_be_told(uint64_t first, uint64_t count, enum sk_purchase_code code)
{
    ck_assert_uint_eq(told_count, count);
    for (uint64_t i = 0; i < count; i++)
        must_be_told(i, first + i, code);
}

// The script's reply when letters decide; then the existing ids.
#define ANSWER(letters, ...)                                                                         \
    do {                                                                                             \
        const struct sk_reply items_[] = {TEXT("ok"),   NUMBER(5000), NUMBER(4000),  TEXT("7"),      \
                                          TEXT("10-1"), TEXT("10-1"), TEXT(letters), ##__VA_ARGS__}; \
        const struct sk_reply reply_ = LIST_OF(items_);                                              \
        redis_answers(&reply_);                                                                      \
    } while (0)

// The same for a voucher with another offer.
#define ANSWER_OTHER(offer, letters, ...)                                                             \
    do {                                                                                              \
        const struct sk_reply items_[] = {TEXT("other"), NUMBER(5000), NUMBER(4000),  TEXT("7"),      \
                                          TEXT("10-1"),  TEXT(offer),  TEXT(letters), ##__VA_ARGS__}; \
        const struct sk_reply reply_ = LIST_OF(items_);                                               \
        redis_answers(&reply_);                                                                       \
    } while (0)

#define ANSWER_WORD(word)                               \
    do {                                                \
        const struct sk_reply items_[] = {TEXT(word)};  \
        const struct sk_reply reply_ = LIST_OF(items_); \
        redis_answers(&reply_);                         \
    } while (0)

// ---- batches ----

TEST(the_requests_of_a_turn_are_one_call)
{
    request(1, 1, 3);
    ck_assert_uint_eq(fake_redis.count, 0); // nothing is sent before the turn ends
    ck_assert(sk_batcher_busy(batcher));
    sk_batcher_flush(batcher);
    ck_assert_uint_eq(fake_redis.count, 1);
    const struct asked *asked = &fake_redis.asked[0];
    ck_assert_int_eq(asked->what, SK_SCRIPT_PLACE_ORDERS);
    ck_assert_int_eq(asked->keys, 5);
    ck_assert_int_eq(asked->argc, 14 + 2 * 3);
    ck_assert_str_eq(asked->argv[0], "seckill:{1}:voucher");
    ck_assert_str_eq(asked->argv[1], "seckill:{1}:buyers");
    ck_assert_str_eq(asked->argv[2], "seckill:{1}:journal");
    ck_assert_str_eq(asked->argv[4], "seckill:{1}:ended");
    ck_assert_str_eq(asked->argv[6], "run-1"); // the Redis process connected to
    ck_assert_str_eq(asked->argv[7], "new");
    ck_assert_str_eq(asked->argv[8], "0"); // nothing seen so far
    ck_assert_str_eq(asked->argv[10], FAKE_SESSION);
    ck_assert_str_eq(asked->argv[13], "20"); // the bound of orders for each user
    for (int i = 0; i < 3; i++) {            // in the order they came
        char user[16];
        (void)snprintf(user, sizeof user, "user-%d", i + 1);
        ck_assert_str_eq(asked->argv[14 + 2 * i], user);
        ck_assert(sk_uuid_valid(asked->argv[15 + 2 * i]));
    }
    sk_batcher_flush(batcher);
    ck_assert_uint_eq(fake_redis.count, 1); // one call for each
    ck_assert_uint_eq(told_count, 0);
    redis_answers(NULL);
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

TEST(vouchers_do_not_mix)
{
    request(1, 1, 2);
    request(2, 3, 1);
    request(1, 4, 1);
    sk_batcher_flush(batcher);
    ck_assert_uint_eq(fake_redis.count, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct asked *asked = &fake_redis.asked[i];
        bool first = strcmp(asked->argv[0], "seckill:{1}:voucher") == 0;
        ck_assert_str_eq(asked->argv[0], first ? "seckill:{1}:voucher" : "seckill:{2}:voucher");
        ck_assert_int_eq(asked->argc, first ? 14 + 2 * 3 : 14 + 2 * 1);
    }
    redis_answers(NULL);
    redis_answers(NULL);
    ck_assert_uint_eq(told_count, 4);
}

TEST(a_batch_has_its_bound)
{
    static const int sizes[] = {5, 5, 2};
    request(1, 1, 12);
    sk_batcher_flush(batcher);
    ck_assert_uint_eq(fake_redis.count, 3);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(fake_redis.asked[i].argc, 14 + 2 * sizes[i]);
    for (size_t i = 0; i < 3; i++)
        redis_answers(NULL);
    all_must_be_told(1, 12, SK_PURCHASE_UNAVAILABLE);
}

TEST(while_redis_is_busy_requests_gather)
{
    fake_redis.busy = true;
    request(1, 1, 2);
    sk_batcher_flush(batcher);
    request(1, 3, 2);
    sk_batcher_flush(batcher);
    ck_assert_uint_eq(fake_redis.count, 0);
    ck_assert(sk_batcher_busy(batcher));
    fake_redis.busy = false;
    sk_batcher_flush(batcher);
    ck_assert_uint_eq(fake_redis.count, 1);
    ck_assert_int_eq(fake_redis.asked[0].argc, 14 + 2 * 4);
    redis_answers(NULL);
    all_must_be_told(1, 4, SK_PURCHASE_UNAVAILABLE);
}

// ---- answers ----

TEST(each_letter_is_its_users_verdict)
{
    static const char existing[] = "018bcfe5-6800-7000-8000-0123456789ab";
    request(1, 1, 5);
    sk_batcher_flush(batcher);
    ANSWER("pasep", TEXT(existing));
    ck_assert_uint_eq(told_count, 5);
    must_be_told(0, 1, SK_PURCHASE_ACCEPTED);
    must_be_told(1, 2, SK_PURCHASE_ALREADY_ORDERED);
    must_be_told(2, 3, SK_PURCHASE_SOLD_OUT);
    must_be_told(3, 4, SK_PURCHASE_ENDED);
    must_be_told(4, 5, SK_PURCHASE_ACCEPTED);
    ck_assert_str_eq(told[0].order_id, fake_redis.asked[0].argv[15]); // its own id
    ck_assert_str_eq(told[1].order_id, existing);
    ck_assert_str_eq(told[2].order_id, "");
    ck_assert_str_eq(told[4].order_id, fake_redis.asked[0].argv[23]);
    ck_assert_uint_eq(granted_count, 2);
}

TEST(winners_who_repeat_get_their_own_ids)
{
    static const char first[] = "018bcfe5-6800-7000-8000-000000000001",
                      third[] = "018bcfe5-6800-7000-8000-000000000003";
    request(1, 1, 4);
    sk_batcher_flush(batcher);
    ANSWER("asaa", TEXT(first), TEXT(third), TEXT("no id")); // an invalid id is not shown
    ck_assert_str_eq(told[0].order_id, first);
    ck_assert_str_eq(told[1].order_id, "");
    ck_assert_str_eq(told[2].order_id, third);
    ck_assert_int_eq(told[3].code, SK_PURCHASE_ALREADY_ORDERED);
    ck_assert_str_eq(told[3].order_id, "");
}

TEST(who_comes_too_early_is_told_when_to_come)
{
    const struct sk_reply items[] = {TEXT("ok"),      TEXT("5000"), TEXT("7500"), TEXT("7"),
                                     TEXT("epoch-7"), TEXT(""),     TEXT("nn")};
    const struct sk_reply reply = LIST_OF(items);
    request(1, 1, 2);
    sk_batcher_flush(batcher);
    redis_answers(&reply);
    all_must_be_told(1, 2, SK_PURCHASE_NOT_STARTED);
    ck_assert_uint_eq(told[0].retry_after_ms, 2500);
}

// The reply may take long: the cached start counts from the request, so it may be early, but never late.
TEST(a_start_is_cached_from_the_question_on)
{
    const struct sk_reply items[] = {TEXT("ok"),      TEXT("5000"), TEXT("7500"), TEXT("7"),
                                     TEXT("epoch-7"), TEXT(""),     TEXT("n")};
    const struct sk_reply reply = LIST_OF(items);
    options.sold_out_mark_ms = 60000;
    request(1, 1, 1);
    sk_batcher_flush(batcher);
    uint64_t asked_at_ms = uv_now(&loop);
    WAIT_FOR((uv_update_time(&loop), uv_now(&loop) > asked_at_ms + 20));
    redis_answers(&reply);
    ck_assert_uint_eq(voucher(1)->refusals.newest.asked_at_ms, asked_at_ms);
    ck_assert_uint_eq(voucher(1)->refusals.newest.begin_at_ms, asked_at_ms + 2500);
    ck_assert_uint_lt(voucher(1)->refusals.newest.until_ms, asked_at_ms + 2500);
    while (fake_redis.answered < fake_redis.count) // the read of the buyers
        redis_answers(NULL);
}

TEST(what_is_asked_and_granted_is_counted)
{
    request(1, 1, 7); // two calls: a batch has five
    sk_batcher_flush(batcher);
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_SCRIPT_CALLS), 2);
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_ORDERS_TRIED), 7);
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_ORDERS_GRANTED), 0);
    ANSWER("pspsn");
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_ORDERS_GRANTED), 2);
    ANSWER_WORD("loading");
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_ORDERS_GRANTED), 2);
    fake_redis.down = true;
    request(1, 8, 1); // it is refused without a call
    sk_batcher_flush(batcher);
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_SCRIPT_CALLS), 2);
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_ORDERS_TRIED), 7);
}

static struct sk_distributed measured(enum sk_distribution_id id, uint64_t *count)
{
    struct sk_distributed values = {.sum = 0};
    *count = 0;
    sk_distribution_read(&metrics.distributions[id], &values);
    for (size_t i = 0; i <= SK_DISTRIBUTION_BOUNDS; i++)
        *count += values.counts[i];
    return values;
}

// Times of each order, whatever its outcome; for a call without a reply only how long its orders had waited.
TEST(the_legs_are_measured)
{
    uint64_t count, before = uv_hrtime();
    request(1, 1, 2);
    voucher(1)->asking.orders.head->began_ns -= UINT64_C(5000000000);
    sk_batcher_flush(batcher);
    ck_assert_uint_eq(measured(SK_DISTRIBUTION_BATCH_REDIS, &count).sum, 2);
    ck_assert_uint_eq(count, 1);
    ck_assert_uint_ge(measured(SK_DISTRIBUTION_LEG_GATHER, &count).sum, UINT64_C(5000000000));
    ck_assert_uint_eq(count, 2);
    ck_assert_uint_eq(measured(SK_DISTRIBUTION_LEG_GATHER, &count).counts[16], 1);
    (void)measured(SK_DISTRIBUTION_LEG_REDIS, &count);
    ck_assert_uint_eq(count, 0);
    ANSWER("ps");
    ck_assert_uint_gt(measured(SK_DISTRIBUTION_LEG_REDIS, &count).sum, 0);
    ck_assert_uint_eq(count, 2);
    ck_assert_uint_ge(granted[0]->granted_ns, before);
    ck_assert_uint_le(granted[0]->granted_ns, uv_hrtime());
    request(1, 3, 1);
    sk_batcher_flush(batcher);
    redis_answers(NULL);
    (void)measured(SK_DISTRIBUTION_LEG_REDIS, &count);
    ck_assert_uint_eq(count, 2);
    (void)measured(SK_DISTRIBUTION_LEG_GATHER, &count);
    ck_assert_uint_eq(count, 3);
}

TEST(winners_go_to_the_writer_as_one_entry)
{
    request(1, 1, 4);
    sk_batcher_flush(batcher);
    ANSWER("ppsp");
    ck_assert_uint_eq(granted_count, 3);
    const struct sk_entry *entry = granted[0]->entry;
    ck_assert_ptr_eq(entry->voucher, voucher(1));
    ck_assert_str_eq(entry->journal_id, "10-1");
    ck_assert_int_eq(entry->kind, SK_ENTRY_OWN);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_ptr_eq(granted[i]->entry, entry);
        ck_assert_int_eq(granted[i]->epoch, 7);
    }
    ck_assert_str_eq(granted[2]->user, "user-4");
    request(1, 5, 1); // the next call reports how far Redis was
    sk_batcher_flush(batcher);
    ck_assert_str_eq(fake_redis.asked[1].argv[8], "7");
    ck_assert_str_eq(fake_redis.asked[1].argv[9], "10-1");
    redis_answers(NULL);
}

TEST(a_full_journal_is_503_but_winners_are_told)
{
    request(1, 1, 3);
    sk_batcher_flush(batcher);
    ANSWER("faf", TEXT("id-of-2"));
    must_be_told(0, 1, SK_PURCHASE_OVERLOADED);
    must_be_told(1, 2, SK_PURCHASE_ALREADY_ORDERED);
}

// Another instance's rebuild may have died.
TEST(a_voucher_that_cannot_be_relied_on_is_503_and_rebuilt)
{
    static const char *const words[] = {"missing", "loading", "unsure"};
    static const enum sk_doubt doubts[] = {SK_DOUBT_CLOSED, SK_DOUBT_CLOSED, SK_DOUBT_BEHIND};
    for (int i = 0; i < 3; i++) {
        request(1, (uint64_t)i + 1, 1);
        sk_batcher_flush(batcher);
        ANSWER_WORD(words[i]);
        must_be_told((size_t)i, (uint64_t)i + 1, SK_PURCHASE_LOADING);
        ck_assert_int_eq(suspicions, i + 1);
        ck_assert_int_eq(last_doubt, doubts[i]);
    }
}

TEST(a_dead_link_is_503_and_never_a_refusal)
{
    request(1, 1, 3);
    sk_batcher_flush(batcher);
    redis_answers(NULL);
    all_must_be_told(1, 3, SK_PURCHASE_UNAVAILABLE);
    told_count = 0;
    fake_redis.down = true;
    request(1, 4, 2);
    sk_batcher_flush(batcher);
    all_must_be_told(4, 2, SK_PURCHASE_UNAVAILABLE);
}

// ---- nodes of a cluster: vouchers 1 and 2 are on two ----

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
    ck_assert(!sk_batcher_flush(batcher));
    ck_assert(sk_batcher_busy(batcher));
    fake_redis.first_busy = false;
    ck_assert(sk_batcher_flush(batcher));
    ck_assert_ptr_eq(fake_redis.asked[1].link, sk_nodes_orders_of(NULL, 1));
    ANSWER("pp");
    ck_assert_uint_eq(told_count, 3);
    must_be_told(0, 3, SK_PURCHASE_ACCEPTED);
    must_be_told(1, 1, SK_PURCHASE_ACCEPTED);
}

// Nothing was executed. The link has corrected the map by now.
TEST(a_voucher_that_has_moved_is_asked_at_its_new_node)
{
    static const struct sk_reply moved = ERROR("MOVED 9842 127.0.0.1:7000");
    request(2, 1, 2);
    sk_batcher_flush(batcher);
    fake_redis.cluster = true;
    redis_answers(&moved);
    ck_assert_uint_eq(told_count, 0);
    ck_assert_uint_eq(fake_redis.count, 1);
    ck_assert(sk_batcher_flush(batcher));
    ck_assert_ptr_eq(fake_redis.asked[1].link, sk_nodes_orders_of(NULL, 2));
    ck_assert_str_eq(fake_redis.asked[1].argv[15], fake_redis.asked[0].argv[15]); // the same order
    ANSWER("pp");
    all_must_be_told(1, 2, SK_PURCHASE_ACCEPTED);
    ck_assert_uint_eq(granted_count, 2);
}

// The reply counts for its orders, but shows nothing of the node that has the voucher now.
TEST_EACH(what_the_old_node_answers_is_not_remembered, 2)
{
    bool moves = _i == 1;
    fake_redis.cluster = true;
    fake_redis.second_run_number = fake_redis.run_number + 1;
    request(1, 1, 2);
    sk_batcher_flush(batcher);
    fake_redis.swapped = moves;
    ANSWER("ps");
    ck_assert_int_eq(told[0].code, SK_PURCHASE_ACCEPTED);
    ck_assert_int_eq(told[1].code, SK_PURCHASE_SOLD_OUT);
    ck_assert_str_eq(voucher(1)->seen.last, moves ? "" : "10-1");
    fake_redis.swapped = false;
}

TEST(a_voucher_that_moves_for_ever_is_503)
{
    static const struct sk_reply moved = ERROR("MOVED 9842 127.0.0.1:7000");
    request(1, 1, 1);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(told_count, 0);
        sk_batcher_flush(batcher);
        redis_answers(&moved);
    }
    all_must_be_told(1, 1, SK_PURCHASE_LOADING);
    ck_assert(!sk_batcher_flush(batcher));
}

// It was not executed either, but no node can yet.
TEST_EACH(an_unstable_slot_is_503_and_no_doubt, 3)
{
    static const struct sk_reply unstable[] = {ERROR("ASK 9842 127.0.0.1:7000"),
                                               ERROR("TRYAGAIN Multiple keys request during rehashing of slot"),
                                               ERROR("CLUSTERDOWN Hash slot not served")};
    request(1, 1, 2);
    sk_batcher_flush(batcher);
    redis_answers(&unstable[_i]);
    all_must_be_told(1, 2, SK_PURCHASE_UNAVAILABLE);
    ck_assert_uint_eq(fake_redis.count, 1);
}

TEST(a_malformed_answer_is_503_for_all)
{
    static const struct sk_reply good[] = {TEXT("ok"),   NUMBER(5000), NUMBER(4000), TEXT("7"),
                                           TEXT("10-1"), TEXT("10-1"), TEXT("pps")};
    static const struct sk_reply wrong_letters[] = {
        TEXT("pp"),  TEXT("ppss"), TEXT(""), TEXT("ppx"), TEXT("pp\x01"),
        TEXT("PPS"), TEXT("ppa"),  NIL,      NUMBER(3),   {.kind = REPLY_TEXT, .text = "pp", .len = 3}}; // with a NUL
    static const struct sk_reply whole[] = {
        NIL,
        NUMBER(1),
        TEXT("ok"),
        TEXT("missing"), // only a word, where a list is required
        {.kind = REPLY_LIST},
        ERROR("OOM command not allowed"),
        ERROR("NOSCRIPT"),
        ERROR("READONLY You can't write against a read only replica."),
    };
    struct sk_reply items[8];
    struct sk_reply reply = LIST_OF(items);
    uint64_t handle = 1;
    size_t cases = sizeof whole / sizeof whole[0] + 7 + 2 + sizeof wrong_letters / sizeof wrong_letters[0];
    for (size_t i = 0; i < cases; i++, handle += 3) {
        size_t at = i;
        memcpy(items, good, sizeof good);
        items[7] = (struct sk_reply)TEXT("id-too-many");
        reply.count = 7;
        request(1, handle, 3);
        sk_batcher_flush(batcher);
        if (at < sizeof whole / sizeof whole[0]) {
            redis_answers(&whole[at]);
        } else if ((at -= sizeof whole / sizeof whole[0]) < 7) {
            items[at] = (struct sk_reply)NIL; // each element of the wrong type
            redis_answers(&reply);
        } else if ((at -= 7) < 2) {
            reply.count = at == 0 ? 6 : 8; // too short, too long
            redis_answers(&reply);
        } else {
            items[6] = wrong_letters[at - 2];
            redis_answers(&reply);
        }
        ck_assert_msg(told_count == 3, "case %zu: %zu told", i, told_count);
        all_must_be_told(handle, 3, SK_PURCHASE_UNAVAILABLE);
        ck_assert_uint_eq(granted_count, 0);
        told_count = 0;
    }
}

// ---- impossible values ----

// Keys of a wrong type, and a journal at its end, persist until the voucher is rebuilt.
TEST(damage_is_503_and_rebuilt)
{
    static const struct sk_reply damages[] = {
        ERROR("WRONGTYPE Operation against a key holding the wrong kind of value script: x"),
        ERROR("ERR The stream has exhausted the last possible ID, unable to add more items script: x"),
    };
    for (int i = 0; i < 2; i++) {
        request(1, (uint64_t)i + 1, 1);
        sk_batcher_flush(batcher);
        redis_answers(&damages[i]);
        must_be_told((size_t)i, (uint64_t)i + 1, SK_PURCHASE_LOADING);
        ck_assert_int_eq(suspicions, i + 1);
        ck_assert_int_eq(last_doubt, SK_DOUBT_DAMAGED);
    }
}

// Granted orders go to the writer even if the journal id is impossible; only the comparison with later ids is skipped.
TEST(a_journal_id_out_of_range_stops_no_order)
{
    static const char id[] = "9999999999999999999-1";
    const struct sk_reply items[] = {TEXT("ok"), NUMBER(5000), NUMBER(4000), TEXT("7"), TEXT(id), TEXT(id), TEXT("p")};
    const struct sk_reply reply = LIST_OF(items);
    request(1, 1, 1);
    sk_batcher_flush(batcher);
    redis_answers(&reply);
    must_be_told(0, 1, SK_PURCHASE_ACCEPTED);
    ck_assert_uint_eq(granted_count, 1);
    ck_assert_str_eq(granted[0]->entry->journal_id, id);
    ck_assert_str_eq(voucher(1)->seen.last, "");
}

// The sale has just reopened and will sell shortly, so no reactor may cache a refusal.
TEST(a_sale_that_is_held_is_loading_and_not_cached)
{
    options.sold_out_mark_ms = 60000;
    request(1, 1, 1);
    sk_batcher_flush(batcher);
    ANSWER("h");
    must_be_told(0, 1, SK_PURCHASE_LOADING);
    ck_assert_uint_eq(voucher(1)->refusals.newest.until_ms, 0);
    ck_assert_uint_eq(fake_redis.count, 1);
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
    request(1, 1, 3);
    sk_batcher_flush(batcher);
    ck_assert_str_eq(fake_redis.asked[0].argv[11], "-");
    redis_answers(NULL);
    request_of(4, 1, 0);
    request_of(5, 3, 0);
    request_of(6, 1, 0xabc);
    request_of(7, 1000, UINT64_MAX);
    sk_batcher_flush(batcher);
    ck_assert_str_eq(fake_redis.asked[1].argv[11], "1,3,1 0000000000000abc,1000 ffffffffffffffff");
    ck_assert_int_eq(fake_redis.asked[1].argc, 14 + 2 * 4);
    redis_answers(NULL);
    request_of(8, 1, 1); // an order with only a key is not plain either
    sk_batcher_flush(batcher);
    ck_assert_str_eq(fake_redis.asked[2].argv[11], "1 0000000000000001");
    redis_answers(NULL);
    ck_assert_uint_eq(told_count, 8);
}

#define FIRST  "018bcfe5-6800-7000-8000-000000000001"
#define SECOND "018bcfe5-6800-7000-8000-000000000002"

static const struct {
    const char *letter;
    struct sk_reply more;
    enum sk_purchase_code code;
    const char *order_id;
    int64_t left;
    bool repeats;
} letters[] = {
    {"m", NUMBER(2), SK_PURCHASE_NOT_ENOUGH, "", 2, false},
    {"m", TEXT("99999"), SK_PURCHASE_NOT_ENOUGH, "", 99999, false},
    {"k", TEXT(FIRST), SK_PURCHASE_ALREADY_ORDERED, FIRST, 0, true},
    {"d", TEXT(FIRST), SK_PURCHASE_ALREADY_ORDERED, FIRST, 0, true},
    {"q", TEXT(FIRST), SK_PURCHASE_IDEMPOTENCY_KEY_REUSED, "", 0, false},
    {"a", TEXT(FIRST), SK_PURCHASE_ALREADY_ORDERED, FIRST, 0, false},
    // The order exists, but its id cannot be shown.
    {"k", TEXT("no id"), SK_PURCHASE_UNAVAILABLE, "", 0, false},
    {"d", TEXT("no id"), SK_PURCHASE_UNAVAILABLE, "", 0, false},
    {"q", TEXT("no id"), SK_PURCHASE_UNAVAILABLE, "", 0, false},
};
enum { LETTERS = sizeof letters / sizeof letters[0] };

TEST_EACH(each_letter_with_more_is_told_with_it, LETTERS)
{
    request_of(1, 3, 7);
    sk_batcher_flush(batcher);
    ANSWER(letters[_i].letter, letters[_i].more);
    must_be_told(0, 1, letters[_i].code);
    ck_assert_str_eq(told[0].order_id, letters[_i].order_id);
    ck_assert_int_eq(told[0].left, letters[_i].left);
    if (letters[_i].code == SK_PURCHASE_ALREADY_ORDERED)
        ck_assert_int_eq(told[0].repeats, letters[_i].repeats);
    ck_assert_uint_eq(told_count, 1);
    ck_assert_uint_eq(voucher(1)->refusals.newest.until_ms, 0); // none of these refuses other users
}

// It concerns only that user.
TEST(too_many_orders_are_a_refusal_that_is_not_remembered)
{
    request(1, 1, 2);
    sk_batcher_flush(batcher);
    ANSWER("tp");
    must_be_told(0, 1, SK_PURCHASE_TOO_MANY_ORDERS);
    ck_assert_str_eq(told[0].order_id, "");
    must_be_told(1, 2, SK_PURCHASE_ACCEPTED);
    ck_assert_uint_eq(voucher(1)->refusals.newest.until_ms, 0);
}

TEST(what_belongs_to_letters_comes_in_their_order)
{
    request(1, 1, 5);
    sk_batcher_flush(batcher);
    ANSWER("mkpma", NUMBER(4), TEXT(FIRST), NUMBER(3), TEXT(SECOND));
    ck_assert_int_eq(told[0].left, 4);
    ck_assert_str_eq(told[1].order_id, FIRST);
    ck_assert(told[1].repeats);
    must_be_told(2, 3, SK_PURCHASE_ACCEPTED);
    ck_assert_int_eq(told[3].left, 3);
    ck_assert_str_eq(told[4].order_id, SECOND);
    ck_assert(!told[4].repeats);
}

static const struct {
    const char *letters;
    struct sk_reply more[2];
    size_t count;
} shapes[] = {
    {"m", {NIL}, 0},
    {"m", {NIL}, 1},
    {"m", {TEXT(FIRST)}, 1},
    {"m", {NUMBER(-1)}, 1},
    {"m", {NUMBER(1000000000000000)}, 1},
    {"m", {NUMBER(1), NUMBER(1)}, 2},
    {"k", {NIL}, 0},
    {"k", {NIL}, 1},
    {"k", {NUMBER(1)}, 1},
    {"d", {NIL}, 0},
    {"q", {NIL}, 0},
    {"u", {TEXT(FIRST)}, 1},
    {"h", {TEXT(FIRST)}, 1},
    {"M", {NUMBER(1)}, 1},
    {"o", {NIL}, 0}, // with another status
};

TEST_EACH(letters_without_what_belongs_to_them_are_no_answer, sizeof shapes / sizeof shapes[0])
{
    struct sk_reply items[9] = {
        TEXT("ok"), NUMBER(5000), NUMBER(4000), TEXT("7"), TEXT("10-1"), TEXT("10-1"), TEXT(shapes[_i].letters)};
    struct sk_reply reply = {.kind = REPLY_LIST, .count = 7 + shapes[_i].count, .items = items};
    memcpy(items + 7, shapes[_i].more, sizeof shapes[_i].more);
    request(1, 1, 1);
    sk_batcher_flush(batcher);
    redis_answers(&reply);
    all_must_be_told(1, 1, SK_PURCHASE_UNAVAILABLE);
}

// A pause is cached, like a sell-out.
TEST(a_paused_voucher_refuses_from_memory)
{
    options.sold_out_mark_ms = 60000;
    request(1, 1, 2);
    sk_batcher_flush(batcher);
    ANSWER("uu");
    all_must_be_told(1, 2, SK_PURCHASE_PAUSED);
    ck_assert_int_eq(voucher(1)->refusals.newest.code, SK_PURCHASE_PAUSED);
    ck_assert_uint_ne(voucher(1)->refusals.newest.until_ms, 0);
    while (fake_redis.answered < fake_redis.count) // the read of the buyers
        redis_answers(NULL);
}

// A request for fewer units may still succeed.
TEST(too_few_units_are_not_remembered)
{
    options.sold_out_mark_ms = 60000;
    request_of(1, 3, 0);
    sk_batcher_flush(batcher);
    ANSWER("m", NUMBER(2));
    ck_assert_uint_eq(voucher(1)->refusals.newest.until_ms, 0);
    ck_assert_uint_eq(fake_redis.count, 1);
}

TEST(winners_keep_quantity_and_key)
{
    request_of(1, 3, 0xabc);
    sk_batcher_flush(batcher);
    ANSWER("p");
    ck_assert_uint_eq(granted[0]->quantity, 3);
    ck_assert_uint_eq(granted[0]->key, 0xabc);
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_ORDERS_GRANTED), 1); // orders, not units
}

// ---- closing ----

TEST(closing_answers_those_that_still_wait)
{
    fake_redis.busy = true;
    request(1, 1, 2);
    request(2, 3, 1);
    sk_batcher_flush(batcher);
    sk_batcher_close(batcher);
    ck_assert_uint_eq(told_count, 3);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(told[i].code, SK_PURCHASE_UNAVAILABLE);
    batcher = sk_batcher_open(&sale); // for the teardown
}

// ---- the session ----

// Without a session no purchase is sent: others could not know whose its entry is.
TEST(purchases_wait_for_the_session_that_was_asked_for)
{
    fake_session.lost = fake_session.asked = true;
    request(1, 1, 2);
    ck_assert(!sk_batcher_flush(batcher));
    ck_assert_uint_eq(fake_redis.count, 0);
    ck_assert_uint_eq(told_count, 0);
    fake_session.lost = false;
    ck_assert(sk_batcher_flush(batcher));
    ck_assert_uint_eq(fake_redis.count, 1);
    ANSWER("ss");
    all_must_be_told(1, 2, SK_PURCHASE_SOLD_OUT);
}

TEST(purchases_are_refused_where_there_will_be_no_session)
{
    fake_session.lost = true;
    request(1, 1, 2);
    request(2, 3, 1);
    sk_batcher_flush(batcher);
    ck_assert_uint_eq(fake_redis.count, 0);
    ck_assert_uint_eq(told_count, 3);
    for (size_t i = 0; i < told_count; i++)
        ck_assert_int_eq(told[i].code, SK_PURCHASE_UNAVAILABLE);
}

// The call may have been or may yet be executed: its journal entry must be searched for.
TEST(a_call_without_an_answer_may_leave_an_orphan)
{
    request(1, 1, 2);
    sk_batcher_flush(batcher);
    redis_answers(NULL);
    all_must_be_told(1, 2, SK_PURCHASE_UNAVAILABLE);
    ck_assert_int_eq(orphans, 1);
    request(1, 3, 1);
    sk_batcher_flush(batcher);
    ANSWER("s");
    ck_assert_int_eq(orphans, 1);
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

TEST(a_call_names_the_offer)
{
    offer(4, 100, 1, false);
    request(1, 1, 2);
    sk_batcher_flush(batcher);
    ck_assert_str_eq(fake_redis.asked[0].argv[12], "4");
    ANSWER("pp");
    ck_assert_int_eq(granted[1]->offer, 4);
}

// Nothing is sent until the background job is done; requests that arrived meanwhile are included then.
TEST(another_offer_in_redis_holds_the_voucher)
{
    request(1, 1, 3);
    sk_batcher_flush(batcher);
    ANSWER_OTHER("2", "oao", TEXT("00000000-0000-7000-8000-00000000000b"));
    ck_assert_uint_eq(told_count, 1); // P6 does not depend on terms
    must_be_told(0, 2, SK_PURCHASE_ALREADY_ORDERED);
    ck_assert_int_eq(differences, 1);
    ck_assert_int_eq(last_offer, 2);
    ck_assert_uint_eq(granted_count, 0);
    request(1, 4, 1);
    ck_assert(!sk_batcher_flush(batcher));
    ck_assert_uint_eq(fake_redis.count, 1);
    offer(2, 100, 1, false);
    sk_batcher_release(voucher(1));
    ck_assert(sk_batcher_flush(batcher));
    ck_assert_str_eq(fake_redis.asked[1].argv[12], "2");
    ck_assert_int_eq(fake_redis.asked[1].argc, 14 + 2 * 3);
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
    struct sk_order *order;
    request(1, 1, 1);
    order = voucher(1)->asking.orders.head;
    order->quantity = 2;
    order->sent.kind = SK_ASK_NO_TICKET;
    sk_batcher_flush(batcher);
    ANSWER_OTHER("2", "o");
    offer(2, changes_of_terms[_i].cents, changes_of_terms[_i].user_limit, changes_of_terms[_i].ticket);
    (void)strcpy(sk_catalogue_find(sale.catalogue, 1)->price.currency, changes_of_terms[_i].currency);
    sk_batcher_release(voucher(1));
    sk_batcher_flush(batcher);
    ck_assert_uint_eq(fake_redis.count, 1); // nothing is left to send
    must_be_told(0, 1, changes_of_terms[_i].code);
    ck_assert_int_eq(told[0].left, changes_of_terms[_i].code == SK_PURCHASE_INVALID ? 1 : 0);
}

// The catalogue was updated while the order waited for its first call.
TEST(what_waits_is_checked_again_before_it_is_sent)
{
    fake_redis.busy = true;
    offer(1, 100, 1, false);
    request(1, 1, 1);
    offer(2, 200, 1, false);
    request(1, 2, 1);
    fake_redis.busy = false;
    sk_batcher_flush(batcher);
    must_be_told(0, 1, SK_PURCHASE_OFFER_CHANGED);
    ck_assert_int_eq(fake_redis.asked[0].argc, 14 + 2);
    ck_assert_str_eq(fake_redis.asked[0].argv[12], "2");
    ANSWER("p");
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
    all_must_be_told(1, 2, SK_PURCHASE_LOADING);
    ck_assert_int_eq(differences, 2); // nobody waits after the last round
    ck_assert_uint_eq(granted_count, 0);
}

TEST(another_offer_is_a_number_and_grants_nothing)
{
    static const char *const offers[] = {"", "-1", "2147483648", "x", "2"};
    request(1, 1, 5);
    options.batch_max = 1;
    sk_batcher_flush(batcher);
    for (size_t i = 0; i < 5; i++) {
        if (i < 4)
            ANSWER_OTHER(offers[i], "o");
        else
            ANSWER_OTHER(offers[i], "p");
        must_be_told(i, i + 1, SK_PURCHASE_UNAVAILABLE);
    }
    ck_assert_int_eq(differences, 0);
}

TEST(a_hold_has_its_bound)
{
    request(1, 1, 1);
    sk_batcher_flush(batcher);
    ANSWER_OTHER("2", "o");
    ck_assert(!sk_batcher_flush(batcher));
    while (!sk_batcher_flush(batcher)) // the background job never returns; the test's time-out is the bound
        uv_update_time(&loop);
    ck_assert_uint_eq(fake_redis.count, 2);
    redis_answers(NULL);
    must_be_told(0, 1, SK_PURCHASE_UNAVAILABLE);
}

TEST(one_voucher_that_is_held_holds_up_no_other)
{
    request(1, 1, 1);
    sk_batcher_flush(batcher);
    ANSWER_OTHER("2", "o");
    request(2, 2, 1);
    ck_assert(sk_batcher_flush(batcher));
    ANSWER("p");
    sk_batcher_release(voucher(1));
    sk_batcher_flush(batcher);
    ANSWER("p");
    ck_assert_uint_eq(granted_count, 2);
}

SUITE(.setup = setup, .teardown = teardown);
