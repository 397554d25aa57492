// As in Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012). Words are read as little-endian.
#include "siphash.h"

#include <sys/random.h>

enum { WORD = 8, ROUNDS = 2, LAST_ROUNDS = 4 };

struct siphash_state {
    uint64_t a, b, c, d;
};

static uint64_t siphash_turn(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

static void siphash_mix(struct siphash_state *state, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        state->a += state->b;
        state->b = siphash_turn(state->b, 13) ^ state->a;
        state->a = siphash_turn(state->a, 32);
        state->c += state->d;
        state->d = siphash_turn(state->d, 16) ^ state->c;
        state->a += state->d;
        state->d = siphash_turn(state->d, 21) ^ state->a;
        state->c += state->b;
        state->b = siphash_turn(state->b, 17) ^ state->c;
        state->c = siphash_turn(state->c, 32);
    }
}

static uint64_t siphash_word(const unsigned char *bytes, size_t n)
{
    uint64_t word = 0;
    for (size_t i = 0; i < n; i++)
        word |= (uint64_t)bytes[i] << 8 * i;
    return word;
}

static void siphash_take(struct siphash_state *state, uint64_t word)
{
    state->d ^= word;
    siphash_mix(state, ROUNDS);
    state->a ^= word;
}

uint64_t sk_siphash(const struct sk_siphash_key *key, const void *data, size_t len)
{
    struct siphash_state state = {
        key->words[0] ^ UINT64_C(0x736f6d6570736575), key->words[1] ^ UINT64_C(0x646f72616e646f6d),
        key->words[0] ^ UINT64_C(0x6c7967656e657261), key->words[1] ^ UINT64_C(0x7465646279746573)};
    const unsigned char *at = data;
    for (size_t left = len; left >= WORD; left -= WORD, at += WORD)
        siphash_take(&state, siphash_word(at, WORD));
    siphash_take(&state, siphash_word(at, len % WORD) | (uint64_t)len << 56);
    state.c ^= 0xff;
    siphash_mix(&state, LAST_ROUNDS);
    return state.a ^ state.b ^ state.c ^ state.d;
}

enum sk_status sk_siphash_new_key(struct sk_siphash_key *key)
{
    return getrandom(key, sizeof *key, 0) == (ssize_t)sizeof *key ? SK_OK : SK_FAIL;
}
