// The first gate: refuses from memory what cannot win, without asking Redis.
#ifndef SK_SALE_ADMIT_H
#define SK_SALE_ADMIT_H

#include <stdbool.h>

#include "core.h"

struct sk_admit;

// The reactor's thread. NULL: out of memory.
struct sk_admit *sk_admit_open(const struct sk_core *core);
void sk_admit_close(struct sk_admit *admit);

// Whether the request must be refused at once; if so *outcome says why.
bool sk_admit_refuses(struct sk_admit *admit, struct sk_voucher *voucher, const char *user, struct sk_outcome *outcome);

// Remembers for a moment what Redis (or PostgreSQL) said of the whole voucher. `label` is the voucher's
// `last`, for SOLD_OUT and ENDED; `begin_in_ms` is for NOT_STARTED.
void sk_admit_remember(struct sk_admit *admit, struct sk_voucher *voucher, enum sk_verdict verdict, const char *label,
                       uint64_t begin_in_ms);

// The voucher sells again as far as we know.
void sk_admit_forget(struct sk_voucher *voucher);

#endif
