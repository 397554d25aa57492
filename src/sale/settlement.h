// PostgreSQL's answer for an order: the outcomes of place_orders() and refuse_orders().
#ifndef SK_SALE_SETTLEMENT_H
#define SK_SALE_SETTLEMENT_H

#include <stddef.h>
#include <stdint.h>

#include "pg_result.h"

enum sk_settlement {
    SK_SETTLEMENT_PLACED,         // inserted now, its units taken
    SK_SETTLEMENT_ALREADY_PLACED, // already a live order
    SK_SETTLEMENT_ENDED,          // it ended before: the units that Redis took for it return
    SK_SETTLEMENT_DUPLICATE,      // refused: the user has another live order; its units return
    SK_SETTLEMENT_REPEATED,       // refused: its Idempotency-Key belongs to another order; its units return
    SK_SETTLEMENT_REUSED,         // the same, and that order has another quantity
    SK_SETTLEMENT_GONE,           // a refund kept its units; units granted after the refund return
    SK_SETTLEMENT_SOLD_OUT,       // refused: PostgreSQL has no units for it; none return
    SK_SETTLEMENT_STALE,          // its epoch is not the current one: nothing was done
    SK_SETTLEMENT_CLASH,          // another order has its id
};

// For *n: the row stands for all orders of the call.
#define SK_SETTLEMENT_OF_ALL SIZE_MAX

// The other columns of a row. Texts: NULL: none; borrowed from the rows.
struct sk_settlement_more {
    const char *live_id;  // the user's live order, if it is another one
    const char *first_id; // the order of the same Idempotency-Key
    int64_t created_ms;   // Unix ms
    const char *gone_by;  // GONE: the name of the refund's journal entry; NULL: it is not known
    const char *live;     // the live order as Redis stores it: id, quantity, key
    unsigned ended_nth;   // ENDED, GONE: how many of the user's orders had ended with this one; 0: it was refused
    int64_t live_voucher; // of live_id; 0: there is none
};

// Reads a row (n, outcome, live_id, first_id, created_ms, gone_by, batch, live, nth, live_voucher). *n: which order of
// the call, from 0. `more` NULL: the rows do not have those columns. An unknown word counts as a clash, so that such an
// order is never taken for placed.
enum sk_settlement sk_settlement_read(const struct sk_rows *rows, size_t row, size_t *n,
                                      struct sk_settlement_more *more);

#endif
