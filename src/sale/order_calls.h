// The calls of PostgreSQL's functions that write orders: place_orders() and return_orders() for one voucher,
// place_batches() and return_batches() for several. The writer, the returns and a rebuild make them.
//
// The reactor's thread, as all functions. All strings are borrowed until the call returns. A function that sends
// returns anything but SK_OK if `done` does not run.
#ifndef SK_SALE_ORDER_CALLS_H
#define SK_SALE_ORDER_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "journal.h"
#include "pg_link.h"
#include "voucher.h"

// One voucher's part of a call.
struct sk_call_part {
    const struct sk_voucher *voucher;
    int64_t epoch;
    size_t count;           // of its orders
    int32_t offer;          // of orders that are placed
    const char *journal_id; // of orders that are placed, the newest entry; of others, theirs. NULL: none
};

// ---- orders that are placed ----

// Zeroed: empty.
struct sk_place_call {
    struct sk_buf ids, users, quantities, keys; // arrays; owned
    bool plain;                                 // all orders are of one unit and without an Idempotency-Key
    size_t n;                                   // orders
};

void sk_place_call_begin(struct sk_place_call *call);
void sk_place_call_add(struct sk_place_call *call, const char *id, const char *user, unsigned quantity, uint64_t key);

// Sends the orders that were added: first those of parts[0], then those of parts[1] ... Answers come in the same form
// for one part and for several, except for the column with a row's part.
enum sk_status sk_place_call_send(struct sk_place_call *call, struct sk_pg *pg, size_t n,
                                  const struct sk_call_part *parts, sk_pg_cb *done, void *arg) SK_MUST_CHECK;
void sk_place_call_free(struct sk_place_call *call);

// ---- orders that end ----

struct sk_return_by {
    const char *move, *by, *why; // `why`: "": none
};

// `ids`: an array of params.h that is not ended: first the orders of parts[0] ...
enum sk_status sk_return_call_send(struct sk_buf *ids, const struct sk_return_by *move, struct sk_pg *pg, size_t n,
                                   const struct sk_call_part *parts, sk_pg_cb *done, void *arg) SK_MUST_CHECK;

#endif
