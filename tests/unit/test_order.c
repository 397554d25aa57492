// Lists of orders keep their sequence, and an order moves only where allowed. The pool is bounded, returns clean
// orders, and gives each a new id.
#include <signal.h>
#include <string.h>

#include "order.h"
#include "order_id.h"
#include "test.h"

enum { MANY = 5000 };

static struct sk_order_pool *pool;

static void setup(void)
{
    pool = sk_order_pool_new(MANY, 1);
}

static void teardown(void)
{
    sk_order_pool_free(pool);
}

static void have(size_t most, size_t shards)
{
    teardown();
    pool = sk_order_pool_new(most, shards);
}

// Appends new orders with handles from 0 on to the list.
static void take_into(struct sk_order_list *list, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        struct sk_order *order = sk_order_take(pool, 0);
        order->handle = i;
        sk_order_move(pool, order, SK_ORDER_ASKING, list);
    }
}

static void must_be_tickets(const struct sk_order_list *list, uint64_t first, uint64_t count)
{
    const struct sk_order *order = list->head, *before = NULL;
    for (uint64_t i = 0; i < count; i++, before = order, order = order->next) {
        ck_assert_ptr_nonnull(order);
        ck_assert_uint_eq(order->handle, first + i);
        ck_assert_ptr_eq(order->prev, before);
        ck_assert_ptr_eq(order->list, list);
    }
    ck_assert_ptr_null(order);
    ck_assert_ptr_eq(list->tail, before);
    ck_assert_uint_eq(list->count, count);
}

TEST(lists_are_first_in_first_out)
{
    struct sk_order_list waiting = {0}, asked = {0};
    for (int round = 0; round < 3; round++) { // also after the list has been empty
        take_into(&waiting, MANY);
        must_be_tickets(&waiting, 0, MANY);
        for (uint64_t i = 0; i < MANY; i++)
            sk_order_move(pool, waiting.head, SK_ORDER_ASKED, &asked);
        must_be_tickets(&waiting, 0, 0);
        must_be_tickets(&asked, 0, MANY);
        while (asked.head != NULL)
            sk_order_give(pool, asked.head);
    }
}

TEST(an_order_leaves_its_list_from_anywhere_and_returns_to_the_front)
{
    struct sk_order_list waiting = {0}, asked = {0}, granted = {0}, writing = {0};
    take_into(&waiting, 5);
    struct sk_order *middle = waiting.head->next->next;
    sk_order_move(pool, middle, SK_ORDER_ASKED, &asked);
    ck_assert_uint_eq(waiting.count, 4);
    sk_order_give(pool, waiting.tail);
    sk_order_give(pool, waiting.head);
    ck_assert_uint_eq(waiting.head->handle, 1);
    ck_assert_uint_eq(waiting.tail->handle, 3);
    while (waiting.head != NULL)
        sk_order_move(pool, waiting.head, SK_ORDER_ASKED, &asked);
    while (asked.head != NULL)
        sk_order_move(pool, asked.head, SK_ORDER_GRANTED, &granted);
    ck_assert_ptr_eq(granted.head, middle);
    sk_order_move(pool, middle, SK_ORDER_WRITING, &writing);
    sk_order_move_first(pool, middle, SK_ORDER_GRANTED, &granted);
    ck_assert_ptr_eq(granted.head, middle);
    ck_assert_uint_eq(granted.tail->handle, 3);
}

TEST(orders_are_counted_by_state)
{
    // A path through all states that have a gauge.
    static const struct {
        enum sk_order_state state;
        enum sk_metric gauge;
    } way[] = {
        {SK_ORDER_ASKING, SK_METRIC_ORDERS_ASKING},     {SK_ORDER_ASKED, SK_METRIC_ORDERS_ASKED},
        {SK_ORDER_GRANTED, SK_METRIC_ORDERS_WAITING},   {SK_ORDER_WRITING, SK_METRIC_ORDERS_WRITING},
        {SK_ORDER_DELAYED, SK_METRIC_ORDERS_DELAYED},   {SK_ORDER_GRANTED, SK_METRIC_ORDERS_WAITING},
        {SK_ORDER_WRITING, SK_METRIC_ORDERS_WRITING},   {SK_ORDER_SETTING_ASIDE, SK_METRIC_ORDERS_SETTING_ASIDE},
        {SK_ORDER_GRANTED, SK_METRIC_ORDERS_WAITING},   {SK_ORDER_WRITING, SK_METRIC_ORDERS_WRITING},
        {SK_ORDER_LOST, SK_METRIC_ORDERS_LOST},         {SK_ORDER_REGRANTING, SK_METRIC_ORDERS_REGRANTING},
        {SK_ORDER_REFUSING, SK_METRIC_ORDERS_REFUSING},
    };
    struct sk_order_list lists[SK_ORDER_STATES] = {0};
    struct sk_metrics metrics = {0};
    take_into(&lists[SK_ORDER_ASKING], 3);
    sk_order_pool_measure(pool, &metrics);
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_ORDERS_ASKING), 3);
    struct sk_order *order = lists[SK_ORDER_ASKING].head;
    for (size_t i = 1; i < sizeof way / sizeof way[0]; i++) {
        sk_order_move(pool, order, way[i].state, &lists[way[i].state]);
        sk_order_pool_measure(pool, &metrics);
        ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_ORDERS_ASKING), 2);
        ck_assert_uint_eq(sk_metrics_read(&metrics, way[i].gauge), 1);
        ck_assert_uint_eq(sk_metrics_read(&metrics, way[i - 1].gauge), i == 1 ? 2 : 0);
    }
    sk_order_give(pool, order);
    sk_order_give(pool, lists[SK_ORDER_ASKING].head);
    sk_order_give(pool, lists[SK_ORDER_ASKING].head);
    sk_order_pool_measure(pool, &metrics);
    for (size_t i = 0; i < sizeof way / sizeof way[0]; i++)
        ck_assert_uint_eq(sk_metrics_read(&metrics, way[i].gauge), 0);
    ck_assert_uint_eq(sk_order_pool_out(pool), 0);
}

// An order reaches a batch only through Redis, and is never given back twice.
static const enum sk_order_state impossible[] = {SK_ORDER_FREE, SK_ORDER_NEW, SK_ORDER_GRANTED, SK_ORDER_WRITING,
                                                 SK_ORDER_LOST};

TEST_EACH_ABORTS(an_impossible_move_aborts, sizeof impossible / sizeof impossible[0])
{
    struct sk_order_list waiting = {0}, other = {0};
    take_into(&waiting, 1);
    sk_order_move(pool, waiting.head, impossible[_i], &other);
}

TEST_ABORTS(a_list_of_two_states_aborts)
{
    struct sk_order_list list = {0}, asked = {0};
    take_into(&asked, 1);
    sk_order_move(pool, asked.head, SK_ORDER_ASKED, &list);
    take_into(&list, 1);
}

TEST_ABORTS(an_order_given_back_twice_aborts)
{
    struct sk_order *order = sk_order_take(pool, 0);
    sk_order_give(pool, order);
    sk_order_give(pool, order);
}

TEST(a_pool_gives_no_more_than_its_bound)
{
    static const size_t bounds[] = {0, 1, 1023, 1024, 1025, MANY};
    for (size_t b = 0; b < sizeof bounds / sizeof bounds[0]; b++) {
        struct sk_order_list out = {0};
        struct sk_order *order;
        have(bounds[b], 1);
        while ((order = sk_order_take(pool, 0)) != NULL) {
            order->handle = out.count; // would be overwritten if handed out twice
            sk_order_move(pool, order, SK_ORDER_NEW, &out);
        }
        must_be_tickets(&out, 0, bounds[b]);
        ck_assert_uint_eq(sk_order_pool_out(pool), bounds[b]);
        // An order given back can be taken again.
        if ((order = out.head) != NULL) {
            sk_order_give(pool, order);
            ck_assert_uint_eq(sk_order_pool_out(pool), bounds[b] - 1);
            ck_assert_ptr_nonnull(sk_order_take(pool, 0));
            ck_assert_ptr_null(sk_order_take(pool, 0));
        }
    }
    sk_order_pool_free(NULL);
}

// How many orders of the shard the pool gives now.
static size_t taken_of(unsigned shard)
{
    size_t count = 0;
    while (sk_order_take(pool, shard) != NULL)
        count++;
    return count;
}

// Whether a shard is away, hangs or is only slow makes no difference: what counts are its orders.
TEST(a_shard_takes_no_more_room_than_it_leaves)
{
    have(120, 3);
    ck_assert_uint_eq(taken_of(2), 60);
    ck_assert_uint_eq(sk_order_pool_most(pool), 60);
    ck_assert_uint_eq(taken_of(0), 30);
    ck_assert_uint_eq(taken_of(1), 15);
    ck_assert_uint_eq(taken_of(2), 0);
    have(120, 2);
    for (int i = 0; i < 40; i++) // in turn: a third each, and a third is free
        ck_assert(sk_order_take(pool, 0) != NULL && sk_order_take(pool, 1) != NULL);
    ck_assert_uint_eq(taken_of(0) + taken_of(1), 0);
}

TEST(a_shard_has_room_again_when_its_orders_have_ended)
{
    have(4, 2);
    struct sk_order *first = sk_order_take(pool, 1);
    ck_assert(first != NULL && sk_order_take(pool, 1) != NULL && sk_order_take(pool, 1) == NULL);
    sk_order_give(pool, first);
    ck_assert_ptr_nonnull(sk_order_take(pool, 1));
}

TEST(an_order_used_before_comes_clean)
{
    have(1, 1);
    for (int i = 0; i < 2; i++) {
        struct sk_order *order = sk_order_take(pool, 0);
        ck_assert(order->next == NULL && order->prev == NULL && order->list == NULL && order->entry == NULL);
        ck_assert_int_eq(order->state, SK_ORDER_NEW);
        ck_assert_uint_eq(order->quantity, 1);
        ck_assert_uint_eq(order->handle | order->not_before_ms | order->began_ns | order->granted_ns | order->key, 0);
        ck_assert_int_eq(order->offer | order->price.cents | order->price.currency[0] | order->sent.offer, 0);
        ck_assert_int_eq(order->refusals | order->rounds | order->low_priority | (int)order->sent.kind, 0);
        order->entry = (struct sk_entry *)(void *)order;
        order->handle = order->not_before_ms = order->began_ns = order->granted_ns = order->key = 7;
        order->quantity = 7;
        order->offer = order->sent.offer = 7;
        order->price = (struct sk_price){7, "CNY"};
        order->sent.kind = SK_ASK_GOOD_TICKET;
        order->refusals = order->rounds = 7;
        order->low_priority = true;
        sk_order_give(pool, order);
    }
}

TEST(names_of_a_pool_are_different_and_rise)
{
    enum { SLOT = 1234, EPOCH = 3 };
    char last[SK_UUID_SIZE] = "";
    have(1, 1);
    for (int i = 0; i < MANY; i++) {
        struct sk_order *order = sk_order_take(pool, 0);
        sk_order_name(pool, order, SLOT, EPOCH);
        ck_assert(sk_uuid_valid(order->id));
        ck_assert_uint_eq(sk_order_id_slot(order->id), SLOT);
        ck_assert_str_gt(order->id, last);
        memcpy(last, order->id, sizeof last);
        sk_order_give(pool, order);
    }
}

SUITE(.timeout_s = 30, .setup = setup, .teardown = teardown);
