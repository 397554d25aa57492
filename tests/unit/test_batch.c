// Which orders may be in a batch, and which replies match it. test_writer.c covers the rest.
#include "batch.h"

#include "entry.h"
#include "stage.h"
#include "test.h"

enum { MOST = 100 };

static struct sk_batch batch;

static void setup(void)
{
    stage_open((struct sk_sale_options){0}, 1, 1000);
    ck_assert_int_eq(sk_batch_open(&batch, MOST), SK_OK);
}

static void teardown(void)
{
    sk_batch_close(&batch);
    stage_close();
}

// A voucher with `orders` granted orders; every third is low-priority.
static struct sk_voucher *voucher_with(int64_t id, size_t orders)
{
    struct sk_voucher *voucher = a_voucher(sale.catalogue, id);
    struct sk_entry *entry = sk_entry_new(&sale, voucher, SK_ENTRY_LOOSE, 0);
    for (size_t i = 0; i < orders; i++) {
        struct sk_order *order = sk_order_take(sale.orders, 0);
        order->entry = entry;
        order->epoch = 1;
        order->low_priority = i % 3 == 2;
        sk_order_move(sale.orders, order, SK_ORDER_GRANTED, &voucher->granted.orders);
    }
    return voucher;
}

static void forget(struct sk_voucher *voucher)
{
    struct sk_entry *entry = voucher->granted.orders.head == NULL ? NULL : voucher->granted.orders.head->entry;
    while (voucher->granted.orders.head != NULL)
        sk_order_give(sale.orders, voucher->granted.orders.head);
    for (size_t i = 0; i < batch.part_count; i++) {
        while (batch.parts[i].voucher == voucher && batch.parts[i].orders.head != NULL) {
            entry = batch.parts[i].orders.head->entry;
            sk_order_give(sale.orders, batch.parts[i].orders.head);
        }
    }
    sk_entry_forget(entry);
}

TEST(a_batch_has_so_many_orders)
{
    struct sk_voucher *first = voucher_with(1, MOST - 1), *second = voucher_with(2, 5);
    ck_assert_uint_eq(sk_batch_add(&batch, sale.orders, first), 66);
    ck_assert(sk_batch_has_room(&batch));
    ck_assert_uint_eq(sk_batch_add(&batch, sale.orders, second), 1);
    ck_assert(!sk_batch_has_room(&batch));
    ck_assert_uint_eq(batch.parts[1].first, MOST - 1);
    ck_assert_uint_eq(batch.parts[1].count, 1);
    ck_assert_uint_eq(second->granted.orders.count, 4);
    forget(first);
    forget(second);
}

TEST(a_batch_has_so_many_parts)
{
    for (int64_t voucher = 1; voucher <= SK_BATCH_PARTS_MAX; voucher++) {
        ck_assert(sk_batch_has_room(&batch));
        (void)sk_batch_add(&batch, sale.orders, voucher_with(voucher, 1));
    }
    ck_assert(!sk_batch_has_room(&batch));
    for (size_t i = 0; i < SK_BATCH_PARTS_MAX; i++)
        forget(batch.parts[i].voucher);
}

// As with epochs: the other orders go with the next batch.
TEST(a_part_has_one_offer)
{
    struct sk_voucher *voucher = voucher_with(1, 4);
    voucher->granted.orders.head->offer = voucher->granted.orders.head->next->offer = 2;
    (void)sk_batch_add(&batch, sale.orders, voucher);
    ck_assert_uint_eq(batch.parts[0].count, 2);
    ck_assert_int_eq(batch.parts[0].offer, 2);
    ck_assert_uint_eq(voucher->granted.orders.count, 2);
    forget(voucher);
}

TEST(what_has_failed_shares_nothing)
{
    struct sk_voucher *voucher = voucher_with(1, 2);
    ck_assert(sk_batch_may_share(voucher));
    voucher->granted.alone = true;
    ck_assert(!sk_batch_may_share(voucher));
    voucher->granted.alone = false;
    voucher->granted.orders.head->entry->part = 1; // a suspected bad order
    ck_assert(!sk_batch_may_share(voucher));
    forget(voucher);
}

// ---- the statement ----

static void on_result(void *arg, const struct sk_result *result)
{
    (void)arg;
    (void)result;
}

TEST(the_orders_of_all_parts_are_sent_in_turn)
{
    struct sk_voucher *first = voucher_with(1, 2), *second = voucher_with(2, 2);
    second->granted.orders.head->quantity = 3;
    (void)sk_batch_add(&batch, sale.orders, first);
    (void)sk_batch_add(&batch, sale.orders, second);
    ck_assert_int_eq(sk_batch_send(&batch, NULL, on_result, NULL), SK_OK);
    const struct asked *asked = &fake_pg.asked[fake_pg.count - 1];
    ck_assert_int_eq(asked->what, SK_STATEMENT_PLACE_BATCHES);
    ck_assert_str_eq(asked->argv[1], "{1,2}");
    ck_assert_str_eq(asked->argv[2], "{1,1}");
    ck_assert_str_eq(asked->argv[3], "{2,2}"); // counts orders, not units
    ck_assert_str_eq(asked->argv[7], "{1,1,3,1}");
    forget(first);
    forget(second);
}

SUITE(.setup = setup, .teardown = teardown, .in_one_process = true);
