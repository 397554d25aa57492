// Settles the entries of a voucher's journal that no living session holds:
//   - entries of a session that is gone (a dead instance), and those that name none: under the voucher's lock "recover"
//   - orphans: entries of this reactor's own session that it does not hold. A script may run after its caller gave up.
//     Only the reactor itself can recognize them, because its session lives.
//   - entries that cannot be read become dead letters.
// Entries of other living sessions are never touched, however old they are.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_JOURNAL_SWEEP_H
#define SK_RECOVERY_JOURNAL_SWEEP_H

#include "rebuilds.h"

struct sk_sweeper;

// NULL: out of memory.
struct sk_sweeper *sk_sweeper_open(const struct sk_sale *sale, struct sk_rebuilds *rebuilds);
void sk_sweeper_close(struct sk_sweeper *sweeper); // after the links were closed; NULL is fine

// Begins a sweep of the voucher. It runs by itself until all is settled that can be: no caller has to wait for it. Call
// it about once a second for a voucher whose journal is not empty: each entry is read once as long as no session dies.
// SK_FULL: one is in progress, or too many of its shard are. SK_DOWN: this reactor's session is not held.
enum sk_status sk_sweep_voucher(struct sk_sweeper *sweeper, struct sk_voucher *voucher) SK_MUST_CHECK;

// The voucher may have orphans, or entries that were not dropped. From now on it is read from the start about once a
// second, for as long as a script of this reactor may still run.
void sk_sweep_orphans(struct sk_sweeper *sweeper, struct sk_voucher *voucher);

// For the writer and the returns: one recovered entry of the voucher is settled. `arg` is the sweeper.
void sk_sweep_settled(void *arg, struct sk_voucher *voucher);

#endif
