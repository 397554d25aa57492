#include "audit_gauges.h"

#include "clock.h"
#include "maintenance.h"
#include "metrics.h"

static bool gauges_is_on_sale(const struct sk_voucher *voucher)
{
    int64_t now_ms = (int64_t)sk_wall_ms();
    return voucher->state == SK_VOUCHER_OPEN && voucher->begin_ms <= now_ms && now_ms < voucher->end_ms;
}

void sk_audit_gauges_voucher(struct sk_audit_gauges *gauges, const struct sk_voucher *voucher)
{
    gauges->on_sale += gauges_is_on_sale(voucher);
}

void sk_audit_gauges_check(struct sk_audit_gauges *gauges, const struct sk_voucher *voucher, bool differs)
{
    const struct sk_audited *audited = &voucher->maintenance->audited;
    const struct sk_snapshot *seen = &audited->snapshot;
    if (audited->checked_at_ms == 0)
        return;
    gauges->differ += differs;
    if (differs)
        sk_remaining_note(&gauges->differing, voucher->id, 1);
    gauges->letters += (uint64_t)audited->letters;
    if (seen->journal > 0) {
        uint64_t age_ms = (uint64_t)audited->journal_age_ms;
        uint64_t oldest_ms = age_ms < audited->checked_at_ms ? audited->checked_at_ms - age_ms : 1;
        gauges->entries += (uint64_t)seen->journal;
        if (gauges->oldest_ms == 0 || oldest_ms < gauges->oldest_ms)
            gauges->oldest_ms = oldest_ms;
    }
    if (seen->present && !seen->loading && seen->same_run && gauges_is_on_sale(voucher))
        sk_remaining_note(&gauges->remaining, voucher->id, seen->stock);
}

void sk_audit_gauges_publish_redis(const struct sk_audit_gauges *gauges, struct sk_metrics *metrics)
{
    if (metrics == NULL)
        return;
    sk_metrics_set(metrics, SK_METRIC_JOURNAL_ENTRIES, gauges->entries);
    sk_metrics_set(metrics, SK_METRIC_JOURNAL_OLDEST, gauges->oldest_ms);
    sk_metrics_set(metrics, SK_METRIC_VOUCHERS_ON_SALE, gauges->on_sale);
    sk_remaining_publish(&metrics->remaining, &gauges->remaining);
}

void sk_audit_gauges_publish_books(const struct sk_audit_gauges *gauges, struct sk_metrics *metrics)
{
    if (metrics == NULL)
        return;
    sk_metrics_set(metrics, SK_METRIC_BOOKS_DIFFER, gauges->differ);
    sk_metrics_set(metrics, SK_METRIC_LETTERS_WAITING, gauges->letters);
    sk_metrics_set(metrics, SK_METRIC_ROUND_AT, sk_monotonic_ms());
    sk_remaining_publish(&metrics->differing, &gauges->differing);
}
