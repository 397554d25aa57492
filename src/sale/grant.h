// The call of place_orders.lua for a list of orders, and its reply.
#ifndef SK_SALE_GRANT_H
#define SK_SALE_GRANT_H

#include "entry.h"

// The outcome for one user of a batch: a result of place_orders.lua.
enum sk_grant_result {
    SK_GRANT_PLACED = 'p',
    SK_GRANT_ALREADY = 'a',
    SK_GRANT_IN_SCOPE = 'b', // the user has an order of another voucher in the scope
    SK_GRANT_SOLD_OUT = 's',
    SK_GRANT_NOT_STARTED = 'n',
    SK_GRANT_ENDED = 'e',
    SK_GRANT_PAUSED = 'u',
    SK_GRANT_FULL = 'f',     // the journal is full
    SK_GRANT_HELD = 'h',     // the sale reopened a moment ago
    SK_GRANT_TOO_FEW = 'm',  // fewer units are left than asked for
    SK_GRANT_TOO_MANY = 't', // the user has had as many orders as one may have
    // An order with the same Idempotency-Key exists:
    SK_GRANT_REPEATED = 'k',
    SK_GRANT_REPEATED_ENDED = 'd', // the same, and that order has ended
    SK_GRANT_KEY_REUSED = 'q',     // the same, but its quantity differs
    SK_GRANT_OTHER_OFFER = 'o',    // the voucher's offer is not that of the call
};

enum sk_grant_status {
    SK_GRANT_OK,
    SK_GRANT_OTHER, // the voucher has another offer: no order was granted
    SK_GRANT_MISSING,
    SK_GRANT_LOADING,
    SK_GRANT_UNSURE,
    SK_GRANT_DAMAGED,
    SK_GRANT_MOVED,    // another node has the voucher: nothing was executed, and the links know it by now
    SK_GRANT_UNSTABLE, // its slot is being moved, or has no node now: nothing was executed
    SK_GRANT_MALFORMED
};

// A parsed reply; its texts are valid as long as the reply.
struct sk_grant {
    enum sk_grant_status status;
    // SK_GRANT_OK and SK_GRANT_OTHER only:
    const char *last, *results; // one result for each order
    const char *journal_id;     // OK
    int64_t offer;              // OTHER: the voucher's
    int64_t now_ms, begin_ms, epoch;
    const struct sk_reply *reply;
    size_t next_more;
};

// Asks Redis to grant the orders: at most SK_JOURNAL_ORDERS_MAX, all of one offer. The caller keeps them. `again`: they
// were granted before. The reactor's thread.
enum sk_status sk_grant_ask(const struct sk_sale *sale, const struct sk_voucher *voucher,
                            const struct sk_order_list *orders, bool again, sk_redis_cb *done, void *arg) SK_MUST_CHECK;

// Checks the form of a reply about `n` orders once, so that later code can rely on it. Any thread.
struct sk_grant sk_grant_read(const struct sk_reply *reply, size_t n);

// Remembers the voucher's newest epoch and version: a later reply that is behind them proves that Redis has lost data.
void sk_grant_remember(const struct sk_grant *grant, struct sk_voucher *voucher);

// PostgreSQL has orders that Redis granted with this newest version: a reply that is behind it proves the same.
void sk_grant_expect(struct sk_voucher *voucher, int64_t epoch, const char *last);

// The voucher was closed under this epoch a moment ago: forgets what was seen before.
void sk_grant_forget(struct sk_voucher *voucher, int64_t epoch);

// If some were granted: names their journal entry, *entry, and hands it out, for the writer. Else NULL. Cannot fail.
struct sk_entry *sk_grant_take_entry(const struct sk_grant *grant, struct sk_entry **entry);

// Whether a result comes with an existing order's id.
bool sk_grant_has_existing(char result);

// The existing order id of the next such result, in their order. NULL: Redis holds no valid order id there; the value
// must not get into an answer. *voucher: whose it is, for IN_SCOPE; else 0.
const char *sk_grant_next_existing(struct sk_grant *grant, enum sk_grant_result result, int64_t *voucher);

// The units left, for the next TOO_FEW, in the same order.
int64_t sk_grant_next_left(struct sk_grant *grant);

#endif
