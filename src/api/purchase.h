// A purchase: the call, its ticket, and its way into the sale. If the catalogue has the voucher, that is at once; else
// after a search for the voucher.
//
// The reactor's thread, as all functions.
#ifndef SK_API_PURCHASE_H
#define SK_API_PURCHASE_H

#include "admit.h"
#include "batcher.h"
#include "call.h"
#include "query.h"

sk_handle sk_handle_buy, sk_handle_ticket;

// The sale has settled, refused or accepted the purchase of a waiting request.
void sk_purchase_on_result(const struct sk_context *context, struct sk_request *request,
                           const struct sk_purchase_result *result);

// What a client wants to buy.
struct sk_ask {
    int64_t voucher_id;
    const char *user;  // borrowed for the call
    unsigned quantity; // 1 to SK_QUANTITY_MAX
    uint64_t key;      // fingerprint of the Idempotency-Key; 0: none
    bool low_priority; // the client does not wait for the commit
    enum sk_ask_ticket ticket;
    int64_t offer;
};

// Tries to place an order. True: the result will come for `handle`, never inside this call. False: *result is final.
// INVALID has `left`: the quantity is above the voucher's limit, which is `left`. The ticket is checked first.
bool sk_purchase(struct sk_control *control, const struct sk_ask *ask, uint64_t handle,
                 struct sk_purchase_result *result);

// ---- tickets ----
//
// Issues purchase tickets, and checks the one that a purchase carries.

// Reads and checks the ticket of a purchase; fills in ask->ticket and ask->offer.
void sk_ticket_read(const struct sk_context *context, const struct sk_request *request, const struct sk_call *call,
                    struct sk_ask *ask);

#endif
