#include "recovery.h"

#include "admit.h"
#include "audit.h"
#include "batcher.h"
#include "expiry.h"
#include "journal_sweep.h"
#include "maintenance.h"
#include "regrant.h"
#include "voucher_changes.h"

// An operator has changed the voucher: cached refusals may be wrong now, and Redis may not have the change yet.
static void recovery_on_changed(void *arg, struct sk_voucher *voucher)
{
    const struct sk_recovery *recovery = arg;
    sk_admit_forget(voucher);
    sk_audit_soon(recovery->audit);
}

// Work may be this session's from now on.
static void recovery_on_assigned(void *arg)
{
    const struct sk_recovery *recovery = arg;
    sk_audit_soon(recovery->audit);
}

enum sk_status sk_recovery_open(struct sk_recovery *recovery, const struct sk_sale *sale)
{
    recovery->sale = sale;
    bool complete = true;
    for (size_t i = 0; i < sale->shard_count; i++) {
        recovery->syncs[i] = sk_catalogue_sync_open(sale, (unsigned)i, recovery_on_changed, recovery);
        complete = complete && recovery->syncs[i] != NULL;
    }
    recovery->assignments = sk_assignments_open(sale, recovery->syncs, recovery_on_assigned, recovery);
    recovery->heartbeats = sk_heartbeats_open(sale);
    recovery->rebuilds = sk_rebuilds_open(sale);
    recovery->sweeper = sk_sweeper_open(sale, recovery->rebuilds);
    recovery->regrant = sk_regrant_open(sale, recovery->rebuilds);
    recovery->audit = sk_audit_open(sale, recovery->rebuilds, recovery->sweeper);
    recovery->expiry = sk_expiry_open(sale);
    recovery->instances = sk_instances_open(sale);
    complete = complete && recovery->assignments != NULL && recovery->heartbeats != NULL &&
               recovery->rebuilds != NULL && recovery->sweeper != NULL && recovery->regrant != NULL &&
               recovery->audit != NULL && recovery->expiry != NULL && recovery->instances != NULL;
    return complete ? SK_OK : SK_NO_MEM;
}

void sk_recovery_close(struct sk_recovery *recovery)
{
    sk_instances_close(recovery->instances);
    sk_expiry_close(recovery->expiry);
    sk_audit_close(recovery->audit);
    sk_regrant_close(recovery->regrant);
    sk_sweeper_close(recovery->sweeper);
    sk_rebuilds_close(recovery->rebuilds);
    sk_heartbeats_close(recovery->heartbeats);
    sk_assignments_close(recovery->assignments);
    for (size_t i = 0; i < SK_SHARDS_MAX; i++)
        sk_catalogue_sync_close(recovery->syncs[i]);
}

void sk_recovery_suspect(void *recovery, struct sk_voucher *voucher, enum sk_doubt doubt)
{
    sk_rebuild_soon(((struct sk_recovery *)recovery)->rebuilds, voucher, doubt);
}

void sk_recovery_orphaned(void *recovery, struct sk_voucher *voucher)
{
    sk_sweep_orphans(((struct sk_recovery *)recovery)->sweeper, voucher);
}

void sk_recovery_hurry(struct sk_recovery *recovery)
{
    for (size_t i = 0; i < SK_SHARDS_MAX; i++)
        sk_recovery_follow(recovery, i);
    if (recovery->audit != NULL)
        sk_audit_hurry(recovery->audit);
}

void sk_recovery_follow(struct sk_recovery *recovery, size_t shard)
{
    if (recovery->syncs[shard] != NULL)
        sk_catalogue_sync_hurry(recovery->syncs[shard]);
}

// ---- offers ----

// Brings the catalogue and Redis to the same offer of a voucher after they were found to differ: the catalogue syncs,
// or Redis gets what PostgreSQL has. Does not check whether both have the same offer now: the next call of
// place_orders.lua shows it.

// Between two catalogue reads for one voucher that do not wait for the shared one.
enum { FOLLOW_MS = 100 };

static void offers_end(struct sk_agreeing *agreeing)
{
    struct sk_voucher *voucher = agreeing->voucher;
    agreeing->voucher = NULL;
    sk_batcher_release(voucher);
    sk_voucher_unpin(voucher);
}

static void offers_on_followed(struct sk_catalogue_sync_waiter *waiter, bool ok)
{
    (void)ok;
    offers_end((struct sk_agreeing *)waiter);
}

static void offers_on_applied(void *arg, bool ok)
{
    (void)ok;
    offers_end(arg);
}

void sk_recovery_offers_differ(void *recovery, struct sk_voucher *voucher, int32_t offer)
{
    const struct sk_recovery *of = recovery;
    struct sk_agreeing *agreeing = &voucher->maintenance->agreeing;
    if (agreeing->voucher != NULL)
        return;
    agreeing->voucher = voucher;
    sk_voucher_pin(voucher);
    if (offer > voucher->offer) {
        uint64_t now = uv_now(of->sale->loop), since_ms = now - agreeing->followed_at_ms;
        agreeing->followed_at_ms = now;
        agreeing->waiter.done = offers_on_followed;
        sk_catalogue_sync_wait(of->syncs[voucher->shard], &agreeing->waiter);
        if (since_ms >= FOLLOW_MS)
            sk_catalogue_sync_hurry(of->syncs[voucher->shard]);
    } else if (sk_changes_carry_out(of->sale, voucher, offers_on_applied, agreeing) != SK_OK) {
        offers_end(agreeing);
    }
}
