#include "upkeep.h"

#include "admit.h"
#include "maintenance.h"
#include "offers.h"

// An operator has changed the voucher: cached refusals may be wrong now, and Redis may not have the change yet.
static void upkeep_on_changed(void *arg, struct sk_voucher *voucher)
{
    const struct sk_upkeep *upkeep = arg;
    sk_admit_forget(voucher);
    sk_watch_soon(upkeep->watch);
}

enum sk_status sk_upkeep_open(struct sk_upkeep *upkeep, const struct sk_sale *sale)
{
    upkeep->sale = sale;
    upkeep->follow = sk_follow_open(sale);
    upkeep->rebuilds = sk_rebuilds_open(sale);
    upkeep->sweeper = sk_sweeper_open(sale, upkeep->rebuilds);
    upkeep->regrant = sk_regrant_open(sale, upkeep->rebuilds);
    upkeep->watch = sk_watch_open(sale, upkeep->rebuilds, upkeep->sweeper);
    upkeep->expiry = sk_expiry_open(sale);
    upkeep->roster = sk_roster_open(sale);
    if (upkeep->follow != NULL && upkeep->watch != NULL)
        sk_follow_tell(upkeep->follow, upkeep_on_changed, upkeep);
    bool complete = upkeep->follow != NULL && upkeep->rebuilds != NULL && upkeep->sweeper != NULL &&
                    upkeep->regrant != NULL && upkeep->watch != NULL && upkeep->expiry != NULL &&
                    upkeep->roster != NULL;
    return complete ? SK_OK : SK_NO_MEM;
}

void sk_upkeep_set_writer(struct sk_upkeep *upkeep, struct sk_writer *writer, struct sk_returns *returns)
{
    sk_sweeper_set_writer(upkeep->sweeper, writer, returns);
    sk_expiry_set_returns(upkeep->expiry, returns);
    sk_regrant_set_writer(upkeep->regrant, writer);
}

void sk_upkeep_close(struct sk_upkeep *upkeep)
{
    sk_roster_close(upkeep->roster);
    sk_expiry_close(upkeep->expiry);
    sk_watch_close(upkeep->watch);
    sk_regrant_close(upkeep->regrant);
    sk_sweeper_close(upkeep->sweeper);
    sk_rebuilds_close(upkeep->rebuilds);
    sk_follow_close(upkeep->follow);
}

size_t sk_upkeep_maintenance_size(void)
{
    return sizeof(struct sk_maintenance);
}

void sk_upkeep_suspect(void *upkeep, struct sk_voucher *voucher, enum sk_doubt doubt)
{
    sk_rebuild_soon(((struct sk_upkeep *)upkeep)->rebuilds, voucher, doubt);
}

void sk_upkeep_orphaned(void *upkeep, struct sk_voucher *voucher)
{
    sk_sweep_orphans(((struct sk_upkeep *)upkeep)->sweeper, voucher);
}

void sk_upkeep_offers_differ(void *upkeep, struct sk_voucher *voucher, int32_t offer)
{
    const struct sk_upkeep *of = upkeep;
    sk_offers_agree(of->sale, of->follow, voucher, offer);
}

void sk_upkeep_hurry(struct sk_upkeep *upkeep)
{
    if (upkeep->follow != NULL)
        sk_follow_hurry(upkeep->follow);
    if (upkeep->watch != NULL)
        sk_watch_hurry(upkeep->watch);
}
