// Brings the catalogue and Redis to the same offer of a voucher after they were found to differ: the catalogue follows,
// or Redis gets what PostgreSQL has.
#ifndef SK_RECOVERY_OFFERS_H
#define SK_RECOVERY_OFFERS_H

#include "follow.h"
#include "sale.h"

// `offer` is the voucher's offer elsewhere. Releases the voucher (sk_batcher_release) when it has done what it can,
// perhaps before it returns. Does nothing if it is in progress for the voucher. The reactor's thread.
void sk_offers_agree(const struct sk_sale *sale, struct sk_follow *follow, struct sk_voucher *voucher, int32_t offer);

#endif
