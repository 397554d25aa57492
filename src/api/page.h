// A page of a list: what the client asked for, and how PostgreSQL's rows become its document. Statements are asked for
// one row more than the page shows. If that row comes, there is a next page.
#ifndef SK_API_PAGE_H
#define SK_API_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "call.h"
#include "params.h"
#include "phase.h"
#include "query.h"
#include "text.h"
#include "uuid.h"

// ---- cursors ----
//
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

// Reads what sk_cursor_put() wrote for this list, and nothing else. A text with fewer positions was written before
// shards were split (docs/scale.md): a new shard begins as a copy of the one that was split, and takes its position.
bool sk_cursor_read(const char *text, enum sk_cursor_kind kind, const char *scope, struct sk_position *positions,
                    size_t places);

// ---- pages ----

enum { SK_PAGE_MOST = 100 };
#define SK_PAGE_LIMIT_DETAIL "must be an integer from 1 to 100"

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
    size_t places;                           // 1, or one for each shard
    struct sk_position after[SK_SHARDS_MAX]; // last rows of the page before; zeroed: none
    struct sk_position last[SK_SHARDS_MAX];  // last rows of this page
    char next[SK_CURSOR_SIZE];               // empty: this is the last page
};

// The columns of a row's position and its text. A row without a text ends the page.
struct sk_page_columns {
    int document, first;
    int second;                   // 0: it has none
    bool behind;                  // the next page begins after a row without a text; else with it
    bool ids;                     // each text begins with its own position, as the member `id`
    struct sk_phase_span *phases; // the texts are vouchers: each gets its phase; NULL: they are not
};

// The reactor's thread, as all functions.

// Reads `limit`, and the parameter `cursor`, at which the page begins. False: the request was refused.
bool sk_page_read_query(const struct sk_context *context, struct sk_request *request, const char *cursor,
                        struct sk_page_asked *asked);

// False: the cursor is not one of this list; the handle was answered with BAD_PARAMETER.
bool sk_page_begin(struct sk_page *page, struct sk_control *control, enum sk_cursor_kind kind, const char *scope,
                   const struct sk_page_asked *ask, uint64_t handle);

// The limit and one row more, as a parameter.
const char *sk_page_most(const struct sk_page *page, char out[SK_PARAM_NUMBER_SIZE]);

// Adds the texts of the rows that belong to this page, with commas between them. Records where the next page begins.
// Rows of several shards come in one order: the highest id first; of the feed, a row of each shard in turn.
void sk_page_add(struct sk_page *page, struct sk_buf *body, const struct sk_gathered *gathered,
                 const struct sk_page_columns *columns);

// Begins the next page behind the rows of this one, even if there is no later row yet. After sk_page_add().
void sk_page_go_on(struct sk_page *page);

// Adds the member `next`, if there is a next page, and ends the query with its body and a closing brace: FOUND. The
// answer names the next page, too, except for the feed, which has no last page.
void sk_page_end(const struct sk_page *page, struct sk_query *query);

// A position as parameters; zeros on the first page. `place`: of the shard in a merged list, else 0.
const char *sk_page_first(const struct sk_page *page, size_t place, char out[SK_PARAM_NUMBER_SIZE]);
const char *sk_page_second(const struct sk_page *page, size_t place, char out[SK_PARAM_NUMBER_SIZE]);
// The same for a list of orders; NULL on the first page.
const char *sk_page_id(const struct sk_page *page, size_t place, char out[SK_UUID_SIZE]);
// Whether no row of the place was shown yet.
bool sk_page_is_new(const struct sk_page *page, size_t place);

#endif
