// Puts the parts of a reactor's shop together, and takes them apart in reverse order.
#include "shop.h"

#include <stdlib.h>

#include "config.h"
#include "failpoint.h"
#include "purchase.h"
#include "query.h"
#include "report.h"
#include "returns.h"
#include "vouchers.h"
#include "waiting.h"

enum { REDIS_WAITING_MAX = 1 << 16, PG_WAITING_MAX = 4096 };

struct sk_shop {
    struct sk_sale sale;
    struct sk_pg *report_pg;
    struct sk_batcher *batcher;
    struct sk_writer *writer;
    struct sk_returns *returns;
    struct sk_recovery recovery;
    struct sk_control control;
};

static enum sk_status shop_open_stores(struct sk_shop *shop, const struct sk_config *config);
static enum sk_status shop_open_parts(struct sk_shop *shop, const struct sk_shop_options *options);
static void shop_on_redis(void *arg, bool ready);
static void shop_on_pg(void *arg, bool ready);
static void shop_on_ask_redis(void *arg, bool ready);
static void shop_on_ask_pg(void *arg, bool ready);
static void shop_on_report_pg(void *arg, bool ready);
static void shop_on_notified(void *arg);
static bool shop_ready(void *arg);

struct sk_shop *sk_shop_open(const struct sk_shop_options *options)
{
    struct sk_shop *shop = calloc(1, sizeof *shop);
    if (shop == NULL)
        return NULL;
    shop->sale.loop = options->loop;
    shop->sale.options = &options->config->sale;
    shop->sale.instance = options->config->server.listen;
    shop->sale.purchases = options->purchases;
    shop->sale.metrics = options->metrics;
    shop->sale.suspect = sk_recovery_suspect;
    shop->sale.orphaned = sk_recovery_orphaned;
    shop->sale.offers_differ = sk_recovery_offers_differ;
    shop->sale.recovery = &shop->recovery;
    shop->sale.on_result = options->on_result;
    shop->sale.arg = options->routes;
    if (shop_open_stores(shop, options->config) != SK_OK || shop_open_parts(shop, options) != SK_OK) {
        sk_shop_close(shop);
        return NULL;
    }
    return shop;
}

// Each store has two links; one of them is for orders only. PostgreSQL has a third one for reports, which take seconds.
static enum sk_status shop_open_stores(struct sk_shop *shop, const struct sk_config *config)
{
    struct sk_sale *sale = &shop->sale;
    struct sk_redis_options redis = {
        .url = config->stores.redis_url,
        .tls = {config->stores.redis_ca, config->stores.redis_cert, config->stores.redis_key},
        .sentinel_password = config->stores.sentinel_password,
        .timeout_ms = (uint32_t)config->stores.redis_timeout_ms,
        .on_change = shop_on_redis,
        .arg = shop,
        .most_waiting = REDIS_WAITING_MAX,
    };
    struct sk_pg_options pg = {
        .url = config->stores.database_url,
        .name = "seckill-orders",
        .timeout_ms = (uint32_t)config->stores.pg_timeout_ms,
        .on_change = shop_on_pg,
        .arg = shop,
        .most_waiting = PG_WAITING_MAX,
    };
    sale->redis = sk_redis_open(sale->loop, &redis);
    sale->pg = sk_pg_open(sale->loop, &pg);
    redis.on_change = shop_on_ask_redis;
    pg.on_change = shop_on_ask_pg;
    pg.name = "seckill-queries";
    pg.listen = true;
    pg.on_notified = shop_on_notified;
    sale->ask_redis = sk_redis_open(sale->loop, &redis);
    sale->ask_pg = sk_pg_open(sale->loop, &pg);
    pg.on_change = shop_on_report_pg; // nothing waits for it: a report fails if it is down
    pg.name = "seckill-reports";
    pg.listen = false;
    pg.statement_ms = SK_REPORT_MS;
    shop->report_pg = sk_pg_open(sale->loop, &pg);
    if (sale->redis == NULL || sale->pg == NULL || sale->ask_redis == NULL || sale->ask_pg == NULL ||
        shop->report_pg == NULL)
        return SK_FAIL;
    sale->session = sk_session_open(sale->loop, sale->redis, sale->metrics, (uint32_t)config->sale.lock_ttl_ms);
    if (sale->session != NULL)
        sale->locks = sk_named_locks_open(sale->loop, sale->redis, sale->session, (uint32_t)config->sale.lock_ttl_ms);
    sale->catalogue = sk_catalogue_new(sk_recovery_maintenance_size());
    sale->orders = sk_order_pool_new((size_t)config->sale.orders_max);
    return sale->locks != NULL && sale->catalogue != NULL && sale->orders != NULL ? SK_OK : SK_NO_MEM;
}

static enum sk_status shop_open_parts(struct sk_shop *shop, const struct sk_shop_options *options)
{
    const struct sk_sale *sale = &shop->sale;
    struct sk_recovery *recovery = &shop->recovery;
    if (sk_recovery_open(recovery, sale) != SK_OK)
        return SK_NO_MEM;
    struct sk_writer_events events = {sk_sweep_settled, sk_regrant_add, recovery->sweeper, recovery->regrant};
    shop->writer = sk_writer_open(sale, &events);
    shop->returns = sk_returns_open(sale, sk_sweep_settled, recovery->sweeper);
    if (shop->writer == NULL || shop->returns == NULL)
        return SK_NO_MEM;
    sk_recovery_set_writer(recovery, shop->writer, shop->returns);
    shop->batcher = sk_batcher_open(sale, shop->writer);
    shop->control = (struct sk_control){.sale = sale,
                                        .recovery = recovery,
                                        .returns = shop->returns,
                                        .batcher = shop->batcher,
                                        .stores = &options->config->stores,
                                        .reactors = options->config->reactors,
                                        .ready = shop_ready,
                                        .arg = shop,
                                        .on_answer = options->on_answer,
                                        .routes = options->routes,
                                        .report_pg = shop->report_pg,
                                        .queries = sk_queries_open(),
                                        .shown = sk_voucher_cache_open()};
    shop->control.waiting = sk_waiting_open(&shop->control);
    shop->control.live = sk_live_open(&shop->control, &options->wire);
    return shop->batcher != NULL && shop->control.queries != NULL && shop->control.shown != NULL &&
                   shop->control.waiting != NULL && shop->control.live != NULL
               ? SK_OK
               : SK_NO_MEM;
}

void sk_shop_close(struct sk_shop *shop)
{
    if (shop == NULL)
        return;
    // Best effort, for an end with orders left: other instances settle the entries of this session without waiting for
    // its TTL.
    if (shop->sale.session != NULL && shop->sale.redis != NULL) {
        (void)sk_session_end(shop->sale.session);
        sk_redis_flush(shop->sale.redis);
    }
    // Closes the links first: their last callbacks need the other parts.
    sk_pg_close(shop->sale.pg);
    sk_pg_close(shop->sale.ask_pg);
    sk_pg_close(shop->report_pg);
    sk_redis_close(shop->sale.redis);
    sk_redis_close(shop->sale.ask_redis);
    sk_batcher_close(shop->batcher);
    sk_returns_close(shop->returns);
    sk_recovery_close(&shop->recovery);
    sk_live_close(shop->control.live);
    sk_waiting_close(shop->control.waiting);
    sk_queries_close(shop->control.queries);
    sk_voucher_cache_close(shop->control.shown);
    sk_writer_close(shop->writer);
    sk_named_locks_close(shop->sale.locks);
    sk_session_close(shop->sale.session);
    sk_order_pool_free(shop->sale.orders);
    sk_catalogue_free(shop->sale.catalogue);
    free(shop);
}

// ---- the links ----

static void shop_count_link(const struct sk_shop *shop, enum sk_metric up, enum sk_metric lost, bool ready)
{
    sk_metrics_set(shop->sale.metrics, up, ready);
    sk_metrics_add(shop->sale.metrics, lost, !ready);
}

static void shop_on_redis(void *arg, bool ready)
{
    struct sk_shop *shop = arg;
    shop_count_link(shop, SK_METRIC_UP_REDIS, SK_METRIC_LOST_REDIS, ready);
    if (shop->sale.session != NULL)
        sk_session_link(shop->sale.session, ready);
    if (ready)
        sk_recovery_hurry(&shop->recovery); // Redis may have lost data
}

static void shop_on_pg(void *arg, bool ready)
{
    struct sk_shop *shop = arg;
    shop_count_link(shop, SK_METRIC_UP_PG, SK_METRIC_LOST_PG, ready);
    if (ready && shop->writer != NULL)
        sk_writer_pump(shop->writer, false);
}

static void shop_on_ask_redis(void *arg, bool ready)
{
    struct sk_shop *shop = arg;
    shop_count_link(shop, SK_METRIC_UP_ASK_REDIS, SK_METRIC_LOST_ASK_REDIS, ready);
    if (ready)
        sk_recovery_hurry(&shop->recovery);
}

static void shop_on_ask_pg(void *arg, bool ready)
{
    struct sk_shop *shop = arg;
    shop_count_link(shop, SK_METRIC_UP_ASK_PG, SK_METRIC_LOST_ASK_PG, ready);
    if (ready)
        sk_recovery_hurry(&shop->recovery);
}

static void shop_on_report_pg(void *arg, bool ready)
{
    shop_count_link(arg, SK_METRIC_UP_REPORT_PG, SK_METRIC_LOST_REPORT_PG, ready);
}

static void shop_on_notified(void *arg)
{
    struct sk_shop *shop = arg;
    if (shop->recovery.follow != NULL)
        sk_follow_hurry(shop->recovery.follow);
}

// ---- the calls ----

void sk_shop_drain(struct sk_shop *shop)
{
    sk_expiry_stop(shop->recovery.expiry);
}

struct sk_control *sk_shop_control(struct sk_shop *shop)
{
    return &shop->control;
}

static void shop_measure(const struct sk_shop *shop)
{
    struct sk_metrics *metrics = shop->sale.metrics;
    sk_order_pool_measure(shop->sale.orders, metrics);
    sk_metrics_set(metrics, SK_METRIC_VOUCHERS, sk_catalogue_count(shop->sale.catalogue));
    sk_metrics_set(metrics, SK_METRIC_SESSIONS_HELD, sk_session_held(shop->sale.session));
    sk_metrics_set(metrics, SK_METRIC_REACTORS_READY, sk_shop_ready(shop));
}

void sk_shop_turn(struct sk_shop *shop)
{
    bool asked = sk_batcher_flush(shop->batcher);
    sk_writer_pump(shop->writer, sk_batcher_busy(shop->batcher));
    sk_redis_flush(shop->sale.redis);
    sk_redis_flush(shop->sale.ask_redis);
    shop_measure(shop);
    if (asked)
        SK_FAILPOINT("place.sent");
}

bool sk_shop_ready(const struct sk_shop *shop)
{
    const struct sk_sale *sale = &shop->sale;
    return sk_redis_ready(sale->redis) && sk_session_held(sale->session) && sk_pg_ready(sale->pg) &&
           sk_redis_ready(sale->ask_redis) && sk_pg_ready(sale->ask_pg) && sk_follow_complete(shop->recovery.follow);
}

static bool shop_ready(void *arg)
{
    return sk_shop_ready(arg);
}

bool sk_shop_give_up(struct sk_shop *shop)
{
    sk_regrant_give_up(shop->recovery.regrant);
    return !sk_regrant_idle(shop->recovery.regrant);
}

bool sk_shop_leave(struct sk_shop *shop)
{
    return sk_session_end(shop->sale.session);
}

struct sk_left sk_shop_left(const struct sk_shop *shop)
{
    struct sk_left left = {0};
    sk_writer_count(shop->writer, &left);
    sk_regrant_count(shop->recovery.regrant, &left);
    left.in_journal += sk_returns_count(shop->returns);
    return left;
}

bool sk_shop_idle(const struct sk_shop *shop)
{
    return sk_writer_idle(shop->writer) && sk_returns_idle(shop->returns) && sk_regrant_idle(shop->recovery.regrant) &&
           sk_redis_idle(shop->sale.redis);
}
