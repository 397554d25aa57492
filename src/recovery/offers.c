// Does not check whether both have the same offer now: the next call of place_orders.lua shows it.
#include "offers.h"

#include "batcher.h"
#include "changes.h"
#include "maintenance.h"

// Between two catalogue reads for one voucher that do not wait for the shared one.
enum { FOLLOW_MS = 100 };

static void offers_follow(const struct sk_sale *sale, struct sk_follow *follow, struct sk_agreeing *agreeing);
static void offers_on_followed(struct sk_follow_waiter *waiter, bool ok);
static void offers_on_applied(void *arg, bool ok);
static void offers_end(struct sk_agreeing *agreeing);

void sk_offers_agree(const struct sk_sale *sale, struct sk_follow *follow, struct sk_voucher *voucher, int32_t offer)
{
    struct sk_agreeing *agreeing = &voucher->maintenance->agreeing;
    if (agreeing->voucher != NULL)
        return;
    agreeing->voucher = voucher;
    sk_voucher_pin(voucher);
    if (offer > voucher->offer)
        offers_follow(sale, follow, agreeing);
    else if (sk_changes_carry_out(sale, voucher, offers_on_applied, agreeing) != SK_OK)
        offers_end(agreeing);
}

static void offers_follow(const struct sk_sale *sale, struct sk_follow *follow, struct sk_agreeing *agreeing)
{
    uint64_t now = uv_now(sale->loop), since_ms = now - agreeing->followed_at_ms;
    agreeing->followed_at_ms = now;
    agreeing->waiter.done = offers_on_followed;
    sk_follow_wait(follow, &agreeing->waiter);
    if (since_ms >= FOLLOW_MS)
        sk_follow_hurry(follow);
}

static void offers_on_followed(struct sk_follow_waiter *waiter, bool ok)
{
    (void)ok;
    offers_end((struct sk_agreeing *)waiter);
}

static void offers_on_applied(void *arg, bool ok)
{
    (void)ok;
    offers_end(arg);
}

static void offers_end(struct sk_agreeing *agreeing)
{
    struct sk_voucher *voucher = agreeing->voucher;
    agreeing->voucher = NULL;
    sk_batcher_release(voucher);
    sk_voucher_unpin(voucher);
}
