#include "order_id.h"

#include "slot.h"

enum { EPOCH_BITS = 10, EPOCHS = 1 << EPOCH_BITS };

_Static_assert(SK_SLOTS << EPOCH_BITS == 1 << SK_UUID_TAIL_BITS, "slot and epoch fill the tail");

void sk_order_id_make(struct sk_uuid_gen *gen, unsigned slot, int64_t epoch, char id[SK_UUID_SIZE])
{
    sk_uuid_next(gen, id);
    sk_uuid_set_tail(id, slot << EPOCH_BITS | (uint32_t)(epoch % EPOCHS));
}

unsigned sk_order_id_slot(const char *id)
{
    return sk_uuid_tail(id) >> EPOCH_BITS;
}

bool sk_order_id_may_be_away(const char *id, int64_t epoch)
{
    int64_t low = sk_uuid_tail(id) % EPOCHS, now = epoch % EPOCHS;
    if (low == now)
        return false;
    return low < now || epoch >= EPOCHS;
}
