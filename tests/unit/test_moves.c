// Pay, cancel and refund: each path through the stores and its answer, and that an unknown outcome is never answered as
// a known one.
#include "fake_control.h"

#include "fake_returns.h"
#include "journal.h"
#include "moves.h"

enum { VOUCHER = 7, EPOCH = 3 };

#define USER         "alice"
#define DOCUMENT     "{\"id\":\"x\"}"
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static struct sk_uuid_gen gen;
static struct sk_voucher *voucher;
static char order[SK_UUID_SIZE], slot[16];
static const struct sk_payment payment = {"ref-1", 9900, "CNY"};
static const struct sk_refund kept = {false, NULL, NULL}, restocked = {true, "broken", "ref-1"};

typedef const char *const rows_t[ROW_COLUMNS];

static void setup(void)
{
    static char returns; // any address will do
    control_setup();
    control.returns = (struct sk_returns *)(void *)&returns;
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
    sk_move_pay(&control, order, &payment, "till", 1);
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
    fake_follow.newest_id = VOUCHER;
}

// ---- pay ----

START_TEST(a_payment_is_one_statement)
{
    static const char *const outcomes[] = {"paid", "already", "to_refund"};
    for (size_t i = 0; i < COUNT(outcomes); i++) {
        pay();
        const struct asked *asked = the_statement(SK_STATEMENT_PAY_ORDER);
        ck_assert_int_eq(asked->argc, 6);
        ck_assert_str_eq(asked->argv[0], slot);
        ck_assert_str_eq(asked->argv[1], order);
        ck_assert_str_eq(asked->argv[2], "ref-1");
        ck_assert_str_eq(asked->argv[3], "9900");
        ck_assert_str_eq(asked->argv[4], "CNY");
        ck_assert_str_eq(asked->argv[5], "till");
        paid(outcomes[i], DOCUMENT);
        must_be_shown(1, DOCUMENT);
    }
    ck_assert_uint_eq(fake_pg.count, COUNT(outcomes));
    ck_assert_uint_eq(fake_redis.count, 0);
    ck_assert_uint_eq(fake_returns.count, 0);
}
END_TEST

START_TEST(a_payment_that_does_not_fit_is_refused)
{
    static const struct {
        const char *outcome;
        enum sk_verdict verdict;
    } rows[] = {{"already_paid", SK_VERDICT_ALREADY_PAID},
                {"reference_used", SK_VERDICT_REFERENCE_USED},
                {"wrong_amount", SK_VERDICT_WRONG_AMOUNT}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        pay();
        paid(rows[i].outcome, NULL);
        must_be_told(1, rows[i].verdict);
    }
}
END_TEST

static void pay_own(void)
{
    sk_move_pay_own(&control, order, USER, &payment, 1);
}

START_TEST(a_buyer_of_the_demo_pays_an_order_of_their_own)
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
    paid("wrong_amount", NULL);
    must_be_told(1, SK_VERDICT_WRONG_AMOUNT);
}
END_TEST

START_TEST(a_buyer_of_the_demo_does_not_pay_anothers_order)
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
END_TEST

START_TEST(the_longest_texts_fit)
{
    char reference[SK_REFERENCE_MAX + 1], why[SK_WHY_MAX + 1], by[SK_ADMIN_NAME_SIZE];
    memset(reference, 'r', sizeof reference - 1);
    memset(why, 'w', sizeof why - 1);
    memset(by, 'b', sizeof by - 1);
    reference[sizeof reference - 1] = why[sizeof why - 1] = by[sizeof by - 1] = '\0';
    sk_move_pay(&control, order, &(struct sk_payment){reference, INT64_MAX, "CNY"}, by, 1);
    ck_assert_str_eq(the_statement(SK_STATEMENT_PAY_ORDER)->argv[2], reference);
    ck_assert_str_eq(the_statement(SK_STATEMENT_PAY_ORDER)->argv[5], by);
    paid("paid", DOCUMENT);
    must_be_shown(1, DOCUMENT);
    sk_move_refund(&control, order, &(struct sk_refund){true, why, reference}, by, 1);
    ck_assert_str_eq(the_statement(SK_STATEMENT_NOTE_REFUNDS)->argv[3], why);
    ck_assert_str_eq(the_statement(SK_STATEMENT_NOTE_REFUNDS)->argv[4], reference);
    refunded("refunded", "refunded", DOCUMENT);
    must_be_shown(1, DOCUMENT);
}
END_TEST

// ---- cancel ----

START_TEST(an_unpaid_order_is_returned)
{
    cancel();
    const struct asked *asked = the_statement(SK_STATEMENT_FIND_FOR_MOVE);
    ck_assert_str_eq(asked->argv[0], slot);
    ck_assert_str_eq(asked->argv[1], order);
    ck_assert_str_eq(asked->argv[2], USER);
    ck_assert_str_eq(asked->argv[3], "cancelled");
    is("unpaid", "t", DOCUMENT);
    ck_assert_uint_eq(told_count, 0);
    ck_assert_uint_eq(fake_returns.count, 1);
    ck_assert_ptr_eq(fake_returns.returns, control.returns);
    ck_assert_ptr_eq(fake_returns.voucher, voucher);
    ck_assert_str_eq(fake_returns.order_id, order);
    ck_assert_int_eq(fake_returns.move, SK_RETURN_CANCELLED);
    ck_assert_str_eq(fake_returns.by, "user");
    ck_assert_str_eq(fake_returns.why, "-");
    ck_assert_uint_eq(voucher->pins, 1);
    return_ends(SK_RETURN_DONE);
    is("cancelled", "f", DOCUMENT); // its current state
    must_be_shown(1, DOCUMENT);
    ck_assert_uint_eq(voucher->pins, 0);
}
END_TEST

START_TEST(a_cancelled_order_is_shown)
{
    cancel();
    is("cancelled", "f", DOCUMENT);
    must_be_shown(1, DOCUMENT);
    ck_assert_uint_eq(fake_returns.count, 0);
}
END_TEST

START_TEST(what_cannot_be_cancelled_is_told_with_its_status)
{
    static const char *const statuses[] = {"paid", "expired", "refused", "refunded"};
    for (size_t i = 0; i < COUNT(statuses); i++) {
        cancel();
        is(statuses[i], "f", DOCUMENT);
        must_be_wrong_state(statuses[i]);
        // Another move was faster: whatever the return's outcome, the order's state decides.
        for (int end = SK_RETURN_DONE; end <= SK_RETURN_UNKNOWN_ORDER; end++) {
            cancel();
            is("unpaid", "t", DOCUMENT);
            return_ends((enum sk_return_end)end);
            is(statuses[i], "f", DOCUMENT);
            must_be_wrong_state(statuses[i]);
        }
    }
}
END_TEST

START_TEST(anothers_order_is_not_cancelled)
{
    cancel();
    is("unpaid", "t", NULL);
    must_be_told(1, SK_VERDICT_NOT_FOUND);
    ck_assert_uint_eq(fake_returns.count, 0);
}
END_TEST

START_TEST(a_return_that_did_not_happen_is_not_told_as_one)
{
    static const struct {
        enum sk_return_end end;
        enum sk_verdict verdict;
    } rows[] = {{SK_RETURN_LOADING, SK_VERDICT_LOADING}, {SK_RETURN_UNAVAILABLE, SK_VERDICT_UNAVAILABLE}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        cancel();
        is("unpaid", "t", DOCUMENT);
        return_ends(rows[i].end);
        must_be_told(1, rows[i].verdict);
    }
    // The return reports success, but the order is unchanged: it is not returned again and again.
    cancel();
    is("unpaid", "t", DOCUMENT);
    return_ends(SK_RETURN_DONE);
    is("unpaid", "t", DOCUMENT);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    ck_assert_uint_eq(fake_returns.count, 3);
}
END_TEST

START_TEST(a_return_may_be_refused)
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
END_TEST

// The voucher was just made by another instance.
START_TEST(a_voucher_that_is_new_is_awaited)
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
END_TEST

// ---- refund ----

START_TEST(a_paid_order_is_refunded)
{
    for (int restock = 0; restock < 2; restock++) {
        sk_move_refund(&control, order, restock ? &restocked : &kept, "olga", 1);
        const struct asked *asked = the_statement(SK_STATEMENT_NOTE_REFUNDS);
        ck_assert_str_eq(asked->argv[0], slot);
        ck_assert_str_eq(asked->argv[1], order);
        ck_assert_str_eq(asked->argv[2], "olga");
        ck_assert_pstr_eq(asked->argv[3], restock ? "broken" : NULL);
        ck_assert_pstr_eq(asked->argv[4], restock ? "ref-1" : NULL);
        refunded("returns", "paid", NULL);
        ck_assert_ptr_eq(fake_returns.voucher, voucher);
        ck_assert_str_eq(fake_returns.order_id, order);
        ck_assert_int_eq(fake_returns.move, restock ? SK_RETURN_REFUNDED : SK_RETURN_REFUNDED_KEPT);
        ck_assert_str_eq(fake_returns.by, "olga");
        ck_assert_str_eq(fake_returns.why, restock ? "broken" : "-");
        return_ends(SK_RETURN_DONE);
        refunded("refunded", "refunded", DOCUMENT);
        must_be_shown(1, DOCUMENT);
    }
}
END_TEST

START_TEST(an_ended_order_is_refunded_by_one_statement)
{
    refund();
    refunded("refunded", "expired", DOCUMENT);
    must_be_shown(1, DOCUMENT);
    refund();
    refunded("kept", "expired", DOCUMENT);
    must_be_wrong_state("expired");
    refund();
    refunded("kept", "unpaid", DOCUMENT);
    must_be_wrong_state("unpaid");
    refund();
    refunded("unknown_payment", "paid", NULL);
    must_be_told(1, SK_VERDICT_UNKNOWN_PAYMENT);
    ck_assert_uint_eq(fake_returns.count, 0);
}
END_TEST

START_TEST(a_refund_that_did_not_happen_is_not_told_as_one)
{
    refund();
    refunded("returns", "paid", NULL);
    return_ends(SK_RETURN_LOADING);
    must_be_told(1, SK_VERDICT_LOADING);
    refund();
    refunded("returns", "paid", NULL);
    return_ends(SK_RETURN_UNAVAILABLE);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    refund();
    refunded("returns", "paid", NULL);
    return_ends(SK_RETURN_NOT_ALLOWED);
    refunded("returns", "paid", NULL);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
}
END_TEST

// ---- retired vouchers ----

START_TEST(the_orders_of_a_retired_voucher_are_returned_by_postgres)
{
    static const struct {
        bool cancel, restock;
        const char *move, *by, *why;
    } rows[] = {{true, false, "cancelled", "user", NULL},
                {false, false, "refunded-kept", "olga", NULL},
                {false, true, "refunded", "olga", "broken"}};
    retire();
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (rows[i].cancel)
            cancel();
        else
            sk_move_refund(&control, order, rows[i].restock ? &restocked : &kept, "olga", 1);
        if (rows[i].cancel)
            is("unpaid", "t", DOCUMENT);
        else
            refunded("returns", "paid", NULL);
        const struct asked *asked = the_statement(SK_STATEMENT_RETURN_RETIRED);
        ck_assert_int_eq(asked->argc, 6);
        ck_assert_str_eq(asked->argv[0], slot);
        ck_assert_str_eq(asked->argv[1], "7");
        ck_assert_str_eq(asked->argv[2], order);
        ck_assert_str_eq(asked->argv[3], rows[i].move);
        ck_assert_str_eq(asked->argv[4], rows[i].by);
        ck_assert_pstr_eq(asked->argv[5], rows[i].why);
        row(SK_STATEMENT_RETURN_RETIRED, "returned", NULL, NULL, NULL);
        if (rows[i].cancel)
            is("cancelled", "f", DOCUMENT);
        else
            refunded("refunded", "refunded", DOCUMENT);
        must_be_shown(1, DOCUMENT);
    }
    ck_assert_uint_eq(fake_returns.count, 0);
}
END_TEST

START_TEST(a_voucher_that_is_not_retired_after_all_is_not_touched)
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
END_TEST

// ---- an order that PostgreSQL does not know ----

static const rows_t account_rows[] = {{"0", "7", "3", "10", "5", "5", "2", "9", "open", "1000", "2000"}};
static const struct sk_rows accounts = {1, account_rows};

static void look(const char *id, int64_t journal, const char *state)
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

static void unknown_up_to_the_look(int move)
{
    static const struct sk_reply nil = NIL;
    unknown(move);
    pg_answers(&no_rows);
    if (move == 1)
        redis_answers(&nil); // it is not the user's current order
    (void)the_statement(SK_STATEMENT_VOUCHER_ACCOUNTS);
    pg_answers(&accounts);
    ck_assert_str_eq(fake_redis.asked[fake_redis.answered].argv[3], move == 1 ? USER : "");
}

static void must_not_be_found(void)
{
    static const rows_t none[] = {{"0", "f"}};
    static const struct sk_rows rows = {1, none};
    follow_ends(true);
    (void)the_statement(SK_STATEMENT_RETIRED_EPOCH);
    pg_answers(&rows);
    must_be_told(1, SK_VERDICT_NOT_FOUND);
}

START_TEST(an_order_that_was_settled_meanwhile_is_pending)
{
    static const rows_t found[] = {{DOCUMENT, "unpaid"}};
    static const struct sk_rows one = {1, found};
    for (int move = 0; move < 3; move++) {
        unknown(move);
        pg_answers(&one);
        must_be_told(1, SK_VERDICT_PENDING);
        ck_assert_str_eq(told_document, "");
        unknown_up_to_the_look(move);
        look("", 0, "open");
        pg_answers(&one);
        must_be_told(1, SK_VERDICT_PENDING);
    }
}
END_TEST

START_TEST(an_order_that_redis_has_is_pending)
{
    unknown_up_to_the_look(1);
    look(order, 1, "open");
    must_be_told(1, SK_VERDICT_PENDING);
    // Without a user it cannot be found: a journal entry may contain it.
    for (int move = 0; move < 3; move += 2) {
        unknown_up_to_the_look(move);
        look("", 1, "open");
        pg_answers(&no_rows);
        must_be_told(1, SK_VERDICT_PENDING);
    }
}
END_TEST

START_TEST(an_order_that_no_store_has_is_not_found)
{
    for (int move = 0; move < 3; move++) {
        unknown_up_to_the_look(move);
        look("", move == 1 ? 1 : 0, "open"); // a user's order would have been found
        pg_answers(&no_rows);
        must_not_be_found();
    }
}
END_TEST

START_TEST(not_found_needs_both_stores)
{
    static const rows_t anothers[] = {{NULL, NULL}};
    static const struct sk_rows rows = {1, anothers};
    for (int move = 0; move < 3; move++) {
        unknown_up_to_the_look(move);
        look("", 1, "loading");
        pg_answers(&no_rows);
        must_be_told(1, SK_VERDICT_UNAVAILABLE);
        unknown_up_to_the_look(move);
        redis_answers(NULL);
        must_be_told(1, SK_VERDICT_UNAVAILABLE);
        unknown(move);
        pg_answers(NULL);
        must_be_told(1, SK_VERDICT_UNAVAILABLE);
    }
    unknown(1);
    pg_answers(&rows);
    must_be_told(1, SK_VERDICT_NOT_FOUND);
}
END_TEST

// ---- trouble ----

// A payment and a refund wait for no user's call, and a user's move waits for no query.
START_TEST(moves_go_before_questions)
{
    static const enum sk_pg_class classes[] = {SK_PG_COMMANDS, SK_PG_MOVES, SK_PG_COMMANDS};
    for (int move = 0; move < 3; move++) {
        fake_stores_forget();
        unknown_up_to_the_look(move);
        for (size_t i = 0; i < fake_pg.count; i++)
            ck_assert_int_eq(fake_pg.asked[i].class, classes[move]);
        redis_answers(NULL);
        must_be_told(1, SK_VERDICT_UNAVAILABLE);
    }
}
END_TEST

START_TEST(without_postgres_nothing_is_known)
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
END_TEST

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

START_TEST(every_allocation_may_fail)
{
    conversing = cancel;
    must_survive_short_memory(converse, voucher);
    conversing = refund;
    must_survive_short_memory(converse, voucher);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("moves");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_payment_is_one_statement);
    tcase_add_test(tcase, a_payment_that_does_not_fit_is_refused);
    tcase_add_test(tcase, a_buyer_of_the_demo_pays_an_order_of_their_own);
    tcase_add_test(tcase, a_buyer_of_the_demo_does_not_pay_anothers_order);
    tcase_add_test(tcase, the_longest_texts_fit);
    tcase_add_test(tcase, an_unpaid_order_is_returned);
    tcase_add_test(tcase, a_cancelled_order_is_shown);
    tcase_add_test(tcase, what_cannot_be_cancelled_is_told_with_its_status);
    tcase_add_test(tcase, anothers_order_is_not_cancelled);
    tcase_add_test(tcase, a_return_that_did_not_happen_is_not_told_as_one);
    tcase_add_test(tcase, a_return_may_be_refused);
    tcase_add_test(tcase, a_voucher_that_is_new_is_awaited);
    tcase_add_test(tcase, a_paid_order_is_refunded);
    tcase_add_test(tcase, an_ended_order_is_refunded_by_one_statement);
    tcase_add_test(tcase, a_refund_that_did_not_happen_is_not_told_as_one);
    tcase_add_test(tcase, the_orders_of_a_retired_voucher_are_returned_by_postgres);
    tcase_add_test(tcase, a_voucher_that_is_not_retired_after_all_is_not_touched);
    tcase_add_test(tcase, an_order_that_was_settled_meanwhile_is_pending);
    tcase_add_test(tcase, an_order_that_redis_has_is_pending);
    tcase_add_test(tcase, an_order_that_no_store_has_is_not_found);
    tcase_add_test(tcase, not_found_needs_both_stores);
    tcase_add_test(tcase, moves_go_before_questions);
    tcase_add_test(tcase, without_postgres_nothing_is_known);
    tcase_add_test(tcase, every_allocation_may_fail);
    return harness_main(tcase, CK_FORK);
}
