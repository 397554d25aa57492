// The statements differ only in their columns, which a table at each list describes. A page's cursor is the last row
// that it shows, so it is read, not counted.
#include "page.h"

#include <stdio.h>
#include <string.h>

#include "hash.h"
#include "shards.h"
#include "status.h"
#include "text.h"

// ---- the query ----

bool sk_page_read_query(const struct sk_context *context, struct sk_request *request, const char *cursor,
                        struct sk_page_asked *asked)
{
    const char *limit = sk_request_query(request, "limit", NULL);
    uint64_t number = SK_PAGE_MOST;
    asked->cursor = sk_request_query(request, cursor, NULL);
    if (limit != NULL && (!sk_text_number(limit, SK_PAGE_MOST, &number) || number == 0))
        return sk_answer_parameter(context->answers, request, "limit", SK_PAGE_LIMIT_DETAIL);
    asked->limit = (unsigned)number;
    return true;
}

// ---- a page ----

bool sk_page_begin(struct sk_page *page, struct sk_control *control, enum sk_cursor_kind kind, const char *scope,
                   const struct sk_page_asked *ask, uint64_t handle)
{
    SK_ASSERT(ask->limit >= 1 && ask->limit <= SK_PAGE_MOST);
    *page = (struct sk_page){.kind = kind, .limit = ask->limit, .first = ask->cursor == NULL};
    page->places = sk_cursor_is_merged(kind) ? control->sale->shard_count : 1;
    (void)snprintf(page->scope, sizeof page->scope, "%s", scope);
    if (ask->cursor == NULL || sk_cursor_read(ask->cursor, kind, scope, page->after, page->places))
        return true;
    sk_control_answer(control, handle,
                      &(struct sk_answer){.verdict = SK_VERDICT_BAD_PARAMETER,
                                          .parameter = kind == SK_CURSOR_ORDER_EVENTS ? "after" : "cursor",
                                          .detail = "is no cursor of this list"});
    return false;
}

const char *sk_page_most(const struct sk_page *page, char out[SK_PARAM_NUMBER_SIZE])
{
    return sk_params_number(out, page->limit + 1);
}

const char *sk_page_first(const struct sk_page *page, size_t place, char out[SK_PARAM_NUMBER_SIZE])
{
    return sk_params_number(out, (int64_t)page->after[place].first);
}

const char *sk_page_second(const struct sk_page *page, size_t place, char out[SK_PARAM_NUMBER_SIZE])
{
    return sk_params_number(out, (int64_t)page->after[place].second);
}

bool sk_page_is_new(const struct sk_page *page, size_t place)
{
    return page->first || (page->places > 1 && page->after[place].first == 0 && page->after[place].second == 0);
}

const char *sk_page_id(const struct sk_page *page, size_t place, char out[SK_UUID_SIZE])
{
    if (sk_page_is_new(page, place))
        return NULL;
    sk_position_put_uuid(&page->after[place], out);
    return out;
}

// ---- rows ----

static struct sk_position page_position(const struct sk_page *page, const struct sk_rows *rows, size_t row,
                                        const struct sk_page_columns *columns)
{
    struct sk_position position = {.first = (uint64_t)sk_rows_number(rows, row, columns->first)};
    if (sk_cursor_names_order(page->kind))
        position = sk_position_of_uuid(sk_rows_text(rows, row, columns->first));
    if (columns->second > 0)
        position.second = (uint64_t)sk_rows_number(rows, row, columns->second);
    return position;
}

// The rows of all places that are still to be shown.
struct page_merge {
    const struct sk_page *page;
    const struct sk_gathered *gathered;
    const struct sk_page_columns *columns;
    size_t at[SK_SHARDS_MAX];
    size_t turn; // the place that goes first among equals
};

// Whether the next row of `place` comes before that of `other`.
static bool page_goes_first(const struct page_merge *merge, size_t place, size_t other)
{
    const struct sk_rows *rows = merge->gathered->rows[place], *others = merge->gathered->rows[other];
    size_t row = merge->at[place], other_row = merge->at[other];
    int column = merge->columns->first;
    if (merge->page->kind == SK_CURSOR_ORDER_EVENTS)
        return row < other_row;
    if (sk_cursor_names_order(merge->page->kind))
        return strcmp(sk_rows_text(rows, row, column), sk_rows_text(others, other_row, column)) > 0;
    return sk_rows_number(rows, row, column) > sk_rows_number(others, other_row, column);
}

// False: no place has a row left.
static bool page_next(const struct page_merge *merge, size_t *place)
{
    bool found = false;
    for (size_t i = 0; i < merge->page->places; i++) {
        size_t other = (merge->turn + i) % merge->page->places;
        if (merge->at[other] == merge->gathered->counts[other] || (found && !page_goes_first(merge, other, *place)))
            continue;
        *place = other;
        found = true;
    }
    return found;
}

void sk_page_add(struct sk_page *page, struct sk_buf *body, const struct sk_gathered *gathered,
                 const struct sk_page_columns *columns)
{
    // With a small limit the same place must not go first in each page of the feed.
    struct page_merge merge = {.page = page, .gathered = gathered, .columns = columns};
    merge.turn = sk_hash((const char *)page->after, page->places * sizeof page->after[0]) % page->places;
    size_t place = 0;
    bool more = false, behind = false;
    char id[SK_CURSOR_SIZE];
    memcpy(page->last, page->after, sizeof page->last);
    page->shown = 0; // the query may have had a round before
    page->next[0] = '\0';
    while (!more && page_next(&merge, &place)) {
        const struct sk_rows *rows = gathered->rows[place];
        size_t row = merge.at[place]++;
        const char *document = sk_rows_text(rows, row, columns->document);
        struct sk_position position = page_position(page, rows, row, columns);
        behind = document == NULL && columns->behind;
        more = document == NULL || page->shown == page->limit;
        if (behind || !more)
            page->last[place] = position;
        if (more)
            break;
        if (page->shown++ > 0)
            sk_buf_puts(body, ",");
        if (columns->ids) {
            sk_cursor_put_event(id, &position, place, page->places);
            sk_buf_printf(body, "{\"id\":\"%s\",%s", id, document + 1);
        } else if (columns->phases != NULL) {
            sk_phase_put(body, document, columns->phases);
        } else {
            sk_buf_puts(body, document);
        }
    }
    if (page->kind == SK_CURSOR_ORDER_EVENTS || (more && (page->shown > 0 || behind)))
        sk_page_go_on(page);
}

void sk_page_go_on(struct sk_page *page)
{
    sk_cursor_put(page->next, page->kind, page->scope, page->last, page->places);
}

void sk_page_end(const struct sk_page *page, struct sk_query *query)
{
    const char *next = page->next[0] == '\0' ? NULL : page->next;
    if (next != NULL)
        sk_buf_printf(&query->body, ",\"next\":\"%s\"", next);
    sk_buf_puts(&query->body, "}");
    struct sk_answer answer = {.verdict = SK_VERDICT_FOUND,
                               .body = query->body.data,
                               .next = page->kind == SK_CURSOR_ORDER_EVENTS ? NULL : next,
                               .no_rows = page->shown == 0};
    sk_query_end_with(query, &answer);
}
