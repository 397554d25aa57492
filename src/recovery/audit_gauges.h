// The result of a round of the audit, as gauges, so that /metrics asks no store. A session reports the vouchers
// assigned to it alone, except in `on_sale`, so the figures of all instances can be added up. The last check of an idle
// voucher may be five seconds old: nothing has moved there since.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_AUDIT_GAUGES_H
#define SK_RECOVERY_AUDIT_GAUGES_H

#include <stdbool.h>
#include <stdint.h>

#include "metrics.h"
#include "voucher.h"

// Starts zeroed.
struct sk_audit_gauges {
    uint64_t entries, oldest_ms, differ, letters, on_sale; // oldest_ms: by sk_monotonic_ms(); 0: there is no entry
    struct sk_remaining_rows remaining, differing;
};

// The first one for each voucher, the second for each that this reactor checks.
void sk_audit_gauges_voucher(struct sk_audit_gauges *gauges, const struct sk_voucher *voucher);
void sk_audit_gauges_check(struct sk_audit_gauges *gauges, const struct sk_voucher *voucher, bool differs);

// The journals' lengths and ages are most wanted while PostgreSQL is away. `metrics` NULL: nobody wants them.
void sk_audit_gauges_publish_redis(const struct sk_audit_gauges *gauges, struct sk_metrics *metrics);
void sk_audit_gauges_publish_books(const struct sk_audit_gauges *gauges, struct sk_metrics *metrics);

#endif
