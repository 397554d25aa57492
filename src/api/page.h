// A page of a list: what the client asked for, and how PostgreSQL's rows become its document. Statements are asked for
// one row more than the page shows. If that row comes, there is a next page.
#ifndef SK_API_PAGE_H
#define SK_API_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "params.h"
#include "query.h"
#include "uuid.h"

// ---- cursors ----
//
// The opaque `cursor` of the interface: where a list continues. It names the last row shown, so the next page is found
// by a key, and new rows do not shift it.
//
// A cursor is 32 characters of base64url (RFC 4648, 5): the list's kind, a position in it, and a check over both and
// the list's scope. The scope is whose list it is and how it was filtered. So cursors that were made up or shortened,
// or belong to another list or user, are rejected. The check is not a secret: a cursor gives no right, and access to a
// page is decided without it.
//
// Any thread, as all functions of it. None of them allocates.

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

// ---- pages ----

enum { SK_PAGE_MOST = 100 };

// As the client asked.
struct sk_page_asked {
    unsigned limit;     // 1 to SK_PAGE_MOST
    const char *cursor; // borrowed; NULL: the first page
};

struct sk_page {
    enum sk_cursor_kind kind;
    char scope[SK_CURSOR_SCOPE_MAX + 1]; // whose list, and its filters
    unsigned limit;
    bool first;
    struct sk_position after;  // last row of the page before; zeroed: none
    char next[SK_CURSOR_SIZE]; // empty: this is the last page
};

// The columns of a row's position and its text. A row without a text ends the page.
struct sk_page_columns {
    int document, first;
    int second;  // 0: it has none
    bool behind; // the next page begins after a row without a text; else with it
    bool ids;    // each text begins with its own position, as the member `id`
};

// The reactor's thread, as all functions.

// Reads a parameter of the query; *value NULL: not sent. False: sent more than once.
bool sk_page_parameter(const struct sk_request *request, const char *name, const char **value);

// Reads `limit`, and the parameter `cursor`, at which the page begins. False: one of them is bad.
bool sk_page_read_query(const struct sk_request *request, const char *cursor, struct sk_page_asked *asked);

// False: the cursor is not one of this list; the handle was answered with BAD_PARAMETER.
bool sk_page_begin(struct sk_page *page, struct sk_control *control, enum sk_cursor_kind kind, const char *scope,
                   const struct sk_page_asked *ask, uint64_t handle);

// The limit and one row more, as a parameter.
const char *sk_page_most(const struct sk_page *page, char out[SK_PARAM_NUMBER_SIZE]);

// Adds the texts of the first `count` rows that belong to this page, with commas between them. Records where the next
// page begins.
void sk_page_add(struct sk_page *page, struct sk_buf *body, const struct sk_rows *rows, size_t count,
                 const struct sk_page_columns *columns);

// Adds the member `next`, if there is a next page, and ends the query with its body and a closing brace: FOUND. The
// answer names the next page, too, except for the feed, which has no last page.
void sk_page_end(const struct sk_page *page, struct sk_query *query);

// The position as parameters; zeros on the first page.
const char *sk_page_first(const struct sk_page *page, char out[SK_PARAM_NUMBER_SIZE]);
const char *sk_page_second(const struct sk_page *page, char out[SK_PARAM_NUMBER_SIZE]);
// The same for a list of orders; NULL on the first page.
const char *sk_page_id(const struct sk_page *page, char out[SK_UUID_SIZE]);

#endif
