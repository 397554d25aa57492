// The ticket is checked first.
#include "offer.h"

#include <string.h>

// A good ticket for a newer offer than the one known here came through another instance: this one is a moment behind.
static bool offered_lacks_ticket(const struct sk_sale *sale, struct sk_voucher *voucher,
                                 const struct sk_sent_ticket *ticket, struct sk_purchase_result *result)
{
    static const struct {
        enum sk_purchase_code code;
        enum sk_metric counter;
    } refusals[] = {
        [SK_ASK_TICKETS_OFF] = {SK_PURCHASE_TICKETS_OFF, SK_METRIC_TICKETS_OFF},
        [SK_ASK_NO_TICKET] = {SK_PURCHASE_TICKET_REQUIRED, SK_METRIC_TICKETS_MISSING},
        [SK_ASK_BAD_TICKET] = {SK_PURCHASE_TICKET_INVALID, SK_METRIC_TICKETS_BAD},
        [SK_ASK_EXPIRED_TICKET] = {SK_PURCHASE_TICKET_INVALID, SK_METRIC_TICKETS_EXPIRED},
        [SK_ASK_GOOD_TICKET] = {SK_PURCHASE_TICKET_INVALID, SK_METRIC_TICKETS_OLD_OFFER},
    };
    if (ticket->kind == SK_ASK_GOOD_TICKET && ticket->offer == voucher->offer)
        return false;
    bool behind = ticket->kind == SK_ASK_GOOD_TICKET && ticket->offer > voucher->offer;
    *result = (struct sk_purchase_result){.code = behind ? SK_PURCHASE_LOADING : refusals[ticket->kind].code};
    if (behind)
        sale->offers_differ(sale->recovery, voucher, ticket->offer);
    else
        sk_metrics_add(sale->metrics, refusals[ticket->kind].counter, 1);
    return true;
}

bool sk_offered_refuses(const struct sk_sale *sale, struct sk_voucher *voucher, const struct sk_sent_ticket *ticket,
                        unsigned quantity, struct sk_purchase_result *result)
{
    if (voucher->ticket && offered_lacks_ticket(sale, voucher, ticket, result))
        return true;
    if (quantity <= voucher->user_limit)
        return false;
    *result = (struct sk_purchase_result){.code = SK_PURCHASE_INVALID, .left = voucher->user_limit};
    return true;
}

void sk_offered_agree(const struct sk_voucher *voucher, struct sk_order *order)
{
    order->offer = voucher->offer;
    order->price = voucher->price;
}

bool sk_offered_refuses_again(const struct sk_sale *sale, struct sk_voucher *voucher, struct sk_order *order,
                              struct sk_purchase_result *result)
{
    const struct sk_price *now = &voucher->price;
    if (now->cents != order->price.cents || strcmp(now->currency, order->price.currency) != 0) {
        *result = (struct sk_purchase_result){.code = SK_PURCHASE_OFFER_CHANGED};
        return true;
    }
    if (sk_offered_refuses(sale, voucher, &order->sent, order->quantity, result))
        return true;
    sk_offered_agree(voucher, order);
    return false;
}
