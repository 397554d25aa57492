// The scripts that bring operators' changes to a voucher in Redis, apply_change and take_units, on a real Redis.
#include <string.h>

#include "scripts.h"
#include "test.h"

#define APPLY(run, epoch, from, to, units) \
    CALL(SK_SCRIPT_APPLY_CHANGE, 1, VOUCHER, run, epoch, from, to, "paused", "1000", "2000", units, "4")
#define TAKE(run, units) CALL(SK_SCRIPT_TAKE_UNITS, 1, VOUCHER, run, units)

static void must_say(const char *first, const char *second, const char *third)
{
    const char *const words[] = {first, second, third};
    ck_assert_int_eq(reply->type, REDIS_REPLY_ARRAY);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_msg((i < reply->elements) == (words[i] != NULL), "%zu words: %s", reply->elements,
                      reply->element[0]->str);
        if (words[i] != NULL)
            ck_assert_str_eq(reply->element[i]->str, words[i]);
    }
}

// A voucher under epoch 7 and change number 9.
static void put(const char *state, int units)
{
    redis_run("DEL " VOUCHER);
    redis_run("HSET " VOUCHER " state %s stock %d begin_ms 10 end_ms 20 epoch 7 last epoch-7 run " RUN
              " change 9 offer 3",
              state, units);
}

static void must_be_untouched(const char *state, const char *units)
{
    must_be(VOUCHER, "state", state);
    must_be(VOUCHER, "stock", units);
    must_be(VOUCHER, "begin_ms", "10");
    must_be(VOUCHER, "end_ms", "20");
    must_be(VOUCHER, "offer", "3");
}

// ---- apply_change ----

TEST(a_change_is_applied_once)
{
    static const char *const states[] = {"open", "paused", "closed"};
    for (int i = 0; i < 3; i++) {
        put(states[i], 5);
        APPLY(RUN, "7", "9", "12", "3");
        must_say("applied", NULL, NULL);
        APPLY(RUN, "7", "9", "12", "3"); // its reply was lost
        must_say("already", NULL, NULL);
        APPLY(RUN, "7", "9", "11", "3"); // an older change arrives late
        must_say("already", NULL, NULL);
        APPLY(RUN, "7", "9", "13", "3"); // its sum starts from a number that is gone
        must_say("other", "12", NULL);
        must_be(VOUCHER, "state", "paused");
        must_be(VOUCHER, "stock", "8");
        must_be(VOUCHER, "begin_ms", "1000");
        must_be(VOUCHER, "offer", "4");
        must_be(VOUCHER, "end_ms", "2000");
        must_be(VOUCHER, "change", "12");
        must_be(VOUCHER, "epoch", "7");
        must_be(VOUCHER, "last", "epoch-7"); // there is no new buyer
        must_be(VOUCHER, "reopened_ms", NULL);
    }
}

TEST(a_large_stock_stays_a_number)
{
    put("open", 99999999);
    APPLY(RUN, "7", "9", "10", "1");
    must_be(VOUCHER, "stock", "100000000");
    TAKE(RUN, "99999999");
    must_say("taken", "1", "7");
}

// In each row the voucher differs from the one that the caller read, or is damaged.
TEST(another_voucher_than_was_read_is_left_alone)
{
    static const struct {
        const char *field, *value, *says, *has;
    } rows[] = {
        {"epoch", "8", "other", "9"},          {"epoch", "6", "other", "9"},
        {"change", "8", "other", "8"},         {"change", "10", "other", "10"},
        {"run", "run-0", "unsure", NULL},      {"run", "", "unsure", NULL},
        {"change", "x", "unsure", NULL},       {"change", "-1", "unsure", NULL},
        {"change", "09", "unsure", NULL},      {"change", "9999999999999999", "unsure", NULL},
        {"stock", "x", "unsure", NULL},        {"stock", "-5", "unsure", NULL},
        {"begin_ms", "x", "unsure", NULL},     {"end_ms", "x", "unsure", NULL},
        {"epoch", "x", "unsure", NULL},        {"state", "loading", "loading", NULL},
        {"state", "retired", "loading", NULL}, {"state", "odd", "loading", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put("open", 5);
        redis_run("HSET " VOUCHER " %s %s", rows[i].field, rows[i].value);
        APPLY(RUN, "7", "9", "12", "3");
        must_say(rows[i].says, rows[i].has, NULL);
        must_be(VOUCHER, rows[i].field, rows[i].value);
        must_be(VOUCHER, "begin_ms", strcmp(rows[i].field, "begin_ms") == 0 ? "x" : "10");
        if (strcmp(rows[i].field, "stock") != 0)
            must_be(VOUCHER, "stock", "5");
    }
    put("open", 5);
    redis_run("HDEL " VOUCHER " change");
    APPLY(RUN, "7", "9", "12", "3");
    must_say("unsure", NULL, NULL);
    redis_run("DEL " VOUCHER);
    APPLY(RUN, "7", "9", "12", "3");
    must_say("missing", NULL, NULL);
    ck_assert_int_eq(redis_number("EXISTS " VOUCHER), 0);
}

// A newer change number of another epoch does not count: that voucher came from PostgreSQL as a whole.
TEST(a_rebuilt_voucher_is_not_added_to)
{
    put("open", 8);
    redis_run("HSET " VOUCHER " epoch 8 change 12");
    APPLY(RUN, "7", "9", "12", "3");
    must_say("other", "12", NULL);
    must_be_untouched("open", "8");
}

// ---- take_units ----

TEST(units_are_taken_all_or_none)
{
    static const char *const states[] = {"open", "paused", "closed"};
    for (int i = 0; i < 3; i++) {
        put(states[i], 5);
        TAKE(RUN, "6");
        must_say("short", "5", NULL);
        must_be_untouched(states[i], "5");
        TAKE(RUN, "2");
        must_say("taken", "3", "7");
        TAKE(RUN, "3");
        must_say("taken", "0", "7");
        TAKE(RUN, "1");
        must_say("short", "0", NULL);
        must_be_untouched(states[i], "0");
        must_be(VOUCHER, "change", "9"); // PostgreSQL assigns the number
    }
}

TEST(nothing_is_taken_from_what_cannot_be_relied_on)
{
    static const char *const rows[][3] = {
        {"run", "run-0", "unsure"}, {"stock", "x", "unsure"},        {"stock", "-1", "unsure"},
        {"epoch", "x", "unsure"},   {"state", "loading", "loading"}, {"state", "retired", "loading"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put("open", 5);
        redis_run("HSET " VOUCHER " %s %s", rows[i][0], rows[i][1]);
        TAKE(RUN, "1");
        must_say(rows[i][2], NULL, NULL);
        must_be(VOUCHER, rows[i][0], rows[i][1]);
    }
    redis_run("DEL " VOUCHER);
    TAKE(RUN, "1");
    must_say("missing", NULL, NULL);
    ck_assert_int_eq(redis_number("EXISTS " VOUCHER), 0);
}

SUITE(.begin = scripts_start, .setup = scripts_setup, .teardown = scripts_teardown, .in_one_process = true);
