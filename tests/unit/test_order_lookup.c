// Queries for orders: each path through both stores, and that "not found" is answered only if no store and no instance
// can still have the order.
#include "fake_control.h"

#include "order_id.h"
#include "order_lookup.h"
#include "test.h"

enum { VOUCHER = 7, OTHER = 8, EPOCH = 3, IN_SLOT_MAX = 16, ANSWER_SIZE = 512 };

#define USER         "alice"
#define ORDER_B      "00000000-0000-7000-8000-00000000000b"
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static struct sk_uuid_gen gen;
static struct sk_voucher *voucher;
static char order[SK_UUID_SIZE];  // with the voucher's slot and epoch
static char pending[ANSWER_SIZE]; // its document while pending

// ---- fixture ----

static void setup(void)
{
    control_setup();
    voucher = a_voucher(sale.catalogue, VOUCHER);
    sk_order_id_make(&gen, voucher->slot, EPOCH, order);
    (void)snprintf(
        pending, sizeof pending,
        "{\"id\":\"%s\",\"voucher_id\":\"7\",\"user_id\":\"" USER "\",\"quantity\":1,\"status\":\"pending\"}", order);
}

// Another voucher in the same slot.
static struct sk_voucher *neighbour(int64_t voucher_id)
{
    struct sk_catalogue_row row = {.change = voucher_id, .voucher_id = voucher_id, .tag = "7"};
    ck_assert_int_eq(sk_catalogue_put(sale.catalogue, &row), SK_OK);
    return sk_catalogue_find(sale.catalogue, voucher_id);
}

// ---- answers ----

typedef const char *const rows_t[ROW_COLUMNS];

static const rows_t one_order[] = {{"{\"id\":\"x\"}"}};
static const struct sk_rows found = {1, one_order};
// slot, voucher, epoch, newest journal id, stock, buyers
static const rows_t account_rows[] = {{"0", "7", "3", "10", "5", "5", "2", "9", "open", "1000", "2000"},
                                      {"0", "8", "3", "0", "0", "5", "2", "9", "open", "1000", "2000"}};
static const struct sk_rows accounts = {2, account_rows};

#define LOOK(state, epoch, last, run, id)                                                                      \
    {                                                                                                          \
        TEXT(state), TEXT(epoch), TEXT(last), TEXT("5"), TEXT(run), NUMBER(2), NUMBER(1), TEXT(id), TEXT("9"), \
            TEXT("1000"), TEXT("2000"), NUMBER(0), TEXT("0")                                                   \
    }
#define GOOD_LOOK(id) LOOK("open", "3", "10-5", "run-1", id)

static void answer_look_at(size_t i, const char *id)
{
    const struct sk_reply items[] = GOOD_LOOK(id);
    const struct sk_reply reply = LIST_OF(items);
    ck_assert_int_eq(fake_redis.asked[i].what, SK_SCRIPT_READ_VOUCHER);
    redis_answers_at(i, &reply);
}

static void answer_look(const char *id)
{
    answer_look_at(fake_redis.answered, id);
}

static bool a_claim_is_next(void)
{
    return fake_redis.answered < fake_redis.count && fake_redis.asked[fake_redis.answered].what == PLAIN_COMMAND;
}

// Redis has no order of the user.
static void no_claims(void)
{
    static const struct sk_reply nil = NIL;
    ck_assert(a_claim_is_next());
    while (a_claim_is_next())
        redis_answers(&nil);
}

// Answers every call: the stores know no order but this one.
static void the_stores_answer(const char *id)
{
    while (stores_wait()) {
        if (fake_pg.answered < fake_pg.count)
            pg_answers(fake_pg.asked[fake_pg.answered].what == SK_STATEMENT_VOUCHER_ACCOUNTS ? &accounts : &no_rows);
        else if (a_claim_is_next())
            no_claims();
        else
            answer_look(id);
    }
}

// Sends a query and answers up to Redis's check.
static void ask_up_to_the_look(void)
{
    sk_order_lookup(&control, order, USER, 1);
    (void)the_statement(SK_STATEMENT_FIND_ORDER);
    pg_answers(&no_rows);
    no_claims();
    (void)the_statement(SK_STATEMENT_VOUCHER_ACCOUNTS);
    pg_answers(&accounts);
    ck_assert_uint_gt(fake_redis.count, fake_redis.answered);
}

static void no_retired_sale_has_it(void)
{
    static const rows_t none[] = {{"0", "f"}};
    static const struct sk_rows rows = {1, none};
    (void)the_statement(SK_STATEMENT_RETIRED_EPOCH);
    pg_answers(&rows);
}

// First the catalogue is updated: a new voucher may have the same slot.
static void must_not_be_found(uint64_t handle)
{
    ck_assert_int_eq(told[handle].count, 0);
    follow_ends(true);
    no_retired_sale_has_it();
    must_be_told(handle, SK_VERDICT_NOT_FOUND);
}

// ---- one order ----

TEST(what_postgres_has_is_shown)
{
    char slot[16];
    (void)snprintf(slot, sizeof slot, "%u", voucher->slot);
    sk_order_lookup(&control, order, USER, 1);
    const struct asked *asked = the_statement(SK_STATEMENT_FIND_ORDER);
    ck_assert_str_eq(asked->argv[0], slot);
    ck_assert_str_eq(asked->argv[1], order);
    ck_assert_str_eq(asked->argv[2], USER);
    pg_answers(&found);
    must_be_shown(1, "{\"id\":\"x\"}");
    ck_assert_uint_eq(fake_pg.count, 1);
    ck_assert_uint_eq(fake_redis.count, 0);
}

// A read of the order at the same time proves nothing about the standbys, so the two share no answer.
TEST(a_first_answer_waits_for_the_standbys)
{
    sk_order_lookup(&control, order, USER, 1);
    (void)the_statement(SK_STATEMENT_FIND_ORDER);
    sk_order_lookup_repeated(&control, order, USER, 2);
    pg_answers(&found);
    must_be_shown(1, "{\"id\":\"x\"}");
    ck_assert_int_eq(told[2].count, 0);
    (void)the_statement(SK_STATEMENT_FIND_REPLICATED_ORDER);
    pg_answers(&found);
    must_be_shown(2, "{\"id\":\"x\"}");
    sk_order_lookup_repeated(&control, order, USER, 2);
    pg_answers(NULL); // the wait was cancelled
    must_be_told(2, SK_VERDICT_UNAVAILABLE);
    sk_order_lookup_repeated(&control, order, USER, 2);
    pg_answers(&no_rows);
    no_claims();
    pg_answers(&accounts);
    answer_look("");
    (void)the_statement(SK_STATEMENT_FIND_REPLICATED_ORDER);
    pg_answers(&found);
    must_be_shown(2, "{\"id\":\"x\"}");
}

TEST(what_is_anothers_is_not_found)
{
    static const rows_t anothers[] = {{NULL}};
    static const struct sk_rows rows = {1, anothers};
    sk_order_lookup(&control, order, USER, 1);
    pg_answers(&rows);
    must_be_told(1, SK_VERDICT_NOT_FOUND);
    ck_assert_uint_eq(fake_pg.count, 1);
    ask_up_to_the_look();
    answer_look("");
    pg_answers(&rows); // it was settled meanwhile
    must_be_told(1, SK_VERDICT_NOT_FOUND);
}

// A caller without a user sees all orders. Redis finds orders by user, so without one a journal entry may contain it.
TEST(who_may_see_all_is_shown_all)
{
    for (int64_t journal = 0; journal < 2; journal++) {
        const struct sk_reply items[] = {TEXT("open"), TEXT("3"),       TEXT("10-5"), TEXT("5"), TEXT("run-1"),
                                         NUMBER(2),    NUMBER(journal), TEXT(""),     TEXT("9"), TEXT("1000"),
                                         TEXT("2000"), NUMBER(0),       TEXT("0")};
        const struct sk_reply reply = LIST_OF(items);
        sk_order_lookup(&control, order, "", 1);
        const struct asked *asked = the_statement(SK_STATEMENT_FIND_ANY_ORDER);
        ck_assert_int_eq(asked->argc, 2);
        ck_assert_str_eq(asked->argv[1], order);
        pg_answers(&found);
        must_be_shown(1, "{\"id\":\"x\"}");
        sk_order_lookup(&control, order, "", 1);
        pg_answers(&no_rows);
        pg_answers(&accounts);
        redis_answers(&reply);
        (void)the_statement(SK_STATEMENT_FIND_ANY_ORDER);
        pg_answers(&found); // meanwhile settled, or a dead letter
        must_be_shown(1, "{\"id\":\"x\"}");
        sk_order_lookup(&control, order, "", 1);
        pg_answers(&no_rows);
        pg_answers(&accounts);
        redis_answers(&reply);
        pg_answers(&no_rows);
        if (journal == 0)
            must_not_be_found(1);
        else
            must_be_told(1, SK_VERDICT_PENDING);
    }
}

// A single command finds it, which limits the cost of many polled pending orders.
TEST(what_only_redis_has_is_pending)
{
    const struct sk_reply claim = TEXT(order);
    sk_order_lookup(&control, order, USER, 1);
    pg_answers(&no_rows);
    ck_assert_uint_eq(fake_redis.count, 1);
    ck_assert_str_eq(fake_redis.asked[0].argv[0], "HGET");
    ck_assert_str_eq(fake_redis.asked[0].argv[1], "seckill:{7}:buyers");
    ck_assert_str_eq(fake_redis.asked[0].argv[2], USER);
    redis_answers(&claim);
    must_be_shown(1, pending);
    ck_assert(!stores_wait());
}

// The order was granted again, after a rebuild.
TEST(what_redis_has_meanwhile_is_pending)
{
    ask_up_to_the_look();
    const struct asked *asked = &fake_redis.asked[1];
    ck_assert_int_eq(asked->keys, 3);
    ck_assert_str_eq(asked->argv[0], "seckill:{7}:voucher");
    ck_assert_str_eq(asked->argv[1], "seckill:{7}:buyers");
    ck_assert_str_eq(asked->argv[2], "seckill:{7}:journal");
    ck_assert_str_eq(asked->argv[3], "run-1"); // the Redis process connected to
    ck_assert_str_eq(asked->argv[4], USER);
    answer_look(order);
    must_be_shown(1, pending);
    ck_assert_uint_eq(fake_pg.count, 2);
}

TEST(what_no_store_has_is_not_found)
{
    ask_up_to_the_look();
    answer_look("");
    ck_assert_uint_eq(told_count, 0); // it may have been settled since PostgreSQL was queried
    (void)the_statement(SK_STATEMENT_FIND_ORDER);
    pg_answers(&no_rows);
    must_not_be_found(1);
    ask_up_to_the_look();
    answer_look(ORDER_B); // the user has another order
    pg_answers(&no_rows);
    must_not_be_found(1);
    ask_up_to_the_look();
    answer_look("");
    pg_answers(&found); // it was settled
    must_be_shown(1, "{\"id\":\"x\"}");
}

// A store that has, or may have, lost data cannot prove that an order does not exist (P5).
TEST(not_found_needs_a_redis_that_can_be_relied_on)
{
    static const struct sk_reply looks[][13] = {
        LOOK("loading", "3", "10-5", "run-1", ""), // being rebuilt
        LOOK("", "3", "10-5", "run-1", ""),        // missing
        LOOK("open", "3", "10-5", "", ""),         // another process
        LOOK("open", "3", "10-4", "run-1", ""),    // behind PostgreSQL
        LOOK("open", "3", "epoch-3", "run-1", ""), // behind PostgreSQL, too
        LOOK("open", "2", "10-5", "run-1", ""),    // a past epoch
        LOOK("open", "x", "10-5", "run-1", ""),    // impossible
        LOOK("open", "3", "x", "run-1", ""),
    };
    for (size_t i = 0; i < COUNT(looks); i++) {
        struct sk_reply reply = {.kind = REPLY_LIST, .count = 13, .items = looks[i]}, with_order[13];
        ask_up_to_the_look();
        redis_answers(&reply);
        pg_answers(&no_rows);
        must_be_told(1, SK_VERDICT_UNAVAILABLE);
        ask_up_to_the_look();
        redis_answers(&reply);
        pg_answers(&found);
        must_be_told(1, SK_VERDICT_FOUND);
        // An existing order is found anyway.
        memcpy(with_order, looks[i], sizeof with_order);
        with_order[7] = (struct sk_reply)TEXT(order);
        reply.items = with_order;
        ask_up_to_the_look();
        redis_answers(&reply);
        must_be_shown(1, pending);
    }
    static const struct sk_reply damage = ERROR("WRONGTYPE Operation against a key");
    ask_up_to_the_look();
    redis_answers(&damage);
    pg_answers(&no_rows);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
}

// The slot may have another node by the time of the reply.
TEST_EACH(the_process_that_was_asked_is_judged, 2)
{
    const struct sk_reply items[2][13] = {GOOD_LOOK(""), LOOK("open", "3", "10-5", "", "")};
    const struct sk_reply reply = LIST_OF(items[_i]);
    fake_redis.cluster = true;
    fake_redis.swapped = voucher->slot % 2 != 0;
    ask_up_to_the_look();
    ck_assert_str_eq(fake_redis.asked[fake_redis.answered].argv[3], "run-1");
    fake_redis.swapped = !fake_redis.swapped;
    redis_answers(&reply);
    fake_redis.cluster = false;
    pg_answers(&no_rows);
    if (_i == 0)
        must_not_be_found(1);
    else
        must_be_told(1, SK_VERDICT_UNAVAILABLE);
}

TEST(without_redis_it_is_not_known)
{
    static const struct sk_reply nil = NIL, error = ERROR("LOADING"), number = NUMBER(1);
    static const struct sk_reply *const answers[] = {NULL, &nil, &error, &number};
    for (size_t i = 0; i < COUNT(answers); i++) {
        ask_up_to_the_look();
        redis_answers(answers[i]);
        must_be_told(1, SK_VERDICT_UNAVAILABLE);
        ck_assert_uint_eq(fake_pg.answered, fake_pg.count);
    }
    sk_order_lookup(&control, order, USER, 1);
    pg_answers(&no_rows);
    no_claims();
    fake_redis.down = true;
    pg_answers(&accounts);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    sk_order_lookup(&control, order, USER, 1);
    pg_answers(&no_rows);
    must_be_told(1, SK_VERDICT_UNAVAILABLE); // at once: Redis cannot be queried
    ck_assert_uint_eq(fake_pg.answered, fake_pg.count);
    // An unreadable claim may still be readable in the check.
    fake_redis.down = false;
    for (size_t i = 0; i < COUNT(answers); i++) {
        sk_order_lookup(&control, order, USER, 1);
        pg_answers(&no_rows);
        redis_answers(answers[i]);
        pg_answers(&accounts);
        answer_look(order);
        must_be_shown(1, pending);
    }
}

// A paused or disconnected instance may hold an order granted under an earlier epoch.
TEST(not_found_needs_an_id_that_no_instance_can_hold)
{
    static const struct {
        int64_t epoch;
        enum sk_verdict verdict;
    } rows[] = {{EPOCH, SK_VERDICT_NOT_FOUND},
                {EPOCH - 1, SK_VERDICT_UNAVAILABLE},
                {0, SK_VERDICT_UNAVAILABLE},
                {EPOCH + 1, SK_VERDICT_NOT_FOUND}, // there was no such epoch
                {1023, SK_VERDICT_NOT_FOUND}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        sk_order_id_make(&gen, voucher->slot, rows[i].epoch, order);
        ask_up_to_the_look();
        answer_look("");
        pg_answers(&no_rows);
        if (rows[i].verdict == SK_VERDICT_NOT_FOUND)
            must_not_be_found(1);
        else
            must_be_told(1, rows[i].verdict);
    }
}

TEST(without_postgres_it_is_not_known)
{
    sk_order_lookup(&control, order, USER, 1);
    pg_answers(NULL);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    sk_order_lookup(&control, order, USER, 1);
    pg_answers(&no_rows);
    no_claims();
    pg_fails(SK_RESULT_FAILED);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    ask_up_to_the_look();
    answer_look("");
    pg_answers(NULL);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    ask_up_to_the_look();
    fake_pg.down = true;
    answer_look("");
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    sk_order_lookup(&control, order, USER, 1);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    fake_pg.down = false;
    sk_order_lookup(&control, order, USER, 1);
    pg_answers(&no_rows);
    no_claims();
    pg_answers(&no_rows); // no account of the voucher: Redis's data cannot be judged
    answer_look("");
    pg_answers(&no_rows);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
}

// Redis had lost it, and a paused instance may still record it as refused.
TEST(an_order_of_a_sale_that_was_retired_may_be_away)
{
    static const rows_t row[] = {{"7", "f"}};
    static const struct sk_rows rows = {1, row};
    static const int64_t epochs[] = {0, 6, 7, 8};
    char id[SK_UUID_SIZE];
    for (size_t i = 0; i < COUNT(epochs); i++) {
        sk_order_id_make(&gen, 11, epochs[i], id); // a slot without vouchers
        sk_order_lookup(&control, id, USER, 1);
        pg_answers(&no_rows);
        follow_ends(true);
        ck_assert_str_eq(the_statement(SK_STATEMENT_RETIRED_EPOCH)->argv[0], "11");
        pg_answers(&rows);
        must_be_told(1, epochs[i] < 7 ? SK_VERDICT_UNAVAILABLE : SK_VERDICT_NOT_FOUND);
    }
    sk_order_lookup(&control, id, USER, 1);
    pg_answers(&no_rows);
    follow_ends(true);
    pg_answers(NULL);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    // An order that may be archived is never "not found", whatever its epoch.
    static const rows_t moved[] = {{"7", "t"}};
    static const struct sk_rows archived = {1, moved};
    for (size_t i = 0; i < COUNT(epochs); i++) {
        sk_order_id_make(&gen, 11, epochs[i], id);
        sk_order_lookup(&control, id, USER, 1);
        pg_answers(&no_rows);
        follow_ends(true);
        ck_assert_str_eq(the_statement(SK_STATEMENT_RETIRED_EPOCH)->argv[1], id);
        pg_answers(&archived);
        must_be_told(1, SK_VERDICT_ARCHIVED);
    }
}

TEST(a_voucher_that_is_new_is_found_by_a_look)
{
    char id[SK_UUID_SIZE];
    struct sk_catalogue_row row = {.change = 9, .voucher_id = 9, .tag = "9"};
    sk_order_id_make(&gen, 11, EPOCH, id); // a slot without vouchers
    sk_order_lookup(&control, id, USER, 1);
    pg_answers(&no_rows);
    ck_assert_uint_eq(told_count, 0);
    must_not_be_found(1);
    sk_order_lookup(&control, id, USER, 1);
    pg_answers(&no_rows);
    follow_ends(false);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    ck_assert_uint_eq(fake_pg.count, 3);
    ck_assert_int_eq(sk_catalogue_put(sale.catalogue, &row), SK_OK);
    unsigned slot = sk_catalogue_find(sale.catalogue, 9)->slot;
    row.state = SK_VOUCHER_RETIRED;
    ck_assert_int_eq(sk_catalogue_put(sale.catalogue, &row), SK_OK);
    row.state = SK_VOUCHER_OPEN;
    sk_order_id_make(&gen, slot, EPOCH, id);
    sk_order_lookup(&control, id, USER, 1);
    pg_answers(&no_rows);
    ck_assert_int_eq(sk_catalogue_put(sale.catalogue, &row), SK_OK);
    follow_ends(true);
    (void)the_statement(SK_STATEMENT_VOUCHER_ACCOUNTS);
    pg_answers(&accounts);
    answer_look(id);
    must_be_told(1, SK_VERDICT_FOUND);
    ck_assert_ptr_nonnull(strstr(told_document, "\"voucher_id\":\"9\""));
}

// An older voucher has the slot: it does not know the order, which proves nothing about the new voucher.
TEST(a_voucher_that_is_new_may_share_its_slot)
{
    ask_up_to_the_look();
    answer_look("");
    pg_answers(&no_rows);
    follow_ends(false);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    ask_up_to_the_look();
    answer_look("");
    pg_answers(&no_rows);
    ck_assert_uint_eq(told[1].count, 0);
    (void)neighbour(OTHER);
    follow_ends(true);
    ck_assert_str_eq(the_statement(SK_STATEMENT_VOUCHER_ACCOUNTS)->argv[1], "{8,7}");
    pg_answers(&accounts);
    answer_look(order);
    answer_look("");
    must_be_told(1, SK_VERDICT_FOUND);
    ck_assert_ptr_nonnull(strstr(told_document, "\"voucher_id\":\"8\""));
    ask_up_to_the_look();
    answer_look("");
    answer_look("");
    pg_answers(&no_rows);
    must_not_be_found(1); // no new voucher: the stores are not queried again
    ck_assert(!stores_wait());
}

// The replies arrive out of order, as after a script that Redis had lost.
TEST(each_voucher_of_the_slot_is_asked)
{
    (void)neighbour(OTHER);
    for (size_t where = 0; where < 3; where++) {
        fake_stores_forget();
        sk_order_lookup(&control, order, USER, 1);
        pg_answers(&no_rows);
        no_claims();
        const struct asked *asked = the_statement(SK_STATEMENT_VOUCHER_ACCOUNTS);
        ck_assert_str_eq(asked->argv[1], "{8,7}");
        pg_answers(&accounts);
        ck_assert_uint_eq(fake_redis.count, 4);
        answer_look_at(3, where == 1 ? order : ORDER_B);
        ck_assert_uint_eq(told_count, 0);
        answer_look_at(2, where == 0 ? order : "");
        if (where == 2) {
            pg_answers(&no_rows);
            must_not_be_found(1);
        } else {
            must_be_told(1, SK_VERDICT_FOUND);
            ck_assert_ptr_nonnull(strstr(told_document, where == 1 ? "\"7\"" : "\"8\""));
        }
        told_count = 0;
    }
}

TEST(each_voucher_of_the_slot_must_be_relied_on)
{
    static const struct sk_reply bad[13] = LOOK("loading", "3", "10-5", "run-1", "");
    static const struct sk_reply loading = LIST_OF(bad);
    (void)neighbour(OTHER);
    ask_up_to_the_look();
    redis_answers(&loading);
    answer_look("");
    pg_answers(&no_rows);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    ask_up_to_the_look();
    redis_answers(NULL);
    answer_look(order); // one finding is enough
    must_be_told(1, SK_VERDICT_FOUND);
    ask_up_to_the_look();
    redis_answers(NULL);
    answer_look("");
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    // Only the first call succeeds.
    fake_stores_forget();
    sk_order_lookup(&control, order, USER, 1);
    pg_answers(&no_rows);
    no_claims();
    allocations_left = 2;
    pg_answers(&accounts);
    allocations_left = 0;
    ck_assert_uint_eq(fake_redis.count, 3);
    answer_look("");
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
}

TEST(a_slot_with_more_vouchers_than_are_asked)
{
    enum { FIRST = 100 };
    static char ids[IN_SLOT_MAX][8];
    static const char *rows[IN_SLOT_MAX][ROW_COLUMNS];
    for (int more = 0; more < 2; more++) {
        // At first there are IN_SLOT_MAX, with the existing one.
        for (int i = 0; i < IN_SLOT_MAX - 1 + more; i++)
            (void)neighbour(FIRST + i);
        fake_stores_forget();
        sk_order_lookup(&control, order, USER, 1);
        pg_answers(&no_rows);
        no_claims();
        struct sk_voucher *asked = sk_catalogue_at_slot(sale.catalogue, voucher->slot);
        for (int i = 0; i < IN_SLOT_MAX; i++, asked = asked->next_in_slot) {
            (void)snprintf(ids[i], sizeof ids[i], "%d", (int)asked->id);
            memcpy((void *)rows[i], (const void *)account_rows[0], sizeof rows[i]);
            rows[i][1] = ids[i];
        }
        pg_answers(&(const struct sk_rows){IN_SLOT_MAX, (const char *const(*)[ROW_COLUMNS])rows});
        ck_assert_uint_eq(fake_redis.count, 2 * IN_SLOT_MAX);
        for (int i = 0; i < IN_SLOT_MAX; i++)
            answer_look("");
        pg_answers(&no_rows);
        if (more == 0)
            must_not_be_found(1);
        else
            must_be_told(1, SK_VERDICT_UNAVAILABLE);
    }
}

TEST(a_voucher_may_be_retired_while_it_is_asked_about)
{
    struct sk_catalogue_row row = {.change = 100, .voucher_id = VOUCHER, .state = SK_VOUCHER_RETIRED, .tag = "7"};
    ask_up_to_the_look();
    ck_assert_int_eq(sk_catalogue_put(sale.catalogue, &row), SK_OK);
    answer_look(order);
    must_be_shown(1, pending);
}

TEST(a_second_round_asks_all_again)
{
    ask_up_to_the_look();
    sk_order_lookup(&control, order, USER, 2);
    sk_order_lookup(&control, order, "bob", 3); // another query
    redis_answers(NULL);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    ck_assert_uint_eq(told_count, 1);
    pg_answers(&found); // for bob
    must_be_told(3, SK_VERDICT_FOUND);
    (void)the_statement(SK_STATEMENT_FIND_ORDER);
    pg_answers(&no_rows);
    no_claims();
    pg_answers(&accounts);
    answer_look("");
    pg_answers(&no_rows);
    must_not_be_found(2); // the first round's failure is not cached
}

// Anyone with write access to Redis could write there.
TEST(what_is_no_order_id_is_not_shown)
{
    static const char *const forged[] = {"\",\"status\":\"paid\",\"x\":\"0123456789abc",
                                         "00000000-0000-7000-8000-00000000000A", "x",
                                         "00000000-0000-7000-8000-0000000000000"};
    for (size_t i = 0; i < COUNT(forged); i++) {
        ask_up_to_the_look();
        answer_look(forged[i]);
        pg_answers(&no_rows);
        must_not_be_found(1);
    }
}

// ---- made-up orders ----

// Queries n orders that no store has, for these users in turn, up to the point of further checks.
static void make_up(int n, const char *const *users, size_t user_count)
{
    for (int i = 0; i < n; i++) {
        char id[SK_UUID_SIZE];
        sk_order_id_make(&gen, voucher->slot, EPOCH, id);
        sk_order_lookup(&control, id, users[(size_t)i % user_count], (uint64_t)i + 1);
    }
    for (int i = 0; i < n; i++)
        pg_answers(&no_rows);
    no_claims();
}

static int told_overloaded(int n)
{
    int count = 0;
    for (int i = 1; i <= n; i++) {
        count += told[i].count == 1 && told[i].verdict == SK_VERDICT_OVERLOADED;
        told[i].count = 0;
    }
    return count;
}

// Answers the remaining calls of those that are checked further.
static void look_to_the_end(void)
{
    the_stores_answer("");
    follow_ends(true);
    while (stores_wait())
        no_retired_sale_has_it();
}

// 80 queries: one statement and one command each, and the further cost of only four.
TEST(made_up_orders_cost_little)
{
    enum { MADE_UP = 80, OF_USER = 4, FURTHER = 3 };
    static const char *const alice[] = {USER};
    make_up(MADE_UP, alice, 1);
    ck_assert_uint_eq(fake_pg.count, MADE_UP + OF_USER);
    ck_assert_uint_eq(fake_redis.count, MADE_UP);
    ck_assert_int_eq(told_overloaded(MADE_UP), MADE_UP - OF_USER);
    look_to_the_end();
    ck_assert_uint_eq(fake_pg.count, MADE_UP + OF_USER * FURTHER);
    ck_assert_uint_eq(fake_redis.count, MADE_UP + OF_USER);
    for (size_t i = 0; i < fake_pg.count; i++)
        ck_assert_int_eq(fake_pg.asked[i].class, SK_PG_QUERIES);
    ask_up_to_the_look(); // the places are free again
    answer_look(order);
    (void)told_overloaded(MADE_UP);
}

TEST(users_share_the_places)
{
    enum { MADE_UP = 40, SEARCHES = 16 };
    static const char *const users[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    make_up(MADE_UP, users, COUNT(users));
    ck_assert_int_eq(told_overloaded(MADE_UP), MADE_UP - SEARCHES);
    look_to_the_end();
    (void)told_overloaded(MADE_UP);
}

// Operators and payments may query orders even when users have taken all places.
TEST(a_token_needs_no_place)
{
    enum { MADE_UP = 40, TICKET = 99 };
    static const char *const users[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    make_up(MADE_UP, users, COUNT(users));
    sk_order_lookup(&control, order, "", TICKET);
    sk_order_lookup_pending(&control, order, "", TICKET + 1);
    ck_assert_int_eq(fake_pg.asked[fake_pg.count - 1].class, SK_PG_COMMANDS);
    ck_assert_int_eq(fake_pg.asked[fake_pg.count - 2].class, SK_PG_COMMANDS);
    sk_order_lookup_pending(&control, order, USER, TICKET + 2);
    ck_assert_int_eq(fake_pg.asked[fake_pg.count - 1].class, SK_PG_MOVES);
    (void)told_overloaded(MADE_UP);
    the_stores_answer("");
    must_be_told(TICKET, SK_VERDICT_PENDING); // an order is pending: without a user it may be that one
    must_be_told(TICKET + 1, SK_VERDICT_PENDING);
    must_be_told(TICKET + 2, SK_VERDICT_OVERLOADED);
    look_to_the_end();
    (void)told_overloaded(MADE_UP);
}

// ---- memory that is short ----

static void converse(void)
{
    sk_order_lookup(&control, order, USER, 1);
    the_stores_answer(order);
}

TEST(every_allocation_may_fail)
{
    must_survive_short_memory(converse, voucher);
}

SUITE(.setup = setup, .teardown = control_teardown);
