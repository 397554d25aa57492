// An order that PostgreSQL does not know yet, as the interface shows it. What PostgreSQL knows it shows by itself
// (order_json).
#ifndef SK_CONTROL_ORDER_JSON_H
#define SK_CONTROL_ORDER_JSON_H

#include <stdint.h>

#include "buf.h"

// Any thread. The texts need no escape: an id, and a user as text.h has it.
void sk_order_json(struct sk_buf *out, const char *order_id, int64_t voucher_id, const char *user, const char *status);

#endif
