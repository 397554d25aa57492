// Rates: a burst of one second's worth, then one at a time; with a full table; and with threads.
#include <stdio.h>
#include <string.h>

#include "rates.h"
#include "siphash.h"
#include "test.h"
#include "threads.h"

enum { PLACES = 1 << 16, SMALL = 256, TRIES = 20000, RATE = 5000 };

#define SECOND UINT64_C(1000000000)
#define START  (5 * SECOND)

static struct sk_rates *rates;
static uint64_t left;

static void open_rates(uint64_t per_s, size_t places)
{
    rates = sk_rates_open(per_s, places);
    ck_assert_ptr_nonnull(rates);
}

static void teardown(void)
{
    sk_rates_close(rates);
    rates = NULL;
}

static bool may(const char *client, uint64_t now_ns)
{
    return sk_rates_take(rates, client, strlen(client), now_ns, &left);
}

// The reference's own test vectors: key 00 01 .. 0f, messages 00 01 02 .. of these lengths.
TEST(the_hash_is_siphash)
{
    static const struct sk_siphash_key reference = {{UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)}};
    static const unsigned char message[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    struct sk_siphash_key one, other;
    ck_assert_uint_eq(sk_siphash(&reference, message, 0), UINT64_C(0x726fdb47dd0e0e31));
    ck_assert_uint_eq(sk_siphash(&reference, message, 1), UINT64_C(0x74f839c593dc67fd));
    ck_assert_uint_eq(sk_siphash(&reference, message, 8), UINT64_C(0x93f5f5799a932462));
    ck_assert_uint_eq(sk_siphash(&reference, message, 15), UINT64_C(0xa129ca6149be45e5));
    ck_assert_int_eq(sk_siphash_new_key(&one), SK_OK);
    ck_assert_int_eq(sk_siphash_new_key(&other), SK_OK);
    ck_assert_mem_ne(&one, &other, sizeof one);
}

TEST(a_seconds_worth_may_come_at_once_and_no_more)
{
    static const uint64_t values[] = {1, 2, 3, 7, 10, 100, 999, 1000, 100000};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        uint64_t per_s = values[i];
        open_rates(per_s, SMALL);
        for (uint64_t n = per_s; n > 0; n--) {
            ck_assert_uint_eq(sk_rates_left(rates, "alice", 5, START), n); // which is no try
            ck_assert_msg(may("alice", START), "%d of %d", (int)(per_s - n), (int)per_s);
            ck_assert_uint_eq(left, n - 1);
        }
        ck_assert(!may("alice", START));
        ck_assert_uint_eq(left, 0);
        ck_assert_uint_eq(sk_rates_left(rates, "alice", 5, START), 0);
        ck_assert_uint_eq(sk_rates_left(rates, "bob", 3, START), per_s);
        ck_assert_uint_eq(sk_rates_left(rates, "alice", 5, START + SECOND / per_s), 1);
        ck_assert_uint_eq(sk_rates_left(rates, "alice", 5, START + 10 * SECOND), per_s);
        ck_assert(!may("alice", START + SECOND / per_s - SECOND / per_s / 10 - 1)); // a rejected try costs nothing,
        ck_assert(may("alice", START + SECOND / per_s));                            // so the next one is free by then
        ck_assert(!may("alice", START + SECOND / per_s));
        ck_assert(may("bob", START)); // only alice is limited
        ck_assert(may("alice", START + 10 * SECOND));
        ck_assert_uint_eq(left, per_s - 1); // unused tries do not accumulate
        teardown();
    }
}

TEST(over_a_long_time_it_is_the_rate)
{
    enum { SLOW = 50, SECONDS = 20 };
    int passed = 0;
    open_rates(SLOW, SMALL);
    for (uint64_t now = START; now < START + SECONDS * SECOND; now += SECOND / 1000)
        passed += may("alice", now);
    ck_assert_int_ge(passed, SLOW * SECONDS);
    ck_assert_int_le(passed, SLOW * (SECONDS + 1));
}

// Reactors read the clock at different moments.
TEST(a_clock_that_is_a_little_behind_does_no_harm)
{
    open_rates(3, SMALL);
    ck_assert(may("alice", START + 1000000));
    ck_assert(may("alice", START));
    ck_assert(!may("alice", START - 1000000));
    ck_assert(may("alice", START + SECOND));
}

TEST(a_crowd_larger_than_the_table_is_not_refused)
{
    char user[16];
    open_rates(1, SMALL);
    for (int i = 0; i < 100 * SMALL; i++) {
        (void)snprintf(user, sizeof user, "user-%d", i);
        ck_assert_msg(may(user, START), "%s", user);
    }
}

// The least used entries are evicted first, so a client at its limit stays there during a flood of others.
TEST(a_crowd_does_not_wash_away_who_is_at_the_limit)
{
    char user[16];
    uint64_t passed = 0;
    open_rates(100, SMALL);
    for (int i = 0; i < 100; i++)
        ck_assert(may("mallory", START));
    for (int i = 0; i < 100 * SMALL; i++) {
        (void)snprintf(user, sizeof user, "user-%d", i);
        ck_assert(may(user, START));
        passed += may("mallory", START);
    }
    ck_assert_uint_eq(passed, 0);
}

TEST(names_are_bytes_with_a_length)
{
    open_rates(1, SMALL);
    ck_assert(sk_rates_take(rates, "a\0b", 3, START, &left));
    ck_assert(sk_rates_take(rates, "a\0c", 3, START, &left));
    ck_assert(sk_rates_take(rates, "a", 1, START, &left));
    ck_assert(sk_rates_take(rates, "", 0, START, &left));
    ck_assert(!sk_rates_take(rates, "a\0b", 3, START, &left));
}

// ---- threads ----

static uint64_t try_often(void)
{
    uint64_t passed = 0, mine;
    for (int i = 0; i < TRIES; i++)
        passed += sk_rates_take(rates, "alice", 5, START, &mine);
    return passed;
}

static struct sk_rate all;

static uint64_t take_often(void)
{
    uint64_t passed = 0;
    for (int i = 0; i < TRIES; i++)
        passed += sk_rate_take(&all, START);
    return passed;
}

TEST(threads_share_a_rate)
{
    open_rates(RATE, PLACES);
    ck_assert_uint_eq(count_in_threads(try_often), RATE);
    sk_rate_begin(&all, RATE);
    ck_assert_uint_eq(count_in_threads(take_often), RATE);
    ck_assert(sk_rate_take(&all, START + SECOND / RATE));
    ck_assert(!sk_rate_take(&all, START + SECOND / RATE));
    sk_rate_begin(&all, 0); // no limit
    ck_assert(sk_rate_take(&all, START + 10 * SECOND));
    ck_assert_uint_eq(count_in_threads(take_often), THREADS * TRIES);
}

SUITE(.timeout_s = 30, .teardown = teardown);
