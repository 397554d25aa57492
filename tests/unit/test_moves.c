// Pay, extend, cancel and refund where the stores do not answer, answer late or answer something else: an unknown
// outcome is never answered as a known one. What they answer otherwise is the table of integration/test_order_moves.c.
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
static const struct sk_payment payment = {.reference = "ref-1", .amount_cents = 9900, .currency = "CNY"};
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

// ---- conversations ----

// Rows that a statement returns.
static const struct {
    char letter;
    enum sk_statement statement;
    const char *columns[4];
} rows[] = {
    {'u', SK_STATEMENT_FIND_FOR_MOVE, {"7", "unpaid", "t", DOCUMENT}},
    {'p', SK_STATEMENT_FIND_FOR_MOVE, {"7", "paid", "f", DOCUMENT}},
    {'e', SK_STATEMENT_FIND_FOR_MOVE, {"7", "expired", "f", DOCUMENT}},
    {'c', SK_STATEMENT_FIND_FOR_MOVE, {"7", "cancelled", "f", DOCUMENT}},
    {'?', SK_STATEMENT_FIND_FOR_MOVE, {"7", "unpaid", "t"}}, // another user's
    {'n', SK_STATEMENT_FIND_FOR_MOVE, {"9", "unpaid", "t", DOCUMENT}},
    {'+', SK_STATEMENT_PAY_ORDER, {"paid", DOCUMENT}},
    {'!', SK_STATEMENT_PAY_ORDER, {"to_refund", DOCUMENT}},
    {'w', SK_STATEMENT_PAY_ORDER, {"wrong_amount", NULL, "990", "CNY"}},
    {'W', SK_STATEMENT_PAY_ORDER, {"wrong_amount"}}, // changed meanwhile: nothing is known
    {'k', SK_STATEMENT_PAY_ORDER, {"unknown"}},
    {'1', SK_STATEMENT_EXTEND_ORDER, {"extended", "unpaid", DOCUMENT}},
    {'2', SK_STATEMENT_EXTEND_ORDER, {"already_extended", "unpaid"}},
    {'3', SK_STATEMENT_EXTEND_ORDER, {"reference_used", "unpaid"}},
    {'4', SK_STATEMENT_EXTEND_ORDER, {"off", "unpaid"}},
    {'5', SK_STATEMENT_EXTEND_ORDER, {"kept", "paid"}},
    {'6', SK_STATEMENT_EXTEND_ORDER, {"unknown"}},
    {'r', SK_STATEMENT_NOTE_REFUNDS, {"returns", "7", "paid"}},
    {'R', SK_STATEMENT_NOTE_REFUNDS, {"refunded", "7", "refunded", DOCUMENT}},
    {'E', SK_STATEMENT_NOTE_REFUNDS, {"kept", "7", "expired", DOCUMENT}},
    {'K', SK_STATEMENT_NOTE_REFUNDS, {"unknown"}},
    {'s', SK_STATEMENT_RETURN_RETIRED, {"stale"}},
    {'N', SK_STATEMENT_RETURN_RETIRED, {NULL}},
    {'y', SK_STATEMENT_RETURN_RETIRED, {"kept"}},
};

// Answers with a letter each: those above; - no row; x a lost answer; D the units were returned.
static void play(const char *steps)
{
    for (; *steps != '\0'; steps++) {
        size_t i = 0;
        while (i < COUNT(rows) && rows[i].letter != *steps)
            i++;
        if (i < COUNT(rows)) {
            rows_t row[] = {{rows[i].columns[0], rows[i].columns[1], rows[i].columns[2], rows[i].columns[3]}};
            (void)the_statement(rows[i].statement);
            pg_answers(&(struct sk_rows){1, row});
        } else if (*steps == 'D') {
            return_ends(SK_RETURN_DONE);
        } else {
            pg_answers(*steps == '-' ? &no_rows : NULL);
        }
    }
}

static void pay(void)
{
    sk_move_pay(&control, order, "", &payment, "till", 1);
}

static void pay_own(void)
{
    sk_move_pay(&control, order, USER, &payment, "demo", 1);
}

static void extend(void)
{
    sk_move_extend(&control, order, &(struct sk_extension){.reference = "ref-1"}, "till", 1);
}

static void cancel(void)
{
    sk_move_cancel(&control, order, USER, 1);
}

static void refund(void)
{
    sk_move_refund(&control, order, &kept, "olga", 1);
}

// The steps are all: no store is asked more.
static void must_end_in(enum sk_verdict verdict, const char *steps)
{
    play(steps);
    must_be_told(1, verdict);
    ck_assert(!stores_wait());
    ck_assert_str_eq(told_document, verdict == SK_VERDICT_FOUND ? DOCUMENT : "");
}

static void must_end(void (*move)(void), enum sk_verdict verdict, const char *steps)
{
    move();
    must_end_in(verdict, steps);
}

static void retire(void)
{
    struct sk_catalogue_row gone = {.change = 100, .voucher_id = VOUCHER, .state = SK_VOUCHER_RETIRED, .tag = "7"};
    ck_assert_int_eq(sk_catalogue_put(sale.catalogue, &gone), SK_OK);
    fake_catalogue_sync.newest_id = VOUCHER;
}

// ---- pay ----

TEST(a_buyer_of_the_demo_pays_an_order_of_their_own)
{
    pay_own();
    const struct asked *asked = the_statement(SK_STATEMENT_FIND_FOR_MOVE);
    ck_assert_str_eq(asked->argv[1], order);
    ck_assert_str_eq(asked->argv[2], USER);
    ck_assert_str_eq(asked->argv[3], "paid");
    play("u");
    asked = the_statement(SK_STATEMENT_PAY_ORDER);
    ck_assert_str_eq(asked->argv[2], "ref-1");
    ck_assert_str_eq(asked->argv[3], "9900");
    ck_assert_str_eq(asked->argv[4], "CNY");
    ck_assert_str_eq(asked->argv[5], "demo");
    must_end_in(SK_VERDICT_FOUND, "+");
    // The payment itself decides about the order's state and the amount.
    must_end(pay_own, SK_VERDICT_FOUND, "e!");
    must_end(pay_own, SK_VERDICT_WRONG_AMOUNT, "uw");
    must_end(pay_own, SK_VERDICT_WRONG_AMOUNT, "uW");
    must_end(pay_own, SK_VERDICT_NOT_FOUND, "?");
    must_end(pay_own, SK_VERDICT_UNAVAILABLE, "x");
    pay_own();
    play("-"); // not in PostgreSQL: it is looked up like any order of this user
    ck_assert_str_eq(the_statement(SK_STATEMENT_FIND_ORDER)->argv[2], USER);
    must_end_in(SK_VERDICT_UNAVAILABLE, "x");
}

TEST(the_longest_texts_fit)
{
    char reference[SK_REFERENCE_MAX + 1], why[SK_WHY_MAX + 1], by[SK_ADMIN_NAME_SIZE];
    memset(reference, 'r', sizeof reference - 1);
    memset(why, 'w', sizeof why - 1);
    memset(by, 'b', sizeof by - 1);
    reference[sizeof reference - 1] = why[sizeof why - 1] = by[sizeof by - 1] = '\0';
    sk_move_pay(&control, order, "",
                &(struct sk_payment){.reference = reference, .amount_cents = INT64_MAX, .currency = "CNY"}, by, 1);
    ck_assert_str_eq(the_statement(SK_STATEMENT_PAY_ORDER)->argv[2], reference);
    ck_assert_str_eq(the_statement(SK_STATEMENT_PAY_ORDER)->argv[5], by);
    must_end_in(SK_VERDICT_FOUND, "+");
    ck_assert_uint_eq(fake_pg.count, 1); // a payment is one statement
    sk_move_refund(&control, order, &(struct sk_refund){true, why, reference}, by, 1);
    ck_assert_str_eq(the_statement(SK_STATEMENT_NOTE_REFUNDS)->argv[3], why);
    ck_assert_str_eq(the_statement(SK_STATEMENT_NOTE_REFUNDS)->argv[4], reference);
    must_end_in(SK_VERDICT_FOUND, "R");
}

// ---- extend ----

TEST(an_extension_is_one_statement)
{
    extend();
    const struct asked *asked = the_statement(SK_STATEMENT_EXTEND_ORDER);
    ck_assert_str_eq(asked->argv[0], slot);
    ck_assert_str_eq(asked->argv[1], order);
    ck_assert_str_eq(asked->argv[2], "ref-1");
    ck_assert_ptr_null(asked->argv[3]); // as much as the voucher allows
    ck_assert_str_eq(asked->argv[4], "till");
    must_end_in(SK_VERDICT_FOUND, "1");
    must_end(extend, SK_VERDICT_ALREADY_EXTENDED, "2");
    must_end(extend, SK_VERDICT_REFERENCE_USED, "3");
    must_end(extend, SK_VERDICT_EXTENSION_OFF, "4");
    must_end(extend, SK_VERDICT_WRONG_STATE, "5");
    ck_assert_str_eq(told_status, "paid");
    must_end(extend, SK_VERDICT_UNAVAILABLE, "x");
    must_end(extend, SK_VERDICT_UNAVAILABLE, "6x"); // looked up in both stores
    sk_move_extend(&control, order, &(struct sk_extension){.reference = "ref-1", .extend_s = 60}, "till", 1);
    ck_assert_str_eq(the_statement(SK_STATEMENT_EXTEND_ORDER)->argv[3], "60");
    must_end_in(SK_VERDICT_FOUND, "1");
}

// ---- cancel and refund ----

static const struct {
    void (*move)(void);
    const char *to_the_return, *read_again, *other; // the steps; `other`: the order has another state now
    const char *state;
    enum sk_return_move as;
} returning[] = {{cancel, "u", "u", "p", "paid", SK_RETURN_CANCELLED},
                 {refund, "r", "r", "E", "expired", SK_RETURN_REFUNDED_KEPT}};

// Another move was faster: whatever the return's outcome, the order's state decides.
TEST_EACH(after_a_return_the_order_is_read_again, 2)
{
    for (int end = SK_RETURN_DONE; end <= SK_RETURN_UNKNOWN_ORDER; end++) {
        returning[_i].move();
        play(returning[_i].to_the_return);
        ck_assert_int_eq(fake_returns.move, returning[_i].as);
        return_ends((enum sk_return_end)end);
        must_end_in(SK_VERDICT_WRONG_STATE, returning[_i].other);
        ck_assert_str_eq(told_status, returning[_i].state);
    }
}

TEST_EACH(a_return_that_did_not_happen_is_not_told_as_one, 2)
{
    static const struct {
        enum sk_return_end end;
        enum sk_verdict verdict;
        bool unchanged; // the order is: it is not returned again and again
    } ends[] = {{SK_RETURN_LOADING, SK_VERDICT_LOADING, false},
                {SK_RETURN_UNAVAILABLE, SK_VERDICT_UNAVAILABLE, false},
                {SK_RETURN_DONE, SK_VERDICT_UNAVAILABLE, true},
                {SK_RETURN_NOT_ALLOWED, SK_VERDICT_UNAVAILABLE, true}};
    for (size_t i = 0; i < COUNT(ends); i++) {
        returning[_i].move();
        play(returning[_i].to_the_return);
        ck_assert_uint_eq(voucher->pins, 1);
        return_ends(ends[i].end);
        must_end_in(ends[i].verdict, ends[i].unchanged ? returning[_i].read_again : "");
        ck_assert_uint_eq(voucher->pins, 0);
    }
    ck_assert_uint_eq(fake_returns.count, COUNT(ends));
}

TEST_EACH(a_return_may_be_refused, 2)
{
    static const struct {
        enum sk_status status;
        enum sk_verdict verdict;
    } refusals[] = {
        {SK_DOWN, SK_VERDICT_UNAVAILABLE}, {SK_FULL, SK_VERDICT_OVERLOADED}, {SK_NO_MEM, SK_VERDICT_OVERLOADED}};
    for (size_t i = 0; i < COUNT(refusals); i++) {
        fake_returns.status = refusals[i].status;
        must_end(returning[_i].move, refusals[i].verdict, returning[_i].to_the_return);
    }
}

// The voucher was just made by another instance.
TEST(a_voucher_that_is_new_is_awaited)
{
    struct sk_catalogue_row newer = {.change = 9, .voucher_id = 9, .tag = "7"};
    for (int ok = 0; ok < 3; ok++) {
        cancel();
        play("n");
        ck_assert_uint_eq(fake_returns.count, 0);
        if (ok == 2)
            ck_assert_int_eq(sk_catalogue_put(sale.catalogue, &newer), SK_OK);
        follow_ends(ok > 0);
        must_end_in(ok < 2 ? SK_VERDICT_UNAVAILABLE : SK_VERDICT_FOUND, ok < 2 ? "" : "Dc");
    }
}

TEST(a_voucher_that_is_not_retired_after_all_is_not_touched)
{
    retire();
    must_end(cancel, SK_VERDICT_UNAVAILABLE, "us");
    must_end(cancel, SK_VERDICT_UNAVAILABLE, "uN");
    must_end(cancel, SK_VERDICT_UNAVAILABLE, "ux");
    must_end(cancel, SK_VERDICT_WRONG_STATE, "uyp");
    ck_assert_str_eq(told_status, "paid");
}

// ---- an order that PostgreSQL does not know ----

static void (*const moves[])(void) = {pay, cancel, refund};

// Sends a move and answers up to Redis's reply.
static void unknown(int move)
{
    static const char *const steps[] = {"k", "-", "K"};
    moves[move]();
    play(steps[move]);
    const struct asked *asked = the_statement(move == 1 ? SK_STATEMENT_FIND_ORDER : SK_STATEMENT_FIND_ANY_ORDER);
    ck_assert_str_eq(asked->argv[0], slot);
    ck_assert_str_eq(asked->argv[1], order);
    ck_assert_int_eq(asked->argc, move == 1 ? 3 : 2);
}

// How it is looked up, and when it is not found: test_order_lookup.c. A payment and a refund wait for no user's call,
// and a user's move waits for no query.
TEST(an_order_that_was_settled_meanwhile_is_pending)
{
    static const enum sk_pg_class classes[] = {SK_PG_COMMANDS, SK_PG_MOVES, SK_PG_COMMANDS};
    static const rows_t found[] = {{DOCUMENT, "unpaid"}};
    for (int move = 0; move < 3; move++) {
        fake_stores_forget();
        unknown(move);
        for (size_t i = 0; i < fake_pg.count; i++)
            ck_assert_int_eq(fake_pg.asked[i].class, classes[move]);
        pg_answers(&(struct sk_rows){1, found});
        must_end_in(SK_VERDICT_PENDING, "");
        unknown(move);
        must_end_in(SK_VERDICT_UNAVAILABLE, "x");
    }
}

// ---- trouble ----

TEST(without_postgres_nothing_is_known)
{
    for (size_t i = 0; i < COUNT(moves); i++) {
        must_end(moves[i], SK_VERDICT_UNAVAILABLE, "x");
        moves[i]();
        pg_fails(SK_RESULT_LOCKED);
        must_end_in(SK_VERDICT_UNAVAILABLE, "");
        fake_pg.down = true;
        must_end(moves[i], SK_VERDICT_UNAVAILABLE, "");
        fake_pg.down = false;
    }
    must_end(cancel, SK_VERDICT_UNAVAILABLE, "uDx"); // its state cannot be read
    refund();
    play("r");
    fake_pg.down = true;
    must_end_in(SK_VERDICT_UNAVAILABLE, "D");
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
            play("D");
        else if (fake_pg.asked[fake_pg.answered].what == SK_STATEMENT_FIND_FOR_MOVE)
            play(done ? "c" : "u");
        else
            play(done ? "R" : "r");
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
