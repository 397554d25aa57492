// The scripts for orders of several units, with an Idempotency-Key, or that end: place_orders, note_return,
// settle_entry and those of a rebuild, on a real Redis.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scripts.h"
#include "test.h"

#define A     "018bcfe5-6800-7000-8000-00000000000a"
#define B     "018bcfe5-6800-7000-8000-00000000000b"
#define C     "018bcfe5-6800-7000-8000-00000000000c"
#define D     "018bcfe5-6800-7000-8000-00000000000d"
#define KEY   "0123456789abcdef"
#define KEY_2 "fedcba9876543210"

enum { ID_CHARS = 36, KEPT_S = 25 * 3600 };
static const int64_t day_ms = INT64_C(86400000), kept_ms = INT64_C(1000) * KEPT_S;

// `details`: as in place_orders.lua; then user and id of each order.
#define PLACE_AS(mode, details, ...)                                                                              \
    CALL(SK_SCRIPT_PLACE_ORDERS, 5, VOUCHER, BUYERS, JOURNAL, REPEATS, ENDED, "100", RUN, mode, "0", "", SESSION, \
         details, "3", "3", __VA_ARGS__)
#define PLACE(details, ...) PLACE_AS("new", details, __VA_ARGS__)
#define EPOCH               "7"
#define SETTLE(entry, ...) \
    CALL(SK_SCRIPT_SETTLE_ENTRY, 5, VOUCHER, BUYERS, JOURNAL, REPEATS, ENDED, entry, EPOCH, __VA_ARGS__)
#define NOTE_IN(run, ids, move, by, why) \
    CALL(SK_SCRIPT_NOTE_RETURN, 2, VOUCHER, JOURNAL, run, SESSION, ids, move, by, why)

// An order as stored in the hashes, with the id of a request made `age_ms` ago.
static const char *aged(const char *order, int64_t age_ms)
{
    static char texts[4][TEXT_SIZE];
    static int next;
    char *text = texts[next++ % 4], digits[16];
    (void)snprintf(digits, sizeof digits, "%012llx", (unsigned long long)(now_ms() - age_ms));
    (void)snprintf(text, TEXT_SIZE, "%.8s-%.4s%s", digits, digits + 8, order + 13);
    return text;
}

static void put(const char *key, const char *field, const char *value)
{
    freeReplyObject(redisCommand(redis, "HSET %s %s %s", key, field, value));
}

static const char *id_of(const char *order)
{
    static char id[ID_CHARS + 1];
    (void)snprintf(id, sizeof id, "%s", order);
    return id;
}

// The newest journal entry: its fields and values, with a space between.
static void newest_entry(char out[TEXT_SIZE])
{
    size_t len = 0;
    redisReply *entries = redisCommand(redis, "XREVRANGE " JOURNAL " + - COUNT 1");
    ck_assert_uint_eq(entries->elements, 1);
    const redisReply *fields = entries->element[0]->element[1];
    for (size_t i = 0; i < fields->elements; i++)
        len += (size_t)snprintf(out + len, TEXT_SIZE - len, "%s%s", i == 0 ? "" : " ", fields->element[i]->str);
    ck_assert_uint_lt(len, TEXT_SIZE);
    freeReplyObject(entries);
}

// ---- quantity ----

TEST(where_too_few_are_left_an_order_gets_none)
{
    on_sale(5);
    PLACE("3,3,2,1", "alice", A, "bob", B, "carol", C, "dave", D);
    must_answer("pmps", "2", NULL); // alice leaves two, which carol gets
    ck_assert_int_eq(stock(), 0);
    must_be(BUYERS, "bob", NULL);
    must_be(BUYERS, "carol", C " 2");
}

TEST(what_gets_none_writes_nothing)
{
    on_sale(2);
    int64_t before = changes();
    PLACE("3,1000", "alice", A, "bob", B);
    must_answer("mm", "2", "2", NULL);
    ck_assert_str_eq(element(5), "");
    ck_assert_int_eq(changes(), before);
}

// ... and the reply contains no number of units: they do not sell yet.
TEST(units_that_are_held_are_not_too_few)
{
    on_sale(2);
    redis_run("HSET " VOUCHER " reopened_ms %lld", (long long)now_ms());
    PLACE("3,1", "alice", A, "bob", B);
    must_answer("hh", NULL);
    ck_assert_int_eq(stock(), 2);
}

TEST(who_has_bought_is_told_so_whatever_the_quantity)
{
    on_sale(3);
    PLACE("3", "alice", A);
    PLACE("2,1", "alice", B, "alice", C);
    must_answer("aa", A, A, NULL);
    PLACE("-", "alice", B);
    must_answer("a", A, NULL);
    PLACE("2,3", "bob", B, "bob", C);
    must_answer("ss", NULL);
    ck_assert_int_eq(stock(), 0);
}

TEST(what_was_granted_is_granted_again_with_its_units)
{
    in_state("closed", 4);
    PLACE_AS("again", "3,2 " KEY ",1", "alice", A, "bob", B, "carol", C);
    must_answer("pmp", "1", NULL);
    ck_assert_int_eq(stock(), 0);
    must_be(BUYERS, "alice", A " 3");
    PLACE_AS("again", "3", "alice", A);
    must_answer("a", A, NULL);
}

// ---- Idempotency-Key ----

TEST(a_key_is_kept_with_its_order)
{
    char entry[TEXT_SIZE];
    on_sale(10);
    PLACE("1 " KEY ",3 " KEY_2 ",2", "alice", A, "bob", B, "carol", C);
    must_answer("ppp", NULL);
    must_be(BUYERS, "alice", A " 1 " KEY);
    must_be(BUYERS, "bob", B " 3 " KEY_2);
    must_be(BUYERS, "carol", C " 2");
    newest_entry(entry);
    ck_assert_str_eq(entry, "epoch 7 orders " A " alice 1 " KEY "," B " bob 3 " KEY_2 "," C " carol 2 session " SESSION
                            " offer 3");
    ck_assert_int_eq(stock(), 4);
}

static const struct {
    const char *name;
    const char *has, *details, *letter; // alice's order, her request, and her answer
} meetings[] = {
    {"the same key", A " 1 " KEY, "1 " KEY, "k"},
    {"the same key and quantity", A " 3 " KEY, "3 " KEY, "k"},
    {"the same key, another quantity", A " 3 " KEY, "1 " KEY, "q"},
    {"another key", A " 1 " KEY, "1 " KEY_2, "a"},
    {"another key and quantity", A " 1 " KEY, "2 " KEY_2, "a"},
    {"an order without a key", A, "1 " KEY, "a"},
    {"an order of several without a key", A " 3", "3 " KEY, "a"},
    {"a request without a key", A " 1 " KEY, "1", "a"},
    {"a request without a key of several", A " 2 " KEY, "2", "a"},
    {"... in a batch without details", A " 1 " KEY, "-", "a"},
    {"a damaged order", A " x " KEY, "1 " KEY, "a"},
};
enum { MEETINGS = sizeof meetings / sizeof meetings[0] };

TEST_EACH(a_request_meets_a_live_order, MEETINGS)
{
    redisReply *set;
    on_sale(10);
    set = redisCommand(redis, "HSET " BUYERS " alice %s", meetings[_i].has);
    freeReplyObject(set);
    int64_t before = changes();
    PLACE(meetings[_i].details, "alice", B);
    must_answer(meetings[_i].letter, A, NULL);
    ck_assert_int_eq(changes(), before);
}

TEST_EACH(a_request_meets_an_order_that_has_ended, MEETINGS)
{
    const char *letter = meetings[_i].letter, *order = aged(meetings[_i].has, 0);
    on_sale(10);
    put(REPEATS, "alice " KEY, order);
    PLACE(meetings[_i].details, "alice", B);
    if (strcmp(letter, "a") == 0)
        must_answer("p", NULL); // becomes a new order
    else
        must_answer(strcmp(letter, "k") == 0 ? "d" : "q", id_of(order), NULL);
    ck_assert_int_eq(stock(), strcmp(letter, "a") == 0
                                  ? 10 - strtol(meetings[_i].details, NULL, 10) - (meetings[_i].details[0] == '-')
                                  : 10);
}

TEST(a_key_is_its_users)
{
    on_sale(10);
    PLACE("1 " KEY, "alice", A);
    put(REPEATS, "carol " KEY, "ignored");
    PLACE("1 " KEY ",2 " KEY, "bob", B, "carol", C);
    must_answer("pp", NULL);
    must_be(BUYERS, "bob", B " 1 " KEY);
}

// The first answer is repeated, also after a sell-out or the end, and while another order lives.
TEST_EACH(an_order_that_has_ended_is_met_whatever_has_happened_since, 3)
{
    static const char *const states[] = {"open", "paused", "closed"};
    in_state(states[_i], 0);
    const char *order = aged(A " 2 " KEY, 0), *id = id_of(order);
    put(REPEATS, "alice " KEY, order);
    PLACE("2 " KEY ",3 " KEY, "alice", B, "alice", C);
    must_answer("dq", id, id, NULL);
    redis_run("HSET " BUYERS " alice " D);
    PLACE("2 " KEY ",3 " KEY ",1 " KEY_2 ",1", "alice", B, "alice", B, "alice", C, "alice", C);
    must_answer("dqaa", id, id, D, D, NULL);
}

// An order that is granted again is not a repeat of itself.
TEST(what_is_granted_again_meets_no_order_that_has_ended)
{
    on_sale(10);
    put(REPEATS, "alice " KEY, aged(A " 1 " KEY, 0));
    PLACE_AS("again", "1 " KEY, "alice", B);
    must_answer("p", NULL);
}

// Each key expires by itself. What PostgreSQL still keeps must be known here: it counts from the commit, which is later
// than the id, and by another clock.
TEST(a_key_counts_for_a_day)
{
    const struct {
        int64_t age_ms;
        const char *letter;
    } rows[] = {{-HOUR_MS, "d"},    {0, "d"},          {day_ms, "d"},      {kept_ms - 60000, "d"},
                {kept_ms + 1, "p"}, {2 * day_ms, "p"}, {400 * day_ms, "p"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        on_sale(10);
        const char *order = aged(A " 1 " KEY, rows[i].age_ms), *id = id_of(order);
        put(REPEATS, "alice " KEY, order);
        put(REPEATS, "bob " KEY, aged(B " 1 " KEY, 0));
        PLACE("1 " KEY, "alice", C);
        ck_assert_msg(strcmp(element(6), rows[i].letter) == 0, "row %zu: %s", i, element(6));
        must_answer(rows[i].letter, rows[i].letter[0] == 'd' ? id : NULL, NULL);
        redis_run("DEL " BUYERS);
    }
}

// An expired earlier order does not hide the live one.
TEST(a_live_order_is_met_whatever_its_age)
{
    on_sale(10);
    put(BUYERS, "alice", A " 1 " KEY);
    put(REPEATS, "alice " KEY_2, aged(B " 1 " KEY_2, 2 * day_ms));
    PLACE("1 " KEY ",1 " KEY_2, "alice", C, "alice", D);
    must_answer("ka", A, A, NULL);
}

TEST(a_key_twice_in_a_batch_is_one_order)
{
    on_sale(10);
    PLACE("2 " KEY ",2 " KEY ",1 " KEY ",2 " KEY_2, "alice", A, "alice", B, "alice", C, "alice", D);
    must_answer("pkqa", A, A, A, NULL);
    ck_assert_int_eq(stock(), 8);
}

// ---- paused ----

TEST(a_paused_voucher_sells_nothing)
{
    in_state("paused", 10);
    redis_run("HSET " BUYERS " bob " B);
    int64_t before = changes();
    PLACE("1,1,3", "alice", A, "bob", C, "carol", D);
    must_answer("uau", B, NULL);
    ck_assert_int_eq(changes(), before);
    redis_run("HSET " VOUCHER " end_ms 1"); // closed stays closed
    PLACE("-", "alice", A);
    must_answer("e", NULL);
}

// ---- note_return ----

static const char *const states[] = {"open", "paused", "closed"};

TEST_EACH(a_return_is_noted_and_nothing_else, 3)
{
    char entry[TEXT_SIZE], id[64];
    in_state(states[_i], 3);
    redis_run("HSET " BUYERS " alice " A " bob " B);
    int64_t before = changes();
    NOTE_IN(RUN, A "," B, "cancelled", "user", "no need");
    ck_assert_uint_eq(reply->elements, 3);
    ck_assert_str_eq(element(0), "ok");
    ck_assert_str_eq(element(1), "7");
    (void)snprintf(id, sizeof id, "%s", element(2));
    newest_entry(entry);
    ck_assert_str_eq(entry, "epoch 7 returns " A "," B " move cancelled by user why no need session " SESSION);
    ck_assert_int_eq(changes(), before + 1);
    must_be(VOUCHER, "last", "epoch-7"); // the buyers are unchanged
    must_be(BUYERS, "alice", A);
    ck_assert_int_eq(stock(), 3);
    ck_assert_int_eq(redis_number("XLEN " JOURNAL), 1);
    ck_assert_int_eq(redis_number("XDEL " JOURNAL " %s", id), 1);
}

static const struct {
    const char *change; // in the voucher's hash; NULL: missing
    const char *run, *word;
} unsold[] = {
    {NULL, RUN, "missing"},      {"state loading", RUN, "loading"}, {"state retired", RUN, "loading"},
    {"state x", RUN, "loading"}, {"state open", "run-2", "unsure"}, {"run other", RUN, "unsure"},
    {"epoch x", RUN, "unsure"},  {"epoch -7", RUN, "unsure"},       {"epoch 1000000000000000", RUN, "unsure"},
};

TEST_EACH(no_return_is_noted_where_nothing_can_be_relied_on, sizeof unsold / sizeof unsold[0])
{
    if (unsold[_i].change != NULL) {
        on_sale(3);
        char field[32], value[32];
        ck_assert_int_eq(sscanf(unsold[_i].change, "%31s %31s", field, value), 2);
        redis_run("HSET " VOUCHER " %s %s", field, value);
    }
    int64_t before = changes();
    NOTE_IN(unsold[_i].run, A, "expired", "expiry", "");
    ck_assert_uint_eq(reply->elements, 1);
    ck_assert_str_eq(element(0), unsold[_i].word);
    ck_assert_int_eq(changes(), before);
}

// Returns are accepted into a full journal, since they make room.
TEST(a_full_journal_takes_returns)
{
    on_sale(3);
    for (int i = 0; i < 100; i++)
        redis_run("XADD " JOURNAL " * x y");
    PLACE("-", "alice", A);
    must_answer("f", NULL);
    NOTE_IN(RUN, A, "expired", "expiry", "");
    ck_assert_str_eq(element(0), "ok");
}

// ---- settle_entry ----

// Alice's order A of 3 units and bob's order B of 2 under KEY, of 10 units; an entry notes their end.
static char b[ID_CHARS + 1]; // an id of now

static void note_the_end(char entry[64])
{
    on_sale(10);
    (void)snprintf(b, sizeof b, "%s", aged(B, 0));
    PLACE("3,2 " KEY, "alice", A, "bob", b);
    must_answer("pp", NULL);
    redis_run("DEL " JOURNAL);
    NOTE_IN(RUN, A, "cancelled", "user", "");
    (void)snprintf(entry, 64, "%s", element(2));
}

static const char *of_bob(void)
{
    static char order[TEXT_SIZE];
    (void)snprintf(order, sizeof order, "%s 2 " KEY, b);
    return order;
}

static const struct {
    const char *units;
    int64_t stock;
} given[] = {{"0", 5}, {"1", 6}, {"3", 8}};

TEST_EACH(units_return_with_the_order, 3)
{
    char entry[64];
    note_the_end(entry);
    SETTLE(entry, given[_i].units, A, "alice", "-");
    must_return(1);
    ck_assert_int_eq(stock(), given[_i].stock);
    must_be(BUYERS, "alice", NULL);
    must_be(BUYERS, "bob", of_bob());
    ck_assert_int_eq(redis_number("EXISTS " REPEATS), 0); // she sent no key
    ck_assert_int_eq(redis_number("XLEN " JOURNAL), 0);
    must_be(VOUCHER, "reopened_ms", NULL); // there were other units
    PLACE("3", "alice", C);                // she may buy again
    must_answer("p", NULL);
}

TEST(an_order_with_a_key_stays_known_for_a_day)
{
    char entry[64];
    note_the_end(entry);
    SETTLE(entry, "3", A, "alice", "-", "2", b, "bob", "-");
    must_return(2);
    ck_assert_int_eq(stock(), 10);
    ck_assert_int_eq(redis_number("HLEN " BUYERS), 0);
    ck_assert_int_eq(redis_number("HLEN " REPEATS), 1);
    must_be(REPEATS, "bob " KEY, of_bob());
    int64_t ttl = redis_number("TTL " REPEATS);
    ck_assert_int_gt(ttl, KEPT_S - 60);
    ck_assert_int_le(ttl, KEPT_S);
    PLACE("2 " KEY, "bob", D);
    must_answer("d", b, NULL);
    PLACE("2", "bob", D);
    must_answer("p", NULL);
}

// PostgreSQL rejected it, so it never was an order, and its key is forgotten.
TEST(a_refused_order_with_a_key_is_forgotten)
{
    char entry[64];
    note_the_end(entry);
    SETTLE(entry, "2", b, "bob", "");
    must_return(1);
    must_be(BUYERS, "bob", NULL);
    ck_assert_int_eq(redis_number("EXISTS " REPEATS), 0);
    ck_assert_int_eq(stock(), 7);
}

TEST(the_end_is_carried_out_once)
{
    char entry[64];
    note_the_end(entry);
    SETTLE(entry, "3", A, "alice", "-", "2", b, "bob", "-");
    redis_run("PERSIST " REPEATS);
    int64_t before = changes();
    SETTLE(entry, "3", A, "alice", "-", "2", b, "bob", "-");
    must_return(0);
    ck_assert_int_eq(changes(), before);
    ck_assert_int_eq(stock(), 10);
    PLACE("1,2", "alice", C, "bob", D); // they have bought again since
    SETTLE(entry, "3", A, "alice", "-", "2", b, "bob", "-");
    must_return(0);
    must_be(BUYERS, "alice", C);
    must_be(BUYERS, "bob", D " 2");
    ck_assert_int_eq(stock(), 7);
}

TEST(an_order_twice_in_an_entry_returns_once)
{
    char entry[64];
    note_the_end(entry);
    SETTLE(entry, "3", A, "alice", "-", "3", A, "alice", "-");
    must_return(1);
    ck_assert_int_eq(stock(), 8);
}

// The whole id must match, not a prefix.
TEST(the_order_of_another_stays)
{
    char entry[64];
    note_the_end(entry);
    SETTLE(entry, "3", C, "alice", "-", "2", A, "bob", "-", "2", "018bcfe5", "bob", "-", "1", A, "erin", "-");
    must_return(0);
    must_be(BUYERS, "alice", A " 3");
    must_be(BUYERS, "bob", of_bob());
    ck_assert_int_eq(stock(), 5);
    ck_assert_int_eq(redis_number("XLEN " JOURNAL), 0); // the entry is still settled
}

// Units that return after a sell-out are held, however many return at once.
TEST(the_first_units_that_return_are_held)
{
    on_sale(5);
    PLACE("3,2", "alice", A, "bob", B);
    int64_t before = now_ms();
    SETTLE("", "3", A, "alice", "-");
    must_return(1);
    int64_t held = redis_number("HGET " VOUCHER " reopened_ms");
    ck_assert_int_ge(held, before);
    ck_assert_int_le(held, now_ms());
    PLACE("1", "carol", C);
    must_answer("h", NULL);
    redis_run("HSET " VOUCHER " reopened_ms 1");
    SETTLE("", "2", B, "bob", "-");
    must_be(VOUCHER, "reopened_ms", "1"); // there were other units
    ck_assert_int_eq(stock(), 5);
    PLACE("4", "carol", C);
    must_answer("p", NULL);
}

TEST(an_order_whose_units_are_kept_holds_nothing)
{
    on_sale(3);
    PLACE("3", "alice", A);
    SETTLE("", "0", A, "alice", "-");
    must_return(1);
    must_be(VOUCHER, "reopened_ms", NULL);
    PLACE("1", "carol", C);
    must_answer("s", NULL);
}

// A rebuild since has left the orders out. What is there was granted again, and its units return by its own entry.
TEST(orders_that_ended_before_a_rebuild_are_not_corrected)
{
    char entry[64];
    note_the_end(entry);
    CALL(SK_SCRIPT_SETTLE_ENTRY, 5, VOUCHER, BUYERS, JOURNAL, REPEATS, ENDED, entry, "6", "0", A, "alice", "-");
    must_return(0);
    must_be(BUYERS, "alice", A " 3");
    ck_assert_int_eq(stock(), 5);
    ck_assert_int_eq(redis_number("XLEN " JOURNAL), 1); // its id may be another entry's
}

// ---- the bound of orders for each user: 3 ----

TEST(who_has_had_as_many_orders_as_one_may_gets_no_other)
{
    static const struct {
        const char *ended, *letter;
    } rows[] = {{"3", "t"}, {"4", "t"}, {"999", "t"}, {"2", "p"},
                {"0", "p"}, {"x", "p"}, {"-3", "p"}}; // 2: the bound was raised
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        on_sale(10);
        put(ENDED, "alice", rows[i].ended);
        int64_t before = changes();
        PLACE("-", "alice", A);
        must_answer(rows[i].letter, NULL);
        ck_assert_int_eq(changes() == before, rows[i].letter[0] == 't');
        PLACE("-", "bob", B);
        must_answer("p", NULL);
        redis_run("DEL " BUYERS);
    }
}

// Conditions that apply to everybody are checked first, so that a cached refusal is the same.
TEST(too_many_orders_are_checked_last)
{
    static const struct {
        const char *state, *details, *letter;
        int units;
    } rows[] = {{"paused", "-", "u", 1},
                {"closed", "-", "e", 1},
                {"open", "-", "s", 0},
                {"open", "2", "m", 1},
                {"open", "-", "t", 1}};
    put(ENDED, "alice", "3");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        in_state(rows[i].state, rows[i].units);
        PLACE(rows[i].details, "alice", A);
        must_answer(rows[i].letter, strcmp(rows[i].letter, "m") == 0 ? "1" : NULL, NULL);
    }
}

TEST(repeats_are_answered_whatever_a_user_has_had)
{
    on_sale(10);
    const char *order = aged(A " 1 " KEY, 0), *id = id_of(order);
    put(ENDED, "alice", "3");
    put(REPEATS, "alice " KEY, order);
    PLACE("1 " KEY ",2 " KEY ",1 " KEY_2, "alice", B, "alice", C, "alice", D);
    must_answer("dqt", id, id, NULL);
    put(BUYERS, "alice", B " 1 " KEY_2);
    PLACE("1 " KEY_2 ",1", "alice", C, "alice", D);
    must_answer("ka", B, B, NULL);
}

TEST(what_was_granted_before_is_granted_again_beyond_the_bound)
{
    on_sale(10);
    put(ENDED, "alice", "3");
    PLACE_AS("again", "-", "alice", A);
    must_answer("p", NULL);
}

TEST(the_number_comes_with_the_order_that_reaches_the_bound)
{
    char entry[64];
    note_the_end(entry);
    SETTLE(entry, "3", A, "alice", "-3", "2", b, "bob", "-");
    must_return(2);
    must_be(BUYERS, "alice", NULL);
    ck_assert_int_eq(stock(), 10);
    ck_assert_int_eq(redis_number("HLEN " ENDED), 1);
    must_be(ENDED, "alice", "3");
    ck_assert_int_eq(redis_number("TTL " ENDED), -1);
    PLACE("1,1", "alice", C, "bob", D);
    must_answer("tp", NULL);
    int64_t before = changes();
    SETTLE(entry, "3", A, "alice", "-3"); // it was already settled
    must_return(0);
    ck_assert_int_eq(changes(), before);
}

TEST(an_order_with_a_key_may_reach_the_bound)
{
    char entry[64];
    note_the_end(entry);
    SETTLE(entry, "2", b, "bob", "-3");
    must_return(1);
    must_be(ENDED, "bob", "3");
    must_be(REPEATS, "bob " KEY, of_bob());
    PLACE("2 " KEY ",1 " KEY_2, "bob", C, "bob", D);
    must_answer("dt", b, NULL);
}

// ---- rebuilding and retiring ----

static void begin(const char *epoch)
{
    CALL(SK_SCRIPT_REBUILD_BEGIN, 5, VOUCHER, BUYERS, JOURNAL, REPEATS, ENDED, epoch);
    must_return(1);
}

#define LOAD(epoch, buyers, repeats, ...) \
    CALL(SK_SCRIPT_REBUILD_BUYERS, 4, VOUCHER, BUYERS, REPEATS, ENDED, epoch, buyers, repeats, __VA_ARGS__)

TEST(a_rebuild_forgets_what_had_ended)
{
    on_sale(3);
    redis_run("HSET " REPEATS " alice " A);
    put(ENDED, "alice", "3");
    begin("8");
    ck_assert_int_eq(redis_number("EXISTS " REPEATS " " ENDED), 0);
}

TEST(a_rebuild_that_is_not_ours_forgets_nothing)
{
    on_sale(3);
    redis_run("HSET " REPEATS " alice " A);
    put(ENDED, "alice", "3");
    CALL(SK_SCRIPT_REBUILD_BEGIN, 5, VOUCHER, BUYERS, JOURNAL, REPEATS, ENDED, "7");
    must_return(0);
    ck_assert_int_eq(redis_number("EXISTS " REPEATS " " ENDED), 2);
}

TEST(buyers_and_what_has_ended_are_loaded_apart)
{
    begin("8");
    LOAD("8", "2", "1", "alice", A " 3", "bob", B, "carol " KEY, C " 1 " KEY, "dave", "3", "carol " KEY, "4");
    must_return(1);
    ck_assert_int_eq(redis_number("HLEN " BUYERS), 2);
    must_be(BUYERS, "alice", A " 3");
    must_be(BUYERS, "bob", B);
    ck_assert_int_eq(redis_number("HLEN " REPEATS), 1);
    must_be(REPEATS, "carol " KEY, C " 1 " KEY);
    ck_assert_int_eq(redis_number("HLEN " ENDED), 2);
    must_be(ENDED, "dave", "3");
    must_be(ENDED, "carol", "4"); // only the user
    int64_t ttl = redis_number("TTL " REPEATS);
    ck_assert_int_gt(ttl, KEPT_S - 60);
    ck_assert_int_le(ttl, KEPT_S);
    ck_assert_int_eq(redis_number("TTL " BUYERS), -1);
}

TEST(a_chunk_may_be_of_one_kind)
{
    begin("8");
    LOAD("8", "0", "1", "carol", C " 1 " KEY);
    must_return(1);
    ck_assert_int_eq(redis_number("EXISTS " BUYERS " " ENDED), 0);
    must_be(REPEATS, "carol", C " 1 " KEY);
    LOAD("8", "0", "0", "dave", "3");
    must_return(1);
    ck_assert_int_eq(redis_number("EXISTS " BUYERS), 0);
    ck_assert_int_eq(redis_number("HLEN " REPEATS), 1);
    must_be(ENDED, "dave", "3");
    LOAD("8", "1", "0", "alice", A);
    must_return(1);
    ck_assert_int_eq(redis_number("HLEN " REPEATS), 1);
    must_be(BUYERS, "alice", A);
    CALL(SK_SCRIPT_REBUILD_BUYERS, 4, VOUCHER, BUYERS, REPEATS, ENDED, "8", "0", "0"); // none at all
    must_return(1);
}

TEST(a_chunk_of_another_rebuild_is_not_loaded)
{
    begin("8");
    int64_t before = changes();
    LOAD("7", "1", "1", "alice", A, "carol", C " 1 " KEY, "dave", "3");
    must_return(0);
    ck_assert_int_eq(changes(), before);
    redis_run("HSET " VOUCHER " epoch 8 state open");
    before = changes();
    LOAD("8", "0", "1", "carol", C " 1 " KEY, "dave", "3");
    must_return(0);
    ck_assert_int_eq(changes(), before);
}

TEST(retiring_forgets_what_had_ended)
{
    begin("8");
    LOAD("8", "1", "1", "alice", A, "carol", C " 1 " KEY);
    put(ENDED, "alice", "3");
    CALL(SK_SCRIPT_RETIRE, 5, VOUCHER, BUYERS, JOURNAL, REPEATS, ENDED, "8");
    must_return(1);
    ck_assert_int_eq(redis_number("EXISTS " BUYERS " " JOURNAL " " REPEATS " " ENDED), 0);
    must_be(VOUCHER, "state", "retired");
    NOTE_IN(RUN, A, "cancelled", "user", "");
    ck_assert_str_eq(element(0), "loading");
}

SUITE(.timeout_s = 60, .begin = scripts_start, .setup = scripts_setup, .teardown = scripts_teardown,
      .in_one_process = true);
