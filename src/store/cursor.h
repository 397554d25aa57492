// The opaque `cursor` of the interface: where a list continues. It names the last row shown, so the next page is found
// by a key, and new rows do not shift it.
//
// A list of all shards has a position for each of them, and its cursor all these positions. A shard that was away while
// a page was made keeps its position, so a later page has what was missing.
//
// A cursor is base64url (RFC 4648, 5): the list's kind, a position in it, or one for each shard, and a check over both
// and the list's scope. With one position it is 32 characters. The scope is whose list it is and how it was filtered.
// So cursors that were made up or shortened, or belong to another list or user, are rejected. The check is not a
// secret: a cursor gives no right, and access to a page is decided without it.
//
// Any thread, as all functions of it. None of them allocates.
#ifndef SK_STORE_CURSOR_H
#define SK_STORE_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base64url.h"
#include "shards.h"
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
    SK_CURSOR_TO_REFUND,
    SK_CURSOR_KINDS
};

// SK_CURSOR_CHARS: of a cursor with one position. SK_CURSOR_SIZE: of any, with the NUL.
enum { SK_CURSOR_CHARS = 32, SK_CURSOR_SCOPE_MAX = 128, SK_CURSOR_BYTES = 8 + 16 * SK_SHARDS_MAX };
enum { SK_CURSOR_SIZE = SK_BASE64URL_CHARS(SK_CURSOR_BYTES) + 1 };

// In the feed of several shards, the shard stands above the sequence number, which stays below it.
enum { SK_CURSOR_SHARD_SHIFT = 58 };

// A row: a UUID in two halves, or one or two numbers.
struct sk_position {
    uint64_t first, second;
};

struct sk_position sk_position_of_uuid(const char *id); // a valid one
void sk_position_put_uuid(const struct sk_position *position, char out[SK_UUID_SIZE]);

// Whether the rows of such a list are found by an order's id.
static inline bool sk_cursor_names_order(enum sk_cursor_kind kind)
{
    return kind == SK_CURSOR_ORDERS || kind == SK_CURSOR_ADMIN_ORDERS || kind == SK_CURSOR_PAYMENTS ||
           kind == SK_CURSOR_TO_REFUND;
}

// Whether such a list has rows of all shards; else it has those of one voucher.
static inline bool sk_cursor_is_merged(enum sk_cursor_kind kind)
{
    return kind == SK_CURSOR_ORDERS || kind == SK_CURSOR_VOUCHERS || kind == SK_CURSOR_ADMIN_VOUCHERS ||
           kind == SK_CURSOR_ORDER_EVENTS || kind == SK_CURSOR_TO_REFUND;
}

// `scope`: at most SK_CURSOR_SCOPE_MAX characters. `places`: at most SK_SHARDS_MAX.
void sk_cursor_put(char out[SK_CURSOR_SIZE], enum sk_cursor_kind kind, const char *scope,
                   const struct sk_position *positions, size_t places);

// Writes the id of an event of the feed: its position, and its shard, counted from 1; 0 if there is one shard. Only
// then it is a cursor, too: a position of one shard means nothing in another.
void sk_cursor_put_event(char out[SK_CURSOR_SIZE], const struct sk_position *position, size_t shard, size_t shards);

// Reads what sk_cursor_put() wrote for this list, and nothing else. A text with fewer positions was written before
// shards were split (docs/scale.md): a new shard begins as a copy of the one that was split, and takes its position.
bool sk_cursor_read(const char *text, enum sk_cursor_kind kind, const char *scope, struct sk_position *positions,
                    size_t places);

#endif
