// Rebuilds a voucher in Redis from PostgreSQL: the first warm-up, and the repair when Redis has lost data, or
// may have. Both are one procedure: fence, close, settle the journal, read stock and buyers, open.
#ifndef SK_SALE_RECONCILE_H
#define SK_SALE_RECONCILE_H

#include "care.h"
#include "core.h"

// Runs once, later. `ok` is false when the voucher was not opened: a store failed, or another is at it.
typedef void sk_rebuild_cb(void *arg, bool ok);

// The reactor's thread. SK_FULL while this reactor is at it, or a moment after it failed: ask again later.
// `done` runs only after SK_OK, and may be NULL.
enum sk_status sk_rebuild(const struct sk_core *core, struct sk_segment *segment, sk_rebuild_cb *done,
                          void *arg) SK_MUST_CHECK;

#endif
