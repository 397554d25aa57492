// A lock guards publishing, taking and giving back, which are rare. The check for a new edition only reads the version.
#include "editions.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "status.h"

struct edition {
    void *value; // owned
    size_t holders;
    struct edition *next;
};

struct sk_editions {
    void (*free_value)(void *value);
    _Atomic uint64_t version;
    pthread_mutex_t lock;  // guards the list
    struct edition *first; // the current one
};

struct sk_editions *sk_editions_open(void (*free_value)(void *value))
{
    struct sk_editions *editions = calloc(1, sizeof *editions);
    if (editions == NULL)
        return NULL;
    editions->free_value = free_value;
    (void)pthread_mutex_init(&editions->lock, NULL);
    return editions;
}

static void editions_free(const struct sk_editions *editions, struct edition *list)
{
    while (list != NULL) {
        struct edition *next = list->next;
        editions->free_value(list->value);
        free(list);
        list = next;
    }
}

void sk_editions_close(struct sk_editions *editions)
{
    if (editions == NULL)
        return;
    for (const struct edition *edition = editions->first; edition != NULL; edition = edition->next)
        SK_ASSERT(edition->holders == 0);
    editions_free(editions, editions->first);
    (void)pthread_mutex_destroy(&editions->lock);
    free(editions);
}

// ---- publishing ----

// Removes the editions that are neither current nor held from the list, and returns them.
static struct edition *editions_let_go(struct sk_editions *editions)
{
    struct edition *unused = NULL;
    for (struct edition **at = &editions->first->next; *at != NULL;) {
        struct edition *edition = *at;
        if (edition->holders > 0) {
            at = &edition->next;
            continue;
        }
        *at = edition->next;
        edition->next = unused;
        unused = edition;
    }
    return unused;
}

bool sk_editions_publish(struct sk_editions *editions, void *value)
{
    struct edition *edition = calloc(1, sizeof *edition);
    if (edition == NULL)
        return false;
    edition->value = value;
    (void)pthread_mutex_lock(&editions->lock);
    edition->next = editions->first;
    editions->first = edition;
    struct edition *unused = editions_let_go(editions);
    (void)atomic_fetch_add_explicit(&editions->version, 1, memory_order_release);
    (void)pthread_mutex_unlock(&editions->lock);
    editions_free(editions, unused);
    return true;
}

void *sk_editions_current(const struct sk_editions *editions)
{
    return editions->first == NULL ? NULL : editions->first->value;
}

// ---- holding ----

uint64_t sk_editions_version(const struct sk_editions *editions)
{
    return atomic_load_explicit(&editions->version, memory_order_acquire);
}

void *sk_editions_take(struct sk_editions *editions, uint64_t *version)
{
    (void)pthread_mutex_lock(&editions->lock);
    struct edition *edition = editions->first;
    edition->holders++;
    *version = atomic_load_explicit(&editions->version, memory_order_relaxed);
    (void)pthread_mutex_unlock(&editions->lock);
    return edition->value;
}

void sk_editions_give_back(struct sk_editions *editions, const void *value)
{
    (void)pthread_mutex_lock(&editions->lock);
    struct edition *edition = editions->first;
    while (edition->value != value)
        edition = edition->next;
    SK_ASSERT(edition->holders > 0);
    edition->holders--;
    struct edition *unused = editions_let_go(editions);
    (void)pthread_mutex_unlock(&editions->lock);
    editions_free(editions, unused);
}

size_t sk_editions_count(struct sk_editions *editions)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&editions->lock);
    for (const struct edition *edition = editions->first; edition != NULL; edition = edition->next)
        count++;
    (void)pthread_mutex_unlock(&editions->lock);
    return count;
}
