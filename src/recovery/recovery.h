// The background jobs of a reactor: they keep both stores and the catalogue right, off the order path.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_RECOVERY_H
#define SK_RECOVERY_RECOVERY_H

#include "assignment.h"
#include "catalogue_sync.h"
#include "instances.h"
#include "maintenance.h"
#include "rebuilds.h"
#include "returns.h"
#include "shard_heartbeats.h"
#include "writer.h"

struct sk_recovery {
    const struct sk_sale *sale;                     // borrowed
    struct sk_catalogue_sync *syncs[SK_SHARDS_MAX]; // the catalogue, of each shard
    struct sk_assignments *assignments;             // which work is this session's
    struct sk_heartbeats *heartbeats;               // shards that were restored
    struct sk_rebuilds *rebuilds;                   // vouchers that Redis may have lost
    struct sk_regrant *regrant;                     // orders rejected for an old epoch
    struct sk_sweeper *sweeper;                     // entries that dead sessions left in the journals
    struct sk_audit *audit;                         // the checks once a second
    struct sk_expiry *expiry;                       // orders that are not paid in time
    struct sk_instances *instances;                 // which instances the sessions belong to
};

// SK_NO_MEM: what was opened is closed by sk_recovery_close.
enum sk_status sk_recovery_open(struct sk_recovery *recovery, const struct sk_sale *sale) SK_MUST_CHECK;
void sk_recovery_close(struct sk_recovery *recovery); // after the links were closed, before the writer is

// sale->suspect: `recovery` is the struct sk_recovery.
void sk_recovery_suspect(void *recovery, struct sk_voucher *voucher, enum sk_doubt doubt);

// sale->orphaned: the same.
void sk_recovery_orphaned(void *recovery, struct sk_voucher *voucher);

// sale->offers_differ: the same. `offer` is the voucher's offer elsewhere. Releases the voucher (sk_batcher_release)
// when it has done what it can, perhaps before it returns. Does nothing if it is in progress for the voucher.
void sk_recovery_offers_differ(void *recovery, struct sk_voucher *voucher, int32_t offer);

// A store is up (again).
void sk_recovery_hurry(struct sk_recovery *recovery);

// A shard, by its number: something in its catalogue has changed.
void sk_recovery_follow(struct sk_recovery *recovery, size_t shard);

#endif
