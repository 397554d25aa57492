// The opaque `cursor` of the interface: where a list continues. It names the last row shown, so the next page is found
// by a key, and new rows do not shift it.
//
// A cursor is 32 characters of base64url (RFC 4648, 5): the list's kind, a position in it, and a check over both and
// the list's scope. The scope is whose list it is and how it was filtered. So cursors that were made up or shortened,
// or belong to another list or user, are rejected. The check is not a secret: a cursor gives no right, and access to a
// page is decided without it.
//
// Any thread, as all functions. None of them allocates.
#ifndef SK_API_CURSOR_H
#define SK_API_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "uuid.h"

enum sk_cursor_kind { // part of the interface: append only, never renumber
    SK_CURSOR_ORDERS = 1,
    SK_CURSOR_VOUCHERS,
    SK_CURSOR_ADMIN_VOUCHERS,
    SK_CURSOR_ADMIN_ORDERS,
    SK_CURSOR_DEAD_LETTERS,
    SK_CURSOR_ADMIN_EVENTS,
    SK_CURSOR_ORDER_EVENTS,
    SK_CURSOR_PAYMENTS,
    SK_CURSOR_KINDS
};

enum { SK_CURSOR_CHARS = 32, SK_CURSOR_SIZE = SK_CURSOR_CHARS + 1, SK_CURSOR_SCOPE_MAX = 128 };

// A row: a UUID in two halves, or one or two numbers.
struct sk_position {
    uint64_t first, second;
};

struct sk_position sk_position_of_uuid(const char *id); // a valid one
void sk_position_put_uuid(const struct sk_position *position, char out[SK_UUID_SIZE]);

// Whether the rows of such a list are found by an order's id.
static inline bool sk_cursor_names_order(enum sk_cursor_kind kind)
{
    return kind == SK_CURSOR_ORDERS || kind == SK_CURSOR_ADMIN_ORDERS || kind == SK_CURSOR_PAYMENTS;
}

// `scope`: at most SK_CURSOR_SCOPE_MAX characters.
void sk_cursor_put(char out[SK_CURSOR_SIZE], enum sk_cursor_kind kind, const char *scope,
                   const struct sk_position *position);

// Reads what sk_cursor_put() wrote for this list, and nothing else.
bool sk_cursor_read(const char *text, enum sk_cursor_kind kind, const char *scope, struct sk_position *position);

#endif
