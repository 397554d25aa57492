// Units that come back: a live order ends, its unit can be bought again, and its user may buy again.
#ifndef SK_SALE_RETURNS_H
#define SK_SALE_RETURNS_H

#include "segment.h"
#include "status.h"

struct sk_returns;

enum sk_return_move {
    SK_RETURN_CANCELLED,
    SK_RETURN_EXPIRED,
    SK_RETURN_REFUNDED,
    SK_RETURN_REFUNDED_KEPT, // its units stay away
};

enum sk_return_end {
    SK_RETURN_DONE,          // it is ended, by this or an earlier move
    SK_RETURN_NOT_ALLOWED,   // its status does not allow it
    SK_RETURN_UNKNOWN_ORDER, // PostgreSQL does not know it
    SK_RETURN_LOADING,       // the segment is not open; nothing was done
    SK_RETURN_UNAVAILABLE,   // the outcome is unknown
};

typedef void sk_return_cb(void *arg, enum sk_return_end end);

// The reactor's thread. `by` and `why` (NULL: none) are copied. SK_OK: `done` runs once, later. Anything else: it does
// not run.
enum sk_status sk_return_order(struct sk_returns *returns, struct sk_segment *segment, const char *order_id,
                               enum sk_return_move move, const char *by, const char *why, sk_return_cb *done,
                               void *arg) SK_MUST_CHECK;

#endif
