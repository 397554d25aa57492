// What the general lock has and the service's has not: reported loss, waiting and waking, owners that share their own
// locks, numbers.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stack.h"
#include "stores.h"
#include "test.h"
#include "views.h"

// ---- loss ----

TEST(a_removed_key_is_reported_once_and_the_others_stay)
{
    static const char *const keys[] = {"key-0", "key-1", "key-2"};
    struct party *party = open_party(KEPT_TTL_MS);
    struct view view;
    take_all(party, &view, 3, keys);
    redis_run("DEL key-1");
    RUN_UNTIL(view.lost > 0);
    ck_assert_uint_eq(view.lost_key, 1);
    ck_assert_int_eq(general_lock_state(view.lock, 0), GENERAL_LOCK_HELD);
    ck_assert_int_eq(general_lock_state(view.lock, 1), GENERAL_LOCK_LOST);
    ck_assert_int_eq(general_lock_state(view.lock, 2), GENERAL_LOCK_HELD);
    uint64_t later_ms = sk_monotonic_ms() + 3 * KEPT_TTL_MS / 2;
    RUN_UNTIL(sk_monotonic_ms() >= later_ms);
    ck_assert_int_eq(view.lost, 1);
    ck_assert(exists("key-0") && !exists("key-1") && exists("key-2"));
    release(party, &view);
    ck_assert_int_eq(redis_number("DBSIZE"), 0);
    party_close(party);
}

TEST(a_stolen_key_is_reported_and_left_to_the_thief)
{
    struct party *party = open_party(SHORT_TTL_MS);
    struct view view;
    ck_assert_int_eq(take(party, &view, "key", 0), GENERAL_LOCK_HELD);
    redis_run("SET key thief");
    RUN_UNTIL(view.lost == 1);
    must_hold("key", "thief");
    ck_assert_int_eq(redis_number("PTTL key"), -1); // not even its TTL was touched
    release(party, &view);
    must_hold("key", "thief");
    party_close(party);
}

// The owner's own clock shows it that a TTL has passed.
TEST(a_silent_redis_counts_as_loss_after_the_ttl)
{
    struct party *party = open_party(SHORT_TTL_MS);
    struct view view;
    ck_assert_int_eq(take(party, &view, "key", 0), GENERAL_LOCK_HELD);
    redis_pause();
    RUN_UNTIL(view.lost == 1);
    ck_assert_int_eq(general_lock_state(view.lock, 0), GENERAL_LOCK_LOST);
    ck_assert(sk_redis_ready(party_redis(party))); // the link still waits for the renewal's reply
    redis_resume();
    release(party, &view);
    ck_assert_int_eq(view.lost, 1);
    party_close(party);
}

TEST(a_holder_may_release_while_it_is_told_of_a_loss)
{
    static const char *const keys[] = {"key-0", "key-1", "key-2"};
    struct party *party = open_party(SHORT_TTL_MS);
    struct view view;
    // Redis reports that one key is gone; the others are released.
    take_all(party, &view, 3, keys);
    view.release_when_lost = true;
    redis_run("DEL key-0");
    RUN_UNTIL(view.lost > 0);
    party_settle(party);
    ck_assert_int_eq(redis_number("DBSIZE"), 0);
    ck_assert_int_eq(view.lost, 1); // a released lock reports nothing
    // The TTL passed while the holder was paused.
    take_all(party, &view, 3, keys);
    view.release_when_lost = true;
    party->paused = true;
    WAIT_FOR(redis_number("DBSIZE") == 0);
    party->paused = false;
    RUN_UNTIL(view.lost > 0);
    party_settle(party);
    ck_assert_int_eq(view.lost, 1);
    party_close(party);
}

// ---- trying and waiting ----

TEST(trying_asks_once_and_says_busy_at_once)
{
    struct party *party = open_party(LONG_TTL_MS);
    struct view view;
    redis_run("SET key other");
    redis_run("CONFIG RESETSTAT");
    ck_assert_int_eq(take(party, &view, "key", 0), GENERAL_LOCK_BUSY);
    party_settle(party);
    ck_assert_int_eq(redis_calls_of("set"), 1);
    release(party, &view);
    must_hold("key", "other");
    party_close(party);
}

TEST(waiting_gets_the_lock_when_it_is_freed)
{
    struct party *holder = open_party(LONG_TTL_MS);
    struct party *waiter = open_party(LONG_TTL_MS);
    struct view held, waiting = {0};
    ck_assert_int_eq(take(holder, &held, "key", 0), GENERAL_LOCK_HELD);
    ask(waiter, &waiting, "key", PARTY_DEADLINE_MS);
    RUN_UNTIL(redis_calls_of("set") >= 4); // it was refused, and retries
    ck_assert_int_eq(waiting.taken, 0);
    release(holder, &held);
    RUN_UNTIL(waiting.taken == 1);
    ck_assert_int_eq(general_lock_state(waiting.lock, 0), GENERAL_LOCK_HELD);
    release(waiter, &waiting);
    party_close(holder);
    party_close(waiter);
}

// A wait of 600 ms has room for 10 to 18 requests: spans of 4, 8, 16, 32, 64 and then 100 ms, of which it waits half to
// all. Without back-off there would be more than a hundred.
TEST(waiting_backs_off_and_gives_up_at_its_bound)
{
    enum { WAIT_MS = 600 };
    struct party *party = open_party(LONG_TTL_MS);
    struct view view;
    redis_run("SET key other");
    redis_run("CONFIG RESETSTAT");
    uint64_t since_ms = sk_monotonic_ms();
    ck_assert_int_eq(take(party, &view, "key", WAIT_MS), GENERAL_LOCK_BUSY);
    ck_assert_uint_ge(view.taken_at_ms - since_ms, WAIT_MS - CLOCK_GRAIN_MS);
    ck_assert_int_ge(redis_calls_of("set"), 3);
    ck_assert_int_le(redis_calls_of("set"), 20);
    release(party, &view);
    must_hold("key", "other");
    party_close(party);
}

TEST(what_is_held_stays_held_while_the_rest_is_waited_for)
{
    static const char *const keys[] = {"mine", "busy"};
    struct party *party = open_party(KEPT_TTL_MS);
    struct view view = {0};
    char value[VALUE_SIZE] = "", now[VALUE_SIZE];
    redis_run("SET busy other");
    ask_many(party, &view, 2, keys, 2 * KEPT_TTL_MS);
    RUN_UNTIL(redis_text(value, sizeof value, "GET mine"));
    RUN_UNTIL(view.taken > 0 || !redis_text(now, sizeof now, "GET mine") || strcmp(now, value) != 0);
    ck_assert_int_eq(view.taken, 1);
    ck_assert_int_eq(general_lock_state(view.lock, 0), GENERAL_LOCK_HELD);
    ck_assert_int_eq(general_lock_state(view.lock, 1), GENERAL_LOCK_BUSY);
    must_hold("mine", value);
    release(party, &view);
    ck_assert(!exists("mine"));
    must_hold("busy", "other");
    party_close(party);
}

// The pauses between two requests may be longer than such a TTL.
TEST(waiting_outlasts_a_ttl_shorter_than_its_pauses)
{
    struct party *party = open_party(40);
    struct view view = {0};
    redis_run("SET key other");
    ask(party, &view, "key", PARTY_DEADLINE_MS);
    RUN_UNTIL(redis_calls_of("set") >= 12); // past the short pauses at the beginning
    redis_run("DEL key");
    RUN_UNTIL(view.taken == 1);
    ck_assert_int_eq(general_lock_state(view.lock, 0), GENERAL_LOCK_HELD);
    release(party, &view);
    party_close(party);
}

TEST(waiting_ends_also_when_what_was_held_is_lost_meanwhile)
{
    static const char *const keys[] = {"mine", "busy"};
    struct party *party = open_party(KEPT_TTL_MS);
    struct view view = {0};
    redis_run("SET busy other");
    ask_many(party, &view, 2, keys, PARTY_DEADLINE_MS);
    RUN_UNTIL(exists("mine") && redis_calls_of("set") >= 5);
    party->paused = true;
    WAIT_FOR(!exists("mine"));
    party->paused = false;
    redis_run("DEL busy");
    RUN_UNTIL(view.taken == 1);
    ck_assert_int_eq(general_lock_state(view.lock, 0), GENERAL_LOCK_LOST);
    ck_assert_int_eq(general_lock_state(view.lock, 1), GENERAL_LOCK_HELD);
    // Keys granted later have a TTL of their own.
    uint64_t later_ms = sk_monotonic_ms() + 3 * KEPT_TTL_MS / 2;
    RUN_UNTIL(sk_monotonic_ms() >= later_ms);
    ck_assert_int_eq(general_lock_state(view.lock, 1), GENERAL_LOCK_HELD);
    ck_assert(exists("busy") && !exists("mine"));
    release(party, &view);
    ck_assert_int_eq(redis_number("DBSIZE"), 0);
    party_close(party);
}

TEST(a_lock_released_while_it_is_being_taken_is_given_back)
{
    static const char *const keys[] = {"key-0", "busy"};
    struct party *party = open_party(LONG_TTL_MS);
    struct view view = {0};
    redis_run("SET busy other");
    ask_many(party, &view, 2, keys, PARTY_DEADLINE_MS);
    release(party, &view); // before the first answer
    RUN_UNTIL(!exists("key-0"));
    ck_assert_int_eq(view.taken, 0);

    ask_many(party, &view, 2, keys, PARTY_DEADLINE_MS);
    RUN_UNTIL(exists("key-0"));
    release(party, &view); // while it waits for the other key
    RUN_UNTIL(!exists("key-0"));
    ck_assert_int_eq(view.taken, 0);
    must_hold("busy", "other");

    view.lock = NULL;
    view.release_when_taken = true; // inside the event
    ask(party, &view, "key-0", 0);
    RUN_UNTIL(view.taken == 1);
    RUN_UNTIL(!exists("key-0"));
    general_lock_release(NULL);
    party_close(party);
}

// ---- holders, numbers, waking ----

static enum general_lock_state take_as(struct party *party, struct view *view, const char *key, const char *holder)
{
    const struct general_lock_options options = {.owner = holder, .numbered = true};
    *view = (struct view){0};
    ask_with(party, view, 1, &key, &options);
    RUN_UNTIL(view->taken > 0);
    return general_lock_state(view->lock, 0);
}

TEST(a_holder_enters_what_it_has)
{
    struct party *party = open_party(KEPT_TTL_MS), *other = open_party(KEPT_TTL_MS);
    struct view first, second, third, stranger, unnamed, namesake;
    ck_assert_int_eq(take_as(party, &first, "key", "holder"), GENERAL_LOCK_HELD);
    ck_assert_int_eq(take_as(party, &second, "key", "holder"), GENERAL_LOCK_HELD);
    ck_assert_int_eq(take_as(party, &third, "key", "holder"), GENERAL_LOCK_HELD);
    ck_assert_uint_eq(general_lock_number(second.lock, 0), general_lock_number(first.lock, 0));
    ck_assert_int_eq(take_as(party, &stranger, "key", "another"), GENERAL_LOCK_BUSY);
    ck_assert_int_eq(take(party, &unnamed, "key", 0), GENERAL_LOCK_BUSY);
    ck_assert_int_eq(take_as(other, &namesake, "key", "holder"),
                     GENERAL_LOCK_BUSY); // in another process it is another owner

    release(party, &first); // in any order
    ck_assert(exists("key"));
    release(party, &third);
    ck_assert(exists("key"));
    ck_assert_int_eq(general_lock_state(second.lock, 0), GENERAL_LOCK_HELD);
    general_lock_release(stranger.lock);
    general_lock_release(unnamed.lock);
    general_lock_release(namesake.lock);
    party_settle(other);
    party_settle(party);
    ck_assert(exists("key"));
    release(party, &second);
    ck_assert(!exists("key"));
    party_close(party);
    party_close(other);
}

TEST(all_who_have_entered_are_told_of_the_loss)
{
    struct party *party = open_party(SHORT_TTL_MS);
    struct view first, second;
    ck_assert_int_eq(take_as(party, &first, "key", "holder"), GENERAL_LOCK_HELD);
    ck_assert_int_eq(take_as(party, &second, "key", "holder"), GENERAL_LOCK_HELD);
    redis_run("SET key thief");
    RUN_UNTIL(first.lost == 1 && second.lost == 1);
    release(party, &first);
    release(party, &second);
    must_hold("key", "thief");
    party_close(party);
}

TEST(each_taking_has_a_greater_number)
{
    struct party *party = open_party(KEPT_TTL_MS), *other = open_party(KEPT_TTL_MS);
    struct view view;
    uint64_t last = 0;
    for (int i = 0; i < 6; i++) {
        struct party *one = i % 2 == 0 ? party : other;
        ck_assert_int_eq(take_as(one, &view, "key", NULL), GENERAL_LOCK_HELD);
        ck_assert_uint_gt(general_lock_number(view.lock, 0), last);
        last = general_lock_number(view.lock, 0);
        release(one, &view);
        if (i == 2)
            redis_run("FLUSHALL"); // also when Redis has lost its data
        if (i == 3)
            redis_run("SET key:number %s", "8000000000000000"); // and when its clock was set back
        if (i == 3)
            last = UINT64_C(8000000000000000);
    }
    ck_assert_int_eq(take(party, &view, "plain", 0), GENERAL_LOCK_HELD);
    ck_assert_uint_eq(general_lock_number(view.lock, 0), 0);
    release(party, &view);
    party_close(party);
    party_close(other);
}

TEST(numbering_costs_four_commands_and_a_key_that_stays)
{
    struct party *party = open_party(LONG_TTL_MS);
    struct view view;
    ck_assert_int_eq(take_as(party, &view, "key", NULL), GENERAL_LOCK_HELD);
    ck_assert_int_eq(redis_calls_of("eval"), 1);
    ck_assert_int_eq(redis_calls_of("set") + redis_calls_of("time") + redis_calls_of("get"), 4);
    release(party, &view);
    ck_assert_int_eq(redis_number("DBSIZE"), 1);
    ck_assert_int_eq(redis_number("PTTL key:number"), -1);
    party_close(party);
}

// Within a process no waiter waits for the rest of its back-off.
TEST(a_release_wakes_who_waits)
{
    struct party *party = open_party(LONG_TTL_MS);
    struct view held, waiting = {0}, elsewhere = {0};
    redis_run("SET busy other");
    ck_assert_int_eq(take(party, &held, "key", 0), GENERAL_LOCK_HELD);
    ask(party, &waiting, "key", PARTY_DEADLINE_MS);
    ask(party, &elsewhere, "busy", PARTY_DEADLINE_MS);
    RUN_UNTIL(general_lock_state(waiting.lock, 0) == GENERAL_LOCK_BUSY &&
              general_lock_state(elsewhere.lock, 0) == GENERAL_LOCK_BUSY);
    general_lock_release(held.lock);
    ck_assert_int_eq(general_lock_state(waiting.lock, 0), GENERAL_LOCK_ASKED);
    ck_assert_int_eq(general_lock_state(elsewhere.lock, 0), GENERAL_LOCK_BUSY);
    RUN_UNTIL(waiting.taken == 1);
    ck_assert_int_eq(general_lock_state(waiting.lock, 0), GENERAL_LOCK_HELD);
    release(party, &waiting);
    general_lock_release(elsewhere.lock);
    party_close(party);
}

SUITE(.begin = views_start, .setup = views_setup, .teardown = views_teardown, .in_one_process = true);
