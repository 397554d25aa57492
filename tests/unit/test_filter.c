// The filter of buyers: it never forgets one (P6 depends on it), and rarely mistakes a stranger for one.
#include <stdio.h>
#include <string.h>

#include "filter.h"
#include "hash.h"
#include "test.h"

enum { STRANGERS = 100000, NAME_SIZE = 32 };

static size_t make_name(char out[NAME_SIZE], const char *kind, size_t i)
{
    return (size_t)snprintf(out, NAME_SIZE, "%s-%zu", kind, i);
}

// Adds `added` names to a filter sized for `expected`; returns how many of 100,000 strangers it mistakes for buyers.
static int strangers_taken(size_t expected, size_t added)
{
    struct sk_filter *filter = sk_filter_new(expected);
    char name[NAME_SIZE];
    int taken = 0;
    ck_assert_ptr_nonnull(filter);
    for (size_t i = 0; i < added; i++)
        sk_filter_add(filter, name, make_name(name, "user", i));
    for (size_t i = 0; i < added; i++)
        ck_assert_msg(sk_filter_maybe(filter, name, make_name(name, "user", i)), "forgot %s of %zu", name, added);
    for (size_t i = 0; i < STRANGERS; i++)
        taken += sk_filter_maybe(filter, name, make_name(name, "stranger", i));
    sk_filter_free(filter);
    return taken;
}

TEST(buyers_are_never_forgotten_and_strangers_seldom_taken)
{
    static const size_t sizes[] = {0, 1, 64, 1000, 10000, 200000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int taken = strangers_taken(sizes[i], sizes[i]);
        ck_assert_msg(taken < STRANGERS / 100, "%d of %d with %zu buyers", taken, STRANGERS, sizes[i]);
    }
    ck_assert_int_eq(strangers_taken(1000, 0), 0);
    (void)strangers_taken(64, 20000); // more names than planned cost precision, never a buyer
    sk_filter_free(NULL);
}

TEST(names_are_bytes_with_a_length)
{
    struct sk_filter *filter = sk_filter_new(1000);
    sk_filter_add(filter, "a\0b", 3);
    sk_filter_add(filter, "", 0);
    ck_assert(sk_filter_maybe(filter, "a\0b", 3));
    ck_assert(sk_filter_maybe(filter, "", 0));
    ck_assert(!sk_filter_maybe(filter, "a\0c", 3));
    ck_assert(!sk_filter_maybe(filter, "a", 1));
    sk_filter_free(filter);
}

// Voucher ids and user ids are often sequential: the hash must still spread them.
TEST(the_hash_spreads_names_that_count_up)
{
    enum { BUCKETS = 1024, NAMES = 100 * BUCKETS };
    static int buckets[BUCKETS];
    for (int64_t id = 1; id <= NAMES; id++)
        buckets[sk_hash((const char *)&id, sizeof id) % BUCKETS]++;
    for (int i = 0; i < BUCKETS; i++)
        ck_assert_msg(buckets[i] > 40 && buckets[i] < 180, "bucket %d has %d, should have about 100", i, buckets[i]);
}

SUITE(.timeout_s = 30);
