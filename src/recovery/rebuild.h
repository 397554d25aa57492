// Rebuilds a voucher in Redis from PostgreSQL: the first warm-up, the repair when Redis has lost data or may have, and
// the end of a sale. All are one procedure: fence, close, settle the journal; then read stock and buyers and open, or
// retire.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_REBUILD_H
#define SK_RECOVERY_REBUILD_H

#include "sale.h"

enum sk_rebuild_why {
    SK_REBUILD_DOUBT,   // Redis may have lost it: checked once more under the lock, and left alone if it is intact
    SK_REBUILD_BEHIND,  // the same, but intact only under a newer epoch than this reactor knows
    SK_REBUILD_ORDERED, // in any case
    SK_REBUILD_RETIRE,  // its sale is over: it is settled and leaves Redis, if nothing of it is open
};

enum sk_rebuild_end {
    SK_REBUILD_OPENED, // or retired, or found intact
    SK_REBUILD_FAILED,
    SK_REBUILD_MISSED, // nothing was done: another holds the lock
    SK_REBUILD_KEPT,   // nothing was done: it cannot be retired yet
};

typedef void sk_rebuild_run_cb(void *arg, enum sk_rebuild_end end);

// At most one at a time for a voucher, which the caller has pinned. `done` runs only after SK_OK, later.
enum sk_status sk_rebuild_run(const struct sk_sale *sale, struct sk_voucher *voucher, enum sk_rebuild_why why,
                              sk_rebuild_run_cb *done, void *arg) SK_MUST_CHECK;

#endif
