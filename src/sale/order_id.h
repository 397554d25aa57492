// The format of an order's id: a UUIDv7 whose last 24 bits are the slot of its voucher (14 bits) and then the low bits
// of the epoch under which its maker asked Redis (10 bits). So the id leads to one node and one shard. It also shows
// whether an order that no store knows may still be in the memory of an instance.
//
// Any thread.
#ifndef SK_SALE_ORDER_ID_H
#define SK_SALE_ORDER_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "uuid.h"

void sk_order_id_make(struct sk_uuid_gen *gen, unsigned slot, int64_t epoch, char id[SK_UUID_SIZE]);

unsigned sk_order_id_slot(const char *id);

// Whether an order of this id may have been accepted although no store knows it. `epoch` is the voucher's; Redis must
// have lost nothing since. False if the id is of this epoch, since Redis or PostgreSQL would know it, or of an epoch
// that has not been. An id of an earlier epoch may be in an instance that is paused or cut off.
bool sk_order_id_may_be_away(const char *id, int64_t epoch);

#endif
