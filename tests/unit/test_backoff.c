// Back-off: every wait is within its bounds, the spans double up to the maximum, and waits differ.
#include "backoff.h"
#include "test.h"

static const struct sk_backoff kinds[] = {
    {.first_ms = 50, .most_ms = 2000},     // a store's connection
    {.first_ms = 20, .most_ms = 2000},     // PostgreSQL's failures
    {.first_ms = 10, .most_ms = 250},      // a user's lock
    {.first_ms = 4, .most_ms = 100},       // waiting for a lock
    {.first_ms = 1000, .most_ms = 1000},   // recovery's jitter
    {.first_ms = 1, .most_ms = UINT32_MAX} // never overflows
};

TEST(waits_stay_between_half_a_span_and_all_of_it)
{
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        for (int round = 0; round < 200; round++) {
            struct sk_backoff backoff = kinds[k];
            uint64_t span = backoff.first_ms;
            for (int i = 0; i < 40; i++) {
                uint32_t wait = sk_backoff_next(&backoff);
                ck_assert_uint_ge(wait, span / 2);
                ck_assert_uint_le(wait, span);
                ck_assert_uint_le(wait, backoff.most_ms);
                span = span * 2 < backoff.most_ms ? span * 2 : backoff.most_ms;
            }
        }
    }
}

TEST(a_success_resets_it)
{
    struct sk_backoff backoff = {.first_ms = 10, .most_ms = 1000};
    for (int i = 0; i < 10; i++)
        (void)sk_backoff_next(&backoff);
    ck_assert_uint_ge(sk_backoff_next(&backoff), 500);
    sk_backoff_reset(&backoff);
    ck_assert_uint_le(sk_backoff_next(&backoff), 10);
}

TEST(waits_are_spread_over_their_range)
{
    struct sk_backoff backoff = {.first_ms = 1000, .most_ms = 1000};
    int quarters[4] = {0};
    for (int i = 0; i < 4000; i++)
        quarters[(sk_backoff_next(&backoff) - 500) * 4 / 501]++;
    for (int i = 0; i < 4; i++)
        ck_assert_msg(quarters[i] > 800, "quarter %d got %d of 4000", i, quarters[i]);
}

// Clients that failed together must not retry together. A seed is followed, as in the simulation.
TEST(two_of_a_kind_wait_differently)
{
    struct sk_backoff one = {.first_ms = 1000000, .most_ms = 1000000}, other = one, seeded = one, alike;
    int same = 0;
    seeded.random = 42;
    alike = seeded;
    for (int i = 0; i < 100; i++) {
        same += sk_backoff_next(&one) == sk_backoff_next(&other);
        ck_assert_uint_eq(sk_backoff_next(&seeded), sk_backoff_next(&alike));
    }
    ck_assert_int_lt(same, 5);
}
