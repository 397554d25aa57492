// The keys of users' tokens as the process has them: the set of the file, and how a new one reaches the reactors. They
// hold the set that they check with; one that was replaced goes when the last of them has let it go.
#ifndef SK_IDENTITY_TOKEN_RING_H
#define SK_IDENTITY_TOKEN_RING_H

#include <stdatomic.h>
#include <stdbool.h>

#include "token_keys.h"

struct sk_token_ring;

// The main thread, as sk_token_ring_close. Reads the keys from the file. `readers`: as jws.h, one for each reactor.
// NULL: the reason is logged.
struct sk_token_ring *sk_token_ring_open(const char *path, unsigned readers);
void sk_token_ring_close(struct sk_token_ring *ring); // all sets that were taken are back; NULL is fine

// One thread. Reads the file again: from now on its keys count. False: something is wrong with it, which is logged, and
// the old ones stay.
bool sk_token_ring_reload(struct sk_token_ring *ring);

// Any thread. Of which reading the set is: whether one that was taken is still that of the ring.
uint64_t sk_token_ring_version(const struct sk_token_ring *ring);

// Any thread. The caller holds the set until it gives it back.
const struct sk_token_keys *sk_token_ring_take(struct sk_token_ring *ring, uint64_t *version);
void sk_token_ring_give_back(struct sk_token_ring *ring, const struct sk_token_keys *keys);

// Any thread. Sets that are not freed: 1, and those that some reactor still holds.
size_t sk_token_ring_sets(struct sk_token_ring *ring);

#endif
