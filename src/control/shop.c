// Puts the parts of a reactor's sale together, and takes them apart in reverse order.
#include "shop.h"

#include <inttypes.h>
#include <string.h>

#include "admit.h"
#include "batcher.h"
#include "failpoint.h"
#include "log.h"
#include "rebuild.h"
#include "regrant.h"
#include "watch.h"
#include "writer.h"

enum { RETRY_AFTER_MS = 1000, REDIS_WAITING_MAX = 65536, PG_WAITING_MAX = 4096 };

struct sk_shop {
    struct sk_core core;
    struct sk_admit *admit;
    struct sk_batcher *batcher;
    struct sk_writer *writer;
    struct sk_regrant *regrant;
    struct sk_watch *watch;
    struct sk_inquiries *inquiries;
    struct sk_repairs *repairs;
    struct sk_creations *creations;
};

static void suspect(void *upkeep, struct sk_segment *voucher)
{
    struct sk_shop *shop = upkeep;
    if (sk_rebuild(&shop->core, voucher, NULL, NULL) != SK_OK)
        sk_log(SK_DEBUG, "not rebuilt now", "voucher=%" PRId64, voucher->voucher_id);
}

static void on_redis_change(void *arg, bool ready)
{
    struct sk_shop *shop = arg;
    if (ready && shop->watch != NULL)
        sk_watch_hurry(shop->watch); // it may have lost something
}

static void on_pg_change(void *arg, bool ready)
{
    struct sk_shop *shop = arg;
    if (ready && shop->writer != NULL)
        sk_writer_pump(shop->writer, false);
    if (ready && shop->watch != NULL)
        sk_watch_hurry(shop->watch);
}

static enum sk_status open_stores(struct sk_shop *shop)
{
    struct sk_core *core = &shop->core;
    const struct sk_config *config = core->config;
    struct sk_redis_options redis = {
        .url = config->redis_url,
        .timeout_ms = (uint32_t)config->redis_timeout_ms,
        .on_change = on_redis_change,
        .arg = shop,
        .most_waiting = REDIS_WAITING_MAX,
    };
    struct sk_pg_options pg = {
        .url = config->database_url,
        .timeout_ms = (uint32_t)config->pg_timeout_ms,
        .on_change = on_pg_change,
        .arg = shop,
        .most_waiting = PG_WAITING_MAX,
    };
    core->redis = sk_redis_open(core->loop, &redis);
    core->pg = sk_pg_open(core->loop, &pg);
    if (core->redis == NULL || core->pg == NULL)
        return SK_FAIL;
    core->locker = sk_locker_open(core->loop, core->redis, (uint32_t)config->lock_ttl_ms);
    core->segments = sk_segments_new(sizeof(struct sk_care));
    core->orders = sk_order_pool_new((size_t)config->journal_max_orders);
    return core->locker != NULL && core->segments != NULL && core->orders != NULL ? SK_OK : SK_NO_MEM;
}

static enum sk_status open_parts(struct sk_shop *shop)
{
    const struct sk_core *core = &shop->core;
    shop->admit = sk_admit_open(core);
    shop->watch = sk_watch_open(core);
    shop->regrant = sk_regrant_open(core);
    if (shop->admit == NULL || shop->watch == NULL || shop->regrant == NULL)
        return SK_NO_MEM;
    struct sk_writer_events events = {sk_watch_settled, sk_regrant_add, shop->watch, shop->regrant};
    shop->writer = sk_writer_open(core, &events);
    if (shop->writer == NULL)
        return SK_NO_MEM;
    sk_watch_set_writer(shop->watch, shop->writer);
    sk_regrant_set_writer(shop->regrant, shop->writer);
    shop->batcher = sk_batcher_open(core, shop->admit, shop->writer);
    shop->inquiries = sk_inquiries_open(core);
    shop->repairs = sk_repairs_open(core, shop->regrant);
    shop->creations = sk_creations_open(core);
    bool complete =
        shop->batcher != NULL && shop->inquiries != NULL && shop->repairs != NULL && shop->creations != NULL;
    return complete ? SK_OK : SK_NO_MEM;
}

struct sk_shop *sk_shop_open(const struct sk_shop_options *options)
{
    struct sk_shop *shop = calloc(1, sizeof *shop);
    if (shop == NULL)
        return NULL;
    shop->core.loop = options->loop;
    shop->core.config = options->config;
    shop->core.suspect = suspect;
    shop->core.upkeep = shop;
    shop->core.on_outcome = options->on_outcome;
    shop->core.arg = options->arg;
    if (open_stores(shop) != SK_OK || open_parts(shop) != SK_OK) {
        sk_shop_close(shop);
        return NULL;
    }
    return shop;
}

void sk_shop_close(struct sk_shop *shop)
{
    if (shop == NULL)
        return;
    // The links go first: their last callbacks still find everything in place.
    sk_pg_close(shop->core.pg);
    sk_redis_close(shop->core.redis);
    sk_creations_close(shop->creations);
    sk_repairs_close(shop->repairs);
    sk_inquiries_close(shop->inquiries);
    sk_batcher_close(shop->batcher);
    sk_regrant_close(shop->regrant);
    sk_writer_close(shop->writer);
    sk_watch_close(shop->watch);
    sk_admit_close(shop->admit);
    sk_locker_close(shop->core.locker);
    sk_order_pool_free(shop->core.orders);
    sk_segments_free(shop->core.segments);
    free(shop);
}

bool sk_shop_place(struct sk_shop *shop, int64_t voucher_id, const char *user, uint64_t ticket, bool patient,
                   struct sk_outcome *outcome)
{
    const struct sk_core *core = &shop->core;
    // Without Redis nothing is certain, not even what was remembered a moment ago.
    *outcome = (struct sk_outcome){.verdict = SK_VERDICT_UNAVAILABLE, .retry_after_ms = RETRY_AFTER_MS};
    if (!sk_redis_ready(core->redis))
        return false;
    struct sk_segment *voucher = sk_segments_get(core->segments, voucher_id, uv_now(core->loop));
    if (voucher != NULL && sk_admit_refuses(shop->admit, voucher, user, outcome))
        return false;
    struct sk_order *order = voucher == NULL ? NULL : sk_order_take(core->orders);
    if (order == NULL) {
        *outcome = (struct sk_outcome){.verdict = SK_VERDICT_OVERLOADED, .retry_after_ms = RETRY_AFTER_MS};
        return false;
    }
    order->ticket = ticket;
    order->patient = patient;
    size_t len = strlen(user);
    SK_ASSERT(len < sizeof order->user);
    memcpy(order->user, user, len + 1);
    sk_batcher_add(shop->batcher, voucher, order);
    return true;
}

struct sk_inquiries *sk_shop_inquiries(struct sk_shop *shop)
{
    return shop->inquiries;
}

struct sk_repairs *sk_shop_repairs(struct sk_shop *shop)
{
    return shop->repairs;
}

struct sk_creations *sk_shop_creations(struct sk_shop *shop)
{
    return shop->creations;
}

void sk_shop_turn(struct sk_shop *shop)
{
    bool asked = sk_batcher_flush(shop->batcher);
    sk_writer_pump(shop->writer, sk_batcher_busy(shop->batcher));
    sk_redis_flush(shop->core.redis);
    if (asked)
        SK_FAILPOINT("place.sent");
}

bool sk_shop_ready(const struct sk_shop *shop)
{
    return sk_redis_ready(shop->core.redis) && sk_pg_ready(shop->core.pg);
}

bool sk_shop_give_up(struct sk_shop *shop)
{
    sk_regrant_give_up(shop->regrant);
    return !sk_regrant_idle(shop->regrant);
}

struct sk_left sk_shop_left(const struct sk_shop *shop)
{
    struct sk_left left = {0};
    sk_writer_count(shop->writer, &left);
    sk_regrant_count(shop->regrant, &left);
    return left;
}

bool sk_shop_idle(const struct sk_shop *shop)
{
    return sk_writer_idle(shop->writer) && sk_regrant_idle(shop->regrant) && sk_redis_idle(shop->core.redis);
}
