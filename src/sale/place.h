// The batcher: gathers the requests of a loop turn for a voucher and asks Redis about all of them in one
// call of place_orders.lua. Losers are answered, winners go to the order writer.
#ifndef SK_SALE_PLACE_H
#define SK_SALE_PLACE_H

#include "admit.h"
#include "core.h"
#include "writer.h"

struct sk_place;

// The reactor's thread. NULL: out of memory.
struct sk_place *sk_place_open(const struct sk_core *core, struct sk_admit *admit, struct sk_writer *writer);
void sk_place_close(struct sk_place *place); // after the links were closed

// Takes over the order (user, id and ticket are set). Its outcome comes later, never inside this call.
void sk_place_add(struct sk_place *place, struct sk_voucher *voucher, struct sk_order *order);

// Queues what has gathered, unless Redis is busy: at the end of a loop turn. Returns whether there was
// anything.
bool sk_place_flush(struct sk_place *place);

// Whether requests are being placed: some wait, or Redis was asked a moment ago.
bool sk_place_busy(const struct sk_place *place);

#endif
