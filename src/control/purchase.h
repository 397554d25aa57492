// The way of a purchase into the sale: at once if the catalogue has its voucher, else after it was looked for.
#ifndef SK_CONTROL_PURCHASE_H
#define SK_CONTROL_PURCHASE_H

#include "admit.h"
#include "batcher.h"
#include "talk.h"

// Borrowed from the shop.
struct sk_purchases {
    struct sk_control *control;
    struct sk_admit *admit;
    struct sk_batcher *batcher;
};

// Tries to place an order. True: the outcome will come for `ticket`, never inside this call. False: *outcome is
// final. `patient`: the client does not wait for the commit.
bool sk_purchase(struct sk_purchases *purchases, int64_t voucher_id, const char *user, uint64_t ticket, bool patient,
                 struct sk_outcome *outcome);

#endif
