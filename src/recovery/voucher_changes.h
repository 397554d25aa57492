// Brings operators' changes of a voucher to Redis: state, window, offer, added units. PostgreSQL has them first.
// Besides a rebuild this is the only way from there to Redis. The commands use it, and the audit, which finds changes
// that did not arrive. The change number makes it idempotent: Redis moves from its number to the newest one in one
// step, and gets the units added between the two.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_VOUCHER_CHANGES_H
#define SK_RECOVERY_VOUCHER_CHANGES_H

#include "sale.h"

// Runs once, later. False: Redis is not up to date. A rebuild is in progress or needed, or a store is down; the audit
// checks the voucher again.
typedef void sk_changes_cb(void *arg, bool ok);

// `done` runs only after SK_OK. Concurrent calls for one voucher do no harm.
enum sk_status sk_changes_carry_out(const struct sk_sale *sale, struct sk_voucher *voucher, sk_changes_cb *done,
                                    void *arg) SK_MUST_CHECK;

#endif
