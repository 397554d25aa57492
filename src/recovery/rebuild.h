// Rebuilds a voucher in Redis from PostgreSQL: the first warm-up, the repair when Redis has lost data or may have, and
// the end of a sale. All are one procedure: fence, close, settle the journal; then read stock and buyers and open, or
// retire.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_REBUILD_H
#define SK_RECOVERY_REBUILD_H

#include "sale.h"

// ---- the queue ----

// Queues the vouchers to rebuild, and runs a few at a time: first those that buyers ask for.

struct sk_rebuilds;

enum sk_rebuild_why {
    SK_REBUILD_DOUBT,   // Redis may have lost it: checked once more under the lock, and left alone if it is intact
    SK_REBUILD_BEHIND,  // the same, but intact only under a newer epoch than this reactor knows
    SK_REBUILD_ORDERED, // in any case
    SK_REBUILD_RETIRE,  // its sale is over: it is settled and leaves Redis, if nothing of it is open
};

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

// ---- one rebuild ----

enum sk_rebuild_end {
    SK_REBUILD_OPENED, // or retired, or found intact
    SK_REBUILD_FAILED,
    SK_REBUILD_MISSED, // nothing was done: another holds the lock
    SK_REBUILD_KEPT,   // nothing was done: it cannot be retired yet
};

typedef void sk_rebuild_run_cb(void *arg, enum sk_rebuild_end end);

// At most one at a time for a voucher, which the caller has pinned. `done` runs only after SK_OK, later.
enum sk_status sk_rebuild_run(const struct sk_sale *sale, struct sk_voucher *voucher, enum sk_rebuild_why why,
                              sk_rebuild_run_cb *done, void *arg) SK_MUST_CHECK;

// ---- its journal ----

// Settles a voucher's whole journal under the epoch of a rebuild, so that PostgreSQL knows every order that Redis has
// granted. Entries that cannot be read, and orders that PostgreSQL refuses, become dead letters.

struct sk_rebuild_journal;

enum sk_rebuild_journal_end {
    SK_REBUILD_JOURNAL_EMPTY,    // all is settled
    SK_REBUILD_JOURNAL_FAILED,   // a store failed, or the epoch is no longer the newest
    SK_REBUILD_JOURNAL_NOT_KEPT, // a dead letter could not be written
};

// Runs once for each sk_rebuild_journal_settle, perhaps inside it.
typedef void sk_rebuild_journal_cb(void *arg, enum sk_rebuild_journal_end end);

// NULL: out of memory.
struct sk_rebuild_journal *sk_rebuild_journal_new(const struct sk_sale *sale, struct sk_voucher *voucher,
                                                  sk_rebuild_journal_cb *done, void *arg);
void sk_rebuild_journal_free(struct sk_rebuild_journal *journal); // NULL is fine

// `epoch` is borrowed until it is done.
void sk_rebuild_journal_settle(struct sk_rebuild_journal *journal, const char *epoch);

// Orders settled so far.
size_t sk_rebuild_journal_settled(const struct sk_rebuild_journal *journal);

#endif
