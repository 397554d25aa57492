// A page of a list: what the client asked for, and how PostgreSQL's rows become its document. Statements are asked for
// one row more than the page shows. If that row comes, there is a next page.
#ifndef SK_API_PAGE_H
#define SK_API_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base64url.h"
#include "call.h"
#include "cursor.h"
#include "params.h"
#include "phase.h"
#include "query.h"
#include "uuid.h"

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
    size_t shown;                            // rows
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

// Adds the texts of the rows that belong to this page, with commas between them. Records where the next page begins:
// the feed always has one, since it has no last page. Rows of several shards come in one order: the highest id first;
// of the feed, a row of each shard in turn.
void sk_page_add(struct sk_page *page, struct sk_buf *body, const struct sk_gathered *gathered,
                 const struct sk_page_columns *columns);

// Begins the next page behind page->last, for a page that sk_page_add() has not made.
void sk_page_go_on(struct sk_page *page);

// Adds the member `next`, if there is a next page, and ends the query with its body and a closing brace: FOUND. The
// answer names the next page, too, except for the feed.
void sk_page_end(const struct sk_page *page, struct sk_query *query);

// A position as parameters; zeros on the first page. `place`: of the shard in a merged list, else 0.
const char *sk_page_first(const struct sk_page *page, size_t place, char out[SK_PARAM_NUMBER_SIZE]);
const char *sk_page_second(const struct sk_page *page, size_t place, char out[SK_PARAM_NUMBER_SIZE]);
// The same for a list of orders; NULL on the first page.
const char *sk_page_id(const struct sk_page *page, size_t place, char out[SK_UUID_SIZE]);
// Whether no row of the place was shown yet.
bool sk_page_is_new(const struct sk_page *page, size_t place);

#endif
