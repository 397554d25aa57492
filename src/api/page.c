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
    page->places = sk_cursor_is_merged(kind) ? control->sale->shards : 1;
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

enum { SHARD_SHIFT = 58 }; // the feed's sequence numbers stay below it

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

// An event's own id: its position, and its shard, counted from 1; 0 if there is one shard. Only then it is a cursor,
// too: a position of one shard means nothing in another.
static void page_put_id(const struct sk_page *page, size_t place, const struct sk_position *position,
                        char out[SK_CURSOR_SIZE])
{
    uint64_t shard = page->places > 1 ? place + 1 : 0;
    struct sk_position own = {position->first, position->second | shard << SHARD_SHIFT};
    sk_cursor_put(out, page->kind, page->scope, &own, 1);
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
    size_t shown = 0, place = 0;
    bool more = false, behind = false;
    char id[SK_CURSOR_SIZE];
    memcpy(page->last, page->after, sizeof page->last);
    while (!more && page_next(&merge, &place)) {
        const struct sk_rows *rows = gathered->rows[place];
        size_t row = merge.at[place]++;
        const char *document = sk_rows_text(rows, row, columns->document);
        struct sk_position position = page_position(page, rows, row, columns);
        behind = document == NULL && columns->behind;
        more = document == NULL || shown == page->limit;
        if (behind || !more)
            page->last[place] = position;
        if (more)
            break;
        if (shown++ > 0)
            sk_buf_puts(body, ",");
        if (columns->ids) {
            page_put_id(page, place, &position, id);
            sk_buf_printf(body, "{\"id\":\"%s\",%s", id, document + 1);
        } else if (columns->phases != NULL) {
            sk_phase_put(body, document, columns->phases);
        } else {
            sk_buf_puts(body, document);
        }
    }
    if (more && (shown > 0 || behind))
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
                               .next = page->kind == SK_CURSOR_ORDER_EVENTS ? NULL : next};
    sk_query_end_with(query, &answer);
}

// ---- cursors ----
//
// Kind (1 byte), positions (16 bytes each), check (7), each most significant byte first. One position makes 24 bytes,
// which fill 32 characters without a spare bit. Spare bits must be 0, so each cursor has one text.

enum { AT_FIRST = 1, NUMBER_BYTES = 8, POSITION_BYTES = 2 * NUMBER_BYTES, CHECK_BYTES = 7 };
_Static_assert((AT_FIRST + POSITION_BYTES + CHECK_BYTES) * 4 == SK_CURSOR_CHARS * 3, "no bit to spare");
_Static_assert(AT_FIRST + SK_SHARDS_MAX * POSITION_BYTES + CHECK_BYTES == SK_CURSOR_BYTES, "room for all positions");

static void cursor_put_number(unsigned char *out, uint64_t number, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--, number >>= 8)
        out[i] = (unsigned char)number;
}

static uint64_t cursor_number(const unsigned char *bytes, int count)
{
    uint64_t number = 0;
    for (int i = 0; i < count; i++)
        number = number << 8 | bytes[i];
    return number;
}

static size_t cursor_bytes(size_t places)
{
    return AT_FIRST + places * POSITION_BYTES + CHECK_BYTES;
}

// Covers all bytes before the check, and the scope.
static uint64_t cursor_check(const unsigned char *bytes, size_t size, const char *scope)
{
    char checked[SK_CURSOR_BYTES + SK_CURSOR_SCOPE_MAX + 1];
    size_t len = strlen(scope);
    SK_ASSERT(len <= SK_CURSOR_SCOPE_MAX);
    memcpy(checked, bytes, size);
    (void)snprintf(checked + size, SK_CURSOR_SCOPE_MAX + 1, "%s", scope);
    return sk_hash(checked, size + len) >> 8; // as many bits as fit
}

void sk_cursor_put(char out[SK_CURSOR_SIZE], enum sk_cursor_kind kind, const char *scope,
                   const struct sk_position *positions, size_t places)
{
    unsigned char bytes[SK_CURSOR_BYTES] = {(unsigned char)kind}, *at = bytes + AT_FIRST;
    for (size_t i = 0; i < places; i++, at += POSITION_BYTES) {
        cursor_put_number(at, positions[i].first, NUMBER_BYTES);
        cursor_put_number(at + NUMBER_BYTES, positions[i].second, NUMBER_BYTES);
    }
    cursor_put_number(at, cursor_check(bytes, (size_t)(at - bytes), scope), CHECK_BYTES);
    out[sk_base64url_put(bytes, cursor_bytes(places), out)] = '\0';
}

// PostgreSQL has no number above it.
static bool cursor_can_be(enum sk_cursor_kind kind, const struct sk_position *position)
{
    uint64_t most = kind == SK_CURSOR_ORDER_EVENTS ? (UINT64_C(1) << SHARD_SHIFT) - 1 : INT64_MAX;
    return sk_cursor_names_order(kind) || (position->first <= INT64_MAX && position->second <= most);
}

// How many positions a text of this length holds; 0: it is no cursor.
static size_t cursor_places(size_t chars, size_t most)
{
    while (most > 0 && SK_BASE64URL_CHARS(cursor_bytes(most)) != chars)
        most--;
    return most;
}

bool sk_cursor_read(const char *text, enum sk_cursor_kind kind, const char *scope, struct sk_position *positions,
                    size_t places)
{
    unsigned char bytes[SK_CURSOR_BYTES];
    struct sk_position read[SK_SHARDS_MAX];
    size_t chars = strnlen(text, SK_CURSOR_SIZE), count = cursor_places(chars, places), len;
    if (count == 0 || !sk_base64url_read(text, chars, bytes, sizeof bytes, &len))
        return false;
    const unsigned char *at = bytes + AT_FIRST, *check = bytes + cursor_bytes(count) - CHECK_BYTES;
    if (bytes[0] != kind || cursor_number(check, CHECK_BYTES) != cursor_check(bytes, (size_t)(check - bytes), scope))
        return false;
    for (size_t i = 0; i < count; i++, at += POSITION_BYTES) {
        read[i] = (struct sk_position){cursor_number(at, NUMBER_BYTES), cursor_number(at + NUMBER_BYTES, NUMBER_BYTES)};
        if (!cursor_can_be(kind, &read[i]))
            return false;
    }
    for (size_t i = count; i < places; i++)
        read[i] = read[sk_shard_of_slot((unsigned)i, i)]; // of which it is a copy
    memcpy(positions, read, places * sizeof read[0]);
    return true;
}

// ---- ids as positions ----

static unsigned cursor_hex(char c)
{
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)(c - 'a') + 10;
}

struct sk_position sk_position_of_uuid(const char *id)
{
    uint64_t halves[2] = {0};
    for (int i = 0, n = 0; i < SK_UUID_CHARS; i++) {
        if (id[i] != '-') {
            halves[n / 16] = halves[n / 16] << 4 | cursor_hex(id[i]);
            n++;
        }
    }
    return (struct sk_position){.first = halves[0], .second = halves[1]};
}

void sk_position_put_uuid(const struct sk_position *position, char out[SK_UUID_SIZE])
{
    for (int n = 0; n < 32; n++) {
        uint64_t half = n < 16 ? position->first : position->second;
        if (n == 8 || n == 12 || n == 16 || n == 20)
            *out++ = '-';
        *out++ = "0123456789abcdef"[half >> (60 - 4 * (n % 16)) & 15];
    }
    *out = '\0';
}
