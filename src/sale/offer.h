// Checks in memory what a buyer agrees to (ticket, limit and price) against the voucher's offer in the catalogue. Redis
// grants only under the voucher's offer (place_orders.lua); if it has another one, the order is checked again.
#ifndef SK_SALE_OFFER_H
#define SK_SALE_OFFER_H

#include <stdbool.h>

#include "sale.h"

// Whether the terms of the voucher forbid the purchase. If so *result has the reason: a code about its ticket, or
// INVALID, with the limit in `left`.
bool sk_offered_refuses(const struct sk_sale *sale, struct sk_voucher *voucher, const struct sk_sent_ticket *ticket,
                        unsigned quantity, struct sk_purchase_result *result);

// The order agrees to the offer that the catalogue has now.
void sk_offered_agree(const struct sk_voucher *voucher, struct sk_order *order);

// Checks an order that agreed to another offer against the present one, and makes it agree unless it is refused: as
// above, or with OFFER_CHANGED, since its buyer has seen another price.
bool sk_offered_refuses_again(const struct sk_sale *sale, struct sk_voucher *voucher, struct sk_order *order,
                              struct sk_purchase_result *result);

#endif
