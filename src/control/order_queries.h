// Questions about orders. Each call answers its ticket once, with FOUND and a document or with a refusal; it may do so
// before it returns, so the request must be waiting by then.
#ifndef SK_CONTROL_ORDER_QUERIES_H
#define SK_CONTROL_ORDER_QUERIES_H

#include "talk.h"

// The caller's own order: settled, or accepted and pending. Never NOT_FOUND while it may be pending (P5).
void sk_query_order(struct sk_control *control, const char *order_id, const char *user, uint64_t ticket);

// The caller's newest 100 orders, and after them those that are pending. Pending ones are looked for where orders were
// under way at the last look; if that is at more than 64 segments the answer says "complete":false.
void sk_query_orders(struct sk_control *control, const char *user, uint64_t ticket);

#endif
