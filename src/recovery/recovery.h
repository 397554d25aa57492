// The background jobs of a reactor: they keep both stores and the catalogue right, off the order path.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_RECOVERY_H
#define SK_RECOVERY_RECOVERY_H

#include "assignment.h"
#include "beats.h"
#include "follow.h"
#include "maintenance.h"
#include "rebuild.h"
#include "returns.h"
#include "roster.h"
#include "writer.h"

struct sk_recovery {
    const struct sk_sale *sale;               // borrowed
    struct sk_follow *follows[SK_SHARDS_MAX]; // the catalogue, of each shard
    struct sk_assignments *assignments;       // which work is this session's
    struct sk_beats *beats;                   // shards that were restored
    struct sk_rebuilds *rebuilds;             // vouchers that Redis may have lost
    struct sk_regrant *regrant;               // orders rejected for an old epoch
    struct sk_sweeper *sweeper;               // entries that dead sessions left in the journals
    struct sk_watch *watch;                   // the checks once a second
    struct sk_expiry *expiry;                 // orders that are not paid in time
    struct sk_roster *roster;                 // which instances the sessions belong to
};

// SK_NO_MEM: what was opened is closed by sk_recovery_close.
enum sk_status sk_recovery_open(struct sk_recovery *recovery, const struct sk_sale *sale) SK_MUST_CHECK;
void sk_recovery_set_writer(struct sk_recovery *recovery, struct sk_writer *writer,
                            struct sk_returns *returns); // once they exist
void sk_recovery_close(struct sk_recovery *recovery);    // after the links were closed, before the writer is

// The size of a voucher's maintenance state: for the catalogue.
size_t sk_recovery_maintenance_size(void);

// sale->suspect: `recovery` is the struct sk_recovery.
void sk_recovery_suspect(void *recovery, struct sk_voucher *voucher, enum sk_doubt doubt);

// sale->orphaned: the same.
void sk_recovery_orphaned(void *recovery, struct sk_voucher *voucher);

// sale->offers_differ: the same. `offer` is the voucher's offer elsewhere. Releases the voucher (sk_batcher_release)
// when it has done what it can, perhaps before it returns. Does nothing if it is in progress for the voucher.
void sk_recovery_offers_differ(void *recovery, struct sk_voucher *voucher, int32_t offer);

// A store is up (again).
void sk_recovery_hurry(struct sk_recovery *recovery);

// A shard, by its number: something in its catalogue has changed.
void sk_recovery_follow(struct sk_recovery *recovery, size_t shard);

// ---- regrant ----

// Orders that Redis granted and PostgreSQL then rejected, because the voucher has been rebuilt since: Redis may have
// lost the grant with its data. They are granted again, under the new epoch, or end as refused if the units are gone.

struct sk_regrant;

// NULL: out of memory. The writer is set once it exists.
struct sk_regrant *sk_regrant_open(const struct sk_sale *sale, struct sk_rebuilds *rebuilds);
void sk_regrant_set_writer(struct sk_regrant *regrant, struct sk_writer *writer);
// After the links were closed, before the writer is; NULL is fine.
void sk_regrant_close(struct sk_regrant *regrant);

// Takes over an order that the writer found stale. `arg` is the sk_regrant.
void sk_regrant_add(void *arg, struct sk_order *order);

// The same for an order of a dead letter, as part of `entry`.
void sk_regrant_requeue(struct sk_regrant *regrant, struct sk_entry *entry, struct sk_order *order);

// For the end of the process; may be repeated. From now on Redis is not asked again. Orders that wait, or come back
// from a call in progress, are written as refused, GRANT_LOST. Orders of dead letters just leave: their letter keeps
// them.
void sk_regrant_give_up(struct sk_regrant *regrant);

// Adds the orders that wait here: those in no letter are kept nowhere else.
void sk_regrant_count(const struct sk_regrant *regrant, struct sk_left *left);

// Whether nothing waits to be granted again.
bool sk_regrant_idle(const struct sk_regrant *regrant);

// ---- sweep ----

// Settles the entries of a voucher's journal that no living session holds:
//   - entries of a session that is gone (a dead instance), and those that name none: under the voucher's lock "recover"
//   - orphans: entries of this reactor's own session that it does not hold. A script may run after its caller gave up.
//     Only the reactor itself can recognize them, because its session lives.
//   - entries that cannot be read become dead letters.
// Entries of other living sessions are never touched, however old they are.

struct sk_sweeper;

// NULL: out of memory. Writer and returns are set once they exist.
struct sk_sweeper *sk_sweeper_open(const struct sk_sale *sale, struct sk_rebuilds *rebuilds);
void sk_sweeper_set_writer(struct sk_sweeper *sweeper, struct sk_writer *writer, struct sk_returns *returns);
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

// ---- watch ----

// The watch checks vouchers in both stores once a second, and starts what they need. It rebuilds a voucher that Redis
// has lost, applies an operator's change that has not arrived, sweeps a journal, and retires a sale that is over. The
// sessions divide the vouchers among them (assignment.h), so the work does not grow with the number of reactors. An
// idle voucher is checked every five seconds.

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

// ---- expiry ----

// Expiry: unpaid orders end when their voucher's `pay_within_s` is over, and their units sell again.
//
// The sessions divide the vouchers among them, as in the watch, and one session at a time works on a voucher: the
// holder of its lock "expire". If that session dies, its lock ends with it, and another goes on. PostgreSQL's clock
// decides what is due, and when to check again. While its clock and Redis's differ by more than five seconds nothing
// expires: one of them is wrong, and an order that ended too soon cannot be revived.

struct sk_expiry;

// NULL: out of memory. The returns are set once they exist.
struct sk_expiry *sk_expiry_open(const struct sk_sale *sale);
void sk_expiry_set_returns(struct sk_expiry *expiry, struct sk_returns *returns);
void sk_expiry_stop(struct sk_expiry *expiry);  // runs in progress end, and none begins
void sk_expiry_close(struct sk_expiry *expiry); // after the links and the returns were closed; NULL is fine

#endif
