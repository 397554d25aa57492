// Checks values from Redis: every client with write access can write anything. An impossible value is a finding, which
// a rebuild repairs; it refuses no order and starts no loop. Any thread, no allocation.
#ifndef SK_SALE_TRUST_H
#define SK_SALE_TRUST_H

#include <stdbool.h>
#include <stdint.h>

#include "redis_reply.h"
#include "uuid.h"

// The largest number: 15 digits, which Lua's numbers hold exactly.
#define SK_TRUST_MAX INT64_C(999999999999999)

// Most buyers of a voucher: as many as it may have units.
enum { SK_TRUST_BUYERS_MAX = 100000000 };

// A number from 0 to `most`. False: it is anything else, and *value is 0.
bool sk_trust_number(const struct sk_reply *reply, int64_t most, int64_t *value);

// Two numbers "<ms>-<sequence>", whatever their size: safe to show, to log and to send back.
bool sk_trust_is_journal_id(const char *text);

// The version of the buyers, `last`: such an id, or "epoch-<n>", with numbers in range.
bool sk_trust_is_version(const char *text);

// The order id in a buyer's field, as place_orders.lua writes it. False: the field has no order id, and `id` is
// empty; any other text is logged with the voucher. *quantity: its units.
bool sk_trust_order(const struct sk_reply *reply, int64_t voucher_id, char id[SK_UUID_SIZE], unsigned *quantity);

// Whether an error means that a key is damaged: it has the wrong type, or a journal has used up its ids. A rebuild
// repairs that; it would not pass by itself.
bool sk_trust_is_damage(const char *error);

#endif
