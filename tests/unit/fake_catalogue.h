// Vouchers for units that need one.
#ifndef UNIT_FAKE_CATALOGUE_H
#define UNIT_FAKE_CATALOGUE_H

#include <check.h>
#include <inttypes.h>
#include <stdio.h>

#include "catalogue.h"
#include "voucher.h"

// Adds it if the catalogue does not have it.
static inline struct sk_voucher *a_voucher(struct sk_catalogue *catalogue, int64_t voucher_id)
{
    struct sk_voucher *voucher = sk_catalogue_find(catalogue, voucher_id);
    if (voucher == NULL) {
        char tag[SK_TAG_SIZE];
        (void)snprintf(tag, sizeof tag, "%" PRId64, voucher_id);
        struct sk_catalogue_row row = {.change = voucher_id,
                                       .voucher_id = voucher_id,
                                       .tag = tag,
                                       .user_limit = 1,
                                       .orders_per_user = 20,
                                       .pay_within_s = 900,
                                       .offer = 1,
                                       .price = {100, "CNY"}};
        ck_assert_int_eq(sk_catalogue_put(catalogue, &row), SK_OK);
        voucher = sk_catalogue_find(catalogue, voucher_id);
    }
    ck_assert_ptr_nonnull(voucher);
    return voucher;
}

#endif
