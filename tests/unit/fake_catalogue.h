// Segments for units that need one: of vouchers that a test's catalogue knows.
#ifndef UNIT_FAKE_CATALOGUE_H
#define UNIT_FAKE_CATALOGUE_H

#include <check.h>
#include <inttypes.h>
#include <stdio.h>

#include "catalogue.h"

// The only segment of a voucher, which is added if the catalogue does not have it.
static inline struct sk_segment *a_segment(struct sk_catalogue *catalogue, int64_t voucher_id)
{
    struct sk_voucher *voucher = sk_catalogue_find(catalogue, voucher_id);
    if (voucher == NULL) {
        char tag[SK_TAG_SIZE];
        (void)snprintf(tag, sizeof tag, "%" PRId64, voucher_id);
        struct sk_catalogue_row row = {.change = voucher_id,
                                       .voucher_id = voucher_id,
                                       .segment_count = 1,
                                       .tag = tag,
                                       .user_limit = 1,
                                       .pay_within_s = 900,
                                       .offer = 1,
                                       .price = {100, "CNY"}};
        ck_assert_int_eq(sk_catalogue_put(catalogue, &row), SK_OK);
        voucher = sk_catalogue_find(catalogue, voucher_id);
    }
    ck_assert_ptr_nonnull(voucher);
    return voucher->segments[0];
}

#endif
