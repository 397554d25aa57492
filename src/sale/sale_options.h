// How a reactor sells, and what it keeps.
#ifndef SK_SALE_SALE_OPTIONS_H
#define SK_SALE_SALE_OPTIONS_H

#include <stdint.h>

struct sk_sale_options {
    int64_t batch_max;        // orders in one batch
    int64_t orders_max;       // orders of a reactor in progress
    int64_t purchases_max;    // orders of a reactor above which a purchase is refused; 0: orders_max alone
    int64_t journal_max;      // entries of one voucher, above which nothing new is placed; 0: 100,000
    int64_t lock_ttl_ms;      // of locks and sessions
    int64_t sold_out_mark_ms; // how long a refusal is cached
    int64_t retire_after_ms;  // from the end of a sale
};

#endif
