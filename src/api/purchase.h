// A purchase: the call, and its way into the sale, at once if the catalogue has its voucher, else after it was looked
// for.
//
// The reactor's thread, as all functions.
#ifndef SK_API_PURCHASE_H
#define SK_API_PURCHASE_H

#include "admit.h"
#include "batcher.h"
#include "call.h"
#include "query.h"

sk_handle sk_handle_buy;

// The sale has ended or accepted the purchase of a request that waits.
void sk_purchase_on_result(const struct sk_context *context, struct sk_request *request,
                           const struct sk_purchase_result *result);

// What a client asks for.
struct sk_ask {
    int64_t voucher_id;
    const char *user;  // borrowed for the call
    unsigned quantity; // 1 to SK_QUANTITY_MAX
    uint64_t key;      // fingerprint of the Idempotency-Key; 0: none
    bool low_priority; // the client does not wait for the commit
    enum sk_ask_ticket ticket;
    int64_t offer;
};

// Tries to place an order. True: the result will come for `handle`, never inside this call. False: *result is
// final; INVALID, with `left`: the quantity is past the voucher's limit. What the ticket has to do with it is looked at
// before all else.
bool sk_purchase(struct sk_control *control, const struct sk_ask *ask, uint64_t handle,
                 struct sk_purchase_result *result);

#endif
