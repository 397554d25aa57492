// A purchase: the call, and its way into the sale. If the catalogue has the voucher, that is at once; else
// after a search for the voucher.
//
// The reactor's thread, as all functions.
#ifndef SK_API_PURCHASE_H
#define SK_API_PURCHASE_H

#include "buy.h"
#include "call.h"
#include "query.h"

sk_handle sk_handle_buy;

// The sale has settled, refused or accepted the purchase of a waiting request.
void sk_purchase_on_result(const struct sk_context *context, struct sk_request *request,
                           const struct sk_purchase_result *result);

// Tries to place an order. True: the result will come for `handle`, never inside this call. False: *result is final.
bool sk_purchase(struct sk_control *control, const struct sk_wish *wish, uint64_t handle,
                 struct sk_purchase_result *result);

#endif
