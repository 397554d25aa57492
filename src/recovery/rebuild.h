// Rebuilds a voucher in Redis from PostgreSQL: the first warm-up, the repair when Redis has lost data or may have, and
// the end of a sale. All are one procedure: fence, close, settle the journal; then read stock and buyers and open, or
// retire.
#ifndef SK_RECOVERY_REBUILD_H
#define SK_RECOVERY_REBUILD_H

#include "maintenance.h"
#include "sale.h"

enum sk_rebuild_end {
    SK_REBUILD_OPENED, // or retired, or found intact
    SK_REBUILD_FAILED,
    SK_REBUILD_MISSED, // nothing was done: another holds the lock
    SK_REBUILD_KEPT,   // nothing was done: it cannot be retired yet
};

typedef void sk_rebuild_run_cb(void *arg, enum sk_rebuild_end end);

// The reactor's thread. At most one at a time for a voucher, which the caller has pinned: see rebuilds.h. `done` runs
// only after SK_OK, later.
enum sk_status sk_rebuild_run(const struct sk_sale *sale, struct sk_voucher *voucher, enum sk_rebuild_why why,
                              sk_rebuild_run_cb *done, void *arg) SK_MUST_CHECK;

#endif
