// A journal entry of Redis some of whose orders are not settled yet: what the writer knows of it.
#ifndef SK_SALE_ENTRY_H
#define SK_SALE_ENTRY_H

#include "sale.h"

enum sk_entry_kind {
    SK_ENTRY_OWN,       // this reactor's call of place_orders.lua made it
    SK_ENTRY_RECOVERED, // read back from the journal
    SK_ENTRY_LOOSE,     // of no journal entry: a dead letter's orders
};

// An own entry is held from the answer that made it to the answer that dropped it: then what an answer of the same link
// shows of the journal in between, and is not held, is held by no reactor.
struct sk_entry {
    struct sk_entry *prev, *next; // the voucher's own entries, oldest first; others are not listed
    const struct sk_sale *sale;
    struct sk_voucher *voucher;
    enum sk_entry_kind kind;
    uint64_t run_number;       // the Redis process that has it
    size_t open;               // orders not settled
    size_t part;               // most of its orders in one batch, of it alone; 0: PostgreSQL has refused none, no limit
    struct sk_buf corrections; // what settle_entry.lua needs: units, id, user, live id, NUL after each
    size_t correction_count;
    char journal_id[SK_JOURNAL_ID_SIZE]; // LOOSE: empty
};

// The reactor's thread, as all functions. NULL: out of memory, or an id that is too long.
struct sk_entry *sk_entry_new(const struct sk_sale *sale, struct sk_voucher *voucher, enum sk_entry_kind kind,
                              const char *journal_id);

// Makes orders of a text that sk_journal_parse can read: NEW and patient, of this offer, of no entry yet. All of them
// or, out of room or memory, none (false).
bool sk_entry_read_orders(const struct sk_sale *sale, const char *orders, size_t len, int32_t offer,
                          struct sk_order_list *out);

// PostgreSQL refused one of its orders: Redis is to be corrected. `units` return; 0: PostgreSQL has none left for it.
// `live`: the user's live order as Redis keeps it (id, quantity, key), or NULL.
void sk_entry_note_refused(struct sk_entry *entry, const char *id, const char *user, unsigned units, const char *live);

// An order has ended, cancelled or the like, and its units return. It is the user's `nth` of this voucher that has.
void sk_entry_note_ended(struct sk_entry *entry, const char *id, const char *user, unsigned units, unsigned nth);

// Ends it in Redis, when all its orders are settled: corrects what was refused, drops the journal entry, and frees this
// one with the answer. What fails here is done again by recovery, which finds the entry in the journal.
void sk_entry_end(struct sk_entry *entry);

// Frees it without asking Redis: for the end of the process.
void sk_entry_forget(struct sk_entry *entry);

// Walks along the voucher's own entries in step with a reply of XRANGE, whose ids ascend. *at starts as NULL.
bool sk_entry_holds(const struct sk_sale *sale, const struct sk_voucher *voucher, const struct sk_entry **at,
                    const char *journal_id);

#endif
