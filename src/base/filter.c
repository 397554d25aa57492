// Eight probes per name, derived from one 64-bit hash by double hashing (Kirsch and Mitzenmacher, "Less hashing, same
// performance", 2006). A user who chooses colliding names only causes a query to Redis, so the hash needs no key.
#include "filter.h"

#include <stdint.h>
#include <stdlib.h>

#include "hash.h"

enum { PROBES = 8, BITS_PER_NAME = 12, WORD_BITS = 64, NAMES_MIN = 64, NAMES_MAX = 200000000 };

struct sk_filter {
    uint64_t mask; // number of bits less one; a power of two less one
    uint64_t words[];
};

struct sk_filter *sk_filter_new(size_t expected)
{
    if (expected > NAMES_MAX)
        return NULL; // a larger number might never end the loop below
    size_t names = expected < NAMES_MIN ? NAMES_MIN : expected, bits = WORD_BITS;
    while (bits < names * BITS_PER_NAME)
        bits *= 2;
    struct sk_filter *filter = calloc(1, sizeof *filter + bits / 8);
    if (filter != NULL)
        filter->mask = bits - 1;
    return filter;
}

void sk_filter_free(struct sk_filter *filter)
{
    free(filter);
}

void sk_filter_add(struct sk_filter *filter, const char *name, size_t len)
{
    uint64_t h = sk_hash(name, len), step = (h >> 32) | 1;
    for (int i = 0; i < PROBES; i++, h += step)
        filter->words[(h & filter->mask) / WORD_BITS] |= UINT64_C(1) << (h % WORD_BITS);
}

bool sk_filter_maybe(const struct sk_filter *filter, const char *name, size_t len)
{
    uint64_t h = sk_hash(name, len), step = (h >> 32) | 1;
    for (int i = 0; i < PROBES; i++, h += step) {
        if ((filter->words[(h & filter->mask) / WORD_BITS] & UINT64_C(1) << (h % WORD_BITS)) == 0)
            return false;
    }
    return true;
}
