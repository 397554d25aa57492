// The generic cell rate algorithm in its "virtual scheduling" form (ITU-T I.371). It keeps for each client the time
// when its tries are paid off: two words a client, and no timer.
//
// The table has rows of four places. A hash under a secret key selects a client's row. If the row is full, a new client
// replaces the client that owes least. That one loses least, and a client at its limit stays at it. So no client is
// rejected because a crowd is larger than the table, and the table remembers the clients that try most.
#include "rates.h"

#include <pthread.h>
#include <stdlib.h>

#include "siphash.h"

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
