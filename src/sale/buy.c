#include "buy.h"

#include <string.h>

#include "admit.h"
#include "batcher.h"
#include "line.h"
#include "offer.h"

bool sk_sale_buy(const struct sk_sale *sale, struct sk_voucher *voucher, const struct sk_wish *wish, uint64_t handle,
                 struct sk_purchase_result *result)
{
    const struct sk_sent_ticket sent = {.kind = wish->ticket, .offer = (int32_t)wish->offer};
    if (!sk_redis_ready(sk_sale_redis(sale, voucher))) { // then nothing is certain, not even a cached refusal
        *result = (struct sk_purchase_result){.code = SK_PURCHASE_UNAVAILABLE};
        return false;
    }
    if (sk_offered_refuses(sale, voucher, &sent, wish->quantity, result))
        return false;
    bool waits = wish->waits && voucher->has_line;
    bool joins = false;
    if (sk_admit_refuses(sale, voucher, wish->user, waits ? &joins : NULL, result)) {
        SK_PROBE3(refused, handle, sk_purchase_code_name(result->code), "memory");
        return false;
    }
    struct sk_order *order = sk_order_take(sale->orders, voucher->shard);
    if (order == NULL) {
        *result = (struct sk_purchase_result){.code = SK_PURCHASE_OVERLOADED};
        return false;
    }
    sk_order_name(sale->orders, order, voucher->slot, voucher->seen.epoch);
    order->handle = handle;
    order->low_priority = wish->low_priority;
    order->waits = waits;
    order->quantity = (uint16_t)wish->quantity;
    order->key = wish->key;
    order->sent = sent;
    sk_offered_agree(voucher, order);
    size_t len = strlen(wish->user);
    SK_ASSERT(len < sizeof order->user);
    memcpy(order->user, wish->user, len + 1);
    SK_PROBE3(admitted, handle, order->id, wish->voucher_id);
    if (joins)
        sk_line_add(sk_sale_shard(sale, voucher)->line, voucher, order);
    else
        sk_batcher_add(sale->batcher, voucher, order);
    return true;
}
