// The watch checks vouchers in both stores once a second, and starts what they need. It rebuilds a voucher that Redis
// has lost, applies an operator's change that has not arrived, sweeps a journal, and retires a sale that is over. The
// sessions divide the vouchers among them (assignment.h), so the work does not grow with the number of reactors. An
// idle voucher is checked every five seconds.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_WATCH_H
#define SK_RECOVERY_WATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "rebuild.h"
#include "sweep.h"

struct sk_watch;

// NULL: out of memory.
struct sk_watch *sk_watch_open(const struct sk_sale *sale, struct sk_rebuilds *rebuilds, struct sk_sweeper *sweeper);
void sk_watch_close(struct sk_watch *watch); // after the links were closed; NULL is fine

// A store is up (again): checks all vouchers now.
void sk_watch_hurry(struct sk_watch *watch);

// A voucher has changed: the next round comes in a moment, and checks it.
void sk_watch_soon(struct sk_watch *watch);

// The vouchers in which an order may be pending, `most` at most. First those where orders were in progress: of this
// reactor now, and of all sessions at their last checks; then the others of the catalogue. *complete: these are all, so
// asking Redis for each of them misses nothing.
size_t sk_watch_busy(const struct sk_watch *watch, struct sk_voucher **out, size_t most, bool *complete);

#endif
