// Notices a shard that was restored from an older copy. Every second one session raises each shard's beat, a time in
// its database, and tells the other shards which beats it has seen. If the beat stands still for three seconds, every
// session does so. What was seen is committed. So a database with an older beat lacks commits, and with them orders: it
// must not be used. It is closed until its owner accepts it (accept_shard()), or the right database is back. Closed
// means that its links are held, so no part of the service reads or writes there: a rebuild from it, or a payment in
// it, would be as wrong as a purchase. The link of reports carries the beats, and is not held.
//
// One shard alone has no beat: nobody else could know of it.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_BEATS_H
#define SK_RECOVERY_BEATS_H

#include "sale.h"

struct sk_beats;

// Closes and opens the sale's shards (sale/shard.h): of several, all are closed until their beats are known. NULL: out
// of memory.
struct sk_beats *sk_beats_open(const struct sk_sale *sale);
void sk_beats_close(struct sk_beats *beats); // after the links were closed; NULL is fine

// A connection to the shard is being set up, and found this beat: whether it may be used. It may not while a beat is
// known that was raised after this one was read; the next attempt reads it again.
bool sk_beats_fit(const struct sk_beats *beats, size_t shard, int64_t beat);

// The shard was found to be an older copy, and still is.
bool sk_beats_is_restored(const struct sk_beats *beats, size_t shard);

// A shard is back: reads its beat now.
void sk_beats_hurry(struct sk_beats *beats);

#endif
