#include "overview.h"

#include "clock.h"
#include "maintenance.h"
#include "metrics.h"

static bool overview_is_on_sale(const struct sk_voucher *voucher)
{
    int64_t now_ms = (int64_t)sk_wall_ms();
    return voucher->state == SK_VOUCHER_OPEN && voucher->begin_ms <= now_ms && now_ms < voucher->end_ms;
}

void sk_overview_voucher(struct sk_overview *overview, const struct sk_voucher *voucher)
{
    overview->on_sale += overview_is_on_sale(voucher);
}

void sk_overview_check(struct sk_overview *overview, const struct sk_voucher *voucher, bool differs)
{
    const struct sk_watched *watched = &voucher->maintenance->watched;
    const struct sk_snapshot *seen = &watched->snapshot;
    if (watched->checked_at_ms == 0)
        return;
    overview->differ += differs;
    if (differs)
        sk_remaining_note(&overview->differing, voucher->id, 1);
    overview->letters += (uint64_t)watched->letters;
    if (seen->journal > 0) {
        uint64_t age_ms = (uint64_t)watched->journal_age_ms;
        uint64_t oldest_ms = age_ms < watched->checked_at_ms ? watched->checked_at_ms - age_ms : 1;
        overview->entries += (uint64_t)seen->journal;
        if (overview->oldest_ms == 0 || oldest_ms < overview->oldest_ms)
            overview->oldest_ms = oldest_ms;
    }
    if (seen->present && !seen->loading && seen->same_run && overview_is_on_sale(voucher))
        sk_remaining_note(&overview->remaining, voucher->id, seen->stock);
}

void sk_overview_publish_redis(const struct sk_overview *overview, struct sk_metrics *metrics)
{
    if (metrics == NULL)
        return;
    sk_metrics_set(metrics, SK_METRIC_JOURNAL_ENTRIES, overview->entries);
    sk_metrics_set(metrics, SK_METRIC_JOURNAL_OLDEST, overview->oldest_ms);
    sk_metrics_set(metrics, SK_METRIC_VOUCHERS_ON_SALE, overview->on_sale);
    sk_remaining_publish(&metrics->remaining, &overview->remaining);
}

void sk_overview_publish_books(const struct sk_overview *overview, struct sk_metrics *metrics)
{
    if (metrics == NULL)
        return;
    sk_metrics_set(metrics, SK_METRIC_BOOKS_DIFFER, overview->differ);
    sk_metrics_set(metrics, SK_METRIC_LETTERS_WAITING, overview->letters);
    sk_metrics_set(metrics, SK_METRIC_ROUND_AT, sk_monotonic_ms());
    sk_remaining_publish(&metrics->differing, &overview->differing);
}
