// What may be in a batch, and which answers fit it. The rest is tested with the writer.
#include "batch.h"

#include "entry.h"
#include "fake_catalogue.h"
#include "fake_stores.h"
#include "stack.h"

enum { MOST = 100 };

static struct sk_config config;
static struct sk_sale sale;
static struct sk_batch batch;

static void setup(void)
{
    sale = (struct sk_sale){.config = &config, .catalogue = sk_catalogue_new(1), .orders = sk_order_pool_new(1000)};
    ck_assert_int_eq(sk_batch_open(&batch, MOST), SK_OK);
}

static void teardown(void)
{
    sk_batch_close(&batch);
    sk_catalogue_free(sale.catalogue);
    sk_order_pool_free(sale.orders);
    fake_stores_forget();
}

// A segment with so many granted orders, of which every third is patient.
static struct sk_segment *segment_with(int64_t voucher, size_t orders)
{
    struct sk_segment *segment = a_segment(sale.catalogue, voucher);
    struct sk_entry *entry = sk_entry_new(&sale, segment, SK_ENTRY_LOOSE, "");
    for (size_t i = 0; i < orders; i++) {
        struct sk_order *order = sk_order_take(sale.orders);
        order->entry = entry;
        order->epoch = 1;
        order->patient = i % 3 == 2;
        sk_order_move(sale.orders, order, SK_ORDER_GRANTED, &segment->granted.orders);
    }
    return segment;
}

static void forget(struct sk_segment *segment)
{
    struct sk_entry *entry = segment->granted.orders.head == NULL ? NULL : segment->granted.orders.head->entry;
    while (segment->granted.orders.head != NULL)
        sk_order_give(sale.orders, segment->granted.orders.head);
    for (size_t i = 0; i < batch.part_count; i++) {
        while (batch.parts[i].segment == segment && batch.parts[i].orders.head != NULL) {
            entry = batch.parts[i].orders.head->entry;
            sk_order_give(sale.orders, batch.parts[i].orders.head);
        }
    }
    sk_entry_forget(entry);
}

START_TEST(a_batch_has_so_many_orders)
{
    struct sk_segment *first = segment_with(1, MOST - 1), *second = segment_with(2, 5);
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
END_TEST

START_TEST(a_batch_has_so_many_parts)
{
    for (int64_t voucher = 1; voucher <= SK_BATCH_PARTS_MAX; voucher++) {
        ck_assert(sk_batch_has_room(&batch));
        (void)sk_batch_add(&batch, sale.orders, segment_with(voucher, 1));
    }
    ck_assert(!sk_batch_has_room(&batch));
    for (size_t i = 0; i < SK_BATCH_PARTS_MAX; i++)
        forget(batch.parts[i].segment);
}
END_TEST

START_TEST(what_has_failed_shares_nothing)
{
    struct sk_segment *segment = segment_with(1, 2);
    ck_assert(sk_batch_may_share(segment));
    segment->granted.alone = true;
    ck_assert(!sk_batch_may_share(segment));
    segment->granted.alone = false;
    segment->granted.orders.head->entry->part = 1; // a suspect
    ck_assert(!sk_batch_may_share(segment));
    forget(segment);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("batch");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_batch_has_so_many_orders);
    tcase_add_test(tcase, a_batch_has_so_many_parts);
    tcase_add_test(tcase, what_has_failed_shares_nothing);
    return harness_main(tcase, CK_NOFORK);
}
