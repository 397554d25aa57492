// Lists of orders keep their order; the pool is bounded and hands out clean orders with ids of their own.
#include <string.h>

#include "order.h"
#include "stack.h"

enum { MANY = 5000 };

START_TEST(lists_are_first_in_first_out)
{
    static struct sk_order orders[MANY];
    struct sk_order_list list = {0};
    ck_assert_ptr_null(sk_order_pop(&list));
    for (int round = 0; round < 3; round++) { // also after it has been empty
        for (size_t i = 0; i < MANY; i++) {
            sk_order_push(&list, &orders[i]);
            ck_assert_uint_eq(list.count, i + 1);
        }
        for (size_t i = 0; i < MANY; i++) {
            ck_assert_ptr_eq(sk_order_pop(&list), &orders[i]);
            ck_assert_uint_eq(list.count, MANY - i - 1);
            ck_assert_ptr_null(orders[i].next);
        }
        ck_assert_ptr_null(sk_order_pop(&list));
        ck_assert_ptr_null(list.head);
        ck_assert_ptr_null(list.tail);
    }
}
END_TEST

START_TEST(popping_while_pushing_keeps_the_order)
{
    static struct sk_order orders[MANY];
    struct sk_order_list list = {0};
    size_t in = 0, out = 0;
    while (out < MANY) {
        for (int i = 0; i < 3 && in < MANY; i++)
            sk_order_push(&list, &orders[in++]);
        ck_assert_ptr_eq(sk_order_pop(&list), &orders[out++]);
    }
    ck_assert_uint_eq(list.count, 0);
}
END_TEST

START_TEST(a_pool_gives_no_more_than_its_bound)
{
    static const size_t bounds[] = {0, 1, 1023, 1024, 1025, MANY};
    for (size_t b = 0; b < sizeof bounds / sizeof bounds[0]; b++) {
        struct sk_order_pool *pool = sk_order_pool_new(bounds[b]);
        struct sk_order_list out = {0};
        struct sk_order *order;
        while ((order = sk_order_take(pool)) != NULL)
            sk_order_push(&out, order);
        ck_assert_uint_eq(out.count, bounds[b]);
        ck_assert_uint_eq(sk_order_pool_out(pool), bounds[b]);
        // One given back is one that can be taken again.
        if ((order = sk_order_pop(&out)) != NULL) {
            sk_order_give(pool, order);
            ck_assert_uint_eq(sk_order_pool_out(pool), bounds[b] - 1);
            ck_assert_ptr_nonnull(sk_order_take(pool));
            ck_assert_ptr_null(sk_order_take(pool));
        }
        sk_order_pool_free(pool);
    }
    sk_order_pool_free(NULL);
}
END_TEST

START_TEST(orders_that_are_out_are_different_ones)
{
    static struct sk_order *orders[MANY];
    struct sk_order_pool *pool = sk_order_pool_new(MANY);
    for (size_t i = 0; i < MANY; i++) {
        orders[i] = sk_order_take(pool);
        ck_assert_ptr_nonnull(orders[i]);
        orders[i]->ticket = i; // would be overwritten if handed out twice
    }
    for (size_t i = 0; i < MANY; i++)
        ck_assert_uint_eq(orders[i]->ticket, i);
    sk_order_pool_free(pool);
}
END_TEST

START_TEST(an_order_used_before_comes_clean_and_with_a_new_id)
{
    struct sk_order_pool *pool = sk_order_pool_new(1);
    char last[SK_UUID_SIZE] = "";
    for (int i = 0; i < MANY; i++) {
        struct sk_order *order = sk_order_take(pool);
        ck_assert_ptr_null(order->next);
        ck_assert_ptr_null(order->entry);
        ck_assert_uint_eq(order->ticket, 0);
        ck_assert_uint_eq(order->not_before_ms, 0);
        ck_assert(!order->patient);
        ck_assert(sk_uuid_valid(order->id));
        ck_assert_str_gt(order->id, last); // ids of a pool rise
        memcpy(last, order->id, sizeof last);
        order->next = order;
        order->entry = (struct sk_entry *)(void *)order;
        order->ticket = order->not_before_ms = 7;
        order->patient = true;
        sk_order_give(pool, order);
    }
    sk_order_pool_free(pool);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("order");
    tcase_add_test(tcase, lists_are_first_in_first_out);
    tcase_add_test(tcase, popping_while_pushing_keeps_the_order);
    tcase_add_test(tcase, a_pool_gives_no_more_than_its_bound);
    tcase_add_test(tcase, orders_that_are_out_are_different_ones);
    tcase_add_test(tcase, an_order_used_before_comes_clean_and_with_a_new_id);
    return harness_main(tcase, CK_FORK);
}
