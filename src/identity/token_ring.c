// Everything that a reactor needs of a set was made with it, so that to take it cannot fail: with a key removed there
// is no going on with the old set.
#include "token_ring.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "editions.h"
#include "log.h"

struct sk_token_ring {
    char *path; // owned
    unsigned readers;
    struct sk_editions *sets; // owned
};

static struct sk_token_keys *ring_read(const struct sk_token_ring *ring);

static void ring_free_set(void *value)
{
    sk_token_keys_free(value);
}

struct sk_token_ring *sk_token_ring_open(const char *path, unsigned readers)
{
    struct sk_token_ring *ring = calloc(1, sizeof *ring);
    if (ring != NULL) {
        ring->path = strdup(path);
        ring->sets = sk_editions_open(ring_free_set);
        ring->readers = readers;
    }
    if (ring == NULL || ring->path == NULL || ring->sets == NULL)
        sk_log(SK_LOG_ERROR, "no memory for the keys of users' tokens", "");
    else if (sk_token_ring_reload(ring))
        return ring;
    sk_token_ring_close(ring);
    return NULL;
}

void sk_token_ring_close(struct sk_token_ring *ring)
{
    if (ring == NULL)
        return;
    sk_editions_close(ring->sets);
    free(ring->path);
    free(ring);
}

// ---- reading ----

bool sk_token_ring_reload(struct sk_token_ring *ring)
{
    struct sk_token_keys *set = ring_read(ring);
    if (set == NULL)
        return false;
    size_t keys = sk_token_keys_count(set);
    if (!sk_editions_publish(ring->sets, set)) {
        sk_log(SK_LOG_ERROR, "no memory for the keys of users' tokens", "");
        sk_token_keys_free(set);
        return false;
    }
    sk_log(SK_LOG_INFO, "keys of users' tokens", "keys=%zu version=%" PRIu64, keys, sk_token_ring_version(ring));
    return true;
}

// NULL: the reason is logged.
static struct sk_token_keys *ring_read(const struct sk_token_ring *ring)
{
    char wrong[SK_TOKEN_KEYS_WRONG_SIZE] = "out of memory";
    const struct sk_token_keys *old = sk_editions_current(ring->sets);
    struct sk_token_keys *set = sk_token_keys_load(ring->path, ring->readers, old, wrong);
    if (set == NULL)
        sk_log_text(SK_LOG_ERROR,
                    old == NULL ? "SECKILL_TOKEN_KEYS: cannot read the keys of users' tokens"
                                : "SECKILL_TOKEN_KEYS: cannot read the new keys of users' tokens; the old ones stay",
                    "reason", wrong);
    return set;
}

// ---- holding ----

uint64_t sk_token_ring_version(const struct sk_token_ring *ring)
{
    return sk_editions_version(ring->sets);
}

const struct sk_token_keys *sk_token_ring_take(struct sk_token_ring *ring, uint64_t *version)
{
    return sk_editions_take(ring->sets, version);
}

void sk_token_ring_give_back(struct sk_token_ring *ring, const struct sk_token_keys *keys)
{
    sk_editions_give_back(ring->sets, keys);
}

size_t sk_token_ring_sets(struct sk_token_ring *ring)
{
    return sk_editions_count(ring->sets);
}
