// The order writer: how granted orders become batches, the effect of each outcome in PostgreSQL, and that no failure of
// a store loses an order. The stores are fakes.
#include <string.h>

#include "histogram.h"
#include "listening.h"
#include "slot.h"
#include "stage.h"
#include "test.h"
#include "wait.h"
#include "write_queue.h"
#include "writer.h"

enum { BATCH_MAX = 4, POOL = 5000, TRIES = 5 };

#define LIVE "018bcfe5-6800-7000-8000-0123456789ab"

static struct sk_writer *writer;
static int recovered;

// ---- results ----

static void on_recovered(void *arg, struct sk_voucher *voucher)
{
    ck_assert_ptr_eq(arg, &recovered);
    ck_assert_ptr_nonnull(voucher);
    recovered++;
}

static struct sk_order *stale[TOLD_MAX];
static size_t stale_count;
static struct sk_order_list lost, regranting;

static void on_stale(void *arg, struct sk_order *order)
{
    ck_assert_ptr_eq(arg, &stale_count);
    sk_order_move(sale.orders, order, SK_ORDER_LOST, &lost);
    sk_order_move(sale.orders, order, SK_ORDER_REGRANTING, &regranting); // so that it can come back
    stale[stale_count++] = order;
}

// ---- fixture ----

static void open_writer(int64_t batch_max)
{
    static const struct sk_writer_events events = {on_recovered, on_stale, &recovered, &stale_count};
    options.batch_max = batch_max;
    writer = shards[0].writer = sk_writer_open(&sale, shards, &events);
    ck_assert_ptr_nonnull(writer);
}

static void setup(void)
{
    stage_open((struct sk_sale_options){.orders_max = POOL, .sold_out_mark_ms = 200}, 1, POOL);
    open_writer(BATCH_MAX);
}

// Entries end with Redis's reply.
static void answer_all_of_redis(void)
{
    static const struct sk_reply done = NUMBER(1);
    while (fake_redis.answered < fake_redis.count)
        redis_answers(&done);
}

static void teardown(void)
{
    answer_all_of_redis();
    sk_writer_close(writer);
    stage_close();
}

// Lets time pass until the condition holds, for orders that return after a pause.
#define RUN_UNTIL(condition) WAIT_FOR((uv_run(&loop, UV_RUN_NOWAIT), condition))

// Grants orders of user-<handle>, starting at handle `first`.
static void grant_in(struct sk_entry *entry, int64_t epoch, uint64_t first, uint64_t count, bool low_priority)
{
    for (uint64_t handle = first; handle < first + count; handle++) {
        struct sk_order *order = sk_order_take(sale.orders, 0);
        sk_order_name(sale.orders, order, 0, 0);
        order->handle = handle;
        order->epoch = epoch;
        order->low_priority = low_priority;
        (void)snprintf(order->user, sizeof order->user, "user-%d", (int)handle);
        sk_writer_add(entry, order);
    }
}

// ... in an own entry of this voucher and of epoch 7; without a journal id in a loose one.
static struct sk_entry *grant(int64_t voucher_id, const char *journal_id, uint64_t first, uint64_t count)
{
    struct sk_voucher *voucher = a_voucher(sale.catalogue, voucher_id);
    struct sk_entry *entry =
        journal_id == NULL ? sk_entry_new(&sale, voucher, SK_ENTRY_LOOSE, 0) : own_entry(voucher, 7, journal_id);
    grant_in(entry, 7, first, count, false);
    return entry;
}

static void grant_low(const char *journal_id, uint64_t handle)
{
    grant_in(own_entry(a_voucher(sale.catalogue, 1), 7, journal_id), 7, handle, 1, true);
}

static void pump(void)
{
    sk_writer_pump(writer, false);
}

static const struct asked *asked_pg(void)
{
    ck_assert_uint_gt(fake_pg.count, fake_pg.answered);
    return &fake_pg.asked[fake_pg.count - 1];
}

// The order id at place `i` of the latest batch.
static void id_at(int i, char out[SK_UUID_SIZE])
{
    memcpy(out, asked_pg()->argv[3] + 1 + (size_t)i * (SK_UUID_CHARS + 1), SK_UUID_CHARS);
    out[SK_UUID_CHARS] = '\0';
}

// The batch that PostgreSQL has: "voucher epoch users", or "vouchers epochs counts users journal-ids".
static void must_ask(const char *batch)
{
    char text[1024], slot[8];
    const struct asked *asked = asked_pg();
    char *const *argv = asked->argv;
    if (asked->what == SK_STATEMENT_PLACE_ORDERS) {
        (void)snprintf(slot, sizeof slot, "%u", sk_slot(argv[1], strlen(argv[1])));
        ck_assert_str_eq(argv[0], slot);
        (void)snprintf(text, sizeof text, "%s %s %s", argv[1], argv[2], argv[4]);
    } else {
        ck_assert_int_eq(asked->what, SK_STATEMENT_PLACE_BATCHES);
        (void)snprintf(text, sizeof text, "%s %s %s %s %s", argv[1], argv[2], argv[3], argv[5], argv[6]);
    }
    size_t n = 0;
    for (const char *at = text; *at != '\0'; at++) {
        if (*at != '"')
            text[n++] = *at;
    }
    text[n] = '\0';
    ck_assert_str_eq(text, batch);
}

#define OUTCOMES(...)                                                           \
    do {                                                                        \
        static const char *const rows_[][ROW_COLUMNS] = {__VA_ARGS__};          \
        const struct sk_rows result_ = {sizeof rows_ / sizeof rows_[0], rows_}; \
        pg_answers(&result_);                                                   \
    } while (0)

// An outcome in a batch of several vouchers.
#define OF_PART(part, n, outcome)                   \
    {                                               \
        n, outcome, NULL, NULL, NULL, NULL, (#part) \
    }

// PostgreSQL has this batch, and places all its orders.
static void must_place(const char *batch)
{
    must_ask(batch);
    OUTCOMES({NULL, "placed"});
}

static void must_drop_entry(size_t i, const char *journal_id)
{
    char words[64];
    ck_assert_uint_lt(i, fake_redis.count);
    (void)snprintf(words, sizeof words, "XDEL seckill:{1}:journal %s", journal_id);
    ck_assert_int_eq(fake_redis.asked[i].what, PLAIN_COMMAND);
    ck_assert_str_eq(words_from(&fake_redis.asked[i], 0), words);
}

static uint64_t gauge(enum sk_metric metric)
{
    sk_order_pool_measure(sale.orders, &metrics);
    return counted(metric);
}

// ---- the path of a batch ----

TEST(an_order_goes_to_its_commit)
{
    ck_assert(sk_writer_idle(writer));
    grant(1, "10-1", 1, 2);
    ck_assert(!sk_writer_idle(writer));
    ck_assert_uint_eq(fake_pg.count, 0); // nothing starts before the turn ends
    pump();
    must_ask("1 7 {user-1,user-2}");
    ck_assert_uint_eq(gauge(SK_METRIC_ORDERS_WRITING), 2);
    ck_assert_uint_eq(told_count, 0);
    ck_assert_uint_eq(fake_redis.count, 0); // the journal keeps them until the commit, and no lock is taken
    OUTCOMES({"1", "placed", NULL, NULL, "5000"}, {"2", "placed"});
    purchase_must_be(1, SK_PURCHASE_PLACED);
    purchase_must_be(2, SK_PURCHASE_PLACED);
    ck_assert_uint_eq(told_count, 2);
    ck_assert_int_eq(told_to(1)->created_ms, 5000);
    ck_assert_int_eq(told_to(1)->expires_ms, 905000);
    ck_assert_uint_eq(counted(SK_METRIC_BATCHES_WRITTEN), 1);
    ck_assert_uint_eq(counted(SK_METRIC_ORDERS_PLACED), 2);
    ck_assert_uint_eq(fake_redis.count, 1);
    must_drop_entry(0, "10-1");
    ck_assert(sk_writer_idle(writer));
}

// Measured from the batcher to the commit; recovered orders began elsewhere.
TEST(the_time_to_durable_is_noted)
{
    static const uint64_t ages_ms[] = {0, 40, 5000, 700};
    struct sk_durations durations;
    uint64_t now_ns = uv_hrtime();
    grant(1, "10-1", 1, 4);
    struct sk_order *order = a_voucher(sale.catalogue, 1)->granted.orders.head;
    for (size_t i = 0; i < 4; i++, order = order->next)
        order->began_ns = ages_ms[i] == 0 ? 0 : now_ns - ages_ms[i] * 1000000;
    grant(2, "10-1", 5, 1);
    a_voucher(sale.catalogue, 2)->granted.orders.head->began_ns = now_ns;
    pump();
    OUTCOMES({"1", "placed"}, {"2", "already_placed"}, {"3", "placed"}, {"4", "ended"});
    sk_durations_read(1, &durations);
    ck_assert_uint_eq(durations.count, 2); // without the refused one
    ck_assert_uint_eq(measured_count(SK_DISTRIBUTION_DURABLE), 2);
    ck_assert_uint_ge(sk_durations_at(&durations, 0.5), UINT64_C(40000000));
    ck_assert_uint_lt(sk_durations_at(&durations, 0.5), UINT64_C(5000000000));
    ck_assert_uint_ge(durations.most_ns, UINT64_C(5000000000));
    OUTCOMES({NULL, "placed"});
    for (int64_t voucher = 2; voucher <= 3; voucher++) {
        sk_durations_read(voucher, &durations);
        ck_assert_uint_eq(durations.count, voucher == 2);
    }
}

// Each order counts in its first batch only; recovered orders were granted elsewhere.
TEST(the_legs_are_measured)
{
    uint64_t now_ns = uv_hrtime();
    grant(1, "10-1", 1, 3);
    struct sk_order *order = a_voucher(sale.catalogue, 1)->granted.orders.head;
    order->granted_ns = order->next->granted_ns = now_ns - UINT64_C(5000000000);
    pump();
    ck_assert_uint_eq(measured(SK_DISTRIBUTION_BATCH_PG).sum, 3);
    ck_assert_uint_eq(measured_count(SK_DISTRIBUTION_LEG_QUEUE), 2);
    ck_assert_uint_ge(measured(SK_DISTRIBUTION_LEG_QUEUE).sum, UINT64_C(10000000000));
    pg_answers(NULL); // lost: the batch is put back
    ck_assert_uint_eq(counted(SK_METRIC_BATCHES_PUT_BACK), 1);
    ck_assert_uint_eq(measured_count(SK_DISTRIBUTION_LEG_COMMIT), 0);
    RUN_UNTIL(fake_pg.count == 2);
    OUTCOMES({NULL, "placed"});
    ck_assert_uint_eq(measured(SK_DISTRIBUTION_BATCH_PG).sum, 6);
    ck_assert_uint_eq(measured_count(SK_DISTRIBUTION_BATCH_PG), 2);
    ck_assert_uint_eq(measured_count(SK_DISTRIBUTION_LEG_QUEUE), 2);
    ck_assert_uint_eq(measured_count(SK_DISTRIBUTION_LEG_COMMIT), 3);
    ck_assert_uint_lt(measured(SK_DISTRIBUTION_LEG_COMMIT).sum, UINT64_C(3) * (uv_hrtime() - now_ns));
    ck_assert_uint_eq(measured_count(SK_DISTRIBUTION_DURABLE), 0); // none began here
}

TEST(while_one_batch_commits_the_next_gathers)
{
    grant(1, "10-1", 1, 1);
    pump();
    ck_assert_uint_eq(fake_pg.count, 1);
    grant(1, "10-2", 2, 1);
    pump();
    grant(1, "10-3", 3, 2);
    pump();
    ck_assert_uint_eq(fake_pg.count, 1); // one at a time
    OUTCOMES({"1", "placed"});
    must_ask("1 7 {user-2,user-3,user-4}"); // group commit over several entries
    OUTCOMES({"1", "placed"}, {"2", "placed"}, {"3", "placed"});
    ck_assert_uint_eq(told_count, 4);
    ck_assert_uint_eq(fake_redis.count, 3);
    ck_assert(sk_writer_idle(writer));
}

TEST(a_part_is_of_one_voucher_and_one_epoch_and_a_batch_has_its_bound)
{
    grant(1, "10-1", 1, 2);
    grant_in(own_entry(a_voucher(sale.catalogue, 1), 8, "10-2"), 8, 3, 1, false);
    grant(2, "10-1", 4, 1);
    grant(3, NULL, 5, 6);
    pump();
    must_ask("{1,2,3} {7,7,7} {2,1,1} {user-1,user-2,user-4,user-5} {10-1,10-1,NULL}");
    OUTCOMES(OF_PART(2, NULL, "placed"), OF_PART(1, NULL, "placed"), OF_PART(3, "1", "placed")); // in any order
    ck_assert_uint_eq(told_count, 4);
    must_ask("{1,3} {8,7} {1,3} {user-3,user-6,user-7,user-8} {10-2,NULL}");
    OUTCOMES(OF_PART(1, NULL, "placed"), OF_PART(2, "3", "placed"), OF_PART(2, "1", "sold_out"),
             OF_PART(2, "2", "placed"));
    purchase_must_be(6, SK_PURCHASE_SOLD_OUT);
    purchase_must_be(8, SK_PURCHASE_PLACED);
    must_place("3 7 {user-9,user-10}"); // one part only
    ck_assert_uint_eq(told_count, 10);
    ck_assert_uint_eq(counted(SK_METRIC_BATCHES_WRITTEN), 3);
    ck_assert(sk_writer_idle(writer));
}

static const struct {
    enum sk_result_kind kind;
    size_t count;
    const char *rows[4][ROW_COLUMNS];
} misfits[] = {
    {SK_RESULT_LOCKED, 0, {{NULL}}},
    {SK_RESULT_FAILED, 0, {{NULL}}},
    {SK_RESULT_REFUSED, 0, {{NULL}}},
    {SK_RESULT_ROWS, 1, {OF_PART(1, NULL, "placed")}}, // one part of three
    {SK_RESULT_ROWS, 3, {OF_PART(1, NULL, "placed"), OF_PART(2, NULL, "placed"), OF_PART(0, "1", "placed")}},
    {SK_RESULT_ROWS, 3, {OF_PART(1, NULL, "placed"), OF_PART(2, NULL, "placed"), OF_PART(4, "1", "placed")}},
    {SK_RESULT_ROWS,
     4,
     {OF_PART(1, NULL, "placed"), OF_PART(2, NULL, "placed"), OF_PART(3, "1", "placed"), OF_PART(3, "1", "placed")}},
};

// Writing each part alone finds the one that failed. The others are written, and then share batches again.
TEST_EACH(a_shared_batch_that_failed_is_parted, sizeof misfits / sizeof misfits[0])
{
    const struct sk_rows rows = {misfits[_i].count, misfits[_i].rows};
    for (int i = 1; i <= 3; i++)
        grant(i, "10-1", (uint64_t)i, 1);
    pump();
    must_ask("{1,2,3} {7,7,7} {1,1,1} {user-1,user-2,user-3} {10-1,10-1,10-1}");
    pg_gives((struct sk_result){.kind = misfits[_i].kind, .rows = rows.count == 0 ? NULL : &rows});
    ck_assert_uint_eq(told_count, 0);
    must_place("1 7 {user-1}"); // at once
    must_ask("2 7 {user-2}");
    pg_fails(SK_RESULT_LOCKED);
    must_ask("3 7 {user-3}");
    grant(1, "10-2", 4, 1);
    OUTCOMES({NULL, "placed"});
    must_ask("1 7 {user-4}"); // 2 pauses
    grant(3, "10-2", 5, 1);
    grant(1, "10-3", 6, 1);
    OUTCOMES({NULL, "placed"});
    must_ask("{3,1} {7,7} {1,1} {user-5,user-6} {10-2,10-3}");
    OUTCOMES(OF_PART(1, NULL, "placed"), OF_PART(2, NULL, "placed"));
    RUN_UNTIL(fake_pg.count > fake_pg.answered);
    must_place("2 7 {user-2}");
    ck_assert_uint_eq(told_count, 6);
    ck_assert(sk_writer_idle(writer));
}

TEST(a_shared_batch_that_is_lost_is_written_again)
{
    char first[SK_UUID_SIZE] = "";
    grant(1, "10-1", 1, 1);
    grant(2, "10-1", 2, 1);
    pump();
    memcpy(first, fake_pg.asked[0].argv[4] + 1, SK_UUID_CHARS);
    pg_answers(NULL);
    ck_assert_uint_eq(fake_pg.count, fake_pg.answered); // the link pauses
    RUN_UNTIL(fake_pg.count > fake_pg.answered);
    must_ask("{1,2} {7,7} {1,1} {user-1,user-2} {10-1,10-1}");
    ck_assert_mem_eq(first, fake_pg.asked[1].argv[4] + 1, SK_UUID_CHARS);
    OUTCOMES(OF_PART(1, NULL, "placed"), OF_PART(2, NULL, "stale"));
    ck_assert_uint_eq(told_count, 1);
    ck_assert_uint_eq(stale_count, 1);
    sk_writer_resume(stale[0]);
    pump();
    must_place("2 7 {user-2}");
    ck_assert(sk_writer_idle(writer));
}

// Orders once rejected by PostgreSQL are searched without sharing batches.
TEST(a_suspect_shares_no_batch)
{
    grant(1, "10-1", 1, 4);
    pump();
    grant(2, "10-1", 5, 1);
    pg_fails(SK_RESULT_REFUSED);
    must_place("2 7 {user-5}"); // it was queued first
    grant(2, "10-2", 6, 1);
    must_place("1 7 {user-1,user-2}"); // not alone any more, but its next orders are suspected
    must_place("1 7 {user-3,user-4}");
    must_place("2 7 {user-6}");
    ck_assert(sk_writer_idle(writer));
}

TEST(an_entry_ends_once_when_the_last_of_its_orders_is_settled)
{
    char first[SK_UUID_SIZE], last[SK_UUID_SIZE], words[256];
    grant(1, "10-1", 1, 6); // more than one batch
    pump();
    id_at(0, first);
    OUTCOMES({"1", "sold_out"}, {"2", "placed"}, {"3", "placed"}, {"4", "placed"});
    ck_assert_uint_eq(told_count, 4);
    ck_assert_uint_eq(fake_redis.count, 0);
    id_at(1, last);
    OUTCOMES({"2", "sold_out"}, {"1", "placed"}); // in any order
    ck_assert_uint_eq(fake_redis.count, 1);
    (void)snprintf(words, sizeof words, "0 %s user-1 '' 0 %s user-6 ''", first, last);
    ck_assert_str_eq(words_from(&fake_redis.asked[0], 7), words);
}

// ---- outcomes ----

// Of the four orders of an entry 10-2 of epoch 7: what PostgreSQL says, what the request is told, and the units and the
// live order with which Redis is corrected, if it is.
static const struct {
    const char *row[ROW_COLUMNS];
    enum sk_purchase_code code;
    const char *order_id; // NULL: its own, or none
    const char *correction[2];
} outcomes[][4] = {
    {{{"1", "duplicate", LIVE, NULL, NULL, NULL, "1", LIVE " 2 0123456789abcdef"},
      SK_PURCHASE_ALREADY_ORDERED,
      LIVE,
      {"1", LIVE " 2 0123456789abcdef"}},
     {{"2", "already_placed"}, SK_PURCHASE_PLACED, NULL, {NULL}},
     {{"3", "sold_out"}, SK_PURCHASE_SOLD_OUT, NULL, {"0", "''"}},
     {{"4", "ended"}, SK_PURCHASE_UNAVAILABLE, NULL, {"1", "''"}}}, // its live order was cancelled: try again
    {{{"1", "repeated", LIVE, LIVE}, SK_PURCHASE_ALREADY_ORDERED, LIVE, {"1", "''"}},
     {{"2", "reused", LIVE, LIVE}, SK_PURCHASE_IDEMPOTENCY_KEY_REUSED, NULL, {"1", "''"}},
     {{"3", "repeated"}, SK_PURCHASE_IDEMPOTENCY_KEY_REUSED, NULL, {"1", "''"}},
     {{"4", "sold_out", LIVE, NULL, NULL, NULL, NULL, LIVE}, SK_PURCHASE_ALREADY_ORDERED, LIVE, {"0", LIVE}}},
    // A refund kept the units of these: those granted after it get back the units that Redis took for them.
    {{{"1", "gone", NULL, NULL, NULL, "10-1"}, SK_PURCHASE_UNAVAILABLE, NULL, {"1", "''"}},
     {{"2", "gone", NULL, NULL, NULL, "10-3"}, SK_PURCHASE_UNAVAILABLE, NULL, {NULL}},
     {{"3", "gone", LIVE}, SK_PURCHASE_UNAVAILABLE, NULL, {"1", "''"}},
     {{"4", "gone", NULL, NULL, NULL, "9-99"}, SK_PURCHASE_UNAVAILABLE, NULL, {"1", "''"}}},
    // Ids are in order only under one epoch: a Redis that has lost data may reuse them. What counts is the entry's.
    {{{"1", "gone", NULL, NULL, NULL, "99-1@6"}, SK_PURCHASE_UNAVAILABLE, NULL, {"1", "''"}},
     {{"2", "gone", NULL, NULL, NULL, "10-1@8"}, SK_PURCHASE_UNAVAILABLE, NULL, {NULL}},
     {{"3", "gone", NULL, NULL, NULL, "10-1@7"}, SK_PURCHASE_UNAVAILABLE, NULL, {"1", "''"}},
     {{"4", "gone", NULL, NULL, NULL, "10-3@7"}, SK_PURCHASE_UNAVAILABLE, NULL, {NULL}}},
    // Redis gets the number of the user's ended orders, under any epoch.
    {{{"1", "ended", NULL, NULL, NULL, NULL, "1", NULL, "20"}, SK_PURCHASE_UNAVAILABLE, NULL, {"1", "-20"}},
     {{"2", "ended", NULL, NULL, NULL, NULL, "1", NULL, "3"}, SK_PURCHASE_UNAVAILABLE, NULL, {"1", "-3"}},
     {{"3", "ended", LIVE, NULL, NULL, NULL, "1", LIVE, "4"}, SK_PURCHASE_ALREADY_ORDERED, LIVE, {"1", LIVE}},
     {{"4", "gone", NULL, NULL, NULL, "10-1", "1", NULL, "21"}, SK_PURCHASE_UNAVAILABLE, NULL, {"1", "-21"}}},
    {{{"1", "clash", LIVE, NULL, NULL, NULL, NULL, LIVE}, SK_PURCHASE_INTERNAL, NULL, {"1", "''"}},
     {{"2", "no such outcome"}, SK_PURCHASE_INTERNAL, NULL, {"1", "''"}},
     {{"3", "placed"}, SK_PURCHASE_PLACED, NULL, {NULL}},
     {{"4", "placed"}, SK_PURCHASE_PLACED, NULL, {NULL}}},
};

TEST_EACH(each_outcome_is_told_and_corrects_redis_with_the_end_of_its_entry, sizeof outcomes / sizeof outcomes[0])
{
    const char *rows[4][ROW_COLUMNS];
    const struct sk_rows result = {4, (const char *const(*)[ROW_COLUMNS])rows};
    struct sk_buf words = {0};
    char ids[4][SK_UUID_SIZE];
    size_t placed = 0, internal = 0;
    a_voucher(sale.catalogue, 1)->orders_per_user = 3;
    grant_in(own_entry(a_voucher(sale.catalogue, 1), 7, "10-2"), 9, 1, 4, false); // they were found again later
    pump();
    sk_buf_puts(&words, "seckill:{1}:voucher seckill:{1}:buyers seckill:{1}:journal seckill:{1}:repeats "
                        "seckill:{1}:ended 10-2 ''");
    for (int i = 0; i < 4; i++) {
        id_at(i, ids[i]);
        memcpy(rows[i], outcomes[_i][i].row, sizeof rows[i]);
        if (outcomes[_i][i].correction[0] != NULL)
            sk_buf_printf(&words, " %s %s user-%d %s", outcomes[_i][i].correction[0], ids[i], i + 1,
                          outcomes[_i][i].correction[1]);
    }
    pg_answers(&result);
    ck_assert_uint_eq(told_count, 4);
    for (int i = 0; i < 4; i++) {
        enum sk_purchase_code code = outcomes[_i][i].code;
        const char *order_id = outcomes[_i][i].order_id;
        const struct told *one = told_to((uint64_t)i + 1);
        purchase_must_be((uint64_t)i + 1, code);
        ck_assert_str_eq(one->order_id, order_id != NULL ? order_id : code == SK_PURCHASE_PLACED ? ids[i] : "");
        ck_assert_int_eq(one->repeats, order_id != NULL && strcmp(outcomes[_i][i].row[1], "repeated") == 0);
        placed += code == SK_PURCHASE_PLACED;
        internal += code == SK_PURCHASE_INTERNAL;
    }
    ck_assert_uint_eq(counted(SK_METRIC_ORDERS_PLACED), placed);
    ck_assert_uint_eq(counted(SK_METRIC_ORDERS_REFUSED), 4 - placed - internal);
    ck_assert_uint_eq(fake_redis.count, 1);
    ck_assert_int_eq(fake_redis.asked[0].what, SK_SCRIPT_SETTLE_ENTRY);
    ck_assert_int_eq(fake_redis.asked[0].keys, 5);
    ck_assert_str_eq(words_from(&fake_redis.asked[0], 0), words.data);
    ck_assert(sk_writer_idle(writer));
    sk_buf_free(&words);
}

TEST(a_loose_order_whose_units_are_gone_is_left_to_others)
{
    grant(1, NULL, 1, 1);
    pump();
    OUTCOMES({"1", "gone", NULL, NULL, NULL, "10-1@7"});
    purchase_must_be(1, SK_PURCHASE_UNAVAILABLE);
    ck_assert_uint_eq(fake_redis.count, 0);
}

// The epoch has advanced since Redis granted them: they are handed out, and may return in two ways.
TEST_EACH(stale_orders_are_handed_out, 2)
{
    struct sk_entry *entry = grant(1, "10-1", 1, 2);
    pump();
    if (_i == 0)
        OUTCOMES({"1", "stale"}, {"2", "stale"});
    else
        OUTCOMES({NULL, "stale"});
    ck_assert_uint_eq(told_count, 0);
    ck_assert_uint_eq(stale_count, 2);
    ck_assert_ptr_eq(stale[0]->entry, entry);
    ck_assert(sk_writer_idle(writer)); // the writer no longer has them
    ck_assert_uint_eq(fake_redis.count, 0);
    stale[0]->epoch = stale[1]->epoch = 9;
    sk_writer_resume(stale[0]); // Redis still knows it: it stays with its entry
    pump();
    must_place("1 9 {user-1}");
    ck_assert_uint_eq(fake_redis.count, 0);
    sk_writer_add(own_entry(entry->voucher, 7, "20-1"), stale[1]); // granted again: it moves, and its old entry ends
    must_drop_entry(0, "10-1");
    pump();
    must_place("1 9 {user-2}");
    must_drop_entry(1, "20-1");
    purchase_must_be(1, SK_PURCHASE_PLACED);
    purchase_must_be(2, SK_PURCHASE_PLACED);
}

// An order that was found again has the entry of before: its id is of no use under the newer epoch.
TEST(postgres_learns_the_newest_journal_id_of_a_batch_and_its_epoch)
{
    grant(1, "10-9", 1, 1);
    grant(1, "10-10", 2, 1);
    grant(1, "9-99", 3, 1);
    pump();
    ck_assert_str_eq(asked_pg()->argv[5], "10-10");
    must_place("1 7 {user-1,user-2,user-3}");
    grant(1, NULL, 4, 1);
    pump();
    ck_assert_ptr_null(asked_pg()->argv[5]);
    must_place("1 7 {user-4}");
    ck_assert_uint_eq(fake_redis.count, 3); // without an entry there is no call
    struct sk_voucher *voucher = a_voucher(sale.catalogue, 1);
    grant_in(own_entry(voucher, 7, "20-1"), 8, 5, 1, false);
    grant_in(own_entry(voucher, 8, "9-1"), 8, 6, 1, false);
    pump();
    ck_assert_str_eq(asked_pg()->argv[5], "9-1");
    must_place("1 8 {user-5,user-6}");
    grant_in(own_entry(voucher, 7, "20-2"), 8, 7, 1, false);
    pump();
    ck_assert_ptr_null(asked_pg()->argv[5]);
    must_place("1 8 {user-7}");
}

// ---- dead letters ----

static const struct sk_rows letter_is_kept = {0};

// If the letter cannot be sent, or its answer is lost, the order stays where it was.
TEST(what_postgres_refuses_permanently_becomes_a_dead_letter)
{
    enum { SENDS_NOT, LOST, KEPT };
    char id[SK_UUID_SIZE], letter[256];
    grant(1, "10-1", 1, 1);
    pump();
    must_ask("1 7 {user-1}");
    id_at(0, id);
    for (size_t tries = 1; tries < TRIES; tries++) {
        pg_fails(SK_RESULT_REFUSED);
        RUN_UNTIL(fake_pg.count == fake_pg.answered + 1);
    }
    (void)snprintf(letter, sizeof letter, "9842 1 10-1 %s %s user-1 PostgreSQL refuses it 0", "%s", id);
    for (int attempt = SENDS_NOT; attempt <= KEPT; attempt++) {
        must_ask("1 7 {user-1}");
        fake_pg.down = attempt == SENDS_NOT;
        pg_fails(SK_RESULT_REFUSED);
        fake_pg.down = false;
        if (attempt != SENDS_NOT) {
            const struct asked *asked = asked_pg();
            ck_assert_int_eq(asked->what, SK_STATEMENT_SET_ASIDE);
            char words[512];
            (void)snprintf(words, sizeof words, letter, asked->argv[3]); // in hex
            ck_assert_str_eq(words_from(asked, 0), words);
            ck_assert_uint_eq(gauge(SK_METRIC_ORDERS_SETTING_ASIDE), 1);
        }
        ck_assert_uint_eq(fake_redis.count, 0);
        if (attempt == LOST)
            pg_answers(NULL);
        if (attempt != KEPT)
            RUN_UNTIL(fake_pg.count == fake_pg.answered + 1);
        ck_assert_uint_eq(counted(SK_METRIC_DEAD_LETTERS), 0);
    }
    pg_answers(&letter_is_kept);
    ck_assert_uint_eq(counted(SK_METRIC_DEAD_LETTERS), 1);
    ck_assert_uint_eq(fake_redis.count, 1);
    must_drop_entry(0, "10-1");
    ck_assert_uint_eq(told_count, 0); // it stays pending
    ck_assert(sk_writer_idle(writer));
}

static bool is_bad(const char *users, const char *const *bad)
{
    for (; *bad != NULL; bad++) {
        if (strstr(users, *bad) != NULL)
            return true;
    }
    return false;
}

// Answers like PostgreSQL that rejects every batch with one of these users ("\"user-3\"" ...), until all is settled.
// Returns how many batches with good orders were rejected; *letters: the users in dead letters.
static size_t refuse_users(const char *const *bad, struct sk_buf *letters)
{
    size_t refused = 0;
    while (!sk_writer_idle(writer)) {
        RUN_UNTIL(fake_pg.count > fake_pg.answered);
        const struct asked *asked = &fake_pg.asked[fake_pg.answered];
        if (asked->what == SK_STATEMENT_SET_ASIDE) {
            sk_buf_printf(letters, "%s;", asked->argv[4] + SK_UUID_SIZE);
            pg_answers(&letter_is_kept);
        } else if (is_bad(asked->argv[4], bad)) {
            refused += strchr(asked->argv[4], ',') != NULL;
            pg_fails(SK_RESULT_REFUSED);
        } else {
            OUTCOMES({NULL, "placed"});
        }
    }
    return refused;
}

// Bad orders among good ones, in one entry or several: all good ones are placed, each bad one becomes a dead letter.
TEST_EACH(only_the_bad_orders_of_an_entry_are_set_aside, 4)
{
    static const char *const bad[][4] = {
        {"\"user-3\""}, {"\"user-1\""}, {"\"user-8\""}, {"\"user-1\"", "\"user-4\"", "\"user-5\""}};
    struct sk_buf letters = {0};
    size_t bad_count = 0;
    sk_buf_puts(&letters, "");
    grant(1, "10-1", 1, 6); // more than one batch
    grant(1, "10-2", 7, 2);
    grant(1, "10-3", 9, 1);
    pump();
    size_t refused = refuse_users(bad[_i], &letters);
    for (uint64_t user = 1; user <= 9; user++) {
        char quoted[16], named[16];
        (void)snprintf(quoted, sizeof quoted, "\"user-%d\"", (int)user);
        (void)snprintf(named, sizeof named, "user-%d;", (int)user);
        bool is_bad_one = is_bad(quoted, bad[_i]);
        bad_count += is_bad_one;
        if (!is_bad_one)
            purchase_must_be(user, SK_PURCHASE_PLACED);
        ck_assert_msg((strstr(letters.data, named) != NULL) == is_bad_one, "%s: %s", named, letters.data);
    }
    ck_assert_uint_eq(told_count, 9 - bad_count);
    ck_assert_uint_eq(letters.len, bad_count * strlen("user-1;"));
    ck_assert_uint_le(refused, 4 * bad_count); // halving, not one by one
    ck_assert_uint_eq(fake_redis.count, 3);    // each entry leaves the journal, once
    sk_buf_free(&letters);
}

// Only the order itself is delayed: neither its entry nor other vouchers are.
TEST(no_order_waits_for_a_bad_one)
{
    grant(1, "10-1", 1, 4);
    pump();
    pg_fails(SK_RESULT_REFUSED);
    must_ask("1 7 {user-1,user-2}"); // at once
    pg_fails(SK_RESULT_REFUSED);
    must_ask("1 7 {user-1}");
    pg_fails(SK_RESULT_REFUSED);
    must_place("1 7 {user-2}");
    must_place("1 7 {user-3,user-4}");                  // after a success the next part is larger
    ck_assert_uint_eq(fake_pg.count, fake_pg.answered); // the bad one waits
    grant(2, "10-1", 5, 1);
    pump();
    must_place("2 7 {user-5}");
    RUN_UNTIL(fake_pg.count > fake_pg.answered);
    must_ask("1 7 {user-1}");
}

// Recovery settles orders that no request waits for.
TEST(recovered_entries_are_reported_when_settled)
{
    struct sk_voucher *voucher = a_voucher(sale.catalogue, 1);
    struct sk_entry *entry = sk_entry_new(&sale, voucher, SK_ENTRY_RECOVERED, fake_redis.run_number);
    sk_entry_name(entry, 7, "10-1");
    grant_in(entry, 7, 0, 1, true);
    ck_assert(sk_list_is_empty(&voucher->entries.own));
    pump();
    must_ask("1 7 {user-0}");
    ck_assert_int_eq(recovered, 0);
    OUTCOMES({"1", "placed"});
    ck_assert_int_eq(recovered, 1);
    ck_assert_uint_eq(told_count, 0); // handle 0: no request
    must_drop_entry(0, "10-1");
}

// ---- failures ----

// A locked row or a failing statement concerns one voucher; others continue meanwhile.
TEST_EACH(a_voucher_that_cannot_be_written_pauses_alone, 2)
{
    static const struct {
        enum sk_result_kind kind;
        uint64_t least_ms;
    } rows[] = {{SK_RESULT_LOCKED, 100}, {SK_RESULT_FAILED, 10}};
    char first[SK_UUID_SIZE], again[SK_UUID_SIZE];
    grant(1, "10-1", 1, 2);
    pump();
    must_ask("1 7 {user-1,user-2}");
    id_at(0, first);
    for (int tries = 0; tries < 2; tries++) {
        uv_update_time(&loop);
        uint64_t failed_ms = uv_now(&loop);
        pg_fails(rows[_i].kind);
        ck_assert_uint_eq(fake_pg.count, fake_pg.answered); // it waits ...
        grant(2, "10-1", 3, 1);
        pump();
        must_place("2 7 {user-3}"); // ... alone
        grant(1, "10-2", 4, 1);     // later orders wait behind it
        RUN_UNTIL(fake_pg.count > fake_pg.answered);
        ck_assert_uint_ge(uv_now(&loop), failed_ms + rows[_i].least_ms);
        ck_assert_uint_le(uv_now(&loop), failed_ms + 3000);
        ck_assert_str_eq(asked_pg()->argv[1], "1");
        id_at(0, again);
        ck_assert_str_eq(first, again);
    }
    must_place("1 7 {user-1,user-2,user-4,user-4}");
    ck_assert(sk_writer_idle(writer));
}

// One log line for each pause that is longer than the earlier ones.
TEST(a_locked_row_is_told_until_the_pauses_stop_growing)
{
    struct sk_voucher *voucher = a_voucher(sale.catalogue, 1);
    size_t lines = 0;
    begin_listening();
    for (int tries = 0; tries < 40; tries++)
        sk_write_queue_pause(voucher, tries < 20 ? SK_PAUSE_LOCKED : SK_PAUSE_FAILED, 0);
    end_listening();
    for (const char *at = heard; (at = strstr(at, "another transaction holds the row")) != NULL; at++)
        lines++;
    ck_assert_uint_eq(lines, 4);
    ck_assert_ptr_nonnull(strstr(heard, "voucher=1 pause_ms="));
    ck_assert_uint_ge(voucher->granted.not_before_ms, 1000);
    sk_write_queue_settled(voucher); // both kinds begin anew
    sk_write_queue_pause(voucher, SK_PAUSE_FAILED, 0);
    ck_assert_uint_le(voucher->granted.not_before_ms, 20);
    begin_listening();
    sk_write_queue_pause(voucher, SK_PAUSE_LOCKED, 0);
    end_listening();
    ck_assert_ptr_nonnull(strstr(heard, "voucher=1 pause_ms="));
}

// PostgreSQL rejects everything of one voucher: bisecting must not keep the link from other vouchers.
TEST(a_voucher_of_nothing_but_bad_orders_pauses)
{
    static const size_t in_a_row = 12;
    grant(1, "10-1", 1, 40);
    pump();
    while (fake_pg.count > fake_pg.answered) {
        ck_assert_uint_le(fake_pg.count, in_a_row);
        pg_fails(SK_RESULT_REFUSED);
    }
    ck_assert_uint_eq(fake_pg.count, in_a_row);
    grant(2, "10-1", 50, 1);
    pump();
    must_place("2 7 {user-50}");
    RUN_UNTIL(fake_pg.count > fake_pg.answered); // then it is retried
}

// P7: a lost answer leaves the commit unknown, so the same ids are written again.
TEST(a_failed_batch_is_said_again_under_the_same_ids)
{
    static const char *const half[1][ROW_COLUMNS] = {{"1", "placed"}};
    static const struct sk_rows one_row = {1, half};
    const struct sk_result failures[] = {{.kind = SK_RESULT_LOST},
                                         {.kind = SK_RESULT_ROWS, .rows = &one_row},
                                         {.kind = SK_RESULT_FAILED},
                                         {.kind = SK_RESULT_LOCKED},
                                         {.kind = SK_RESULT_LOST}};
    char first[SK_UUID_SIZE], again[SK_UUID_SIZE];
    grant(1, "10-1", 1, 2);
    pump();
    id_at(0, first);
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        pg_gives(failures[i]);
        ck_assert_uint_eq(told_count, 0);
        pump();
        ck_assert_uint_eq(fake_pg.count, i + 1); // not at once
        RUN_UNTIL(fake_pg.count == i + 2);
        must_ask("1 7 {user-1,user-2}");
        id_at(0, again);
        ck_assert_str_eq(first, again);
    }
    OUTCOMES({"1", "already_placed"}, {"2", "placed"});
    purchase_must_be(1, SK_PURCHASE_PLACED);
    purchase_must_be(2, SK_PURCHASE_PLACED);
    ck_assert_uint_eq(fake_redis.count, 1);
}

TEST(while_postgres_is_away_orders_wait)
{
    grant(1, "10-1", 1, 1)->voucher->pay_within_s = 0;
    fake_pg.down = true;
    pump();
    ck_assert_uint_eq(fake_pg.count, 0);
    fake_pg.down = false;
    pump();
    must_place("1 7 {user-1}");
    purchase_must_be(1, SK_PURCHASE_PLACED);
    ck_assert_int_eq(told_to(1)->expires_ms, 0); // it never does
}

TEST_ABORTS(an_answer_twice_for_one_order_is_a_programmers_error)
{
    grant(1, "10-1", 1, 2);
    pump();
    OUTCOMES({"1", "placed"}, {"1", "placed"});
}

TEST(the_largest_entry_refused_as_a_whole_can_be_settled)
{
    enum { LARGEST = 2048 };
    sk_writer_close(writer);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    open_writer(LARGEST);
    grant(1, "10-1", 1, LARGEST);
    pump();
    OUTCOMES({NULL, "sold_out"});
    ck_assert_uint_eq(fake_redis.count, 1);
    ck_assert_int_eq(fake_redis.asked[0].what, SK_SCRIPT_SETTLE_ENTRY);
    ck_assert_int_eq(fake_redis.asked[0].argc, 7 + 4 * LARGEST);
}

// ---- low priority ----

TEST(patient_orders_give_way_to_a_rush_but_not_for_ever)
{
    grant_low("10-1", 1);
    sk_writer_pump(writer, true);
    must_place("1 7 {user-1}"); // none was written recently
    grant_low("10-2", 2);
    sk_writer_pump(writer, true);
    ck_assert_uint_eq(fake_pg.count, 1); // now one was
    ck_assert(!sk_writer_idle(writer));
    RUN_UNTIL(fake_pg.count == 2);
    must_place("1 7 {user-2}");
    grant_low("10-3", 3);
    sk_writer_pump(writer, true);
    ck_assert_uint_eq(fake_pg.count, 2);
    sk_writer_pump(writer, false); // the rush is over
    must_place("1 7 {user-3}");
}

TEST(a_request_that_waits_for_the_commit_does_not_wait_longer)
{
    grant_low("10-1", 1);
    sk_writer_pump(writer, true);
    must_place("1 7 {user-1}");
    grant_low("10-2", 2);
    sk_writer_pump(writer, true);
    ck_assert_uint_eq(fake_pg.count, 1);
    grant(1, "10-3", 3, 1);
    sk_writer_pump(writer, true);
    must_place("1 7 {user-2,user-3}");
}

// ---- closing ----

// Where the remaining orders are when the process ends: in the journal, in a dead letter, or in neither.
TEST(what_is_left_is_counted_by_who_keeps_it)
{
    grant(1, "10-1", 1, 2);
    pump(); // these are being written, the others wait
    grant(1, "10-2", 3, 5);
    grant(2, NULL, 8, 3);
    pump();
    for (int i = 0; i < 2; i++, fake_redis.run_number++) { // a new Redis process may have lost them
        struct sk_left left = {0};
        sk_writer_count(writer, &left);
        ck_assert_uint_eq(left.in_journal, i == 0 ? 7 : 0);
        ck_assert_uint_eq(left.in_letters, 3);
        ck_assert_uint_eq(left.nowhere, i == 0 ? 0 : 7);
    }
}

// Orders in every stage at once; the journal has them, and the teardown checks that none is left.
TEST(closing_forgets_what_is_under_way)
{
    grant(1, "10-1", 1, 1);
    pump();
    pg_fails(SK_RESULT_REFUSED); // it waits for a retry
    grant(1, "10-2", 3, 6);
    grant(2, "10-1", 9, 1);
    pump(); // four are being written, the others wait
    ck_assert_uint_eq(gauge(SK_METRIC_ORDERS_DELAYED), 1);
    ck_assert_uint_eq(gauge(SK_METRIC_ORDERS_WRITING), 4);
    ck_assert_uint_eq(gauge(SK_METRIC_ORDERS_WAITING), 3);
    ck_assert_uint_eq(told_count, 0);
}

SUITE(.timeout_s = 30, .setup = setup, .teardown = teardown);
