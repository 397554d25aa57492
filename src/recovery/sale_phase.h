// The events of a sale in the feed: opened, sold_out, reopened, ended (sql/migrations/033_feed.sql). The session to
// which the voucher is assigned notes them, from what the audit has read of both stores. PostgreSQL writes each once.
//
// The reactor's thread.
#ifndef SK_RECOVERY_SALE_PHASE_H
#define SK_RECOVERY_SALE_PHASE_H

#include "sale.h"
#include "voucher_books.h"

// Does nothing if the newest event says it already. `seen` must be of an open voucher that can be relied on. If it is
// not noted now, the next audit does it.
void sk_sale_phase_note(const struct sk_sale *sale, const struct sk_voucher *voucher, const struct sk_account *account,
                        const struct sk_snapshot *seen);

#endif
