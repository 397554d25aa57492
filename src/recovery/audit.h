// The audit checks vouchers in both stores once a second, and starts what they need. It rebuilds a voucher that Redis
// has lost, applies an operator's change that has not arrived, sweeps a journal, and retires a sale that is over. The
// sessions divide the vouchers among them (assignment.h), so the work does not grow with the number of reactors. An
// idle voucher is checked every five seconds.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_AUDIT_H
#define SK_RECOVERY_AUDIT_H

#include <stdbool.h>
#include <stddef.h>

#include "journal_sweep.h"
#include "rebuilds.h"

struct sk_audit;

// NULL: out of memory.
struct sk_audit *sk_audit_open(const struct sk_sale *sale, struct sk_rebuilds *rebuilds, struct sk_sweeper *sweeper);
void sk_audit_close(struct sk_audit *audit); // after the links were closed; NULL is fine

// A store is up (again): checks all vouchers now.
void sk_audit_hurry(struct sk_audit *audit);

// A voucher has changed: the next round comes in a moment, and checks it.
void sk_audit_soon(struct sk_audit *audit);

// The vouchers in which an order may be pending, `most` at most. First those where orders were in progress: of this
// reactor now, and of all sessions at their last checks; then the others of the catalogue. *complete: these are all, so
// asking Redis for each of them misses nothing.
size_t sk_audit_busy(const struct sk_audit *audit, struct sk_voucher **out, size_t most, bool *complete);

#endif
