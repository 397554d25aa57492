// The batcher: gathers the requests of a loop turn for a voucher and asks Redis about all of them in one call of
// place_orders.lua. Losers are answered, winners go to the writer.
#ifndef SK_SALE_BATCHER_H
#define SK_SALE_BATCHER_H

#include "admit.h"
#include "sale.h"
#include "writer.h"

struct sk_batcher;

// The reactor's thread. NULL: out of memory.
struct sk_batcher *sk_batcher_open(const struct sk_sale *sale);
void sk_batcher_close(struct sk_batcher *batcher); // after the links were closed

// Takes over the order (user, id and handle are set). Its outcome comes later, never inside this call.
void sk_batcher_add(struct sk_batcher *batcher, struct sk_voucher *voucher, struct sk_order *order);

// At the end of a loop turn: sends what has gathered, unless the node is busy, or the voucher is held. True: something
// was sent, or refused.
bool sk_batcher_flush(struct sk_batcher *batcher);

// Ends the hold: sale->offers_differ has done what it can for the voucher, so its orders need not wait any longer.
void sk_batcher_release(struct sk_voucher *voucher);

// Whether requests are being placed: some wait, or Redis was asked a moment ago.
bool sk_batcher_busy(const struct sk_batcher *batcher);

#endif
