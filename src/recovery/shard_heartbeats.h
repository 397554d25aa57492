// Notices a shard that was restored from an older copy. Every second one session raises each shard's heartbeat, a time
// in its database, and tells the other shards which heartbeats it has seen. If the heartbeat stands still for three
// seconds, every session does so. What was seen is committed. So a database with an older heartbeat lacks commits, and
// with them orders: it must not be used. It is closed until its owner accepts it (accept_shard()), or the right
// database is back. Closed means that its links are held, so no part of the service reads or writes there: a rebuild
// from it, or a payment in it, would be as wrong as a purchase. The link of reports carries the heartbeats, and is not
// held.
//
// One shard alone has no heartbeat: nobody else could know of it.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_SHARD_HEARTBEATS_H
#define SK_RECOVERY_SHARD_HEARTBEATS_H

#include "sale.h"

struct sk_heartbeats;

// Closes and opens the sale's shards (sale/shard.h): of several, all are closed until their heartbeats are known. NULL:
// out of memory.
struct sk_heartbeats *sk_heartbeats_open(const struct sk_sale *sale);
void sk_heartbeats_close(struct sk_heartbeats *heartbeats); // after the links were closed; NULL is fine

// A connection to the shard is being set up, and found this heartbeat: whether it may be used. It may not while a
// heartbeat is known that was raised after this one was read; the next attempt reads it again.
bool sk_heartbeats_fit(const struct sk_heartbeats *heartbeats, size_t shard, int64_t heartbeat);

// The shard was found to be an older copy, and still is.
bool sk_heartbeats_is_restored(const struct sk_heartbeats *heartbeats, size_t shard);

// A shard is back: reads its heartbeat now.
void sk_heartbeats_hurry(struct sk_heartbeats *heartbeats);

#endif
