// What PostgreSQL says of an order that it was given: the outcomes of place_orders() and refuse_orders().
#ifndef SK_SALE_SETTLEMENT_H
#define SK_SALE_SETTLEMENT_H

#include <stddef.h>
#include <stdint.h>

#include "pg_link.h"

enum sk_settlement {
    SK_SETTLEMENT_PLACED,         // inserted now, one unit taken
    SK_SETTLEMENT_ALREADY_PLACED, // it is a live order, and was before
    SK_SETTLEMENT_ENDED,          // it ended before: the unit that Redis took for it returns
    SK_SETTLEMENT_DUPLICATE,      // refused: the user has another live order; its unit returns
    SK_SETTLEMENT_REPEATED,       // refused: its Idempotency-Key has led to another order before; its unit returns
    SK_SETTLEMENT_REUSED,         // the same, and that order is of another quantity
    SK_SETTLEMENT_GONE,           // a refund has kept its units; those that were granted after that return
    SK_SETTLEMENT_SOLD_OUT,       // refused: PostgreSQL has no unit for it, and none that could return
    SK_SETTLEMENT_STALE,          // the epoch has moved on: nothing was done
    SK_SETTLEMENT_CLASH,          // its id is another order's
};

// For *n: the row stands for all orders of the call.
#define SK_SETTLEMENT_OF_ALL SIZE_MAX

// What else a row says. Texts: NULL: none; borrowed from the rows.
struct sk_settlement_more {
    const char *live_id;  // the user's live order, if it is another one
    const char *first_id; // the order of the same Idempotency-Key
    int64_t created_ms;   // Unix ms
    const char *gone_by;  // GONE: the journal id of the refund; NULL: it is not known
    const char *live;     // the live order as Redis keeps it: its id, and behind it quantity and key
};

// Reads a row (n, outcome, live_id, first_id, created_ms, gone_by, batch, live). *n: which order of the call, from 0.
// `more` NULL: the rows do not have those columns. A word that is not known counts as a clash: such an order is never
// taken for placed.
enum sk_settlement sk_settlement_read(const struct sk_rows *rows, size_t row, size_t *n,
                                      struct sk_settlement_more *more);

#endif
