// The framing of the body must be beyond doubt: where two parsers could disagree, requests are smuggled.
#include "head.h"

#include <ctype.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "text.h"

enum { RECORD_SIZE = 64 }; // of libmicrohttpd's struct MHD_HTTP_Header
enum { LINE_END = 2, VERSION_CHARS = 8, WORD = 8, DEL = 0x7f };

static enum sk_method head_method(const char *method);
static bool header_bytes_is_token(const char *name, size_t n);

size_t sk_head_target(struct sk_head *head, const char *target)
{
    size_t parameters = 0;
    head->target = target;
    head->query_bad = false;
    sk_header_bytes_target(&head->bytes, target);
    for (const char *at = strchr(target, '?'); at != NULL; at = strchr(at + 1, '&'))
        parameters++;
    head->has_query = parameters > 0;
    return (size_t)(head->bytes.target_end - target) + parameters * RECORD_SIZE;
}

size_t sk_head_unescape(struct sk_head *head, char *text)
{
    size_t len = strlen(text);
    if (text != head->target && !sk_url_unescape(text, &len))
        head->query_bad = true;
    return len;
}

void sk_head_begin(struct sk_head *head, const char *method, const char *target, const char *version)
{
    *head = (struct sk_head){.bytes = head->bytes,
                             .method = head_method(method),
                             .target = head->target,
                             .has_query = head->has_query,
                             .query_bad = head->query_bad};
    head->hosts_least = version[VERSION_CHARS - 1] != '0'; // of HTTP/1.0 on
    head->is_head = head->method == SK_METHOD_GET && method[0] == 'H';
    head->bad = head->method == SK_METHOD_UNKNOWN && !header_bytes_is_token(method, strlen(method));
    sk_header_bytes_begin(&head->bytes, method, target, version);
}

static enum sk_method head_method(const char *method)
{
    static const char *const others[] = {"PUT", "DELETE", "TRACE", "CONNECT"};
    if (strcmp(method, "POST") == 0)
        return SK_METHOD_POST;
    if (strcmp(method, "PATCH") == 0)
        return SK_METHOD_PATCH;
    if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)
        return SK_METHOD_GET;
    if (strcmp(method, "OPTIONS") == 0)
        return SK_METHOD_OPTIONS;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(method, others[i]) == 0)
            return SK_METHOD_OTHER;
    }
    return SK_METHOD_UNKNOWN;
}

#define IS(text) (name_len == sizeof(text) - 1 && strcasecmp(name, text) == 0)

void sk_head_field(struct sk_head *head, const char *name, size_t name_len, char *value, size_t value_len)
{
    sk_header_bytes_field(&head->bytes, name, name_len, value, value_len);
    head->names |= SK_NAME_BIT(name, name_len);
    if (IS("host")) {
        head->hosts++;
    } else if (IS("content-length")) {
        head->lengths++;
        if (!sk_text_number(value, INT64_MAX, &head->length))
            head->bad = true;
    } else if (IS("transfer-encoding")) {
        head->encodings++;
        head->chunked = strcasecmp(value, "chunked") == 0;
    } else if (IS("expect")) {
        head->expect = head->expect == NULL ? value : head->expect;
    } else if (IS("cookie")) {
        head->used += value_len; // libmicrohttpd splits a copy
    } else if (IS("traceparent")) {
        head->traceparent = head->traceparent == NULL ? value : "";
    }
    // Last: libmicrohttpd has read the framing with its blanks.
    while (value_len > 0 && (value[value_len - 1] == ' ' || value[value_len - 1] == '\t'))
        value[--value_len] = '\0';
}

#undef IS

void sk_head_use(struct sk_head *head, size_t records, size_t bytes)
{
    head->used += records * RECORD_SIZE + bytes;
}

bool sk_head_good(const struct sk_head *head, size_t len)
{
    bool no_body = head->length == 0 && head->encodings == 0, framed_twice = head->lengths + head->encodings > 1;
    // Where no body follows, libmicrohttpd must not see "Expect: 100-continue": if the next request followed, it would
    // call the handler again after the answer, when it accepts none.
    if (no_body && head->expect != NULL)
        *head->expect = '\0';
    return !head->bad && sk_header_bytes_end(&head->bytes, len) && head->hosts <= 1 &&
           head->hosts >= head->hosts_least && !framed_twice && (head->encodings == 0 || head->chunked);
}

// ---- header bytes ----

// Costs a few instructions for a field, and one for each byte of a name. Values are checked eight bytes at a time.

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

// RFC 9110 5.6.2
static bool header_bytes_is_token(const char *name, size_t n)
{
    static const bool allowed[256] = {
        ['!'] = true, ['#'] = true, ['$'] = true, ['%'] = true, ['&'] = true, ['\''] = true, ['*'] = true, ['+'] = true,
        ['-'] = true, ['.'] = true, ['^'] = true, ['_'] = true, ['`'] = true, ['|'] = true,  ['~'] = true, ['0'] = true,
        ['1'] = true, ['2'] = true, ['3'] = true, ['4'] = true, ['5'] = true, ['6'] = true,  ['7'] = true, ['8'] = true,
        ['9'] = true, ['A'] = true, ['B'] = true, ['C'] = true, ['D'] = true, ['E'] = true,  ['F'] = true, ['G'] = true,
        ['H'] = true, ['I'] = true, ['J'] = true, ['K'] = true, ['L'] = true, ['M'] = true,  ['N'] = true, ['O'] = true,
        ['P'] = true, ['Q'] = true, ['R'] = true, ['S'] = true, ['T'] = true, ['U'] = true,  ['V'] = true, ['W'] = true,
        ['X'] = true, ['Y'] = true, ['Z'] = true, ['a'] = true, ['b'] = true, ['c'] = true,  ['d'] = true, ['e'] = true,
        ['f'] = true, ['g'] = true, ['h'] = true, ['i'] = true, ['j'] = true, ['k'] = true,  ['l'] = true, ['m'] = true,
        ['n'] = true, ['o'] = true, ['p'] = true, ['q'] = true, ['r'] = true, ['s'] = true,  ['t'] = true, ['u'] = true,
        ['v'] = true, ['w'] = true, ['x'] = true, ['y'] = true, ['z'] = true,
    };
    for (size_t i = 0; i < n; i++) {
        if (!allowed[(unsigned char)name[i]])
            return false;
    }
    return n > 0;
}

// Sets the top bit of each byte that is a control byte other than HTAB. No sum carries into the next byte.
static uint64_t header_bytes_controls(uint64_t word)
{
    uint64_t low = word & EACH(0x7f), tab = word ^ EACH('\t');
    uint64_t below_blank = ~((low + EACH(0x80 - ' ')) | word);
    uint64_t is_tab = ~(((tab & EACH(0x7f)) + EACH(0x7f)) | tab);
    uint64_t is_del = (low + EACH(0x80 - DEL)) & ~word;
    return ((below_blank & ~is_tab) | is_del) & EACH(0x80);
}

// The bytes after the last whole word, padded with blanks.
static uint64_t header_bytes_rest(const char *bytes, size_t n)
{
    uint64_t word = EACH(' ');
    for (size_t i = 0; i < n; i++)
        word = word << 8 | (unsigned char)bytes[i];
    return word;
}

// Sets the top bit of each byte that is not printable ASCII, or of one above it.
static uint64_t header_bytes_unusual(uint64_t word)
{
    return (word - EACH(' ')) | word | (word + EACH(0x80 - DEL));
}

// Whether all bytes are printable ASCII, as nearly always.
static bool header_bytes_are_usual(const char *bytes, size_t n)
{
    uint64_t word, seen = 0;
    for (; n >= WORD; bytes += WORD, n -= WORD) {
        memcpy(&word, bytes, WORD);
        seen |= header_bytes_unusual(word);
    }
    seen |= header_bytes_unusual(header_bytes_rest(bytes, n));
    return (seen & EACH(0x80)) == 0;
}

static bool header_bytes_has_control(const char *bytes, size_t n)
{
    uint64_t word;
    if (header_bytes_are_usual(bytes, n))
        return false;
    for (; n >= WORD; bytes += WORD, n -= WORD) {
        memcpy(&word, bytes, WORD);
        if (header_bytes_controls(word) != 0)
            return true;
    }
    return header_bytes_controls(header_bytes_rest(bytes, n)) != 0;
}

void sk_header_bytes_target(struct sk_header_bytes *check, const char *target)
{
    size_t n = strlen(target);
    check->target_end = target + n;
    check->bad =
        header_bytes_has_control(target, n) || memchr(target, '\t', n) != NULL || memchr(target, ' ', n) != NULL;
}

void sk_header_bytes_begin(struct sk_header_bytes *check, const char *method, const char *target, const char *version)
{
    check->begin = method;
    check->next = version + VERSION_CHARS + LINE_END;
    size_t len = strlen(method);
    if (target != method + len + 1 || version != check->target_end + 1)
        check->bad = true;
}

void sk_header_bytes_field(struct sk_header_bytes *check, const char *name, size_t name_len, const char *value,
                           size_t value_len)
{
    if (name != check->next || !header_bytes_is_token(name, name_len) || header_bytes_has_control(value, value_len))
        check->bad = true;
    check->next = value + value_len + LINE_END;
}

bool sk_header_bytes_end(const struct sk_header_bytes *check, size_t head_len)
{
    return !check->bad && check->next + LINE_END == check->begin + head_len;
}

// ---- the target ----
//
// Clients send the absolute form to proxies, and a server must accept it as well (RFC 9112 3.2.2). The host in it is
// ignored, as Host is: we serve one host.

const char *sk_target_path(const char *target)
{
    static const char *const schemes[] = {"http://", "https://"};
    const char *authority = NULL;
    if (target[0] == '/')
        return target;
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (strncasecmp(target, schemes[i], strlen(schemes[i])) == 0)
            authority = target + strlen(schemes[i]);
    }
    if (authority == NULL)
        return target;
    size_t n = strcspn(authority, "/");
    // A user name before the host is there to mislead (RFC 9110 4.2.4).
    if (n == 0 || authority[0] == ':' || memchr(authority, '@', n) != NULL)
        return NULL;
    return authority[n] == '\0' ? "/" : authority + n;
}

// libmicrohttpd has already turned `+` into a blank.

enum { ESCAPE_LEN = 3 };

static const char query_digits[] = "0123456789ABCDEF";

void sk_url_put(struct sk_buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        char escape[ESCAPE_LEN] = {'%', query_digits[byte >> 4], query_digits[byte & 15]};
        bool stays = byte < DEL && (isalnum(byte) || strchr("-._~", byte) != NULL);
        sk_buf_add(out, stays ? text : escape, stays ? 1 : ESCAPE_LEN);
    }
}
