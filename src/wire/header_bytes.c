// Costs a few instructions for a field, and one for each byte of a name. Values are checked eight bytes at a time.
#include "header_bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { LINE_END = 2, WORD = 8, DEL = 0x7f };

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

bool sk_header_bytes_is_token(const char *name, size_t n)
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
    check->next = version + SK_HTTP_VERSION_CHARS + LINE_END;
    size_t len = strlen(method);
    if (target != method + len + 1 || version != check->target_end + 1)
        check->bad = true;
}

void sk_header_bytes_field(struct sk_header_bytes *check, const char *name, size_t name_len, const char *value,
                           size_t value_len)
{
    if (name != check->next || !sk_header_bytes_is_token(name, name_len) || header_bytes_has_control(value, value_len))
        check->bad = true;
    check->next = value + value_len + LINE_END;
}

bool sk_header_bytes_end(const struct sk_header_bytes *check, size_t head_len)
{
    return !check->bad && check->next + LINE_END == check->begin + head_len;
}
