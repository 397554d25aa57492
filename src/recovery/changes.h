// Brings Redis up to date with what operators changed of a voucher: state, window, offer, added units. PostgreSQL has
// it first; this is the one way from there to Redis beside a rebuild, for the commands and for the watch, which finds
// what did not get there. The change number makes it once: Redis moves from the number that it has to the newest one in
// one step, and gets what was added between the two.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_CHANGES_H
#define SK_RECOVERY_CHANGES_H

#include "sale.h"

// Runs once, later. False: Redis is not up to date. A rebuild is under way, or needed, or a store is away; the watch
// looks after it.
typedef void sk_changes_cb(void *arg, bool ok);

// `done` runs only after SK_OK. Several at a time for one voucher do no harm.
enum sk_status sk_changes_carry_out(const struct sk_sale *sale, struct sk_voucher *voucher, sk_changes_cb *done,
                                    void *arg) SK_MUST_CHECK;

#endif
