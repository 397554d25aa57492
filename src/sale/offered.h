// What a buyer agrees to, as far as it is checked in memory: ticket, limit and price, by the offer of the voucher that
// the catalogue has. Redis grants under the voucher's offer only (place_orders.lua); where that is another one, the
// order is checked again.
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

// What became of the ticket that a client sent with its purchase, or did not.
enum sk_ask_ticket {
    SK_ASK_TICKETS_OFF, // none can be checked here
    SK_ASK_NO_TICKET,
    SK_ASK_BAD_TICKET,
    SK_ASK_EXPIRED_TICKET, // or one that says so
    SK_ASK_GOOD_TICKET,    // it is for this user and this voucher; for which offer of it, `offer` says
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

// The reactor's thread, as all functions. Whether the terms of the voucher forbid the purchase; if so
// *result says why: a verdict about its ticket, or INVALID, with the limit in `left`.
bool sk_offered_refuses(const struct sk_sale *sale, struct sk_voucher *voucher, const struct sk_sent_ticket *ticket,
                        unsigned quantity, struct sk_purchase_result *result);

// The order agrees to the offer that the catalogue has now.
void sk_offered_agree(const struct sk_voucher *voucher, struct sk_order *order);

// An order that has agreed to another offer is checked by the present one, and agrees to it unless it is refused: as
// above, or OFFER_CHANGED, since its buyer has seen another price.
bool sk_offered_refuses_again(const struct sk_sale *sale, struct sk_voucher *voucher, struct sk_order *order,
                              struct sk_purchase_result *result);

#endif
