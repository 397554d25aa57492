// The generic cell rate algorithm in its "virtual scheduling" form (ITU-T I.371). It keeps for each client the time
// when its tries are paid off: two words a client, and no timer.
//
// The table has rows of four places. A hash under a secret key selects a client's row. If the row is full, a new client
// replaces the client that owes least. That one loses least, and a client at its limit stays at it. So no client is
// rejected because a crowd is larger than the table, and the table remembers the clients that try most.
#include "rates.h"

#include <pthread.h>
#include <stdlib.h>

#include "hash.h"

enum { WAYS = 4, STRIPES = 64, CACHE_LINE = 64 };

#define SECOND_NS UINT64_C(1000000000)

struct rates_place {
    uint64_t client; // hash
    uint64_t free_at_ns;
};

struct rates_stripe {
    pthread_mutex_t mutex; // guards each STRIPES-th row
    char apart[CACHE_LINE];
};

struct sk_rates {
    struct sk_siphash_key key;
    uint64_t cost_ns;
    size_t rows;
    struct rates_place *places;
    struct rates_stripe stripes[STRIPES];
};

static struct rates_place *rates_find(struct rates_place *row, uint64_t client);
static bool rates_pay(uint64_t *free_at_ns, uint64_t cost_ns, uint64_t now_ns);
static uint64_t rates_left(uint64_t free_at_ns, uint64_t cost_ns, uint64_t now_ns);

struct sk_rates *sk_rates_open(uint64_t per_s, size_t places)
{
    struct sk_rates *rates = calloc(1, sizeof *rates);
    if (rates == NULL)
        return NULL;
    rates->cost_ns = SECOND_NS / per_s;
    rates->rows = places / WAYS;
    rates->places = calloc(places, sizeof *rates->places);
    for (int i = 0; i < STRIPES; i++)
        (void)pthread_mutex_init(&rates->stripes[i].mutex, NULL); // cannot fail without attributes
    if (rates->places == NULL || sk_siphash_new_key(&rates->key) != SK_OK) {
        sk_rates_close(rates);
        return NULL;
    }
    return rates;
}

void sk_rates_close(struct sk_rates *rates)
{
    if (rates == NULL)
        return;
    for (int i = 0; i < STRIPES; i++)
        (void)pthread_mutex_destroy(&rates->stripes[i].mutex);
    free(rates->places);
    free(rates);
}

bool sk_rates_take(struct sk_rates *rates, const void *client, size_t len, uint64_t now_ns, uint64_t *left)
{
    uint64_t hash = sk_siphash(&rates->key, client, len);
    size_t row = (size_t)hash & (rates->rows - 1);
    pthread_mutex_t *mutex = &rates->stripes[row % STRIPES].mutex;
    (void)pthread_mutex_lock(mutex);
    struct rates_place *place = rates_find(&rates->places[row * WAYS], hash);
    bool may = rates_pay(&place->free_at_ns, rates->cost_ns, now_ns);
    *left = rates_left(place->free_at_ns, rates->cost_ns, now_ns);
    (void)pthread_mutex_unlock(mutex);
    return may;
}

uint64_t sk_rates_left(struct sk_rates *rates, const void *client, size_t len, uint64_t now_ns)
{
    uint64_t hash = sk_siphash(&rates->key, client, len), free_at_ns = 0;
    size_t row = (size_t)hash & (rates->rows - 1);
    pthread_mutex_t *mutex = &rates->stripes[row % STRIPES].mutex;
    (void)pthread_mutex_lock(mutex);
    for (size_t i = row * WAYS; i < (row + 1) * WAYS; i++) {
        if (rates->places[i].client == hash)
            free_at_ns = rates->places[i].free_at_ns;
    }
    (void)pthread_mutex_unlock(mutex);
    return rates_left(free_at_ns, rates->cost_ns, now_ns);
}

// The client's place, or the one that it takes over.
static struct rates_place *rates_find(struct rates_place *row, uint64_t client)
{
    struct rates_place *least = &row[0];
    for (int i = 0; i < WAYS; i++) {
        if (row[i].client == client)
            return &row[i];
        if (row[i].free_at_ns < least->free_at_ns)
            least = &row[i];
    }
    *least = (struct rates_place){.client = client};
    return least;
}

static bool rates_pay(uint64_t *free_at_ns, uint64_t cost_ns, uint64_t now_ns)
{
    uint64_t free_at = *free_at_ns > now_ns ? *free_at_ns : now_ns;
    if (free_at - now_ns > SECOND_NS - cost_ns)
        return false;
    *free_at_ns = free_at + cost_ns;
    return true;
}

static uint64_t rates_left(uint64_t free_at_ns, uint64_t cost_ns, uint64_t now_ns)
{
    uint64_t owed = free_at_ns > now_ns ? free_at_ns - now_ns : 0, most = SECOND_NS - cost_ns;
    return owed > most ? 0 : (most - owed) / cost_ns + 1;
}

// ---- all together ----

void sk_rate_begin(struct sk_rate *rate, uint64_t per_s)
{
    rate->cost_ns = per_s == 0 ? 0 : SECOND_NS / per_s;
    atomic_init(&rate->free_at_ns, 0);
}

bool sk_rate_take(struct sk_rate *rate, uint64_t now_ns)
{
    uint64_t seen = atomic_load_explicit(&rate->free_at_ns, memory_order_relaxed), paid;
    do {
        paid = seen;
        if (rate->cost_ns != 0 && !rates_pay(&paid, rate->cost_ns, now_ns))
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&rate->free_at_ns, &seen, paid, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

// ---- tally ----

// Open addressing with linear probing, at most half full. Removal leaves no tombstone: the keys behind move up. A
// secret key keeps clients from choosing keys that all begin at one place.

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

static void tally_free_place(struct sk_tally *tally, size_t at);

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

// Moves up the keys behind it, as far as the next free place. No key moves before the place where it begins.
static void tally_free_place(struct sk_tally *tally, size_t at)
{
    size_t next = at;
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
