// The statements differ only in their columns, which a table at each list describes. A page's cursor is the last row
// that it shows, so it is read, not counted. A query parameter that is sent twice or has a bad value is rejected:
// otherwise the client would take another list for the one it asked for.
#include "page.h"

#include <stdio.h>
#include <string.h>

#include "hash.h"
#include "status.h"
#include "text.h"

// ---- the query ----

bool sk_page_parameter(const struct sk_request *request, const char *name, const char **value)
{
    unsigned count;
    *value = sk_request_query(request, name, &count);
    return count <= 1;
}

bool sk_page_read_query(const struct sk_request *request, const char *cursor, struct sk_page_asked *asked)
{
    const char *limit;
    uint64_t number = SK_PAGE_MOST;
    if (!sk_page_parameter(request, "limit", &limit) || !sk_page_parameter(request, cursor, &asked->cursor))
        return false;
    if (limit != NULL && (!sk_text_number(limit, SK_PAGE_MOST, &number) || number == 0))
        return false;
    asked->limit = (unsigned)number;
    return true;
}

// ---- a page ----

bool sk_page_begin(struct sk_page *page, struct sk_control *control, enum sk_cursor_kind kind, const char *scope,
                   const struct sk_page_asked *ask, uint64_t handle)
{
    SK_ASSERT(ask->limit >= 1 && ask->limit <= SK_PAGE_MOST);
    *page = (struct sk_page){.kind = kind, .limit = ask->limit, .first = ask->cursor == NULL};
    (void)snprintf(page->scope, sizeof page->scope, "%s", scope);
    if (page->first || sk_cursor_read(ask->cursor, kind, scope, &page->after))
        return true;
    sk_control_answer(control, handle, &(struct sk_answer){.verdict = SK_VERDICT_BAD_PARAMETER});
    return false;
}

const char *sk_page_most(const struct sk_page *page, char out[SK_PARAM_NUMBER_SIZE])
{
    return sk_params_number(out, page->limit + 1);
}

const char *sk_page_first(const struct sk_page *page, char out[SK_PARAM_NUMBER_SIZE])
{
    return sk_params_number(out, (int64_t)page->after.first);
}

const char *sk_page_second(const struct sk_page *page, char out[SK_PARAM_NUMBER_SIZE])
{
    return sk_params_number(out, (int64_t)page->after.second);
}

const char *sk_page_id(const struct sk_page *page, char out[SK_UUID_SIZE])
{
    if (page->first)
        return NULL;
    sk_position_put_uuid(&page->after, out);
    return out;
}

// ---- rows ----

static void page_put_cursor(const struct sk_page *page, const struct sk_rows *rows, size_t row,
                            const struct sk_page_columns *columns, char out[SK_CURSOR_SIZE])
{
    struct sk_position position = {.first = (uint64_t)sk_rows_number(rows, row, columns->first)};
    if (sk_cursor_names_order(page->kind))
        position = sk_position_of_uuid(sk_rows_text(rows, row, columns->first));
    if (columns->second > 0)
        position.second = (uint64_t)sk_rows_number(rows, row, columns->second);
    sk_cursor_put(out, page->kind, page->scope, &position);
}

void sk_page_add(struct sk_page *page, struct sk_buf *body, const struct sk_rows *rows, size_t count,
                 const struct sk_page_columns *columns)
{
    size_t shown = 0;
    char cursor[SK_CURSOR_SIZE];
    for (; shown < count && shown < page->limit; shown++) {
        const char *document = sk_rows_text(rows, shown, columns->document);
        if (document == NULL)
            break;
        if (shown > 0)
            sk_buf_puts(body, ",");
        if (columns->ids) {
            page_put_cursor(page, rows, shown, columns, cursor);
            sk_buf_printf(body, "{\"id\":\"%s\",%s", cursor, document + 1);
        } else {
            sk_buf_puts(body, document);
        }
    }
    if (shown == count)
        return;
    if (columns->behind && sk_rows_text(rows, shown, columns->document) == NULL)
        page_put_cursor(page, rows, shown, columns, page->next);
    else if (shown > 0)
        page_put_cursor(page, rows, shown - 1, columns, page->next);
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
// 24 bytes: kind (1), position (16), check (7), each most significant byte first. They fill 32 characters without a
// spare bit, so each cursor has one text.

enum { AT_FIRST = 1, AT_SECOND = 9, AT_CHECK = 17, BYTES = 24 };
_Static_assert(BYTES * 4 == SK_CURSOR_CHARS * 3, "no bit to spare");

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

// Covers all bytes before the check, and the scope.
static uint64_t cursor_check(const unsigned char bytes[BYTES], const char *scope)
{
    char checked[AT_CHECK + SK_CURSOR_SCOPE_MAX + 1];
    size_t len = strlen(scope);
    SK_ASSERT(len <= SK_CURSOR_SCOPE_MAX);
    memcpy(checked, bytes, AT_CHECK);
    (void)snprintf(checked + AT_CHECK, SK_CURSOR_SCOPE_MAX + 1, "%s", scope);
    return sk_hash(checked, AT_CHECK + len) >> 8; // as many bits as fit
}

void sk_cursor_put(char out[SK_CURSOR_SIZE], enum sk_cursor_kind kind, const char *scope,
                   const struct sk_position *position)
{
    unsigned char bytes[BYTES] = {(unsigned char)kind};
    cursor_put_number(bytes + AT_FIRST, position->first, AT_SECOND - AT_FIRST);
    cursor_put_number(bytes + AT_SECOND, position->second, AT_CHECK - AT_SECOND);
    cursor_put_number(bytes + AT_CHECK, cursor_check(bytes, scope), BYTES - AT_CHECK);
    out[sk_base64url_put(bytes, BYTES, out)] = '\0';
}

bool sk_cursor_read(const char *text, enum sk_cursor_kind kind, const char *scope, struct sk_position *position)
{
    unsigned char bytes[BYTES];
    size_t chars = strnlen(text, SK_CURSOR_SIZE), len;
    if (chars != SK_CURSOR_CHARS || !sk_base64url_read(text, chars, bytes, BYTES, &len))
        return false;
    if (bytes[0] != kind || cursor_number(bytes + AT_CHECK, BYTES - AT_CHECK) != cursor_check(bytes, scope))
        return false;
    struct sk_position read = {cursor_number(bytes + AT_FIRST, AT_SECOND - AT_FIRST),
                               cursor_number(bytes + AT_SECOND, AT_CHECK - AT_SECOND)};
    if (!sk_cursor_names_order(kind) &&
        (read.first > INT64_MAX || read.second > INT64_MAX)) // PostgreSQL has no such numbers
        return false;
    *position = read;
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
