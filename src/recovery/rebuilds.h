// Queues the vouchers to rebuild, and runs a few at a time: first those that buyers ask for.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_REBUILDS_H
#define SK_RECOVERY_REBUILDS_H

#include "rebuild.h"

struct sk_rebuilds;

// Runs once, later. `ok` is false when the voucher was not opened (or retired): a store failed, or another instance
// rebuilds it.
typedef void sk_rebuild_cb(void *arg, bool ok);

// NULL: out of memory.
struct sk_rebuilds *sk_rebuilds_open(const struct sk_sale *sale);
void sk_rebuilds_close(struct sk_rebuilds *rebuilds); // after the links were closed; NULL is fine

// SK_FULL while this reactor rebuilds it, or a moment after that failed: retry later. A call with `done`, which runs
// only after SK_OK, goes before those without.
enum sk_status sk_rebuild(struct sk_rebuilds *rebuilds, struct sk_voucher *voucher, enum sk_rebuild_why why,
                          sk_rebuild_cb *done, void *arg) SK_MUST_CHECK;

// The same in doubt, for buyers that wait. May be called repeatedly.
void sk_rebuild_soon(struct sk_rebuilds *rebuilds, struct sk_voucher *voucher, enum sk_doubt doubt);

#endif
