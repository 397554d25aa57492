// Settles a voucher's whole journal under the epoch of a rebuild, so that PostgreSQL knows every order that Redis has
// granted. Entries that cannot be read, and orders that PostgreSQL refuses, become dead letters.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_REBUILD_JOURNAL_H
#define SK_RECOVERY_REBUILD_JOURNAL_H

#include "sale.h"

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

// `epoch`: as text, as PostgreSQL has returned it.
void sk_rebuild_journal_settle(struct sk_rebuild_journal *journal, const char *epoch);

// Orders settled so far.
size_t sk_rebuild_journal_settled(const struct sk_rebuild_journal *journal);

#endif
