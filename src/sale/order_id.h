// What an order's id tells: a UUIDv7 whose last 24 bits are the slot of its voucher (14 bits) and then the low bits of
// the epoch under which its maker asked Redis (10 bits). So the id leads to one node and one shard, and says whether an
// order that no store knows may still be in the memory of an instance.
//
// Any thread.
#ifndef SK_SALE_ORDER_ID_H
#define SK_SALE_ORDER_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "uuid.h"

void sk_order_id_make(struct sk_uuid_gen *gen, unsigned slot, int64_t epoch, char id[SK_UUID_SIZE]);

unsigned sk_order_id_slot(const char *id);

// Whether an order of this id may have been accepted, though no store knows it, when the voucher's epoch is `epoch` and
// Redis has lost nothing since. Not if the id is of this epoch: then Redis, or PostgreSQL, would know it. Not if it is
// of an epoch that has not been. An id of an earlier one may be in an instance that is paused or cut off.
bool sk_order_id_may_be_away(const char *id, int64_t epoch);

#endif
