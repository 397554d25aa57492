// Every change that reopens a sale begins a hold, in the scripts that make it, on a real Redis. lua/shared/voucher.lua
// explains why.
#include <stdint.h>
#include <string.h>

#include "scripts.h"
#include "test.h"

#define NOBODY "0"

enum { CACHE = 60000, AGES_AGO_MS = 100000 };

// ---- calls ----

// One order of one user. Returns its letter.
static char place_as(const char *mode, const char *user)
{
    CALL(SK_SCRIPT_PLACE_ORDERS, 5, VOUCHER, BUYERS, JOURNAL, REPEATS, ENDED, "100", RUN, mode, "0", "", SESSION, "-",
         "3", "20", user, user);
    ck_assert_str_eq(element(0), "ok");
    return element(6)[0];
}

static char place(const char *user)
{
    return place_as("new", user);
}

static const char *at(char text[32], int64_t ms)
{
    (void)snprintf(text, 32, "%lld", (long long)ms);
    return text;
}

static void must_be_held(bool held)
{
    ck_assert_int_eq(redis_number("HEXISTS " VOUCHER " reopened_ms"), held);
    if (held)
        ck_assert_int_le(now_ms() - redis_number("HGET " VOUCHER " reopened_ms"), CACHE / 2);
}

// Ends a hold that has just begun.
static void pass_the_hold(void)
{
    redis_run("HSET " VOUCHER " reopened_ms %lld", (long long)(now_ms() - AGES_AGO_MS));
}

// ---- changes that reopen ----

enum { EARLIER = -HOUR_MS, LATER = HOUR_MS, MUCH_LATER = 2 * HOUR_MS };

static const struct {
    const char *name;
    int stock;
    const char *state;
    int begin_ms, end_ms; // from now on
    char refused;         // the refusal before the change
    const char *new_state;
    int new_begin_ms, new_end_ms;
    const char *added;
    bool reopens;
} changes_of_terms[] = {
    {"resume", 5, "paused", EARLIER, LATER, 'u', "open", EARLIER, LATER, "0", true},
    {"resume before the start", 5, "paused", LATER, MUCH_LATER, 'u', "open", LATER, MUCH_LATER, "0", true},
    {"resume after the end", 5, "paused", 2 * EARLIER, EARLIER, 'e', "open", 2 * EARLIER, EARLIER, "0", false},
    {"start now", 5, "open", LATER, MUCH_LATER, 'n', "open", EARLIER, MUCH_LATER, "0", true},
    {"start earlier", 5, "open", MUCH_LATER, 3 * LATER, 'n', "open", LATER, 3 * LATER, "0", true},
    {"start later", 5, "open", LATER, 3 * LATER, 'n', "open", MUCH_LATER, 3 * LATER, "0", false},
    {"other terms before the start", 5, "open", LATER, MUCH_LATER, 'n', "open", LATER, 3 * LATER, "0", false},
    {"end later, when it has ended", 5, "open", 2 * EARLIER, EARLIER, 'e', "open", 2 * EARLIER, LATER, "0", true},
    {"end later, and in the past", 5, "open", 3 * EARLIER, 2 * EARLIER, 'e', "open", 3 * EARLIER, EARLIER, "0", false},
    {"another window", 5, "open", 2 * EARLIER, EARLIER, 'e', "open", LATER, MUCH_LATER, "0", true},
    {"end later, in the sale", 5, "open", EARLIER, LATER, 'p', "open", EARLIER, MUCH_LATER, "0", false},
    {"pause", 5, "open", EARLIER, LATER, 'p', "paused", EARLIER, LATER, "0", false},
    {"end later in a pause", 5, "paused", EARLIER, LATER, 'u', "paused", EARLIER, MUCH_LATER, "0", false},
    {"close", 5, "open", EARLIER, LATER, 'p', "closed", EARLIER, LATER, "0", false},
    {"close before the start", 5, "open", LATER, MUCH_LATER, 'n', "closed", LATER, MUCH_LATER, "0", false},
    {"add units", 0, "open", EARLIER, LATER, 's', "open", EARLIER, LATER, "3", true},
    {"add units in a pause", 0, "paused", EARLIER, LATER, 'u', "paused", EARLIER, LATER, "3", true},
    {"add to others", 5, "open", EARLIER, LATER, 'p', "open", EARLIER, LATER, "3", false},
    {"add none", 0, "open", EARLIER, LATER, 's', "open", EARLIER, LATER, "0", false},
};

TEST_EACH(a_change_reopens_what_refused_before, sizeof changes_of_terms / sizeof changes_of_terms[0])
{
    char begin_ms[32], end_ms[32];
    int64_t now = now_ms();
    in_state(changes_of_terms[_i].state, changes_of_terms[_i].stock);
    redis_run("HSET " VOUCHER " begin_ms %lld end_ms %lld", (long long)(now + changes_of_terms[_i].begin_ms),
              (long long)(now + changes_of_terms[_i].end_ms));
    redis_run("HSET " BUYERS " winner winner");
    char letter = place("stranger");
    ck_assert_msg(letter == changes_of_terms[_i].refused, "%s: %c before", changes_of_terms[_i].name, letter);
    CALL(SK_SCRIPT_APPLY_CHANGE, 1, VOUCHER, RUN, "7", "9", "10", changes_of_terms[_i].new_state,
         at(begin_ms, now + changes_of_terms[_i].new_begin_ms), at(end_ms, now + changes_of_terms[_i].new_end_ms),
         changes_of_terms[_i].added, "3");
    ck_assert_str_eq(element(0), "applied");
    letter = place("newcomer");
    ck_assert_msg((letter == 'h') == changes_of_terms[_i].reopens, "%s: %c", changes_of_terms[_i].name, letter);
    must_be_held(changes_of_terms[_i].reopens);
    ck_assert_int_eq(place("winner"), 'a'); // a winner is found first
}

TEST(the_first_units_that_return_reopen)
{
    on_sale(2);
    ck_assert_int_eq(place("alice"), 'p');
    ck_assert_int_eq(place("bob"), 'p');
    ck_assert_int_eq(place("carol"), 's');
    redis_run("HSET " BUYERS " alice 018bcfe5-6800-7000-8000-00000000000a");
    CALL(SK_SCRIPT_SETTLE_ENTRY, 5, VOUCHER, BUYERS, JOURNAL, REPEATS, ENDED, "", "", "1",
         "018bcfe5-6800-7000-8000-00000000000a", "alice", "-");
    must_be_held(true);
    ck_assert_int_eq(place("carol"), 'h');
}

static void rebuild(const char *epoch, const char *stock_text, const char *cached_ms, const char *cache_ms)
{
    char begin_ms[32], end_ms[32];
    int64_t now = now_ms();
    CALL(SK_SCRIPT_REBUILD_BEGIN, 5, VOUCHER, BUYERS, JOURNAL, REPEATS, ENDED, epoch);
    must_return(1);
    CALL(SK_SCRIPT_REBUILD_OPEN, 3, VOUCHER, BUYERS, JOURNAL, epoch, stock_text, "0", at(begin_ms, now - HOUR_MS),
         at(end_ms, now + HOUR_MS), "open", RUN, "9", cached_ms, cache_ms, "3");
    must_return(1);
}

TEST(a_rebuild_reopens)
{
    rebuild("8", "1", NOBODY, CACHE_MS); // the first load: no instance has cached anything
    must_be_held(false);
    must_be(VOUCHER, "cache_ms", CACHE_MS);
    redis_run("DEL " JOURNAL);
    rebuild("9", "1", CACHE_MS, CACHE_MS);
    must_be_held(true);
    ck_assert_int_eq(place("alice"), 'h');
    redis_run("FLUSHALL");
    rebuild("10", "1", "1", CACHE_MS); // Redis has lost it; PostgreSQL knows it
    must_be_held(true);
    ck_assert_int_eq(place("alice"), 'h');
    redis_run("FLUSHALL");
    rebuild("11", "1", NOBODY, "0");
    must_be_held(false);
    ck_assert_int_eq(place("alice"), 'p');
}

// ---- the hold ----

// Until it is over, a hold refuses everybody but winners, in every state.
TEST(a_hold_refuses_all_but_winners)
{
    static const struct {
        const char *state;
        int stock;
        char after;
    } rows[] = {{"open", 2, 'p'}, {"open", 0, 's'}, {"paused", 2, 'u'}, {"closed", 2, 'e'}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redis_run("FLUSHALL");
        in_state(rows[i].state, rows[i].stock);
        redis_run("HSET " BUYERS " winner winner");
        redis_run("HSET " VOUCHER " reopened_ms %lld", (long long)now_ms());
        int64_t before = changes();
        ck_assert_int_eq(place("stranger"), 'h');
        ck_assert_int_eq(place("winner"), 'a');
        ck_assert_int_eq(changes(), before); // it costs no write
        pass_the_hold();
        ck_assert_int_eq(place("stranger"), rows[i].after);
    }
}

TEST(what_was_granted_in_time_does_not_wait_for_a_hold)
{
    on_sale(1);
    redis_run("HSET " VOUCHER " reopened_ms %lld", (long long)now_ms());
    ck_assert_int_eq(place_as("again", "alice"), 'p');
}

// Repeatedly: sold out, a unit returns, it sells. Each unit sells after its own hold, none waits for a later one.
TEST(a_hold_begins_again_with_the_next_reopening_alone)
{
    static const char alice[] = "018bcfe5-6800-7000-8000-00000000000a", bob[] = "018bcfe5-6800-7000-8000-00000000000b";
    on_sale(0);
    for (int round = 0; round < 3; round++) {
        redis_run("HSET " BUYERS " alice %s bob %s", alice, bob);
        CALL(SK_SCRIPT_SETTLE_ENTRY, 5, VOUCHER, BUYERS, JOURNAL, REPEATS, ENDED, "", "", "1", alice, "alice", "-");
        must_be_held(true);
        int64_t reopened = redis_number("HGET " VOUCHER " reopened_ms") - CACHE / 2;
        redis_run("HSET " VOUCHER " reopened_ms %lld", (long long)reopened); // half of it has passed
        CALL(SK_SCRIPT_SETTLE_ENTRY, 5, VOUCHER, BUYERS, JOURNAL, REPEATS, ENDED, "", "", "1", bob, "bob", "-");
        ck_assert_int_eq(redis_number("HGET " VOUCHER " reopened_ms"), reopened); // a unit was already for sale
        ck_assert_int_eq(place("carol"), 'h');
        pass_the_hold();
        ck_assert_int_eq(place("carol"), 'p');
        ck_assert_int_eq(place("dave"), 'p');
        ck_assert_int_eq(place("erin"), 's'); // may be cached: a later sale needs a reopening
        redis_run("DEL " BUYERS " " JOURNAL);
    }
}

// A hold lasts until the longest cached refusal has surely expired: clocks truncate to milliseconds, and drift apart.
TEST(a_hold_is_a_little_longer_than_a_refusal)
{
    bool held[2] = {false, false}; // [0]: the refusal has just expired; [1]: the hold is over
    on_sale(1);
    redis_run("HSET " VOUCHER " cache_ms 20000");
    while (!held[0] || !held[1]) {
        int64_t reopened_ms = now_ms() - 20000 - (held[0] ? 21 : 0);
        redis_run("HSET " VOUCHER " reopened_ms %lld", (long long)reopened_ms);
        char letter = place("alice");
        int64_t since_ms = reply->element[1]->integer - reopened_ms;
        ck_assert_int_eq(letter, since_ms <= 20020 ? 'h' : 'p');
        held[letter == 'p'] = true;
        redis_run("DEL " BUYERS);
        redis_run("HSET " VOUCHER " stock 1");
    }
}

// Otherwise the hold would last as long as the clock was set back, or not count at all.
TEST(a_clock_that_is_set_back_begins_the_hold_again)
{
    on_sale(1);
    redis_run("HSET " VOUCHER " reopened_ms %lld", (long long)(now_ms() + HOUR_MS));
    ck_assert_int_eq(place("alice"), 'h');
    ck_assert_int_le(redis_number("HGET " VOUCHER " reopened_ms"), now_ms());
    must_be_held(true);
    redis_run("HSET " VOUCHER " reopened_ms %lld", (long long)(now_ms() + HOUR_MS));
    ck_assert_int_eq(place_as("again", "bob"), 'p');
    must_be_held(true);
}

// A hold ends, whatever the hash contains (P4).
TEST(a_hold_that_cannot_be_is_none_or_bounded)
{
    static const char *const rows[][2] = {
        {"cache_ms", "0"},      {"cache_ms", "for-ever"},           {"cache_ms", "-1"},   {"cache_ms", "60000.5"},
        {"cache_ms", "060000"}, {"cache_ms", "9999999999999999"},   {"reopened_ms", "x"}, {"reopened_ms", "-5"},
        {"reopened_ms", "07"},  {"reopened_ms", "9999999999999999"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redis_run("FLUSHALL");
        on_sale(1);
        redis_run("HSET " VOUCHER " reopened_ms %lld", (long long)now_ms());
        redis_run("HSET " VOUCHER " %s %s", rows[i][0], rows[i][1]);
        ck_assert_msg(place("alice") == 'p', "%s %s", rows[i][0], rows[i][1]);
    }
    redis_run("FLUSHALL");
    on_sale(1);
    redis_run("HSET " VOUCHER " cache_ms 999999999999999 reopened_ms %lld", (long long)(now_ms() - 60061));
    ck_assert_int_eq(place("alice"), 'p');
}

SUITE(.begin = scripts_start, .setup = scripts_setup, .teardown = scripts_teardown, .in_one_process = true);
