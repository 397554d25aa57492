// Orders are carved from slabs that live as long as the pool; a free list hands them out again.
#include "order.h"

#include <stdlib.h>

enum { SLAB_ORDERS = 1024 };

struct slab {
    struct slab *next;
    struct sk_order orders[SLAB_ORDERS];
};

struct sk_order_pool {
    struct slab *slabs;
    struct sk_order *spare;
    size_t out, most;
    struct sk_uuid_gen ids;
};

void sk_order_push(struct sk_order_list *list, struct sk_order *order)
{
    order->next = NULL;
    if (list->tail != NULL)
        list->tail->next = order;
    else
        list->head = order;
    list->tail = order;
    list->count++;
}

struct sk_order *sk_order_pop(struct sk_order_list *list)
{
    struct sk_order *order = list->head;
    if (order == NULL)
        return NULL;
    list->head = order->next;
    if (list->head == NULL)
        list->tail = NULL;
    list->count--;
    order->next = NULL;
    return order;
}

struct sk_order_pool *sk_order_pool_new(size_t most)
{
    struct sk_order_pool *pool = calloc(1, sizeof *pool);
    if (pool != NULL)
        pool->most = most;
    return pool;
}

void sk_order_pool_free(struct sk_order_pool *pool)
{
    while (pool != NULL && pool->slabs != NULL) {
        struct slab *next = pool->slabs->next;
        free(pool->slabs);
        pool->slabs = next;
    }
    free(pool);
}

static int grow(struct sk_order_pool *pool)
{
    struct slab *slab = calloc(1, sizeof *slab);
    if (slab == NULL)
        return 0;
    slab->next = pool->slabs;
    pool->slabs = slab;
    for (int i = 0; i < SLAB_ORDERS; i++) {
        slab->orders[i].next = pool->spare;
        pool->spare = &slab->orders[i];
    }
    return 1;
}

struct sk_order *sk_order_take(struct sk_order_pool *pool)
{
    if (pool->out >= pool->most || (pool->spare == NULL && !grow(pool)))
        return NULL;
    struct sk_order *order = pool->spare;
    pool->spare = order->next;
    pool->out++;
    order->next = NULL;
    order->entry = NULL;
    order->ticket = 0;
    order->not_before_ms = 0;
    order->patient = false;
    order->refusals = 0;
    sk_uuid_next(&pool->ids, order->id);
    return order;
}

void sk_order_give(struct sk_order_pool *pool, struct sk_order *order)
{
    order->next = pool->spare;
    pool->spare = order;
    pool->out--;
}

size_t sk_order_pool_out(const struct sk_order_pool *pool)
{
    return pool->out;
}
