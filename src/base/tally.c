// Open addressing with linear probing, at most half full. Removal leaves no tombstone: the keys behind move up. A
// secret key keeps clients from choosing keys that all begin at one place.
#include "tally.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "siphash.h"

struct tally_place {
    uint64_t key;
    uint64_t count; // 0: free
};

struct sk_tally {
    pthread_mutex_t mutex;
    struct sk_siphash_key key;
    uint64_t most;
    size_t keys, used, mask;
    struct tally_place *places;
};

struct sk_tally *sk_tally_open(size_t keys, uint64_t most)
{
    struct sk_tally *tally = calloc(1, sizeof *tally);
    size_t places = 2;
    if (tally == NULL)
        return NULL;
    while (places < 2 * keys)
        places *= 2;
    tally->most = most;
    tally->keys = keys;
    tally->mask = places - 1;
    tally->places = calloc(places, sizeof *tally->places);
    (void)pthread_mutex_init(&tally->mutex, NULL); // cannot fail without attributes
    if (tally->places == NULL || sk_siphash_new_key(&tally->key) != SK_OK) {
        sk_tally_close(tally);
        return NULL;
    }
    return tally;
}

void sk_tally_close(struct sk_tally *tally)
{
    if (tally == NULL)
        return;
    (void)pthread_mutex_destroy(&tally->mutex);
    free(tally->places);
    free(tally);
}

static size_t tally_begin(const struct sk_tally *tally, uint64_t key)
{
    return (size_t)sk_siphash(&tally->key, &key, sizeof key) & tally->mask;
}

// The key's place, or the free one where it would be.
static size_t tally_find(const struct sk_tally *tally, uint64_t key)
{
    size_t at = tally_begin(tally, key);
    while (tally->places[at].count > 0 && tally->places[at].key != key)
        at = (at + 1) & tally->mask;
    return at;
}

bool sk_tally_add(struct sk_tally *tally, uint64_t key)
{
    (void)pthread_mutex_lock(&tally->mutex);
    struct tally_place *place = &tally->places[tally_find(tally, key)];
    bool may = place->count < tally->most && (place->count > 0 || tally->used < tally->keys);
    if (may) {
        tally->used += place->count == 0;
        place->key = key;
        place->count++;
    }
    (void)pthread_mutex_unlock(&tally->mutex);
    return may;
}

// Moves up the keys behind it, as far as the next free place. No key moves before the place where it begins.
static void tally_free_place(struct sk_tally *tally, size_t at)
{
    size_t next = at;
    SK_ASSERT(tally->used > 0);
    tally->used--;
    for (;;) {
        next = (next + 1) & tally->mask;
        if (tally->places[next].count == 0)
            break;
        size_t begin = tally_begin(tally, tally->places[next].key);
        if (((next - begin) & tally->mask) < ((next - at) & tally->mask))
            continue;
        tally->places[at] = tally->places[next];
        at = next;
    }
    tally->places[at].count = 0;
}

void sk_tally_remove(struct sk_tally *tally, uint64_t key)
{
    (void)pthread_mutex_lock(&tally->mutex);
    size_t at = tally_find(tally, key);
    SK_ASSERT(tally->places[at].count > 0);
    tally->places[at].count--;
    if (tally->places[at].count == 0)
        tally_free_place(tally, at);
    (void)pthread_mutex_unlock(&tally->mutex);
}
