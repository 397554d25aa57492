// An order's JSON while only its request or Redis knows it. PostgreSQL writes its own orders in the same form
// (order_json() in sql/).
#ifndef SK_API_ORDER_JSON_H
#define SK_API_ORDER_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "order.h"

struct sk_order_shown {
    const char *id, *user; // borrowed
    int64_t voucher_id;
    unsigned quantity;
    const struct sk_price *price; // per unit; borrowed; NULL: not committed yet, or not known
    const char *status;           // at most SK_STATUS_MAX
    int64_t created_ms;           // Unix ms, by PostgreSQL's clock; 0: not known yet
    int64_t expires_ms;           // 0: never, or not known yet
    bool waits;                   // in a line: then
    int64_t place;                // so many are before it
};

// Room for the longest order and one more character.
enum { SK_ORDER_JSON_SIZE = 480, SK_STATUS_MAX = 16 };

// Any thread. Writes the JSON text and NUL, and returns its length. The texts need no escaping: a UUID, a user
// (text.h), and a constant.
size_t sk_order_json(char out[SK_ORDER_JSON_SIZE], const struct sk_order_shown *order);

#endif
