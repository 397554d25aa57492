// What a round of the watch has seen, as gauges: how much is in the journals and since when, which books differ, how
// many dead letters wait, what is left of the vouchers on sale. So /metrics asks no store.
//
// A session tells of its own share of the vouchers alone: the figures of all instances can be added up.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_OVERVIEW_H
#define SK_RECOVERY_OVERVIEW_H

#include "care.h"
#include "sale.h"

// Starts zeroed.
struct sk_overview {
    uint64_t entries, oldest_ms, differ, letters, on_sale; // oldest_ms: by sk_monotonic_ms(); 0: there is no entry
    struct sk_remaining_rows remaining;
};

void sk_overview_begin(struct sk_overview *overview);

// A voucher of the catalogue.
void sk_overview_voucher(struct sk_overview *overview, const struct sk_voucher *voucher);
// One of this session's vouchers, as the last look saw it. `differs`: its books do, and that is believed.
void sk_overview_look(struct sk_overview *overview, const struct sk_voucher *voucher, bool differs);

// The round has seen all that was due. A round that has not leaves the gauges as they were, and their ages grow.
void sk_overview_publish(const struct sk_overview *overview, struct sk_metrics *metrics);

#endif
