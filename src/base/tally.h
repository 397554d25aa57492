// A table of counts by key, exact and of a fixed size.
#ifndef SK_BASE_TALLY_H
#define SK_BASE_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sk_tally;

// Counts at most `keys` different keys at a time, each up to `most`. NULL: out of memory, or the kernel gives no random
// numbers.
struct sk_tally *sk_tally_open(size_t keys, uint64_t most);
void sk_tally_close(struct sk_tally *tally); // NULL is fine

// Any thread, as both functions. Counts one more. False, and nothing is counted: `most` or `keys` is reached.
bool sk_tally_add(struct sk_tally *tally, uint64_t key);
// Takes one off a key's count.
void sk_tally_remove(struct sk_tally *tally, uint64_t key);

#endif
