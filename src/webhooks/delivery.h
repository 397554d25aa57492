// One receiver at one shard: reads the events after its cursor, posts them page by page in order, and stores the cursor
// once a page is taken. Each has a thread of its own, and blocks; it shares nothing with the others.
//
// A page that is not taken is posted again, until it is, or an operator skips it. So an event may come twice (the
// answer was lost, or the process ended before it stored the cursor), and none is left out.
#ifndef SK_WEBHOOKS_DELIVERY_H
#define SK_WEBHOOKS_DELIVERY_H

#include <stdbool.h>
#include <stdint.h>

#include "receivers.h"
#include "shards.h"
#include "status.h"

struct sk_delivery;

// What it has done since its start, and where it is.
struct sk_delivery_seen {
    uint64_t taken, refused, failed; // posts: 2xx, any other answer, no answer
    uint64_t events;                 // that were taken
    uint64_t unsent_ms;              // age of the oldest event that is still to be sent; 0: there is none
    bool stopped;                    // by 410
    bool elsewhere;                  // another process sends to this receiver
};

// The main thread, as the next three. Borrows all. NULL: it could not start, which is logged.
struct sk_delivery *sk_delivery_start(const struct sk_shards *shards, size_t shard, const struct sk_receiver *receiver);
// It begins no post any more; one that runs has some seconds. Does not wait.
void sk_delivery_stop(struct sk_delivery *delivery);
void sk_delivery_end(struct sk_delivery *delivery); // after sk_delivery_stop(): waits and frees; NULL is fine

// Any thread.
void sk_delivery_read(const struct sk_delivery *delivery, struct sk_delivery_seen *seen);

#endif
