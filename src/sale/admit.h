// The first gate: refuses from memory what cannot win, without asking Redis.
#ifndef SK_SALE_ADMIT_H
#define SK_SALE_ADMIT_H

#include <stdbool.h>

#include "sale.h"

struct sk_admit;

// The reactor's thread. NULL: out of memory.
struct sk_admit *sk_admit_open(const struct sk_sale *sale);
void sk_admit_close(struct sk_admit *admit);

// Whether the request must be refused at once; if so *result says why.
bool sk_admit_refuses(struct sk_admit *admit, struct sk_voucher *voucher, const char *user,
                      struct sk_purchase_result *result);

// Caches for a moment, from `asked_at_ms` on, what Redis answered for the whole voucher: SOLD_OUT, ENDED, PAUSED or
// NOT_STARTED (with `begin_at_ms`), each with the `version` of its buyers.
void sk_admit_remember(struct sk_admit *admit, struct sk_voucher *voucher, const struct sk_mark *mark);

// The voucher sells again as far as we know.
void sk_admit_forget(struct sk_voucher *voucher);

#endif
