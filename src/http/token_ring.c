// A lock for taking and giving back, which happens once for each reading of the file; to see that nothing has changed
// takes a look at the version. Everything that a reactor needs of a set was made with it, so that to take it cannot
// fail: with a key removed there is no going on with the old set.
#include "token_ring.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

struct held {
    struct sk_token_keys *keys; // owned
    size_t holders;
    struct held *next;
};

struct sk_token_ring {
    char *path; // owned
    unsigned readers;
    _Atomic uint64_t version;
    pthread_mutex_t lock; // of the list
    struct held *sets;    // the first is the current one
};

static struct held *ring_read(const struct sk_token_ring *ring);
static void ring_publish(struct sk_token_ring *ring, struct held *set);
static struct held *ring_let_go(struct sk_token_ring *ring);
static void ring_free_sets(struct held *sets);

struct sk_token_ring *sk_token_ring_open(const char *path, unsigned readers)
{
    struct sk_token_ring *ring = calloc(1, sizeof *ring);
    char *copy = strdup(path);
    if (ring == NULL || copy == NULL || pthread_mutex_init(&ring->lock, NULL) != 0) {
        sk_log(SK_LOG_ERROR, "no memory for the keys of users' tokens", "");
        free(copy);
        free(ring);
        return NULL;
    }
    ring->path = copy;
    ring->readers = readers;
    if (!sk_token_ring_reload(ring)) {
        sk_token_ring_close(ring);
        return NULL;
    }
    return ring;
}

void sk_token_ring_close(struct sk_token_ring *ring)
{
    if (ring == NULL)
        return;
    for (const struct held *set = ring->sets; set != NULL; set = set->next)
        SK_ASSERT(set->holders == 0);
    ring_free_sets(ring->sets);
    (void)pthread_mutex_destroy(&ring->lock);
    free(ring->path);
    free(ring);
}

static void ring_free_sets(struct held *sets)
{
    while (sets != NULL) {
        struct held *next = sets->next;
        sk_token_keys_free(sets->keys);
        free(sets);
        sets = next;
    }
}

// ---- reading ----

bool sk_token_ring_reload(struct sk_token_ring *ring)
{
    struct held *set = ring_read(ring);
    if (set == NULL)
        return false;
    size_t keys = sk_token_keys_count(set->keys);
    ring_publish(ring, set);
    sk_log(SK_LOG_INFO, "keys of users' tokens", "keys=%zu version=%" PRIu64, keys, sk_token_ring_version(ring));
    return true;
}

// NULL: the reason is logged.
static struct held *ring_read(const struct sk_token_ring *ring)
{
    char wrong[SK_TOKEN_KEYS_WRONG_SIZE] = "out of memory";
    struct held *set = calloc(1, sizeof *set);
    if (set != NULL)
        set->keys = sk_token_keys_load(ring->path, ring->readers, ring->sets == NULL ? NULL : ring->sets->keys, wrong);
    if (set != NULL && set->keys != NULL)
        return set;
    free(set);
    sk_log_text(SK_LOG_ERROR,
                ring->sets == NULL ? "SECKILL_TOKEN_KEYS: cannot read the keys of users' tokens"
                                   : "SECKILL_TOKEN_KEYS: cannot read the new keys of users' tokens; the old ones stay",
                "reason", wrong);
    return NULL;
}

// ---- publishing ----

static void ring_publish(struct sk_token_ring *ring, struct held *set)
{
    (void)pthread_mutex_lock(&ring->lock);
    set->next = ring->sets;
    ring->sets = set;
    struct held *unused = ring_let_go(ring);
    atomic_fetch_add_explicit(&ring->version, 1, memory_order_release);
    (void)pthread_mutex_unlock(&ring->lock);
    ring_free_sets(unused);
}

// Takes those out of the list that are neither current nor held.
static struct held *ring_let_go(struct sk_token_ring *ring)
{
    struct held *unused = NULL;
    for (struct held **at = &ring->sets->next; *at != NULL;) {
        struct held *set = *at;
        if (set->holders > 0) {
            at = &set->next;
            continue;
        }
        *at = set->next;
        set->next = unused;
        unused = set;
    }
    return unused;
}

uint64_t sk_token_ring_version(const struct sk_token_ring *ring)
{
    return atomic_load_explicit(&ring->version, memory_order_acquire);
}

const struct sk_token_keys *sk_token_ring_take(struct sk_token_ring *ring, uint64_t *version)
{
    (void)pthread_mutex_lock(&ring->lock);
    struct held *set = ring->sets;
    set->holders++;
    *version = atomic_load_explicit(&ring->version, memory_order_relaxed);
    (void)pthread_mutex_unlock(&ring->lock);
    return set->keys;
}

void sk_token_ring_give_back(struct sk_token_ring *ring, const struct sk_token_keys *keys)
{
    (void)pthread_mutex_lock(&ring->lock);
    struct held *set = ring->sets;
    while (set->keys != keys)
        set = set->next;
    set->holders--;
    struct held *unused = ring_let_go(ring);
    (void)pthread_mutex_unlock(&ring->lock);
    ring_free_sets(unused);
}

size_t sk_token_ring_sets(struct sk_token_ring *ring)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&ring->lock);
    for (const struct held *set = ring->sets; set != NULL; set = set->next)
        count++;
    (void)pthread_mutex_unlock(&ring->lock);
    return count;
}
