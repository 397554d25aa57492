// The result of a round of the watch, as gauges: entries in the journals and their age, vouchers whose stores differ,
// waiting dead letters, units left of the vouchers on sale. So /metrics asks no store.
//
// A session reports the vouchers assigned to it alone, except in `on_sale`, so the figures of all instances can be
// added up.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_OVERVIEW_H
#define SK_RECOVERY_OVERVIEW_H

#include "maintenance.h"
#include "sale.h"

// Starts zeroed.
struct sk_overview {
    uint64_t entries, oldest_ms, differ, letters, on_sale; // oldest_ms: by sk_monotonic_ms(); 0: there is no entry
    struct sk_remaining_rows remaining;
};

void sk_overview_begin(struct sk_overview *overview);

// Counts a voucher of the catalogue.
void sk_overview_voucher(struct sk_overview *overview, const struct sk_voucher *voucher);
// Adds one of this session's vouchers, as of its last check. `differs`: the stores differ, and that is confirmed.
void sk_overview_look(struct sk_overview *overview, const struct sk_voucher *voucher, bool differs);

// For a round that has checked all that was due. After another one the gauges stay as they were, and their ages grow.
void sk_overview_publish(const struct sk_overview *overview, struct sk_metrics *metrics);

#endif
