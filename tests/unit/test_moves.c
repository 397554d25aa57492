// Pay, cancel and refund where the stores do not answer, answer late or answer something else: an unknown outcome is
// never answered as a known one. What they answer otherwise is the table of integration/test_order_moves.c.
#include "fake_control.h"

#include "fake_returns.h"
#include "moves.h"
#include "order_id.h"
#include "test.h"

enum { VOUCHER = 7, EPOCH = 3 };

#define USER         "alice"
#define DOCUMENT     "{\"id\":\"x\"}"
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static struct sk_uuid_gen gen;
static struct sk_voucher *voucher;
static char order[SK_UUID_SIZE], slot[16];
static const struct sk_payment payment = {"ref-1", 9900, "CNY"};
static const struct sk_refund kept = {false, NULL, NULL};

typedef const char *const rows_t[ROW_COLUMNS];

static void setup(void)
{
    static char returns; // any address will do
    control_setup();
    shards[0].returns = (struct sk_returns *)(void *)&returns;
    memset(&fake_returns, 0, sizeof fake_returns);
    voucher = a_voucher(sale.catalogue, VOUCHER);
    sk_order_id_make(&gen, voucher->slot, EPOCH, order);
    (void)snprintf(slot, sizeof slot, "%u", voucher->slot);
}

static void teardown(void)
{
    ck_assert_uint_eq(fake_returns.count, fake_returns.ended);
    control_teardown();
}

// ---- replies of the stores ----

// Answers the oldest open statement with one row of these columns.
static void row(enum sk_statement statement, const char *a, const char *b, const char *c, const char *d)
{
    const char *const rows[1][ROW_COLUMNS] = {{a, b, c, d}};
    const struct sk_rows one = {1, rows};
    (void)the_statement(statement);
    pg_answers(&one);
}

static void paid(const char *outcome, const char *document)
{
    row(SK_STATEMENT_PAY_ORDER, outcome, document, NULL, NULL);
}

static void is(const char *status, const char *allowed, const char *document)
{
    row(SK_STATEMENT_FIND_FOR_MOVE, "7", status, allowed, document);
}

static void refunded(const char *outcome, const char *status, const char *document)
{
    row(SK_STATEMENT_NOTE_REFUNDS, outcome, "7", status, document);
}

static void must_be_wrong_state(const char *status)
{
    must_be_told(1, SK_VERDICT_WRONG_STATE);
    ck_assert_str_eq(told_status, status);
}

static void pay(void)
{
    sk_move_pay(&control, order, "", &payment, "till", 1);
}

static void cancel(void)
{
    sk_move_cancel(&control, order, USER, 1);
}

static void refund(void)
{
    sk_move_refund(&control, order, &kept, "olga", 1);
}

static void retire(void)
{
    struct sk_catalogue_row gone = {.change = 100, .voucher_id = VOUCHER, .state = SK_VOUCHER_RETIRED, .tag = "7"};
    ck_assert_int_eq(sk_catalogue_put(sale.catalogue, &gone), SK_OK);
    fake_catalogue_sync.newest_id = VOUCHER;
}

// ---- pay ----

static void pay_own(void)
{
    sk_move_pay(&control, order, USER, &payment, "demo", 1);
}

TEST(a_buyer_of_the_demo_pays_an_order_of_their_own)
{
    pay_own();
    const struct asked *asked = the_statement(SK_STATEMENT_FIND_FOR_MOVE);
    ck_assert_str_eq(asked->argv[1], order);
    ck_assert_str_eq(asked->argv[2], USER);
    ck_assert_str_eq(asked->argv[3], "paid");
    is("unpaid", "t", DOCUMENT);
    asked = the_statement(SK_STATEMENT_PAY_ORDER);
    ck_assert_str_eq(asked->argv[2], "ref-1");
    ck_assert_str_eq(asked->argv[5], "demo");
    paid("paid", DOCUMENT);
    must_be_shown(1, DOCUMENT);
    // The payment itself decides about the order's state and the amount.
    pay_own();
    is("expired", "f", DOCUMENT);
    paid("to_refund", DOCUMENT);
    must_be_shown(1, DOCUMENT);
    pay_own();
    is("unpaid", "t", DOCUMENT);
    row(SK_STATEMENT_PAY_ORDER, "wrong_amount", NULL, "990", "CNY");
    must_be_told(1, SK_VERDICT_WRONG_AMOUNT);
    pay_own();
    is("unpaid", "t", DOCUMENT);
    paid("wrong_amount", NULL); // changed meanwhile: nothing is known
    must_be_told(1, SK_VERDICT_WRONG_AMOUNT);
}

TEST(a_buyer_of_the_demo_does_not_pay_anothers_order)
{
    pay_own();
    is("unpaid", "t", NULL);
    must_be_told(1, SK_VERDICT_NOT_FOUND);
    ck_assert_uint_eq(fake_pg.count, 1);
    pay_own();
    pg_answers(NULL);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    pay_own();
    pg_answers(&no_rows); // not in PostgreSQL: it is looked up like any order of this user
    const struct asked *asked = the_statement(SK_STATEMENT_FIND_ORDER);
    ck_assert_str_eq(asked->argv[2], USER);
    pg_answers(NULL);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
}

TEST(the_longest_texts_fit)
{
    char reference[SK_REFERENCE_MAX + 1], why[SK_WHY_MAX + 1], by[SK_ADMIN_NAME_SIZE];
    memset(reference, 'r', sizeof reference - 1);
    memset(why, 'w', sizeof why - 1);
    memset(by, 'b', sizeof by - 1);
    reference[sizeof reference - 1] = why[sizeof why - 1] = by[sizeof by - 1] = '\0';
    sk_move_pay(&control, order, "", &(struct sk_payment){reference, INT64_MAX, "CNY"}, by, 1);
    ck_assert_str_eq(the_statement(SK_STATEMENT_PAY_ORDER)->argv[2], reference);
    ck_assert_str_eq(the_statement(SK_STATEMENT_PAY_ORDER)->argv[5], by);
    paid("paid", DOCUMENT);
    must_be_shown(1, DOCUMENT);
    ck_assert_uint_eq(fake_pg.count, 1); // a payment is one statement
    sk_move_refund(&control, order, &(struct sk_refund){true, why, reference}, by, 1);
    ck_assert_str_eq(the_statement(SK_STATEMENT_NOTE_REFUNDS)->argv[3], why);
    ck_assert_str_eq(the_statement(SK_STATEMENT_NOTE_REFUNDS)->argv[4], reference);
    refunded("refunded", "refunded", DOCUMENT);
    must_be_shown(1, DOCUMENT);
}

// ---- cancel ----

// Another move was faster: whatever the return's outcome, the order's state decides.
TEST(after_a_return_the_order_is_read_again)
{
    for (int end = SK_RETURN_DONE; end <= SK_RETURN_UNKNOWN_ORDER; end++) {
        cancel();
        is("unpaid", "t", DOCUMENT);
        return_ends((enum sk_return_end)end);
        is("paid", "f", DOCUMENT);
        must_be_wrong_state("paid");
        refund();
        refunded("returns", "paid", NULL);
        return_ends((enum sk_return_end)end);
        refunded("kept", "expired", DOCUMENT);
        must_be_wrong_state("expired");
    }
}

TEST(a_return_that_did_not_happen_is_not_told_as_one)
{
    static const struct {
        enum sk_return_end end;
        enum sk_verdict verdict;
    } rows[] = {
        {SK_RETURN_LOADING, SK_VERDICT_LOADING},
        {SK_RETURN_UNAVAILABLE, SK_VERDICT_UNAVAILABLE},
        {SK_RETURN_DONE, SK_VERDICT_UNAVAILABLE}, // but the order is unchanged: it is not returned again and again
        {SK_RETURN_NOT_ALLOWED, SK_VERDICT_UNAVAILABLE}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        cancel();
        is("unpaid", "t", DOCUMENT);
        ck_assert_uint_eq(voucher->pins, 1);
        return_ends(rows[i].end);
        if (i > 1)
            is("unpaid", "t", DOCUMENT);
        must_be_told(1, rows[i].verdict);
        ck_assert_uint_eq(voucher->pins, 0);
        refund();
        refunded("returns", "paid", NULL);
        return_ends(rows[i].end);
        if (i > 1)
            refunded("returns", "paid", NULL);
        must_be_told(1, rows[i].verdict);
    }
    ck_assert_uint_eq(fake_returns.count, 2 * COUNT(rows));
}

TEST(a_return_may_be_refused)
{
    static const struct {
        enum sk_status status;
        enum sk_verdict verdict;
    } rows[] = {
        {SK_DOWN, SK_VERDICT_UNAVAILABLE}, {SK_FULL, SK_VERDICT_OVERLOADED}, {SK_NO_MEM, SK_VERDICT_OVERLOADED}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        fake_returns.status = rows[i].status;
        cancel();
        is("unpaid", "t", DOCUMENT);
        must_be_told(1, rows[i].verdict);
        refund();
        refunded("returns", "paid", NULL);
        must_be_told(1, rows[i].verdict);
    }
}

// The voucher was just made by another instance.
TEST(a_voucher_that_is_new_is_awaited)
{
    struct sk_catalogue_row newer = {.change = 9, .voucher_id = 9, .tag = "7"};
    for (int ok = 0; ok < 3; ok++) {
        cancel();
        row(SK_STATEMENT_FIND_FOR_MOVE, "9", "unpaid", "t", DOCUMENT);
        ck_assert_uint_eq(fake_returns.count, 0);
        if (ok == 2)
            ck_assert_int_eq(sk_catalogue_put(sale.catalogue, &newer), SK_OK);
        follow_ends(ok > 0);
        if (ok < 2) {
            must_be_told(1, SK_VERDICT_UNAVAILABLE);
            continue;
        }
        return_ends(SK_RETURN_DONE);
        is("cancelled", "f", DOCUMENT);
        must_be_shown(1, DOCUMENT);
    }
}

// ---- retired vouchers ----

TEST(a_voucher_that_is_not_retired_after_all_is_not_touched)
{
    static const char *const outcomes[] = {"stale", NULL};
    retire();
    for (size_t i = 0; i < COUNT(outcomes); i++) {
        cancel();
        is("unpaid", "t", DOCUMENT);
        row(SK_STATEMENT_RETURN_RETIRED, outcomes[i], NULL, NULL, NULL);
        must_be_told(1, SK_VERDICT_UNAVAILABLE);
    }
    cancel();
    is("unpaid", "t", DOCUMENT);
    pg_answers(NULL);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    cancel();
    is("unpaid", "t", DOCUMENT);
    row(SK_STATEMENT_RETURN_RETIRED, "kept", NULL, NULL, NULL);
    is("paid", "f", DOCUMENT);
    must_be_wrong_state("paid");
}

// ---- an order that PostgreSQL does not know ----

static const rows_t account_rows[] = {{"0", "7", "3", "10", "5", "5", "2", "9", "open", "1000", "2000"}};
static const struct sk_rows accounts = {1, account_rows};

static void give_snapshot(const char *id, int64_t journal, const char *state)
{
    const struct sk_reply items[] = {TEXT(state),  TEXT("3"),       TEXT("10-5"), TEXT("5"), TEXT("run-1"),
                                     NUMBER(2),    NUMBER(journal), TEXT(id),     TEXT("9"), TEXT("1000"),
                                     TEXT("2000"), NUMBER(0),       TEXT("0")};
    const struct sk_reply reply = LIST_OF(items);
    ck_assert_int_eq(fake_redis.asked[fake_redis.answered].what, SK_SCRIPT_READ_VOUCHER);
    redis_answers(&reply);
}

// Sends a move and answers up to Redis's reply. `move` 0: pay, 1: cancel, 2: refund.
static void unknown(int move)
{
    if (move == 0) {
        pay();
        paid("unknown", NULL);
    } else if (move == 1) {
        cancel();
        (void)the_statement(SK_STATEMENT_FIND_FOR_MOVE);
        pg_answers(&no_rows);
    } else {
        refund();
        row(SK_STATEMENT_NOTE_REFUNDS, "unknown", NULL, NULL, NULL);
    }
    const struct asked *asked = the_statement(move == 1 ? SK_STATEMENT_FIND_ORDER : SK_STATEMENT_FIND_ANY_ORDER);
    ck_assert_str_eq(asked->argv[0], slot);
    ck_assert_str_eq(asked->argv[1], order);
    ck_assert_int_eq(asked->argc, move == 1 ? 3 : 2);
}

static void unknown_up_to_the_snapshot(int move)
{
    static const struct sk_reply nil = NIL;
    unknown(move);
    pg_answers(&no_rows);
    if (move == 1)
        redis_answers(&nil); // it is not the user's current order
    (void)the_statement(SK_STATEMENT_VOUCHER_ACCOUNTS);
    pg_answers(&accounts);
    ck_assert_str_eq(fake_redis.asked[fake_redis.answered].argv[4], move == 1 ? USER : "");
}

// How it is looked up, and when it is not found: test_order_lookup.c.
TEST(an_order_that_was_settled_meanwhile_is_pending)
{
    static const rows_t found[] = {{DOCUMENT, "unpaid"}};
    static const struct sk_rows one = {1, found};
    for (int move = 0; move < 3; move++) {
        unknown(move);
        pg_answers(&one);
        must_be_told(1, SK_VERDICT_PENDING);
        ck_assert_str_eq(told_document, "");
        unknown_up_to_the_snapshot(move);
        give_snapshot("", 0, "open");
        pg_answers(&one);
        must_be_told(1, SK_VERDICT_PENDING);
    }
}

// ---- trouble ----

// A payment and a refund wait for no user's call, and a user's move waits for no query.
TEST(moves_go_before_questions)
{
    static const enum sk_pg_class classes[] = {SK_PG_COMMANDS, SK_PG_MOVES, SK_PG_COMMANDS};
    for (int move = 0; move < 3; move++) {
        fake_stores_forget();
        unknown_up_to_the_snapshot(move);
        for (size_t i = 0; i < fake_pg.count; i++)
            ck_assert_int_eq(fake_pg.asked[i].class, classes[move]);
        redis_answers(NULL);
        must_be_told(1, SK_VERDICT_UNAVAILABLE);
    }
}

TEST(without_postgres_nothing_is_known)
{
    static void (*const moves[])(void) = {pay, cancel, refund};
    for (size_t i = 0; i < COUNT(moves); i++) {
        moves[i]();
        pg_answers(NULL);
        must_be_told(1, SK_VERDICT_UNAVAILABLE);
        moves[i]();
        pg_fails(SK_RESULT_LOCKED);
        must_be_told(1, SK_VERDICT_UNAVAILABLE);
        fake_pg.down = true;
        moves[i]();
        must_be_told(1, SK_VERDICT_UNAVAILABLE);
        fake_pg.down = false;
    }
    cancel();
    is("unpaid", "t", DOCUMENT);
    return_ends(SK_RETURN_DONE); // but its state cannot be read
    pg_answers(NULL);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    refund();
    refunded("returns", "paid", NULL);
    fake_pg.down = true;
    return_ends(SK_RETURN_DONE);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
}

static void (*conversing)(void);

// Answers every call until the end.
static void converse(void)
{
    size_t ended = fake_returns.ended;
    fake_returns.count = ended;
    conversing();
    while (stores_wait() || fake_returns.count > fake_returns.ended) {
        bool done = fake_returns.ended > ended;
        if (fake_returns.count > fake_returns.ended)
            return_ends(SK_RETURN_DONE);
        else if (fake_pg.asked[fake_pg.answered].what == SK_STATEMENT_PAY_ORDER)
            paid("paid", DOCUMENT);
        else if (fake_pg.asked[fake_pg.answered].what == SK_STATEMENT_FIND_FOR_MOVE)
            is(done ? "cancelled" : "unpaid", done ? "f" : "t", DOCUMENT);
        else
            refunded(done ? "refunded" : "returns", "refunded", DOCUMENT);
    }
}

TEST(every_allocation_may_fail)
{
    conversing = cancel;
    must_survive_short_memory(converse, voucher);
    conversing = refund;
    must_survive_short_memory(converse, voucher);
}

SUITE(.setup = setup, .teardown = teardown);
