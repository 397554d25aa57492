// An order as the interface shows it while its request, or Redis alone, knows of it. What PostgreSQL knows it shows by
// itself, in the same form (order_json() in sql/).
#ifndef SK_API_ORDER_JSON_H
#define SK_API_ORDER_JSON_H

#include <stddef.h>
#include <stdint.h>

#include "offered.h"

struct sk_order_shown {
    const char *id, *user; // borrowed
    int64_t voucher_id;
    unsigned quantity;
    const struct sk_price *price; // of a unit; borrowed; NULL: it is not committed yet, or not known
    const char *status;           // at most SK_STATUS_MAX
    int64_t created_ms;           // Unix ms, by PostgreSQL's clock; 0: not known yet
    int64_t expires_ms;           // 0: never, or not known yet
};

// Room for the longest order, and for one more character.
enum { SK_ORDER_JSON_SIZE = 480, SK_STATUS_MAX = 16 };

// Any thread. Writes the JSON text and NUL, and returns its length. The texts need no escape: a UUID, a user as text.h
// has it, and a constant.
size_t sk_order_json(char out[SK_ORDER_JSON_SIZE], const struct sk_order_shown *order);

#endif
