// Keeps the catalogue up to date: read in pages at start, then only what changed. PostgreSQL numbers the changes in the
// order of their commits, so none is missed. A notification hurries the next look; where none gets through, the look of
// each second brings the change.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_FOLLOW_H
#define SK_RECOVERY_FOLLOW_H

#include "sale.h"

struct sk_follow;

// A question that waits for the catalogue to be up to date. It belongs to the one who waits.
struct sk_follow_waiter {
    struct sk_follow_waiter *next;
    // Runs once, later. `ok`: the catalogue has all that was committed before the wait began. False: PostgreSQL is
    // away.
    void (*done)(struct sk_follow_waiter *waiter, bool ok);
};

// Upkeep is to know of a voucher that has changed.
typedef void sk_follow_changed(void *arg, struct sk_voucher *voucher);

// Starts to read. NULL: out of memory.
struct sk_follow *sk_follow_open(const struct sk_sale *sale);
// All that still wait are told false. After the links were closed; NULL is fine.
void sk_follow_close(struct sk_follow *follow);

// `changed` runs for each voucher that was known before and is another now.
void sk_follow_tell(struct sk_follow *follow, sk_follow_changed *changed, void *arg);

// Whether the whole catalogue has been read once.
bool sk_follow_complete(const struct sk_follow *follow);

// The newest voucher that there was at the last look; 0: none is known. An id up to it that is not in the catalogue is
// retired, or never was.
int64_t sk_follow_newest_id(const struct sk_follow *follow);

// Looks now: something has changed, or PostgreSQL is back.
void sk_follow_hurry(struct sk_follow *follow);

// Waits for the end of a look that begins after this call: one at most each 100 ms, whatever number of questions wait
// for it. `waiter->done` is set by the caller.
void sk_follow_wait(struct sk_follow *follow, struct sk_follow_waiter *waiter);

#endif
