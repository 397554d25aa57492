// Kind (1 byte), positions (16 bytes each), check (7), each most significant byte first. One position makes 24 bytes,
// which fill 32 characters without a spare bit. Spare bits must be 0, so each cursor has one text.
#include "cursor.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base64url.h"
#include "hash.h"
#include "shards.h"
#include "status.h"
#include "uuid.h"

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

void sk_cursor_put_event(char out[SK_CURSOR_SIZE], const struct sk_position *position, size_t shard, size_t shards)
{
    uint64_t number = shards > 1 ? shard + 1 : 0;
    const struct sk_position own = {position->first, position->second | number << SK_CURSOR_SHARD_SHIFT};
    sk_cursor_put(out, SK_CURSOR_ORDER_EVENTS, "", &own, 1);
}

// PostgreSQL has no number above it.
static bool cursor_can_be(enum sk_cursor_kind kind, const struct sk_position *position)
{
    uint64_t most = kind == SK_CURSOR_ORDER_EVENTS ? (UINT64_C(1) << SK_CURSOR_SHARD_SHIFT) - 1 : INT64_MAX;
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
