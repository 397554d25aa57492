// The door of the sale: each purchase comes in here.
#ifndef SK_SALE_BUY_H
#define SK_SALE_BUY_H

#include <stdbool.h>
#include <stdint.h>

#include "sale.h"

// What a client wants to buy.
struct sk_wish {
    int64_t voucher_id;
    const char *user;  // borrowed for the call
    unsigned quantity; // 1 to SK_QUANTITY_MAX
    uint64_t key;      // fingerprint of the Idempotency-Key; 0: none
    bool low_priority; // the client does not wait for the commit
    bool waits;        // if it is sold out, the user joins the line
    enum sk_ask_ticket ticket;
    int64_t offer;
};

// The reactor's thread. True: the result will come for `handle` (sale->on_result), never inside this call. False:
// *result is final. INVALID has `left`: the quantity is above the voucher's limit, which is `left`. The ticket is
// checked first.
bool sk_sale_buy(const struct sk_sale *sale, struct sk_voucher *voucher, const struct sk_wish *wish, uint64_t handle,
                 struct sk_purchase_result *result);

#endif
