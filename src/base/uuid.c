// Makes order ids. Random words are drawn in blocks: a system call per id would cost more than the id.
#include "uuid.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "clock.h"
#include "status.h"

enum { COUNTER_MAX = 0xfff, DASHES = 4 };

void sk_random_bytes(void *out, size_t n)
{
    SK_ASSERT(n <= 256 * sizeof(uint64_t));
    size_t have = 0;
    while (have < n) {
        ssize_t got = getrandom((char *)out + have, n - have, 0);
        SK_ASSERT(got >= 0 || errno == EINTR);
        have += got < 0 ? 0 : (size_t)got;
    }
}

static uint64_t uuid_random_word(struct sk_uuid_gen *gen)
{
    if (gen->left == 0) {
        sk_random_bytes(gen->random, sizeof gen->random);
        gen->left = sizeof gen->random / sizeof gen->random[0];
    }
    return gen->random[--gen->left];
}

static char *uuid_put_hex(char *out, uint64_t value, int digits)
{
    static const char hex[] = "0123456789abcdef";
    for (int i = digits - 1; i >= 0; i--) {
        out[i] = hex[value & 0xf];
        value >>= 4;
    }
    return out + digits;
}

void sk_uuid_at(struct sk_uuid_gen *gen, uint64_t wall_ms, char out[SK_UUID_SIZE])
{
    uint64_t random = uuid_random_word(gen);
    if (wall_ms > gen->last_ms) {
        gen->last_ms = wall_ms;
        // Begins in the lower half of the counter's range, so that a whole burst fits into one ms.
        gen->counter = (uint32_t)(uuid_random_word(gen) & (COUNTER_MAX >> 1));
    } else if (++gen->counter > COUNTER_MAX) {
        gen->last_ms++; // the counter is used up: borrow the next ms
        gen->counter = 0;
    }
    uint64_t high = gen->last_ms << 16 | 0x7000 | gen->counter;
    uint64_t low = UINT64_C(0x8000000000000000) | random >> 2;

    char *p = uuid_put_hex(out, high >> 32, 8);
    *p++ = '-';
    p = uuid_put_hex(p, high >> 16, 4);
    *p++ = '-';
    p = uuid_put_hex(p, high, 4);
    *p++ = '-';
    p = uuid_put_hex(p, low >> 48, 4);
    *p++ = '-';
    p = uuid_put_hex(p, low, 12);
    *p = '\0';
}

void sk_uuid_next(struct sk_uuid_gen *gen, char out[SK_UUID_SIZE])
{
    sk_uuid_at(gen, sk_wall_ms(), out);
}

static bool uuid_has_dash(int at)
{
    return at == 8 || at == 13 || at == 18 || at == 23;
}

bool sk_uuid_valid(const char *text)
{
    for (int i = 0; i < SK_UUID_CHARS; i++) {
        char c = text[i];
        if (uuid_has_dash(i) ? c != '-' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
    }
    return text[SK_UUID_CHARS] == '\0';
}

bool sk_uuid_read(const char *text, size_t n, char out[SK_UUID_SIZE])
{
    bool dashes = n == SK_UUID_CHARS;
    if (!dashes && n != SK_UUID_CHARS - DASHES)
        return false;
    for (int i = 0; i < SK_UUID_CHARS; i++) {
        char c = '-';
        if (dashes || !uuid_has_dash(i))
            c = *text++;
        out[i] = (char)(c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
    }
    out[SK_UUID_CHARS] = '\0';
    return sk_uuid_valid(out);
}

enum { TAIL_DIGITS = SK_UUID_TAIL_BITS / 4 };

void sk_uuid_set_tail(char id[SK_UUID_SIZE], uint32_t tail)
{
    (void)uuid_put_hex(id + SK_UUID_CHARS - TAIL_DIGITS, tail, TAIL_DIGITS);
}

uint32_t sk_uuid_tail(const char *id)
{
    return (uint32_t)strtoul(id + SK_UUID_CHARS - TAIL_DIGITS, NULL, 16);
}
