// The watch: a round a second. Looks at vouchers in both stores and starts what they need: a voucher that Redis has
// lost is rebuilt, one that an operator's change has not reached is brought up to date, a journal is swept, a sale that
// is over is retired. The living sessions share the vouchers among them, so the work does not grow with the number of
// reactors; a voucher at rest is looked at every five seconds.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_WATCH_H
#define SK_RECOVERY_WATCH_H

#include "care.h"
#include "sale.h"
#include "sweep.h"

struct sk_watch;

// NULL: out of memory.
struct sk_watch *sk_watch_open(const struct sk_sale *sale, struct sk_rebuilds *rebuilds, struct sk_sweeper *sweeper);
void sk_watch_close(struct sk_watch *watch); // after the links were closed; NULL is fine

// A store has come (back): looks at all vouchers now.
void sk_watch_hurry(struct sk_watch *watch);

// A voucher has changed: the next round comes in a moment, and looks at it.
void sk_watch_soon(struct sk_watch *watch);

// The vouchers in which an order may be pending, `most` at most. First those where orders were under way: of this
// reactor now, and of all sessions at their last looks; then the others of the catalogue. *complete: these are all, so
// who asks Redis for each of them misses nothing.
size_t sk_watch_busy(const struct sk_watch *watch, struct sk_voucher **out, size_t most, bool *complete);

#endif
