// Loads a voucher from PostgreSQL into Redis: the first warm-up, and the rebuild when Redis has lost it.
// Both are one procedure: fence, close, read stock and buyers, open.
#ifndef SK_SALE_LOAD_H
#define SK_SALE_LOAD_H

#include "core.h"

// Runs once, later. `ok` is false when the voucher is not open: a store failed, or another instance took
// the loading over.
typedef void sk_load_cb(void *arg, bool ok);

// The reactor's thread. At most one loading of a voucher runs on a reactor: SK_FULL then. `done` runs
// only after SK_OK, and may be NULL.
enum sk_status sk_load(const struct sk_core *core, struct sk_voucher *voucher, sk_load_cb *done,
                       void *arg) SK_MUST_CHECK;

#endif
