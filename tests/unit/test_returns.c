// Orders that end: the calls to the stores, the results for waiting callers, and that a noted entry is written until
// PostgreSQL has answered. The stores, the session and the time are fakes.
#include "failing_memory.h"

#include <stdio.h>
#include <string.h>

#include "course.h"
#include "fake_session.h"
#include "fake_timer.h"
#include "returns.h"
#include "stage.h"
#include "test.h"

enum { VOUCHER = 7, WAITERS_MAX = 300, RETRY_MS = 200 };

#define SLOT    "1716" // CRC16 of "7" modulo 16384
#define KEYS_7  "seckill:{7}:voucher seckill:{7}:buyers seckill:{7}:journal seckill:{7}:repeats seckill:{7}:ended"
#define A       "018bcfe5-6800-7000-8000-000000000001"
#define B       "018bcfe5-6800-7000-8000-000000000002"
#define C       "018bcfe5-6800-7000-8000-000000000003"
#define D       "018bcfe5-6800-7000-8000-000000000004"
#define XDEL_IT "redis XDEL seckill:{7}:journal 10-1"

static struct sk_returns *returns;
static struct sk_voucher *voucher;

// ---- results ----

static struct waiter {
    int told;
    enum sk_return_end end;
    bool asks_again; // asks again once, from within the callback
} waiters[WAITERS_MAX];

static int recoveries;

static void on_recovered(void *arg, struct sk_voucher *its_voucher)
{
    ck_assert_ptr_eq(arg, &recoveries);
    ck_assert_ptr_eq(its_voucher, voucher);
    recoveries++;
}

// ---- fixture ----

static void start(void)
{
    returns = shards[0].returns = sk_returns_open(&sale, shards, on_recovered, &recoveries);
    ck_assert_ptr_nonnull(returns);
}

static void setup(void)
{
    stage_open((struct sk_sale_options){.sold_out_mark_ms = 5000}, 1, 0);
    course_links(&sale);
    voucher = a_voucher(sale.catalogue, VOUCHER);
    voucher->orders_per_user = 3;
    now_ms = 1000;
    start();
}

static void teardown(void)
{
    sk_returns_close(returns);
    ck_assert(sk_list_is_empty(&voucher->entries.own));
    stage_close();
}

// ---- calls ----

static const char *order_id(int i)
{
    static char id[SK_UUID_SIZE];
    (void)snprintf(id, sizeof id, "018bcfe5-6800-7000-8000-%012d", i);
    return id;
}

static enum sk_status ask_for(struct sk_voucher *of, int i, enum sk_return_move move, const char *by, const char *why);

static void on_done(void *arg, enum sk_return_end end)
{
    struct waiter *waiter = arg;
    waiter->told++;
    waiter->end = end;
    if (waiter->asks_again) {
        waiter->asks_again = false;
        ck_assert_int_eq(ask_for(voucher, (int)(waiter - waiters), SK_RETURN_CANCELLED, "user", NULL), SK_OK);
    }
}

static enum sk_status ask_for(struct sk_voucher *of, int i, enum sk_return_move move, const char *by, const char *why)
{
    return sk_return_order(returns, of, order_id(i), move, by, why, on_done, &waiters[i]);
}

// User i's order of a voucher is cancelled.
static void cancel_of(struct sk_voucher *of, int i)
{
    ck_assert_int_eq(ask_for(of, i, SK_RETURN_CANCELLED, "user", NULL), SK_OK);
}

static void cancel(int i)
{
    cancel_of(voucher, i);
}

// Orders that expire in one call.
static struct {
    int told;
    enum sk_return_end end;
    size_t ended;
} all;

static void on_all_done(void *arg, enum sk_return_end end, size_t ended)
{
    ck_assert_ptr_eq(arg, &all);
    all.told++;
    all.end = end;
    all.ended = ended;
}

static enum sk_status expire(const char *ids)
{
    return sk_return_orders(returns, voucher, ids, SK_RETURN_EXPIRED, "expiry", on_all_done, &all);
}

static void all_must_be_told(enum sk_return_end end, size_t ended)
{
    ck_assert_int_eq(all.told, 1);
    ck_assert_int_eq(all.end, end);
    ck_assert_uint_eq(all.ended, ended);
}

static void tick(void)
{
    ck_assert_uint_ne(due_ms, 0);
    now_ms = due_ms > now_ms ? due_ms : now_ms;
    time_comes();
}

static void retry(void)
{
    now_ms += RETRY_MS;
    tick();
}

static void must_be_told(int i, enum sk_return_end end)
{
    ck_assert_int_eq(waiters[i].told, 1);
    ck_assert_int_eq(waiters[i].end, end);
}

static void must_all_be_told(int n, enum sk_return_end end)
{
    for (int i = 1; i <= n; i++)
        must_be_told(i, end);
}

// ---- answering ----

static const struct sk_reply noted = REPLY_ITEMS(TEXT("ok"), TEXT("7"), TEXT("10-1")), one = NUMBER(1);

#define NOTE(ids, move, by, why)                                                                                 \
    "redis note_return 3 seckill:{7}:voucher seckill:{7}:journal seckill:{7}:buyers run-1 " FAKE_SESSION " " ids \
    " " move " " by " " why
#define WRITE(epoch, ids, move, by, why) \
    "ask-pg return_orders " SLOT " 7 " epoch " {" ids "} " move " " by " " why " 10-1"
#define SETTLE(orders) "redis settle_entry 5 " KEYS_7 " 10-1 7 " orders

static void must_ask(const char *question)
{
    ck_assert_str_eq(course_question(), question);
}

#define PG_ROWS(n, ...)                                    \
    do {                                                   \
        const struct sk_rows rows_ = ROWS(n, __VA_ARGS__); \
        pg_answers(&rows_);                                \
    } while (0)

// All `n` orders of the call have ended: those of user-1, user-2 ...
static void all_returned(size_t n)
{
    static char texts[SK_RETURNS_MAX][32];
    static const char *cells[SK_RETURNS_MAX][ROW_COLUMNS];
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "user-%zu", i + 1);
        cells[i][0] = strchr(texts[i], '-') + 1;
        cells[i][1] = "returned";
        cells[i][2] = texts[i];
        cells[i][3] = "1";
    }
    const struct sk_rows rows = {n, (const char *const(*)[ROW_COLUMNS])cells};
    pg_answers(&rows);
}

static void note(void)
{
    tick();
    redis_answers(&noted);
}

// Users 1 to n cancel their orders in one entry, which is noted.
static void cancel_and_note(int n)
{
    for (int i = 1; i <= n; i++)
        cancel(i);
    note();
}

// PostgreSQL ends all `n` orders of the call, and Redis settles its entry.
static void settle(size_t n)
{
    all_returned(n);
    redis_answers(&one);
}

static void must_be_idle(void)
{
    ck_assert(sk_returns_count(returns) == 0 && sk_list_is_empty(&voucher->entries.own));
    ck_assert(!course_waits());
}

// Redis has settled the last entry.
static void must_end(void)
{
    redis_answers(&one);
    must_be_idle();
}

// ---- the path of one order ----

TEST(a_return_is_noted_then_written_then_settled)
{
    ck_assert(sk_returns_count(returns) == 0);
    ck_assert_int_eq(ask_for(voucher, 1, SK_RETURN_CANCELLED, "user", "no need"), SK_OK);
    ck_assert_uint_eq(sk_returns_count(returns), 1);
    ck_assert(!course_waits()); // no call before the tick
    tick();
    must_ask(NOTE(A, "cancelled", "user", "no need"));
    redis_answers(&noted);
    must_ask(WRITE("7", A, "cancelled", "user", "no need"));
    const struct sk_entry *held = sk_list_first(&voucher->entries.own);
    ck_assert_str_eq(held->journal_id, "10-1");
    ck_assert_int_eq(waiters[1].told, 0);
    ck_assert_uint_eq(sk_returns_count(returns), 1);
    PG_ROWS(1, {"1", "returned", "alice", "1"});
    must_be_told(1, SK_RETURN_DONE);
    must_ask(SETTLE("1 " A " alice -"));
    ck_assert_ptr_eq(sk_list_first(&voucher->entries.own), held); // until Redis has dropped it
    must_end();
    ck_assert_uint_eq(counted(SK_METRIC_ORDERS_RETURNED), 1);
    ck_assert_int_eq(waiters[1].told, 1);
    ck_assert_int_eq(suspicions + orphans + recoveries, 0);
}

// ... since sk_journal_read would reject longer ones.
TEST(long_words_are_cut)
{
    static char by[SK_JOURNAL_BY_MAX + 10], why[SK_JOURNAL_WHY_MAX + 10];
    memset(by, 'b', sizeof by - 1);
    memset(why, 'w', sizeof why - 1);
    ck_assert_int_eq(ask_for(voucher, 1, SK_RETURN_REFUNDED, by, why), SK_OK);
    tick();
    ck_assert_uint_eq(strlen(fake_redis.asked[0].argv[7]), SK_JOURNAL_BY_MAX);
    ck_assert_uint_eq(strlen(fake_redis.asked[0].argv[8]), SK_JOURNAL_WHY_MAX);
    redis_answers(NULL);
}

// ---- PostgreSQL's outcomes ----

static const struct {
    const char *outcome, *units;
    enum sk_return_end end;
} outcomes[][3] = {
    {{"returned", "1", SK_RETURN_DONE}, {"returned", "1", SK_RETURN_DONE}, {"returned", "1", SK_RETURN_DONE}},
    {{"kept", "0", SK_RETURN_NOT_ALLOWED},
     {"unknown", "0", SK_RETURN_UNKNOWN_ORDER},
     {"returned", "1", SK_RETURN_DONE}},
    {{"returned", "3", SK_RETURN_DONE}, {"returned", "1000", SK_RETURN_DONE}, {"kept", "0", SK_RETURN_NOT_ALLOWED}},
    // A refund that keeps its units, and an order whose units another refund has kept.
    {{"returned", "0", SK_RETURN_DONE}, {"returned", NULL, SK_RETURN_DONE}, {"unknown", "0", SK_RETURN_UNKNOWN_ORDER}},
    {{"kept", "0", SK_RETURN_NOT_ALLOWED}, {"kept", "0", SK_RETURN_NOT_ALLOWED}, {"kept", "0", SK_RETURN_NOT_ALLOWED}},
    {{"unknown", "0", SK_RETURN_UNKNOWN_ORDER},
     {"a new word", "0", SK_RETURN_UNKNOWN_ORDER},
     {NULL, "0", SK_RETURN_UNKNOWN_ORDER}},
};

// The rows come in any order. Redis learns who has had as many orders as one may: 3.
TEST_EACH(each_order_has_its_outcome, sizeof outcomes / sizeof outcomes[0])
{
    static const char *const users[] = {"1", "2", "3"};
    const char *cells[3][ROW_COLUMNS] = {{NULL}};
    const struct sk_rows rows = {3, (const char *const(*)[ROW_COLUMNS])cells};
    char question[512] = SETTLE("");
    size_t len = strlen(question), nothing = len, ended = 0;
    for (int at = 0; at < 3; at++) {
        int i = (at + _i) % 3;
        const char **row = cells[at], *units = outcomes[_i][i].units;
        row[0] = row[2] = users[i];
        row[1] = outcomes[_i][i].outcome;
        row[3] = units;
        row[4] = i == 0 ? "3" : "2"; // how many of the user's orders have ended
        ended += outcomes[_i][i].end == SK_RETURN_DONE;
        if (outcomes[_i][i].end == SK_RETURN_DONE && units != NULL)
            len += (size_t)snprintf(question + len, sizeof question - len, "%s%s %s %s %s", len == nothing ? "" : " ",
                                    units, order_id(i + 1), users[i], i == 0 ? "-3" : "-");
    }
    cancel_and_note(3);
    ck_assert_str_eq(fake_redis.asked[0].argv[5], A "," B "," C);
    must_ask(WRITE("7", A "," B "," C, "cancelled", "user", "null"));
    pg_answers(&rows);
    for (int i = 0; i < 3; i++)
        must_be_told(i + 1, outcomes[_i][i].end);
    must_ask(len == nothing ? XDEL_IT : question);
    redis_answers(&one);
    ck_assert_uint_eq(counted(SK_METRIC_ORDERS_RETURNED), ended);
    must_be_idle();
}

// Users who waited have units of it.
TEST(heirs_are_told_to_redis)
{
    cancel_and_note(2);
    PG_ROWS(2, {"1", "returned", "u1", "0", "3", "u8 " C ",u9 " D " 1 a1", NULL},
            {"2", "returned", "u2", "1", "1", NULL, "9-1"});
    must_ask(SETTLE("0 " A " u1 -3;;u8 " C ",u9 " D " 1 a1 1 " B " u2 -;9-1;"));
    must_end();
    ck_assert_uint_eq(counted(SK_METRIC_ORDERS_PROMOTED), 2);
    ck_assert_int_eq(suspicions + orphans, 0);
}

// An heir's field is taken. The entry stays, and a sweep asks PostgreSQL again; after 15 s a rebuild settles it.
static const struct {
    struct sk_reply reply;
    int suspicions;
} blocked[] = {{NUMBER(-1), 0}, {NUMBER(-15000), 0}, {NUMBER(-15001), 1}};

TEST_EACH(an_entry_that_is_blocked_is_left_to_a_sweep, sizeof blocked / sizeof blocked[0])
{
    cancel_and_note(1);
    PG_ROWS(1, {"1", "returned", "u1", "0", "1", "u8 " B, NULL});
    must_be_told(1, SK_RETURN_DONE);
    redis_answers(&blocked[_i].reply);
    ck_assert_int_eq(orphans, 1);
    ck_assert_int_eq(suspicions, blocked[_i].suspicions);
    must_be_idle();
}

// ---- units for users who wait ----

static size_t promoted;
static int promotions;

static void on_promoted(void *arg, enum sk_return_end end, size_t ended)
{
    (void)arg;
    ck_assert_int_eq(end, SK_RETURN_DONE);
    promoted += ended;
    promotions++;
}

// Redis has two of the three, and PostgreSQL an heir for one.
TEST(units_are_taken_for_users_who_wait)
{
    const struct sk_reply two = REPLY_ITEMS(TEXT("ok"), TEXT("7"), TEXT("10-1"), NUMBER(2));
    char first[SK_UUID_SIZE], second[SK_UUID_SIZE], question[512];
    ck_assert_int_eq(sk_promote(returns, voucher, 3, on_promoted, NULL), SK_OK);
    tick();
    const char *ids = fake_redis.asked[0].argv[5];
    ck_assert_int_eq(sk_journal_parse_returns(ids, strlen(ids), NULL, NULL), 3);
    (void)snprintf(first, sizeof first, "%s", ids);
    (void)snprintf(second, sizeof second, "%s", ids + SK_UUID_SIZE);
    (void)snprintf(question, sizeof question, NOTE("%s", "promoted", "service", ""), ids);
    must_ask(question);
    redis_answers(&two);
    (void)snprintf(question, sizeof question, WRITE("7", "%s,%s", "promoted", "service", "null"), first, second);
    must_ask(question);
    PG_ROWS(2, {"1", "returned", first, "0", NULL, "u8 " C, NULL}, {"2", "returned", second, "1", NULL, NULL, NULL});
    ck_assert_int_eq(promotions, 1);
    ck_assert_uint_eq(promoted, 1);
    (void)snprintf(question, sizeof question, SETTLE("0 %s %s -;;u8 " C " 1 %s %s -"), first, first, second, second);
    must_ask(question);
    must_end();
    ck_assert_uint_eq(counted(SK_METRIC_ORDERS_PROMOTED), 1);
    ck_assert_uint_eq(counted(SK_METRIC_ORDERS_RETURNED), 0);
}

TEST(nothing_is_noted_where_no_unit_is_left)
{
    const struct sk_reply none = REPLY_ITEMS(TEXT("none"));
    ck_assert_int_eq(sk_promote(returns, voucher, 3, on_promoted, NULL), SK_OK);
    tick();
    (void)course_question();
    redis_answers(&none);
    ck_assert_int_eq(promotions, 1);
    ck_assert_int_eq(suspicions + orphans, 0);
    must_be_idle();
}

// ---- gathering ----

TEST(what_comes_meanwhile_is_one_entry)
{
    cancel(1);
    tick();
    cancel(2);
    tick();
    must_ask(NOTE(A, "cancelled", "user", "")); // the first is sent alone
    redis_answers(&noted);
    cancel(3);
    tick();
    must_ask(WRITE("7", A, "cancelled", "user", "null"));
    ck_assert_uint_eq(sk_returns_count(returns), 3);
    settle(1);
    ck_assert(!course_waits());
    tick();
    must_ask(NOTE(B "," C, "cancelled", "user", ""));
    redis_answers(&noted);
    settle(2);
    must_be_told(1, SK_RETURN_DONE);
    must_be_told(3, SK_RETURN_DONE);
    must_be_idle();
}

static size_t orders_of(const struct asked *asked)
{
    return (strlen(asked->argv[5]) + 1) / SK_UUID_SIZE;
}

TEST(an_entry_has_its_bound)
{
    for (int i = 1; i <= SK_RETURNS_MAX + 2; i++)
        cancel(i);
    ck_assert_uint_eq(sk_returns_count(returns), SK_RETURNS_MAX + 2);
    tick();
    ck_assert_uint_eq(orders_of(course_asked()), SK_RETURNS_MAX); // alone: one entry of a voucher at a time
    redis_answers(&noted);
    tick();
    ck_assert_int_eq(course_asked()->what, SK_STATEMENT_RETURN_ORDERS);
    all_returned(SK_RETURNS_MAX);
    ck_assert_int_eq(fake_redis.asked[1].argc, 7 + 4 * SK_RETURNS_MAX);
    redis_answers(&one);
    ck_assert_uint_eq(sk_returns_count(returns), 2);
    tick();
    ck_assert_uint_eq(orders_of(course_asked()), 2);
    redis_answers(&noted);
    settle(2);
    must_all_be_told(SK_RETURNS_MAX + 2, SK_RETURN_DONE);
    must_be_idle();
}

static const struct {
    enum sk_return_move move;
    const char *by, *why;
} others[] = {
    {SK_RETURN_EXPIRED, "user", NULL},
    {SK_RETURN_CANCELLED, "admin", NULL},
    {SK_RETURN_CANCELLED, "user", "too late"},
};

TEST_EACH(different_moves_do_not_mix, sizeof others / sizeof others[0])
{
    cancel(1);
    ck_assert_int_eq(ask_for(voucher, 2, others[_i].move, others[_i].by, others[_i].why), SK_OK);
    cancel(3); // goes along with the first
    tick();
    must_ask(NOTE(A "," C, "cancelled", "user", ""));
    redis_answers(&noted);
    settle(2);
    tick();
    ck_assert_str_eq(course_asked()->argv[5], B);
    redis_answers(&noted);
    all_returned(1);
    must_end();
}

// ---- several vouchers in one statement ----

// Orders 1, 2 ... of the vouchers 7, 8 ... are cancelled and noted: the first is being written, the others wait.
static void note_in_vouchers(int count)
{
    for (int i = 0; i < count; i++)
        cancel_of(a_voucher(sale.catalogue, VOUCHER + i), i + 1);
    tick();
    for (int i = 0; i < count; i++)
        redis_answers(&noted);
    ck_assert_uint_eq(fake_pg.count, 1);
}

// Of several statements the next one that PostgreSQL answers.
static void must_write(const char *words)
{
    const struct asked *asked = &fake_pg.asked[fake_pg.answered];
    ck_assert_uint_lt(fake_pg.answered, fake_pg.count);
    ck_assert_int_eq(asked->what, SK_STATEMENT_RETURN_BATCHES);
    ck_assert_str_eq(words_from(asked, 0), words);
}

#define TOGETHER "{14171,10106} {8,9} {7,7} {1,1} {" B "," C "} cancelled user null {10-1,10-1}"

// ... also if one of them is stale.
TEST_EACH(what_becomes_ready_meanwhile_is_written_together, 2)
{
    note_in_vouchers(3);
    all_returned(1);
    must_write(TOGETHER);
    if (_i == 0)
        PG_ROWS(2, {"1", "returned", "u2", "1", NULL, NULL, NULL, "1"},
                {"1", "kept", "u3", "0", NULL, NULL, NULL, "2"});
    else
        PG_ROWS(2, {NULL, "stale", NULL, NULL, NULL, NULL, NULL, "1"},
                {"1", "returned", "u3", "1", NULL, NULL, NULL, "2"});
    must_be_told(1, SK_RETURN_DONE);
    must_be_told(2, _i == 0 ? SK_RETURN_DONE : SK_RETURN_LOADING);
    must_be_told(3, _i == 0 ? SK_RETURN_NOT_ALLOWED : SK_RETURN_DONE);
    ck_assert_str_eq(fake_redis.asked[4].argv[0], _i == 0 ? "seckill:{8}:voucher" : "seckill:{9}:voucher");
    while (fake_redis.count > fake_redis.answered)
        redis_answers(&one);
    must_be_idle();
}

static const struct sk_rows no_batches[] = {
    ROWS(1, {"1", "returned", "u2", "1", NULL, NULL, NULL, "1"}),
    ROWS(2, {"1", "returned", "u2", "1", NULL, NULL, NULL, "1"}, {"1", "returned", "u3", "1", NULL, NULL, NULL, "1"}),
    ROWS(2, {"1", "returned", "u3", "1", NULL, NULL, NULL, "2"}, {"1", "returned", "u2", "1", NULL, NULL, NULL, "1"}),
    ROWS(3, {"1", "returned", "u2", "1", NULL, NULL, NULL, "1"}, {"1", "returned", "u3", "1", NULL, NULL, NULL, "2"},
         {"1", "returned", "u3", "1", NULL, NULL, NULL, "3"}),
};

TEST_EACH(rows_of_others_are_not_believed, sizeof no_batches / sizeof no_batches[0])
{
    note_in_vouchers(3);
    settle(1);
    pg_answers(&no_batches[_i]);
    must_be_told(2, SK_RETURN_UNAVAILABLE);
    must_be_told(3, SK_RETURN_UNAVAILABLE);
    retry();
    must_write(TOGETHER); // P7
    PG_ROWS(2, {"1", "returned", "u2", "1", NULL, NULL, NULL, "1"},
            {"1", "returned", "u3", "1", NULL, NULL, NULL, "2"});
    redis_answers(&one);
    must_end();
}

// One of them may be the cause, and must not block the others.
TEST_EACH(what_fails_together_is_tried_alone, 2)
{
    static const enum sk_result_kind kinds[] = {SK_RESULT_REFUSED, SK_RESULT_LOCKED};
    note_in_vouchers(3);
    settle(1);
    pg_fails(kinds[_i]);
    ck_assert_int_eq(waiters[2].told + waiters[3].told, 0);
    tick();
    must_ask("ask-pg return_orders 14171 8 7 {" B "} cancelled user null 10-1");
    pg_fails(kinds[_i]);
    must_ask("ask-pg return_orders 10106 9 7 {" C "} cancelled user null 10-1");
    all_returned(1);
    must_be_told(3, SK_RETURN_DONE);
    ck_assert_int_eq(waiters[2].told, kinds[_i] == SK_RESULT_REFUSED);
    redis_answers(&one);
    retry();
    all_returned(1);
    must_end();
}

TEST(what_is_written_together_is_of_one_move)
{
    note_in_vouchers(1);
    ck_assert_int_eq(ask_for(a_voucher(sale.catalogue, VOUCHER + 1), 2, SK_RETURN_EXPIRED, "expiry", NULL), SK_OK);
    cancel_of(a_voucher(sale.catalogue, VOUCHER + 2), 3);
    note();
    redis_answers(&noted);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(fake_pg.asked[i].what, SK_STATEMENT_RETURN_ORDERS);
        all_returned(1);
    }
    redis_answers(&one);
    redis_answers(&one);
    must_end();
}

// A statement locks its vouchers' rows for no longer than one entry with the most orders.
TEST(what_is_written_together_has_its_bound)
{
    for (int i = 0; i < 3; i++)
        for (int order = 0; order < (i == 0 ? 1 : SK_RETURNS_MAX / 2 + i - 1); order++)
            cancel_of(a_voucher(sale.catalogue, VOUCHER + i), 1 + order);
    tick();
    for (int i = 0; i < 3; i++)
        redis_answers(&noted);
    all_returned(1);
    ck_assert_int_eq(fake_pg.asked[1].what, SK_STATEMENT_RETURN_ORDERS);
    all_returned(SK_RETURNS_MAX / 2);
    settle(SK_RETURNS_MAX / 2 + 1);
    redis_answers(&one);
    must_end();
}

TEST(who_is_told_may_ask_again_at_once)
{
    waiters[1].asks_again = true;
    cancel_and_note(1);
    settle(1);
    ck_assert_int_eq(waiters[1].told, 1);
    ck_assert_uint_eq(sk_returns_count(returns), 1);
    tick();
    redis_answers(NULL);
    ck_assert_int_eq(waiters[1].told, 2);
    ck_assert_int_eq(waiters[1].end, SK_RETURN_UNAVAILABLE);
    must_be_idle();
}

// ---- several in one call ----

TEST(a_call_of_several_is_told_how_many_ended)
{
    ck_assert_int_eq(expire(A "," B "," C), SK_OK);
    ck_assert_int_eq(ask_for(voucher, 4, SK_RETURN_EXPIRED, "expiry", NULL), SK_OK); // in an entry of its own
    ck_assert_uint_eq(sk_returns_count(returns), 4);
    tick();
    must_ask(NOTE(A "," B "," C, "expired", "expiry", ""));
    redis_answers(&noted);
    PG_ROWS(3, {"1", "returned", "u1", "1"}, {"2", "kept", "u2", "0"}, {"3", "returned", "u3", "1"});
    all_must_be_told(SK_RETURN_DONE, 2);
    redis_answers(&one);
    tick();
    ck_assert_uint_eq(orders_of(course_asked()), 1);
    redis_answers(NULL);
    must_be_told(4, SK_RETURN_UNAVAILABLE);
    ck_assert_int_eq(all.told, 1);
}

TEST(a_call_of_several_that_fails_is_told_once)
{
    ck_assert_int_eq(expire(A "," B), SK_OK);
    note();
    pg_answers(NULL);
    all_must_be_told(SK_RETURN_UNAVAILABLE, 0);
    retry();
    settle(2);
    ck_assert_int_eq(all.told, 1);
    must_be_idle();
}

// ---- noting fails ----

enum { DOUBT, ORPHAN, NOTHING };

static const struct {
    struct sk_reply reply;
    int then; // a doubt about the voucher, the search for an orphan, or nothing
    enum sk_doubt doubt;
} no_notes[] = {
    {REPLY_ITEMS(TEXT("missing")), DOUBT, SK_DOUBT_CLOSED},
    {REPLY_ITEMS(TEXT("loading")), DOUBT, SK_DOUBT_CLOSED},
    {REPLY_ITEMS(TEXT("unsure")), DOUBT, SK_DOUBT_BEHIND},
    {ERROR("WRONGTYPE Operation against a key holding the wrong kind of value"), DOUBT, SK_DOUBT_DAMAGED},
    {ERROR("ERR The stream has exhausted the last possible ID"), DOUBT, SK_DOUBT_DAMAGED},
    // The call may have been executed anyway: then this session has an entry that it does not hold.
    {NIL, ORPHAN, 0},
    {NUMBER(1), ORPHAN, 0},
    {TEXT("ok"), ORPHAN, 0},
    {EMPTY_LIST, ORPHAN, 0},
    {ERROR("OOM command not allowed"), ORPHAN, 0},
    {REPLY_ITEMS(TEXT("ok")), ORPHAN, 0},
    {REPLY_ITEMS(TEXT("ok"), TEXT("7")), ORPHAN, 0},
    {REPLY_ITEMS(TEXT("ok"), TEXT("x"), TEXT("10-1")), ORPHAN, 0},
    {REPLY_ITEMS(TEXT("ok"), TEXT("1000000000000000"), TEXT("10-1")), ORPHAN, 0},
    {REPLY_ITEMS(TEXT("ok"), TEXT("7"), TEXT("10")), ORPHAN, 0},
    {REPLY_ITEMS(TEXT("ok"), TEXT("7"), NIL), ORPHAN, 0},
    {REPLY_ITEMS(NIL, TEXT("7"), TEXT("x")), ORPHAN, 0},
    // The slot is elsewhere, or is being moved: nothing was executed.
    {ERROR("MOVED 7 a:1"), NOTHING, 0},
    {ERROR("TRYAGAIN Multiple keys request"), NOTHING, 0},
};
enum { NO_NOTES = sizeof no_notes / sizeof no_notes[0] };

TEST_EACH(what_is_not_noted_is_told_and_leaves_no_entry_here, NO_NOTES + 1)
{
    int then = _i < NO_NOTES ? no_notes[_i].then : ORPHAN;
    cancel(1);
    cancel(2);
    tick();
    redis_answers(_i < NO_NOTES ? &no_notes[_i].reply : NULL);
    must_all_be_told(2, then == DOUBT ? SK_RETURN_LOADING : SK_RETURN_UNAVAILABLE);
    ck_assert_int_eq(suspicions, then == DOUBT);
    ck_assert_int_eq(orphans, then == ORPHAN);
    ck_assert(then != DOUBT || last_doubt == no_notes[_i].doubt);
    must_be_idle();
}

TEST(what_is_not_asked_leaves_nothing)
{
    fake_session.lost = true;
    ck_assert_int_eq(ask_for(voucher, 1, SK_RETURN_CANCELLED, "user", NULL), SK_DOWN);
    ck_assert_int_eq(expire(A), SK_DOWN);
    fake_session.lost = false;
    cancel(2);
    fake_session.lost = true; // lost meanwhile
    tick();
    must_be_told(2, SK_RETURN_UNAVAILABLE);
    fake_session.lost = false;
    fake_redis.down = true;
    cancel(3);
    tick();
    must_be_told(3, SK_RETURN_UNAVAILABLE);
    ck_assert_int_eq(waiters[1].told + all.told + orphans + suspicions, 0);
    ck_assert_uint_eq(fake_redis.count, 0);
    must_be_idle();
}

// ---- writing fails ----

static const struct {
    enum sk_result_kind kind;
    struct sk_rows rows; // SK_RESULT_ROWS
    bool told;           // reported at once
} failures[] = {
    {SK_RESULT_LOST, {0}, true},
    {SK_RESULT_FAILED, {0}, true},
    {SK_RESULT_REFUSED, {0}, true},
    {SK_RESULT_LOCKED, {0}, false}, // brief: it keeps waiting
    {SK_RESULT_ROWS, {0}, true},
    {SK_RESULT_ROWS, ROWS(1, {"1", "returned", "u1", "1"}), true},
    {SK_RESULT_ROWS, ROWS(3, {"1", "returned", "u1", "1"}, {"2", "returned", "u2", "1"}, {"3", "returned", "u3", "1"}),
     true},
};
enum { FAILURES = sizeof failures / sizeof failures[0] };

static void fail_to_write(int i)
{
    pg_gives((struct sk_result){.kind = failures[i].kind,
                                .rows = failures[i].kind == SK_RESULT_ROWS ? &failures[i].rows : NULL});
}

static const struct sk_journal_entry found = {.id = "10-1",
                                              .epoch = 3,
                                              .orders = A "," B,
                                              .orders_len = sizeof A "," B - 1,
                                              .count = 2,
                                              .move = "refunded-kept",
                                              .by = "boss",
                                              .why = "broken"};

static void recover(void)
{
    ck_assert(sk_returns_recover(returns, voucher, fake_redis.run_number, &found));
}

// P7: the caller gets one result; the entry, also a recovered one, is written again unchanged until there is an answer.
TEST_EACH(what_is_noted_is_written_until_it_is_answered, 2 * FAILURES)
{
    int failure = _i % FAILURES;
    bool recovers = _i >= FAILURES;
    if (recovers)
        recover();
    else
        cancel_and_note(2);
    for (int tries = 0; tries < 5; tries++) {
        must_ask(recovers ? WRITE("3", A "," B, "refunded-kept", "boss", "broken")
                          : WRITE("7", A "," B, "cancelled", "user", "null"));
        fail_to_write(failure);
        uint64_t failed_at = now_ms;
        ck_assert_int_eq(waiters[1].told, !recovers && failures[failure].told);
        ck_assert_uint_eq(sk_returns_count(returns), 2);
        ck_assert_int_eq(recoveries, 0);
        while (!course_waits())
            tick();
        ck_assert_uint_ge(now_ms, failed_at + RETRY_MS);
        ck_assert_uint_lt(now_ms, failed_at + 2 * RETRY_MS);
    }
    all_returned(2);
    ck_assert_int_eq(course_asked()->what, SK_SCRIPT_SETTLE_ENTRY);
    ck_assert_str_eq(words_from(course_asked(), 7), "1 " A " user-1 - 1 " B " user-2 -"); // the same entry
    redis_answers(&one);
    if (!recovers)
        must_all_be_told(2, failures[failure].told ? SK_RETURN_UNAVAILABLE : SK_RETURN_DONE);
    ck_assert_uint_eq(counted(SK_METRIC_ORDERS_RETURNED), 2);
    ck_assert_int_eq(orphans + suspicions, 0);
    ck_assert_int_eq(recoveries, recovers);
    must_be_idle();
}

TEST(without_postgres_a_noted_entry_waits)
{
    cancel(1);
    tick();
    fake_pg.down = true;
    redis_answers(&noted);
    must_be_told(1, SK_RETURN_UNAVAILABLE);
    cancel(2); // same voucher: waits for it
    for (int i = 0; i < 50; i++)
        tick();
    ck_assert(!course_waits());
    ck_assert_uint_eq(sk_returns_count(returns), 2);
    fake_pg.down = false;
    while (!course_waits())
        tick();
    must_ask(WRITE("7", A, "cancelled", "user", "null"));
    settle(1);
    tick();
    must_ask(NOTE(B, "cancelled", "user", ""));
    redis_answers(NULL);
}

// A rebuild of the voucher should have settled a recovered one. A forged one is settled by the next rebuild.
TEST_EACH(an_entry_of_an_older_epoch_is_left_to_the_rebuild, 2)
{
    if (_i == 1)
        recover();
    else
        cancel_and_note(2);
    size_t asked = fake_redis.count;
    PG_ROWS(1, {NULL, "stale"});
    if (_i == 0)
        must_all_be_told(2, SK_RETURN_LOADING);
    ck_assert_uint_eq(fake_redis.count, asked); // it is not dropped here
    ck_assert_int_eq(orphans, 0);
    ck_assert_int_eq(suspicions, _i);
    ck_assert_int_eq(recoveries, _i);
    ck_assert(_i == 0 || last_doubt == SK_DOUBT_BEHIND);
    must_be_idle();
}

// ---- recovered entries ----

TEST(a_recovered_entry_is_written_at_once)
{
    cancel(4); // together with an own one
    tick();
    must_ask(NOTE("018bcfe5-6800-7000-8000-000000000004", "cancelled", "user", ""));
    redis_answers(NULL);
    recover();
    must_ask(WRITE("3", A "," B, "refunded-kept", "boss", "broken"));
    cancel(3);
    tick();
    ck_assert_uint_eq(fake_redis.count, 2); // it does not wait for it
    redis_answers(NULL);
    ck_assert_uint_eq(sk_returns_count(returns), 2);
    ck_assert_int_eq(recoveries, 0);
    PG_ROWS(2, {"1", "returned", "u1", "2"}, {"2", "kept", "u2", "0"});
    must_ask("redis settle_entry 5 " KEYS_7 " 10-1 3 2 " A " u1 -");
    ck_assert_int_eq(recoveries, 1);
    redis_answers(&one);
    ck_assert_int_eq(recoveries, 1);
    must_be_idle();
}

// ---- memory ----

enum { STEPS_MAX = 50 }; // more than one order's path takes

// Runs one order's path, answering as far as it goes; with `short_of_memory` it may not come to its end.
static void play(bool short_of_memory)
{
    for (int i = 0; sk_returns_count(returns) > 0 || course_waits(); i++) {
        if (i == STEPS_MAX && short_of_memory)
            return;
        if (!course_waits())
            tick();
        else if (course_asked()->on_result != NULL)
            all_returned(sk_returns_count(returns));
        else
            redis_answers(course_asked()->what == SK_SCRIPT_NOTE_RETURN ? &noted : &one);
    }
}

static bool was_asked(int script)
{
    for (size_t i = 0; i < fake_redis.count; i++) {
        if (fake_redis.asked[i].what == script)
            return true;
    }
    return false;
}

// One allocation fails, or that one and all after it until memory is back. An order that was accepted gets one result,
// a recovered entry is reported; and every journal entry is settled, or searched for.
TEST_EACH(short_memory_loses_no_entry, 4)
{
    int refused = 0, not_noted = 0, searched_for = 0, written_again = 0;
    bool recovers = _i >= 2;
    memory_stays_short = _i % 2 == 1;
    memory_has_failed = true;
    for (int nth = 1; memory_has_failed; nth++) {
        fake_stores_forget();
        waiters[1].told = recoveries = orphans = 0;
        memory_has_failed = false;
        allocations_left = nth;
        enum sk_status status = !recovers ? ask_for(voucher, 1, SK_RETURN_CANCELLED, "user", "no need")
                                : sk_returns_recover(returns, voucher, fake_redis.run_number, &found) ? SK_OK
                                                                                                      : SK_NO_MEM;
        play(memory_stays_short);
        allocations_left = 0;
        play(false);
        ck_assert(status == SK_OK || status == SK_NO_MEM);
        ck_assert_int_eq(recovers ? recoveries : waiters[1].told, status == SK_OK);
        if (status == SK_OK && (recovers || was_asked(SK_SCRIPT_NOTE_RETURN)))
            ck_assert_int_eq(was_asked(SK_SCRIPT_SETTLE_ENTRY), orphans == 0);
        refused += status != SK_OK;
        not_noted += status == SK_OK && !was_asked(SK_SCRIPT_NOTE_RETURN);
        searched_for += orphans;
        written_again += was_asked(SK_SCRIPT_SETTLE_ENTRY) && waiters[1].end == SK_RETURN_UNAVAILABLE;
        must_be_idle();
    }
    if (recovers) {
        ck_assert_int_eq(refused, 2);
        return;
    }
    ck_assert_int_ge(refused, 1);
    ck_assert_int_ge(not_noted, 2);    // neither its ids nor its entry have a place
    ck_assert_int_ge(searched_for, 1); // before it is settled
    ck_assert_int_ge(written_again, 1);
}

TEST(several_need_memory)
{
    allocations_left = 1;
    ck_assert_int_eq(expire(A), SK_NO_MEM);
    ck_assert_int_eq(all.told, 0);
    must_be_idle();
    allocations_left = 1;
    ck_assert_ptr_null(sk_returns_open(&sale, shards, on_recovered, &recoveries));
}

static bool refuses_calls(void)
{
    return true;
}

TEST(a_link_that_is_short_of_memory_loses_no_entry)
{
    cancel(1);
    fake_no_memory = refuses_calls;
    tick();
    must_be_told(1, SK_RETURN_UNAVAILABLE);
    fake_no_memory = NULL;
    cancel(2);
    tick();
    fake_no_memory = refuses_calls;
    redis_answers(&noted);
    must_be_told(2, SK_RETURN_UNAVAILABLE);
    fake_no_memory = NULL;
    play(false);
    ck_assert(was_asked(SK_SCRIPT_SETTLE_ENTRY));
    ck_assert_int_eq(orphans, 0);
}

// ---- closing ----

// Every noted return is in the journal. (The links were closed before.)
static void close_now(void)
{
    sk_returns_close(returns);
    ck_assert(sk_list_is_empty(&voucher->entries.own));
    start();
}

TEST_EACH(closing_tells_in_every_state, 4)
{
    static const int told_before[] = {0, 0, 0, 1};
    cancel(1);
    if (_i > 0)
        tick();
    if (_i > 1)
        redis_answers(&noted);
    if (_i > 2)
        pg_answers(NULL);
    ck_assert_int_eq(waiters[1].told, told_before[_i]);
    cancel(2); // collected, or sent with it
    close_now();
    must_all_be_told(2, SK_RETURN_UNAVAILABLE);
    ck_assert_int_eq(recoveries, 0);
}

TEST(closing_tells_who_waits_for_several)
{
    ck_assert_int_eq(expire(A "," B), SK_OK);
    recover();
    close_now();
    all_must_be_told(SK_RETURN_UNAVAILABLE, 0);
    ck_assert_int_eq(recoveries, 0); // it is not settled
    sk_returns_close(NULL);
}

SUITE(.setup = setup, .teardown = teardown);
