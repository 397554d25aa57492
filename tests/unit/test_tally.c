// Counts for each key, checked against a plain list, with a table so small that places are always shared.
#include <stdint.h>

#include "draw.h"
#include "tally.h"
#include "test.h"

enum { KEYS = 16, MOST = 3, STEPS = 200000, DIFFERENT = 40 };

static struct sk_tally *tally;

static void setup(void)
{
    tally = sk_tally_open(KEYS, MOST);
    ck_assert_ptr_nonnull(tally);
}

static void teardown(void)
{
    sk_tally_close(tally);
}

TEST(so_many_of_each)
{
    for (int i = 0; i < MOST; i++)
        ck_assert(sk_tally_add(tally, 7));
    ck_assert(!sk_tally_add(tally, 7));
    ck_assert(sk_tally_add(tally, 0)); // a valid key
    sk_tally_remove(tally, 7);
    ck_assert(sk_tally_add(tally, 7));
    ck_assert(!sk_tally_add(tally, 7));
}

// A key without room is rejected; an existing key is not.
TEST(a_full_table_refuses_new_keys)
{
    for (uint64_t key = 0; key < KEYS; key++)
        ck_assert(sk_tally_add(tally, key));
    ck_assert(!sk_tally_add(tally, KEYS));
    ck_assert(sk_tally_add(tally, KEYS - 1));
    sk_tally_remove(tally, 3);
    ck_assert(sk_tally_add(tally, KEYS));
    ck_assert(!sk_tally_add(tally, 3));
}

TEST_EACH(many_at_random, 5)
{
    unsigned counts[DIFFERENT] = {0}, used = 0, refused = 0;
    draw_seed = (uint64_t)_i + 1;
    for (int step = 0; step < STEPS; step++) {
        unsigned key = (unsigned)draw(DIFFERENT);
        if (draw(2) == 0) {
            bool expected = counts[key] < MOST && (counts[key] > 0 || used < KEYS);
            ck_assert_int_eq(sk_tally_add(tally, key), expected);
            used += expected && counts[key] == 0;
            counts[key] += expected;
            refused += !expected;
        } else if (counts[key] > 0) {
            sk_tally_remove(tally, key);
            counts[key]--;
            used -= counts[key] == 0;
        }
    }
    ck_assert_uint_gt(refused, 0);
}

SUITE(.setup = setup, .teardown = teardown);
