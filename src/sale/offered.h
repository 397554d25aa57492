// Checks in memory what a buyer agrees to (ticket, limit and price) against the voucher's offer in the catalogue. Redis
// grants only under the voucher's offer (place_orders.lua); if it has another one, the order is checked again.
#ifndef SK_SALE_OFFERED_H
#define SK_SALE_OFFERED_H

#include <stdbool.h>
#include <stdint.h>

enum { SK_CURRENCY_SIZE = 4 };

// Of one unit.
struct sk_price {
    int64_t cents;
    char currency[SK_CURRENCY_SIZE]; // empty: the price is not known
};

// The check of a purchase's ticket, if the client sent one.
enum sk_ask_ticket {
    SK_ASK_TICKETS_OFF, // none can be checked here
    SK_ASK_NO_TICKET,
    SK_ASK_BAD_TICKET,
    SK_ASK_EXPIRED_TICKET, // has expired, or claims to
    SK_ASK_GOOD_TICKET,    // it is for this user and this voucher; `offer` has its offer
};

// A purchase ticket as it was sent.
struct sk_sent_ticket {
    enum sk_ask_ticket kind;
    int32_t offer;
};

struct sk_order;
struct sk_purchase_result;
struct sk_sale;
struct sk_voucher;

// The reactor's thread, as all functions. Whether the terms of the voucher forbid the purchase. If so *result has the
// reason: a code about its ticket, or INVALID, with the limit in `left`.
bool sk_offered_refuses(const struct sk_sale *sale, struct sk_voucher *voucher, const struct sk_sent_ticket *ticket,
                        unsigned quantity, struct sk_purchase_result *result);

// The order agrees to the offer that the catalogue has now.
void sk_offered_agree(const struct sk_voucher *voucher, struct sk_order *order);

// Checks an order that agreed to another offer against the present one, and makes it agree unless it is refused: as
// above, or with OFFER_CHANGED, since its buyer has seen another price.
bool sk_offered_refuses_again(const struct sk_sale *sale, struct sk_voucher *voucher, struct sk_order *order,
                              struct sk_purchase_result *result);

#endif
