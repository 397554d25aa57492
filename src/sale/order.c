// Orders are carved from slabs that live as long as the pool; a free list hands them out again.
#include "order.h"

#include <stdlib.h>

#include "order_id.h"
#include "status.h"

enum { SLAB_ORDERS = 1024 };

struct slab {
    struct slab *next;
    struct sk_order orders[SLAB_ORDERS];
};

struct sk_order_pool {
    struct slab *slabs;
    struct sk_order *spare;
    size_t out, most;
    size_t shards, out_of[SK_SHARDS_MAX];
    size_t counts[SK_ORDER_STATES];
    struct sk_uuid_gen ids;
};

struct sk_order_pool *sk_order_pool_new(size_t most, size_t shards)
{
    struct sk_order_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL)
        return NULL;
    pool->most = most;
    pool->shards = shards;
    return pool;
}

size_t sk_order_pool_most(const struct sk_order_pool *pool)
{
    return pool->shards > 1 ? (pool->most + 1) / 2 : pool->most;
}

bool sk_order_pool_has_room(const struct sk_order_pool *pool, size_t most, unsigned shard)
{
    size_t left = most > pool->out ? most - pool->out : 0;
    return left > 0 && (pool->shards <= 1 || pool->out_of[shard] < left);
}

static bool order_grow(struct sk_order_pool *pool)
{
    struct slab *slab = calloc(1, sizeof *slab);
    if (slab == NULL)
        return false;
    slab->next = pool->slabs;
    pool->slabs = slab;
    for (int i = 0; i < SLAB_ORDERS; i++) {
        slab->orders[i].next = pool->spare;
        pool->spare = &slab->orders[i];
    }
    return true;
}

struct sk_order *sk_order_take(struct sk_order_pool *pool, unsigned shard)
{
    if (!sk_order_pool_has_room(pool, pool->most, shard) || (pool->spare == NULL && !order_grow(pool)))
        return NULL;
    struct sk_order *order = pool->spare;
    pool->spare = order->next;
    pool->out++;
    pool->out_of[shard]++;
    SK_ASSERT(order->state == SK_ORDER_FREE && pool->out <= pool->most);
    order->shard = (uint8_t)shard;
    pool->counts[SK_ORDER_NEW]++;
    order->state = SK_ORDER_NEW;
    order->prev = order->next = NULL;
    order->list = NULL;
    order->entry = NULL;
    order->handle = 0;
    order->not_before_ms = 0;
    order->began_ns = order->granted_ns = 0;
    order->key = 0;
    order->quantity = 1;
    order->low_priority = order->waits = false;
    order->refusals = order->rounds = 0;
    order->offer = 0;
    order->price = (struct sk_price){0};
    order->sent = (struct sk_sent_ticket){0};
    return order;
}

void sk_order_name(struct sk_order_pool *pool, struct sk_order *order, unsigned slot, int64_t epoch)
{
    sk_order_id_make(&pool->ids, slot, epoch, order->id);
}

static void order_link(struct sk_order *order, struct sk_order *before, struct sk_order_list *list)
{
    SK_ASSERT((list->count == 0) == (list->head == NULL) && (list->head == NULL || list->head->state == order->state));
    order->list = list;
    order->next = before;
    order->prev = before != NULL ? before->prev : list->tail;
    if (order->prev != NULL)
        order->prev->next = order;
    else
        list->head = order;
    if (order->next != NULL)
        order->next->prev = order;
    else
        list->tail = order;
    list->count++;
}

static void order_unlink(struct sk_order *order)
{
    struct sk_order_list *list = order->list;
    if (list == NULL)
        return;
    if (order->prev != NULL)
        order->prev->next = order->next;
    else
        list->head = order->next;
    if (order->next != NULL)
        order->next->prev = order->prev;
    else
        list->tail = order->prev;
    SK_ASSERT(list->count > 0);
    list->count--;
    SK_ASSERT((list->count == 0) == (list->head == NULL) && (list->head == NULL) == (list->tail == NULL));
    order->list = NULL;
    order->prev = order->next = NULL;
}

static void order_enter(struct sk_order_pool *pool, struct sk_order *order, enum sk_order_state state)
{
#define TO(name) (1U << SK_ORDER_##name)
    static const unsigned allowed[SK_ORDER_STATES] = {
        // GRANTED, LOST: orders read back from a journal or a letter
        [SK_ORDER_NEW] = TO(NEW) | TO(ASKING) | TO(JOINING) | TO(GRANTED) | TO(LOST),
        [SK_ORDER_ASKING] = TO(ASKED),
        [SK_ORDER_ASKED] = TO(GRANTED) | TO(JOINING) | TO(ASKING), // ASKING: another offer, or another node
        [SK_ORDER_JOINING] = TO(JOINING),
        [SK_ORDER_GRANTED] = TO(WRITING),
        [SK_ORDER_DELAYED] = TO(GRANTED),
        [SK_ORDER_WRITING] = TO(GRANTED) | TO(DELAYED) | TO(SETTING_ASIDE) | TO(LOST),
        [SK_ORDER_SETTING_ASIDE] = TO(GRANTED),
        [SK_ORDER_LOST] = TO(REGRANTING) | TO(REFUSING),
        [SK_ORDER_REGRANTING] = TO(GRANTED) | TO(REFUSING) | TO(LOST),
        [SK_ORDER_REFUSING] = TO(LOST),
    };
#undef TO
    SK_ASSERT((allowed[order->state] & 1U << state) != 0);
    order_unlink(order);
    SK_ASSERT(pool->counts[order->state] > 0);
    pool->counts[order->state]--;
    pool->counts[state]++;
    order->state = state;
}

void sk_order_move(struct sk_order_pool *pool, struct sk_order *order, enum sk_order_state state,
                   struct sk_order_list *to)
{
    order_enter(pool, order, state);
    order_link(order, NULL, to);
}

void sk_order_move_first(struct sk_order_pool *pool, struct sk_order *order, enum sk_order_state state,
                         struct sk_order_list *to)
{
    order_enter(pool, order, state);
    order_link(order, to->head, to);
}

void sk_order_give(struct sk_order_pool *pool, struct sk_order *order)
{
    SK_ASSERT(order->state != SK_ORDER_FREE);
    order_unlink(order);
    SK_ASSERT(pool->counts[order->state] > 0);
    pool->counts[order->state]--;
    order->state = SK_ORDER_FREE;
    order->next = pool->spare;
    pool->spare = order;
    SK_ASSERT(pool->out > 0 && pool->out_of[order->shard] > 0);
    pool->out--;
    pool->out_of[order->shard]--;
}

size_t sk_order_pool_out(const struct sk_order_pool *pool)
{
    return pool->out;
}

void sk_order_pool_measure(const struct sk_order_pool *pool, struct sk_metrics *metrics)
{
    static const struct {
        enum sk_order_state state;
        enum sk_metric gauge;
    } rows[] = {
        {SK_ORDER_ASKING, SK_METRIC_ORDERS_ASKING},
        {SK_ORDER_ASKED, SK_METRIC_ORDERS_ASKED},
        {SK_ORDER_JOINING, SK_METRIC_ORDERS_JOINING},
        {SK_ORDER_GRANTED, SK_METRIC_ORDERS_WAITING},
        {SK_ORDER_DELAYED, SK_METRIC_ORDERS_DELAYED},
        {SK_ORDER_WRITING, SK_METRIC_ORDERS_WRITING},
        {SK_ORDER_SETTING_ASIDE, SK_METRIC_ORDERS_SETTING_ASIDE},
        {SK_ORDER_LOST, SK_METRIC_ORDERS_LOST},
        {SK_ORDER_REGRANTING, SK_METRIC_ORDERS_REGRANTING},
        {SK_ORDER_REFUSING, SK_METRIC_ORDERS_REFUSING},
    };
    _Static_assert(sizeof rows / sizeof rows[0] == SK_ORDER_STATES - SK_ORDER_ASKING, "each state has a gauge");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        sk_metrics_set(metrics, rows[i].gauge, pool->counts[rows[i].state]);
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
