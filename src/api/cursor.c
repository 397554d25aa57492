// 24 bytes: kind (1), position (16), check (7), each most significant byte first. They fill 32 characters without a
// spare bit, so each cursor has one text.
#include "cursor.h"

#include <stdio.h>
#include <string.h>

#include "hash.h"
#include "status.h"
#include "text.h"

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
