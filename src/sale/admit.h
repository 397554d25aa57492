// The first check of a purchase: refuses from memory what cannot win, without asking Redis.
#ifndef SK_SALE_ADMIT_H
#define SK_SALE_ADMIT_H

#include <stdbool.h>
#include <stddef.h>

#include "sale.h"

// The reactor's thread, as all functions.

// Returns whether to refuse the request at once; *result then has the reason. `joins` NULL: nothing; else *joins
// becomes whether only SOLD_OUT would: the user may join the line without asking Redis.
bool sk_admit_refuses(const struct sk_sale *sale, struct sk_voucher *voucher, const char *user, bool *joins,
                      struct sk_purchase_result *result);

// Caches what Redis answered for the whole voucher, for a short time from `asked_at_ms` on: SOLD_OUT, ENDED, PAUSED or
// NOT_STARTED (with `begin_at_ms`), each with the `version` of its buyers.
void sk_admit_remember(const struct sk_sale *sale, struct sk_voucher *voucher, const struct sk_refusal *refusal);

// Drops the cached refusal: as far as we know the voucher sells again.
void sk_admit_forget(struct sk_voucher *voucher);

#endif
