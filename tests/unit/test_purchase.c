// Purchases on their way to the batcher, and those of vouchers that are not in the catalogue: new, retired or made up.
#include "fake_control.h"

#include "admit.h"
#include "batcher.h"
#include "line.h"
#include "purchase.h"
#include "test.h"

enum { VOUCHER = 7, OLD = 5, NEW = 9, NEWEST = 8, POOL = 4, OLD_MAX = 16, CROWD = 1000 };

#define KEY     UINT64_C(0x0123456789abcdef)
#define USER    "alice"
#define ORDER_B "00000000-0000-7000-8000-00000000000b"

// ---- stand-ins of the road ----

static bool refuses;
static size_t added_count;
static struct sk_order *added[POOL];
static struct sk_voucher *added_to;

bool sk_admit_refuses(const struct sk_sale *of, struct sk_voucher *voucher, const char *user, bool *joins,
                      struct sk_purchase_result *result)
{
    (void)of;
    ck_assert_ptr_nonnull(voucher);
    ck_assert_str_eq(user, USER);
    if (refuses)
        *result = (struct sk_purchase_result){.code = SK_PURCHASE_SOLD_OUT};
    if (joins != NULL)
        *joins = refuses;
    return refuses && joins == NULL;
}

static struct sk_order *joined;

void sk_line_add(struct sk_line *line, struct sk_voucher *voucher, struct sk_order *order)
{
    ck_assert_ptr_null(line);
    ck_assert_ptr_nonnull(voucher);
    joined = order;
}

void sk_batcher_add(struct sk_batcher *batcher, struct sk_voucher *voucher, struct sk_order *order)
{
    (void)batcher;
    added_to = voucher;
    added[added_count++] = order;
}

static size_t differences;

static void on_offers_differ(void *arg, struct sk_voucher *voucher, int32_t offer)
{
    ck_assert_ptr_eq(arg, &recovery);
    ck_assert_int_gt(offer, voucher->offer);
    differences++;
}

// ---- fixture ----

static struct sk_purchase_result result;
static unsigned quantity;
static bool waits;
static enum sk_ask_ticket its_ticket;
static int64_t its_offer;

static void setup(void)
{
    control_setup();
    (void)a_voucher(sale.catalogue, VOUCHER);
    sale.orders = sk_order_pool_new(POOL, 1);
    waits = false;
    sale.offers_differ = on_offers_differ;
    sale.recovery = &recovery;
    differences = 0;
    fake_catalogue_sync.newest_id = NEWEST;
    refuses = false;
    quantity = 1;
    its_ticket = SK_ASK_TICKETS_OFF;
    its_offer = 0;
    added_count = 0;
}

static void teardown(void)
{
    for (size_t i = 0; i < added_count; i++)
        sk_order_give(sale.orders, added[i]);
    ck_assert_uint_eq(sk_order_pool_out(sale.orders), 0);
    control_teardown();
    sk_order_pool_free(sale.orders);
}

static bool buy(int64_t voucher_id, uint64_t handle)
{
    size_t before = told_count;
    const struct sk_wish ask = {.voucher_id = voucher_id,
                                .user = USER,
                                .quantity = quantity,
                                .key = KEY,
                                .low_priority = true,
                                .waits = waits,
                                .ticket = its_ticket,
                                .offer = its_offer};
    bool later = sk_purchase(&control, &ask, handle, &result);
    ck_assert_uint_eq(told_count, before); // never inside the call
    return later;
}

static void must_be_added(size_t i, int64_t voucher_id, uint64_t handle)
{
    ck_assert_uint_eq(added_count, i + 1);
    ck_assert_int_eq(added_to->id, voucher_id);
    ck_assert_uint_eq(added[i]->handle, handle);
    ck_assert_str_eq(added[i]->user, USER);
    ck_assert(added[i]->low_priority);
    ck_assert_uint_eq(added[i]->quantity, quantity);
    ck_assert_uint_eq(added[i]->key, KEY);
    ck_assert(sk_uuid_valid(added[i]->id));
}

static void must_be_refused(int64_t voucher_id, enum sk_purchase_code code)
{
    ck_assert(!buy(voucher_id, 1));
    ck_assert_int_eq(result.code, code);
}

// ---- in the catalogue ----

TEST(a_purchase_comes_to_its_voucher)
{
    struct sk_voucher *voucher = sk_catalogue_find(sale.catalogue, VOUCHER);
    voucher->seen.epoch = 6;
    ck_assert(buy(VOUCHER, 3));
    must_be_added(0, VOUCHER, 3);
    ck_assert_uint_eq(sk_uuid_tail(added[0]->id), (uint32_t)voucher->slot << 10 | 6U);
    ck_assert_int_eq(added[0]->offer, 1);
    ck_assert_int_eq(added[0]->price.cents, 100);
    ck_assert_str_eq(added[0]->price.currency, "CNY");
    ck_assert_uint_eq(fake_catalogue_sync.waits, 0);
    ck_assert_uint_eq(fake_pg.count, 0);
}

TEST(refusals_come_at_once)
{
    refuses = true;
    must_be_refused(VOUCHER, SK_PURCHASE_SOLD_OUT);
    refuses = false;
    fake_redis.down = true;
    must_be_refused(VOUCHER, SK_PURCHASE_UNAVAILABLE);
    refuses = true; // not even what is remembered counts
    must_be_refused(VOUCHER, SK_PURCHASE_UNAVAILABLE);
    must_be_refused(NEW, SK_PURCHASE_UNAVAILABLE);
    fake_redis.down = refuses = false;
    for (uint64_t i = 0; i < POOL; i++)
        ck_assert(buy(VOUCHER, i + 1));
    must_be_refused(VOUCHER, SK_PURCHASE_OVERLOADED);
    ck_assert_uint_eq(added_count, POOL);
}

// ---- lines ----

TEST(who_waits_joins_the_line_of_a_voucher_that_has_one)
{
    struct sk_voucher *voucher = sk_catalogue_find(sale.catalogue, VOUCHER);
    waits = refuses = true;
    must_be_refused(VOUCHER, SK_PURCHASE_SOLD_OUT); // it has none
    voucher->has_line = true;
    ck_assert(buy(VOUCHER, 3));
    ck_assert_uint_eq(added_count, 0);
    ck_assert_uint_eq(joined->handle, 3);
    sk_order_give(sale.orders, joined);
    refuses = false; // there may be a unit: Redis is asked first
    ck_assert(buy(VOUCHER, 4));
    must_be_added(0, VOUCHER, 4);
    ck_assert(added[0]->waits);
    waits = false;
    ck_assert(buy(VOUCHER, 5));
    ck_assert(!added[1]->waits);
}

// ---- tickets ----

enum { OFFER = 5 };

static void must_come_to_with(enum sk_ask_ticket ticket, int64_t offer, enum sk_purchase_code code)
{
    its_ticket = ticket;
    its_offer = offer;
    must_be_refused(VOUCHER, code);
}

// Before all else: nothing is asked of the rate, the mark or the quantity. The client is told one thing, the operator
// why.
TEST(a_voucher_with_tickets_takes_a_good_one_only)
{
    static const struct {
        enum sk_ask_ticket ticket;
        int64_t offer;
        enum sk_purchase_code code;
        enum sk_metric counter;
    } rows[] = {
        {SK_ASK_TICKETS_OFF, OFFER, SK_PURCHASE_TICKETS_OFF, SK_METRIC_TICKETS_OFF},
        {SK_ASK_NO_TICKET, OFFER, SK_PURCHASE_TICKET_REQUIRED, SK_METRIC_TICKETS_MISSING},
        {SK_ASK_BAD_TICKET, OFFER + 1, SK_PURCHASE_TICKET_INVALID, SK_METRIC_TICKETS_BAD},
        {SK_ASK_EXPIRED_TICKET, OFFER, SK_PURCHASE_TICKET_INVALID, SK_METRIC_TICKETS_EXPIRED},
        {SK_ASK_GOOD_TICKET, OFFER - 1, SK_PURCHASE_TICKET_INVALID, SK_METRIC_TICKETS_OLD_OFFER},
    };
    struct sk_voucher *voucher = sk_catalogue_find(sale.catalogue, VOUCHER);
    voucher->ticket = true;
    voucher->offer = OFFER;
    refuses = true;
    quantity = 2;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        must_come_to_with(rows[i].ticket, rows[i].offer, rows[i].code);
        for (size_t j = 0; j < sizeof rows / sizeof rows[0]; j++)
            ck_assert_uint_eq(sk_metrics_read(&metrics, rows[j].counter), j <= i);
    }
    ck_assert_uint_eq(differences, 0);
    must_come_to_with(SK_ASK_GOOD_TICKET, OFFER + 1, SK_PURCHASE_LOADING); // for an offer to come: no refusal
    ck_assert_uint_eq(differences, 1);
    must_come_to_with(SK_ASK_GOOD_TICKET, OFFER, SK_PURCHASE_INVALID); // the quantity
    quantity = 1;
    must_come_to_with(SK_ASK_GOOD_TICKET, OFFER, SK_PURCHASE_SOLD_OUT);
    ck_assert_uint_eq(added_count, 0);
    refuses = false;
    ck_assert(buy(VOUCHER, 3));
    must_be_added(0, VOUCHER, 3);
    ck_assert_uint_eq(differences, 1);
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_TICKETS_OLD_OFFER), 1);
}

TEST(other_vouchers_take_any)
{
    its_ticket = SK_ASK_BAD_TICKET;
    ck_assert(buy(VOUCHER, 1));
    its_ticket = SK_ASK_NO_TICKET;
    ck_assert(buy(VOUCHER, 2));
    ck_assert_uint_eq(added_count, 2);
}

// What was found of the ticket when the request came is remembered until its voucher is found.
TEST(tickets_of_a_new_voucher_wait_with_their_purchase)
{
    static const enum sk_ask_ticket tickets[] = {SK_ASK_TICKETS_OFF, SK_ASK_NO_TICKET, SK_ASK_BAD_TICKET,
                                                 SK_ASK_GOOD_TICKET};
    its_offer = OFFER;
    for (uint64_t i = 0; i < 4; i++) {
        its_ticket = tickets[i];
        ck_assert(buy(NEW, i + 1));
    }
    (void)a_voucher(sale.catalogue, NEW);
    struct sk_voucher *voucher = sk_catalogue_find(sale.catalogue, NEW);
    voucher->ticket = true;
    voucher->offer = OFFER;
    follow_ends(true);
    must_be_told(1, SK_VERDICT_TICKETS_OFF);
    must_be_told(2, SK_VERDICT_TICKET_REQUIRED);
    must_be_told(3, SK_VERDICT_TICKET_INVALID);
    must_be_added(0, NEW, 4);
}

// ---- newer than the catalogue ----

TEST(a_new_voucher_is_found_by_the_next_read)
{
    ck_assert(buy(NEW, 3));
    ck_assert_uint_eq(added_count, 0);
    ck_assert_uint_eq(fake_catalogue_sync.waits, 1);
    (void)a_voucher(sale.catalogue, NEW);
    follow_ends(true);
    must_be_added(0, NEW, 3);
    ck_assert_uint_eq(told_count, 0); // the batcher tells
    ck_assert_uint_eq(sk_catalogue_find(sale.catalogue, NEW)->pins, 0);
    // Refused from memory: this time the result comes later.
    ck_assert(buy(NEW + 1, 4));
    (void)a_voucher(sale.catalogue, NEW + 1);
    refuses = true;
    follow_ends(true);
    must_be_told(4, SK_VERDICT_SOLD_OUT);
}

TEST(a_read_that_fails_is_no_refusal)
{
    ck_assert(buy(NEW, 3));
    follow_ends(false);
    must_be_told(3, SK_VERDICT_UNAVAILABLE);
}

TEST(made_up_ids_cost_no_statement)
{
    for (uint64_t i = 1; i <= CROWD; i++)
        ck_assert(buy(NEWEST + (int64_t)i, i));
    follow_ends(true);
    for (uint64_t i = 1; i <= CROWD; i++)
        must_be_told(i, SK_VERDICT_UNKNOWN_VOUCHER);
    ck_assert_uint_eq(fake_pg.count, 0);
    ck_assert_uint_eq(added_count, 0);
}

TEST(those_that_wait_are_bounded)
{
    enum { MOST = SK_QUERY_ASKERS_MAX - SK_PG_QUERIES * SK_QUERY_RESERVE };
    for (uint64_t i = 1; i <= MOST; i++)
        ck_assert(buy(NEW, i));
    must_be_refused(NEW, SK_PURCHASE_OVERLOADED);
    ck_assert(buy(VOUCHER, 1)); // the road is free
    follow_ends(true);
    ck_assert_uint_eq(told_count, MOST);
}

// ---- older than the catalogue, and not in it ----

typedef const char *const rows_t[ROW_COLUMNS];

TEST(what_was_retired)
{
    static const rows_t won[] = {{"retired", ORDER_B}}, lost[] = {{"retired", NULL}}, none[] = {{NULL, NULL}},
                        recalled[] = {{"closed", NULL}}, open_again[] = {{"open", ORDER_B}},
                        archived[] = {{"archived", NULL}}, not_yet[] = {{"archived", ORDER_B}};
    static const struct {
        struct sk_rows rows;
        enum sk_verdict verdict;
        const char *order_id;
    } rows[] = {
        {{1, won}, SK_VERDICT_ALREADY_ORDERED, ORDER_B}, {{1, lost}, SK_VERDICT_ENDED, ""},
        {{1, none}, SK_VERDICT_UNKNOWN_VOUCHER, ""},     {{0, NULL}, SK_VERDICT_UNKNOWN_VOUCHER, ""},
        {{1, recalled}, SK_VERDICT_LOADING, ""},         {{1, open_again}, SK_VERDICT_LOADING, ORDER_B},
        {{1, archived}, SK_VERDICT_ARCHIVED, ""},        {{1, not_yet}, SK_VERDICT_ALREADY_ORDERED, ORDER_B},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ck_assert(buy(OLD, 3));
        follow_ends(true);
        const struct asked *asked = the_statement(SK_STATEMENT_FIND_RETIRED);
        ck_assert_str_eq(asked->argv[0], "5");
        ck_assert_str_eq(asked->argv[1], USER);
        pg_answers(&rows[i].rows);
        must_be_told(3, rows[i].verdict);
        if (rows[i].verdict != SK_VERDICT_LOADING)
            ck_assert_str_eq(told[3].order_id, rows[i].order_id);
    }
    ck_assert(buy(OLD, 3));
    follow_ends(true);
    pg_answers(NULL);
    must_be_told(3, SK_VERDICT_UNAVAILABLE);
    ck_assert(buy(OLD, 3));
    fake_pg.down = true;
    follow_ends(true);
    must_be_told(3, SK_VERDICT_UNAVAILABLE);
    ck_assert_uint_eq(added_count, 0);
}

TEST(old_ids_are_asked_for_a_few_at_a_time)
{
    static const rows_t lost[] = {{"retired", NULL}};
    const struct sk_rows retired = {1, lost};
    for (int times = 0; times < 2; times++) { // the places are given back
        fake_stores_forget();
        for (uint64_t i = 1; i <= OLD_MAX + 3; i++)
            ck_assert(buy(OLD, i));
        follow_ends(true);
        ck_assert_uint_eq(fake_pg.count, OLD_MAX);
        ck_assert_uint_eq(told_count, 3);
        for (int i = 0; i < OLD_MAX; i++)
            pg_answers(i % 2 == 0 ? &retired : NULL);
        size_t ended = 0, unavailable = 0, overloaded = 0;
        for (uint64_t i = 1; i <= OLD_MAX + 3; i++) {
            ended += told[i].verdict == SK_VERDICT_ENDED;
            unavailable += told[i].verdict == SK_VERDICT_UNAVAILABLE;
            overloaded += told[i].verdict == SK_VERDICT_OVERLOADED;
            ck_assert_int_eq(told[i].count, 1);
            told[i].count = 0;
        }
        ck_assert_uint_eq(ended, OLD_MAX / 2);
        ck_assert_uint_eq(unavailable, OLD_MAX / 2);
        ck_assert_uint_eq(overloaded, 3);
        told_count = 0;
    }
}

TEST(memory_that_is_short)
{
    allocations_left = 1;
    must_be_refused(NEW, SK_PURCHASE_OVERLOADED);
    ck_assert(buy(OLD, 2));
    allocations_left = 1;
    follow_ends(true);
    must_be_told(2, SK_VERDICT_OVERLOADED);
    allocations_left = 0;
    ck_assert(buy(VOUCHER, 3));
}

TEST(who_still_waits_at_the_end_is_told_so)
{
    ck_assert(buy(NEW, 3));
    ck_assert(buy(OLD, 4));
    sk_queries_close(control.queries);
    must_be_told(3, SK_VERDICT_UNAVAILABLE);
    must_be_told(4, SK_VERDICT_UNAVAILABLE);
    control.queries = sk_queries_open(); // for the teardown
}

SUITE(.setup = setup, .teardown = teardown);
