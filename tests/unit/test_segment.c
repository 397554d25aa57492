// The table of vouchers: bounded whatever ids clients make up, and a pinned voucher stays.
#include <stdlib.h>
#include <string.h>

#include "segment.h"
#include "stack.h"

enum { FLOOD = 100000, MOST = 8192 };

static struct sk_segments *table;

static void setup(void)
{
    table = sk_segments_new(1);
    ck_assert_ptr_nonnull(table);
}

static void teardown(void)
{
    sk_segments_free(table);
}

// Asks for a crowd of made-up ids, later than anything before.
static void flood(void)
{
    for (int64_t id = 1000000; id < 1000000 + FLOOD; id++)
        (void)sk_segments_get(table, id, 1000000);
}

START_TEST(an_id_has_one_entry_with_the_keys_of_its_slot)
{
    struct sk_segment *one = sk_segments_get(table, 1, 1), *most = sk_segments_get(table, INT64_MAX, 1);
    ck_assert_ptr_eq(sk_segments_get(table, 1, 2), one);
    ck_assert_ptr_eq(sk_segments_get(table, INT64_MAX, 2), most);
    ck_assert_ptr_ne(one, most);
    ck_assert_str_eq(one->keys.voucher, "seckill:{1}:voucher");
    ck_assert_str_eq(one->keys.buyers, "seckill:{1}:buyers");
    ck_assert_str_eq(one->keys.journal, "seckill:{1}:journal");
    ck_assert_str_eq(most->keys.voucher, "seckill:{9223372036854775807}:voucher");
    ck_assert_str_eq(most->keys.journal, "seckill:{9223372036854775807}:journal");
}
END_TEST

START_TEST(the_table_is_bounded)
{
    int pinned = 0;
    for (int64_t id = 1; id <= FLOOD; id++) {
        struct sk_segment *voucher = sk_segments_get(table, id, 1);
        if (voucher != NULL) {
            sk_segment_pin(voucher);
            pinned++;
        }
    }
    ck_assert_int_eq(pinned, MOST);
}
END_TEST

START_TEST(an_idle_voucher_makes_room_and_takes_along_what_it_owns)
{
    struct sk_segment *voucher = sk_segments_get(table, 1, 1);
    voucher->gate.filter = sk_filter_new(100);
    voucher->document = strdup("{}");
    voucher->document_until_ms = 7;
    flood();
    ck_assert_uint_eq(sk_segments_get(table, 1, 2000000)->document_until_ms, 0); // a new one
}
END_TEST

START_TEST(a_pinned_voucher_is_never_evicted)
{
    struct sk_segment *voucher = sk_segments_get(table, 1, 1);
    voucher->document_until_ms = 7; // a new one may get the same address
    sk_segment_pin(voucher);
    flood();
    ck_assert_ptr_eq(sk_segments_get(table, 1, 2000000), voucher);
    ck_assert_uint_eq(voucher->document_until_ms, 7);
}
END_TEST

START_TEST(the_voucher_idle_longest_goes_first)
{
    struct sk_segment *voucher = sk_segments_get(table, 1, 1);
    voucher->document_until_ms = 7;
    for (int64_t id = 2; id < FLOOD; id++) {
        (void)sk_segments_get(table, id, (uint64_t)id);
        if (id % 100 == 0)
            ck_assert_uint_eq(sk_segments_get(table, 1, (uint64_t)id)->document_until_ms, 7);
    }
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("voucher");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, an_id_has_one_entry_with_the_keys_of_its_slot);
    tcase_add_test(tcase, the_table_is_bounded);
    tcase_add_test(tcase, an_idle_voucher_makes_room_and_takes_along_what_it_owns);
    tcase_add_test(tcase, a_pinned_voucher_is_never_evicted);
    tcase_add_test(tcase, the_voucher_idle_longest_goes_first);
    return harness_main(tcase, CK_FORK);
}
