// Keeps the catalogue up to date: reads it in pages at start, then only what changed. Each shard has a sync of its
// own. PostgreSQL numbers the changes in commit order, so none is missed. A notification starts the next read at once;
// if none gets through, the poll of each second finds the change. The documents of vouchers, which buyers are shown
// while PostgreSQL is away, sync at a slower pace.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_CATALOGUE_SYNC_H
#define SK_RECOVERY_CATALOGUE_SYNC_H

#include "sale.h"

struct sk_catalogue_sync;

// A caller that waits for an up-to-date catalogue. The caller owns it.
struct sk_catalogue_sync_waiter {
    struct sk_catalogue_sync_waiter *next;
    // Runs once, later. `ok`: the catalogue has all that was committed before the wait began. False: PostgreSQL is
    // down.
    void (*done)(struct sk_catalogue_sync_waiter *waiter, bool ok);
};

// Reports a voucher that has changed.
typedef void sk_catalogue_sync_changed(void *arg, struct sk_voucher *voucher);

// Starts to read the vouchers of a shard. `changed` runs for each known voucher that has changed. NULL: out of memory.
struct sk_catalogue_sync *sk_catalogue_sync_open(const struct sk_sale *sale, unsigned shard,
                                                 sk_catalogue_sync_changed *changed, void *arg);
// Answers all waiters with false. After the links were closed; NULL is fine.
void sk_catalogue_sync_close(struct sk_catalogue_sync *sync);

// Whether all vouchers of the shard have been read once.
bool sk_catalogue_sync_complete(const struct sk_catalogue_sync *sync);

// The database lacks changes that were read before: it was restored from an older copy, and its owner has accepted that
// (accept_shard()); or it failed over to a standby that was behind. The catalogue is wrong, and the process must end.
bool sk_catalogue_sync_went_back(const struct sk_catalogue_sync *sync);

// The newest voucher id of the shard as of the last read; 0: none is known. An id up to it that is not in the catalogue
// is retired, or never existed.
int64_t sk_catalogue_sync_newest_id(const struct sk_catalogue_sync *sync);

// Reads now: something has changed, or PostgreSQL is back.
void sk_catalogue_sync_hurry(struct sk_catalogue_sync *sync);

// Waits for the end of a read that begins after this call: at most one each 100 ms, however many callers wait for it.
// The caller sets `waiter->done`.
void sk_catalogue_sync_wait(struct sk_catalogue_sync *sync, struct sk_catalogue_sync_waiter *waiter);

#endif
