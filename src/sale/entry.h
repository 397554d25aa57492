// What the writer knows of a journal entry in Redis that still has unsettled orders.
#ifndef SK_SALE_ENTRY_H
#define SK_SALE_ENTRY_H

#include "sale.h"

enum sk_entry_kind {
    SK_ENTRY_OWN,       // this reactor's call of place_orders.lua made it
    SK_ENTRY_RECOVERED, // read back from the journal
    SK_ENTRY_LOOSE,     // no journal entry: the orders of a dead letter
};

// A reactor holds an own entry from the reply that made it to the reply that dropped it, and replies on one link come
// in order. So if such a reply shows an entry of this session that is not held here, no reactor holds it.
struct sk_entry {
    struct sk_list list; // must be first: the voucher's own entries; other kinds are not listed
    const struct sk_sale *sale;
    struct sk_voucher *voucher;
    enum sk_entry_kind kind;
    uint64_t run_number;       // the Redis process that has it
    int64_t epoch;             // under which it was made
    int64_t newest_epoch;      // of the voucher, as far as it was known then
    bool ends;                 // of a return: its corrections are only for that epoch
    size_t open;               // orders not settled
    size_t part;               // most of its orders in a batch, which has no others; 0: none was refused, no limit
    struct sk_buf corrections; // what settle_entry.lua needs: units, id, user, live id, NUL after each
    size_t correction_count;
    char journal_id[SK_JOURNAL_ID_SIZE]; // empty: LOOSE, or not in the journal so far
};

// The reactor's thread, as all functions. A call of Redis that may make an entry takes it before it is sent: what Redis
// has granted must not be lost for lack of memory. `run_number`: of the Redis process that is asked, or was; a loose
// one has none. NULL: out of memory.
struct sk_entry *sk_entry_new(const struct sk_sale *sale, struct sk_voucher *voucher, enum sk_entry_kind kind,
                              uint64_t run_number);

// It is in the journal, under an id that sk_trust_is_journal_id accepts. Cannot fail.
void sk_entry_name(struct sk_entry *entry, int64_t epoch, const char *journal_id);

// Makes orders of the voucher from a text that sk_journal_parse can read: NEW and low priority, with this offer and no
// entry yet. All or, if out of room or memory, none (false).
bool sk_entry_read_orders(const struct sk_sale *sale, const struct sk_voucher *voucher, const char *orders, size_t len,
                          int32_t offer, struct sk_order_list *out);

// PostgreSQL refused one of its orders: notes the correction for Redis. `units` return; 0: PostgreSQL has none left for
// it. `live`: the user's live order as Redis stores it (id, quantity, key), or NULL.
void sk_entry_note_refused(struct sk_entry *entry, const char *id, const char *user, unsigned units, const char *live);

// An order has ended, cancelled or the like, and `units` of it return. It is the user's `nth` ended order of this
// voucher. `heirs`: who has its other units, as settle_entry.lua takes it; `came_by`: the entry that gave it its own
// unit. NULL: none.
void sk_entry_note_ended(struct sk_entry *entry, const char *id, const char *user, unsigned units, unsigned nth,
                         const char *heirs, const char *came_by);

// Before its entry was settled, PostgreSQL had refused the order (`nth` 0), or it had ended as the user's `nth`.
void sk_entry_note_over(const struct sk_order *order, unsigned nth, const char *live);

// Ends the entry in Redis once all its orders are settled: applies the corrections, drops the journal entry, and frees
// this struct with the reply. After a failure recovery finds the entry in the journal and repeats this; so it does if
// an heir could not be put in yet. Under another epoch an entry of orders that end is left to the rebuild.
void sk_entry_end(struct sk_entry *entry);

// Frees it without asking Redis: one that is not in the journal, or for the end of the process. NULL is fine.
void sk_entry_forget(struct sk_entry *entry);

// Whether the journal that the link reaches now may still have the entry under its id. Another Redis process is rebuilt
// from PostgreSQL before it sells, and so is the same one if another took its place meanwhile, which a newer epoch
// shows. Such a journal may have given the id to another entry.
bool sk_entry_is_here(const struct sk_entry *entry);

// Whether this reactor holds the entry of this id and epoch. Walks the voucher's own entries in step with a reply of
// XRANGE, whose ids ascend. *at starts as NULL.
bool sk_entry_holds(const struct sk_sale *sale, const struct sk_voucher *voucher, const struct sk_entry **at,
                    const char *journal_id, int64_t epoch);

#endif
