// The generator is xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators,
// scrambled", 2016): jitter needs spread, not secrecy.
#include "backoff.h"

#include "uuid.h"

static uint64_t next_random(struct sk_backoff *backoff)
{
    while (backoff->random == 0)
        sk_random_bytes(&backoff->random, sizeof backoff->random);
    uint64_t x = backoff->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    backoff->random = x;
    return x * UINT64_C(0x2545F4914F6CDD1D);
}

uint32_t sk_backoff_next(struct sk_backoff *backoff)
{
    uint32_t span = backoff->span_ms == 0 ? backoff->first_ms : backoff->span_ms;
    backoff->span_ms = span > backoff->most_ms / 2 ? backoff->most_ms : span * 2;
    return span / 2 + (uint32_t)((next_random(backoff) >> 32) % (span / 2 + 1));
}

void sk_backoff_reset(struct sk_backoff *backoff)
{
    backoff->span_ms = 0;
}
