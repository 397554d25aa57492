// A journal entry's orders are taken as a whole or not at all. The stores are stand-ins.

#include "entry.h"
#include "fake_stores.h"
#include "stack.h"

enum { ROOM = 3 };

#define A "018bcfe5-6800-7000-8000-00000000000a"
#define B "018bcfe5-6800-7000-8000-00000000000b"
#define C "018bcfe5-6800-7000-8000-00000000000c"
#define D "018bcfe5-6800-7000-8000-00000000000d"

static struct sk_sale sale;

static void setup(void)
{
    sale = (struct sk_sale){.orders = sk_order_pool_new(ROOM)};
}

static void teardown(void)
{
    ck_assert_uint_eq(sk_order_pool_out(sale.orders), 0);
    sk_order_pool_free(sale.orders);
    fake_stores_forget();
}

static bool take(const char *text, struct sk_order_list *out)
{
    return sk_entry_read_orders(&sale, text, strlen(text), out);
}

START_TEST(orders_are_read)
{
    struct sk_order_list list = {0};
    ck_assert(take(A " alice," B " bob," C " carol", &list));
    ck_assert_uint_eq(list.count, 3);
    ck_assert_str_eq(list.head->id, A);
    ck_assert_str_eq(list.head->user, "alice");
    ck_assert_str_eq(list.tail->id, C);
    ck_assert_str_eq(list.tail->user, "carol");
    for (; list.head != NULL; sk_order_give(sale.orders, list.head))
        ck_assert(list.head->patient && list.head->entry == NULL && list.head->ticket == 0);
}
END_TEST

// No room, or no memory: the pool says no in the same way.
START_TEST(without_room_none_is_taken)
{
    struct sk_order_list list = {0};
    ck_assert(!take(A " alice," B " bob," C " carol," D " dave", &list));
    ck_assert_uint_eq(list.count, 0);
    ck_assert_uint_eq(sk_order_pool_out(sale.orders), 0);
    ck_assert(!take(A " alice," B " ", &list)); // nor of what breaks off
    ck_assert_uint_eq(list.count, 0);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("entry");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, orders_are_read);
    tcase_add_test(tcase, without_room_none_is_taken);
    return harness_main(tcase, CK_FORK);
}
