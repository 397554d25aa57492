// Orders that end after they were placed, and whose units return: cancelled, expired, refunded.
//
// A return takes the path of a purchase backwards. note_return.lua notes it in the journal. PostgreSQL decides it
// (return_orders(), under the epoch). The end of the entry applies it to Redis (settle_entry.lua), which gives the
// units back only while the buyer's field holds that very order. So anyone may repeat each step: after a crash a sweep
// or a rebuild settles the entry.
//
// A unit that returns while users wait goes to the first of them, in the same steps. Units that are in the stock
// although users wait are taken by such an entry, too: sk_promote().
//
// Returns of one voucher run one after another; later ones gather meanwhile. They use the links of the control plane,
// except for the journal.
#ifndef SK_SALE_RETURNS_H
#define SK_SALE_RETURNS_H

#include "entry.h"

struct sk_returns;

enum sk_return_move {
    SK_RETURN_CANCELLED,
    SK_RETURN_EXPIRED,
    SK_RETURN_REFUNDED,      // its units sell again
    SK_RETURN_REFUNDED_KEPT, // they do not
};

enum sk_return_end {
    SK_RETURN_DONE,          // it has ended, by this or an earlier move
    SK_RETURN_NOT_ALLOWED,   // its status does not allow the move
    SK_RETURN_UNKNOWN_ORDER, // PostgreSQL does not know it
    SK_RETURN_LOADING,       // the voucher is being loaded, or was meanwhile: retry
    SK_RETURN_UNAVAILABLE,   // a store is down; the move may still take effect
};

// Most orders in one entry.
enum { SK_RETURNS_MAX = SK_JOURNAL_RETURNS_MAX };

// Runs once, later.
typedef void sk_return_cb(void *arg, enum sk_return_end end);

// For a call of several orders: how many have ended. A result other than DONE applies to all of them.
typedef void sk_returns_cb(void *arg, enum sk_return_end end, size_t ended);

// Those of a shard. The reactor's thread, as all functions. `recovered` runs when a recovered entry is settled. NULL:
// out of memory.
struct sk_returns *sk_returns_open(const struct sk_sale *sale, const struct sk_shard *shard,
                                   void (*recovered)(void *arg, struct sk_voucher *voucher), void *arg);
// Drops the calls in progress, which are in the journal, and answers all who wait with UNAVAILABLE. After the links
// were closed; NULL is fine.
void sk_returns_close(struct sk_returns *returns);

// Ends one order, of a voucher of that shard, as all below. The order's events show `by` and `why`, cut at
// SK_JOURNAL_BY_MAX and _WHY_MAX bytes; `why` may be NULL. `done` runs only after SK_OK.
enum sk_status sk_return_order(struct sk_returns *returns, struct sk_voucher *voucher, const char *order_id,
                               enum sk_return_move move, const char *by, const char *why, sk_return_cb *done,
                               void *arg) SK_MUST_CHECK;

// Ends up to SK_RETURNS_MAX orders of a voucher in one entry. `ids`: "id,id,...", borrowed for the call.
enum sk_status sk_return_orders(struct sk_returns *returns, struct sk_voucher *voucher, const char *ids,
                                enum sk_return_move move, const char *by, sk_returns_cb *done, void *arg) SK_MUST_CHECK;

// Gives units that are in the stock to the first who wait, `most` at a time. `ended`: so many users have one now.
enum sk_status sk_promote(struct sk_returns *returns, struct sk_voucher *voucher, size_t most, sk_returns_cb *done,
                          void *arg) SK_MUST_CHECK;

// Settles an entry of the journal that no session holds. False: not now.
bool sk_returns_recover(struct sk_returns *returns, struct sk_voucher *voucher, uint64_t run_number,
                        const struct sk_journal_entry *found);

// How many orders are in progress: all in the journal, or about to be.
size_t sk_returns_count(const struct sk_returns *returns);

#endif
