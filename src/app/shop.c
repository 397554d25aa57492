#include "shop.h"

#include <stdlib.h>

#include "batcher.h"
#include "catalogue.h"
#include "expiry.h"
#include "failpoint.h"
#include "feed.h"
#include "journal_sweep.h"
#include "line.h"
#include "live.h"
#include "log.h"
#include "order_lookup.h"
#include "params.h"
#include "regrant.h"
#include "settlement_report.h"
#include "vouchers.h"
#include "waiting.h"

enum {
    GIVE_UP_MS = 2000,     // before the end: an unanswered Redis command, and a statement
    GIVE_UP_TRY_MS = 1000, // also where draining may take no time
    REDIS_WAITING_MAX = 1 << 16,
    PG_WAITING_MAX = 4096,
};

struct sk_shop {
    struct sk_shop_options options;
    struct sk_sale sale;
    struct sk_shard shards[SK_SHARDS_MAX];
    struct shop_shard {
        struct sk_shop *shop;
        size_t number;
    } owners[SK_SHARDS_MAX]; // of their links
    bool unfit;              // a database is another shard than it should be, or lacks changes that were read
    bool was_ready;
    uint64_t stop_by_ms;
    uint64_t give_up_at_ms, give_up_by_ms; // while it stops: orders that are in no journal end as refused
    struct sk_recovery recovery;
    struct sk_control control;
};

// ---- its state ----

bool sk_shop_ready(const struct sk_shop *shop)
{
    const struct sk_sale *sale = &shop->sale;
    const struct sk_nodes_state nodes = sk_nodes_state(sale->nodes);
    size_t shard = 0;
    while (shard < sale->shard_count && !sk_catalogue_sync_complete(shop->recovery.syncs[shard]))
        shard++;
    return shard < sale->shard_count && nodes.orders > 0 && nodes.queries > 0 &&
           !sk_assignments_is_alone(shop->recovery.assignments) &&
           (sk_session_held(sale->session) || sk_session_away(sale->session));
}

static bool shop_is_ready(void *arg)
{
    return sk_shop_ready(arg);
}

static bool shop_shard_away(void *arg, size_t shard)
{
    const struct sk_shop *shop = arg;
    const struct sk_sale *sale = &shop->sale;
    return !sk_pg_ready(sale->shards[shard].orders) || !sk_pg_ready(sale->shards[shard].queries) ||
           !sk_catalogue_sync_complete(shop->recovery.syncs[shard]);
}

bool sk_shop_is_unfit(const struct sk_shop *shop)
{
    return shop->unfit;
}

// ---- the links ----

// A link to Redis is up if those to all nodes are.
static void shop_show_nodes(const struct sk_shop *shop)
{
    struct sk_nodes_state nodes = sk_nodes_state(shop->sale.nodes);
    sk_metrics_set(shop->sale.metrics, SK_METRIC_UP_REDIS, nodes.nodes > 0 && nodes.orders == nodes.nodes);
    sk_metrics_set(shop->sale.metrics, SK_METRIC_UP_ASK_REDIS, nodes.nodes > 0 && nodes.queries == nodes.nodes);
}

// A shard is up without its link for reports.
void sk_shop_measure(const struct sk_shop *shop)
{
    const struct sk_sale *sale = &shop->sale;
    struct sk_server_rows rows;
    rows.count = 0;
    shop_show_nodes(shop);
    for (size_t i = 0; i < sale->shard_count; i++) {
        char name[SK_PARAM_NUMBER_SIZE];
        struct sk_server_row *row = sk_server_table_row(&rows, "postgresql", sk_params_number(name, (int64_t)i));
        row->up = 1;
        sk_pg_measure(sale->shards[i].orders, row);
        sk_pg_measure(sale->shards[i].queries, row);
    }
    sk_nodes_measure(sale->nodes, &rows);
    sk_server_table_publish(&sale->metrics->servers, &rows);
}

static void shop_on_redis(void *arg, bool ready)
{
    struct sk_shop *shop = arg;
    sk_metrics_add(shop->sale.metrics, SK_METRIC_LOST_REDIS, !ready);
    shop_show_nodes(shop);
    if (shop->sale.session != NULL)
        sk_session_link(shop->sale.session);
    if (ready)
        sk_recovery_hurry(&shop->recovery); // Redis may have lost data
}

static void shop_on_elected(void *arg)
{
    struct sk_shop *shop = arg;
    sk_recovery_hurry(&shop->recovery); // a node may have lost data
}

static bool shop_is_up(const struct sk_pg *link)
{
    return link != NULL && sk_pg_ready(link);
}

// A link to PostgreSQL is up if those to all shards are. `lost` counts the losses of the one that has changed.
static void shop_on_link(const struct sk_shop *shop, enum sk_metric lost, bool ready)
{
    bool orders = true, queries = true, reports = true;
    for (size_t i = 0; i < shop->sale.shard_count; i++) {
        orders = orders && shop_is_up(shop->shards[i].orders);
        queries = queries && shop_is_up(shop->shards[i].queries);
        reports = reports && shop_is_up(shop->shards[i].reports);
    }
    sk_metrics_set(shop->sale.metrics, SK_METRIC_UP_PG, orders);
    sk_metrics_set(shop->sale.metrics, SK_METRIC_UP_ASK_PG, queries);
    sk_metrics_set(shop->sale.metrics, SK_METRIC_UP_REPORT_PG, reports);
    sk_metrics_add(shop->sale.metrics, lost, !ready);
}

// A database that is another shard ends the process while it starts. Later the link just does not use it, also if the
// shard has been away since the start: the others sell.
static const char *shop_check_shard(const struct shop_shard *shard, const char *misfit)
{
    struct sk_shop *shop = shard->shop;
    if (misfit == NULL)
        return NULL;
    sk_log_repeat(SK_LOG_ERROR, "this is not the database that belongs here", "reason", misfit);
    if (!shop->was_ready)
        shop->unfit = true;
    return "it is another shard";
}

static const char *shop_on_session(void *arg, const char *misfit, int64_t beat)
{
    const struct shop_shard *shard = arg;
    bool fits = misfit != NULL || sk_heartbeats_fit(shard->shop->recovery.heartbeats, shard->number, beat);
    return fits ? shop_check_shard(shard, misfit) : "its heartbeat is older than the known one";
}

// The heartbeats are read by this link. It takes an older database once, so that they notice.
static const char *shop_on_report_session(void *arg, const char *misfit, int64_t beat)
{
    const struct shop_shard *shard = arg;
    return sk_heartbeats_is_restored(shard->shop->recovery.heartbeats, shard->number)
               ? shop_on_session(arg, misfit, beat)
               : shop_check_shard(shard, misfit);
}

static void shop_on_any_pg(const struct sk_shop *shop)
{
    if (shop->recovery.assignments != NULL)
        sk_assignments_check(shop->recovery.assignments);
}

static void shop_on_pg(void *arg, bool ready)
{
    const struct shop_shard *shard = arg;
    struct sk_writer *writer = shard->shop->shards[shard->number].writer;
    shop_on_link(shard->shop, SK_METRIC_LOST_PG, ready);
    shop_on_any_pg(shard->shop);
    if (ready && writer != NULL)
        sk_writer_pump(writer, false);
}

static void shop_on_ask_redis(void *arg, bool ready)
{
    struct sk_shop *shop = arg;
    sk_metrics_add(shop->sale.metrics, SK_METRIC_LOST_ASK_REDIS, !ready);
    shop_show_nodes(shop);
    if (ready)
        sk_recovery_hurry(&shop->recovery);
}

static void shop_on_ask_pg(void *arg, bool ready)
{
    struct sk_shop *shop = ((struct shop_shard *)arg)->shop;
    shop_on_link(shop, SK_METRIC_LOST_ASK_PG, ready);
    shop_on_any_pg(shop);
    if (ready)
        sk_recovery_hurry(&shop->recovery);
}

static void shop_on_report_pg(void *arg, bool ready)
{
    const struct sk_shop *shop = ((struct shop_shard *)arg)->shop;
    shop_on_link(shop, SK_METRIC_LOST_REPORT_PG, ready);
    if (ready)
        sk_heartbeats_hurry(shop->recovery.heartbeats);
}

static void shop_on_notified(void *arg)
{
    const struct shop_shard *shard = arg;
    sk_recovery_follow(&shard->shop->recovery, shard->number);
}

// ---- its parts, put together and taken apart in reverse order ----

static bool shop_open_shard(struct sk_shop *shop, size_t number)
{
    const struct sk_store_options *stores = shop->options.stores;
    struct sk_shard *shard = &shop->shards[number];
    shop->owners[number] = (struct shop_shard){shop, number};
    struct sk_pg_options pg = {
        .url = stores->shards.urls[number],
        .name = "seckill-orders",
        .timeout_ms = (uint32_t)stores->pg_timeout_ms,
        .on_change = shop_on_pg,
        .arg = &shop->owners[number],
        .most_waiting = PG_WAITING_MAX,
        .shard = (unsigned)number,
        .shards = (unsigned)shop->sale.shard_count,
        .on_session = shop_on_session,
    };
    shard->orders = sk_pg_open(shop->sale.loop, &pg);
    pg.on_change = shop_on_ask_pg;
    pg.name = "seckill-queries";
    pg.listen = true;
    pg.on_notified = shop_on_notified;
    shard->queries = sk_pg_open(shop->sale.loop, &pg);
    pg.on_change = shop_on_report_pg; // a report fails if it is down, and with several shards the beats wait
    pg.on_session = shop_on_report_session;
    pg.name = "seckill-reports";
    pg.listen = false;
    pg.statement_ms = SK_REPORT_MS;
    shard->reports = sk_pg_open(shop->sale.loop, &pg);
    return shard->orders != NULL && shard->queries != NULL && shard->reports != NULL;
}

// Each store has two links; one of them is for orders only. PostgreSQL has a third one for reports, which take seconds,
// and all three for each shard.
static enum sk_status shop_open_stores(struct sk_shop *shop)
{
    const struct sk_store_options *stores = shop->options.stores;
    struct sk_sale *sale = &shop->sale;
    struct sk_nodes_options nodes = {
        .redis = {.url = stores->redis_url,
                  .tls = {stores->redis_ca, stores->redis_cert, stores->redis_key},
                  .sentinel_password = stores->sentinel_password,
                  .timeout_ms = (uint32_t)stores->redis_timeout_ms,
                  .most_waiting = REDIS_WAITING_MAX},
        .on_orders = shop_on_redis,
        .on_queries = shop_on_ask_redis,
        .on_elected = shop_on_elected,
        .arg = shop,
    };
    sale->nodes = sk_nodes_open(sale->loop, &nodes);
    bool opened = sale->nodes != NULL;
    for (size_t i = 0; i < sale->shard_count; i++)
        opened = opened && shop_open_shard(shop, i);
    if (!opened)
        return SK_FAIL;
    const struct sk_session_options session = {(uint32_t)sale->options->lock_ttl_ms, sale->shard_count,
                                               shop->options.process};
    sale->session = sk_session_open(sale->loop, sale->nodes, sale->metrics, &session);
    if (sale->session != NULL)
        sale->locks = sk_named_locks_open(sale->loop, sale->nodes, sale->session, (uint32_t)sale->options->lock_ttl_ms);
    sale->catalogue = sk_catalogue_new(sizeof(struct sk_maintenance));
    sale->orders = sk_order_pool_new((size_t)sale->options->orders_max, sale->shard_count);
    return sale->locks != NULL && sale->catalogue != NULL && sale->orders != NULL ? SK_OK : SK_NO_MEM;
}

static enum sk_status shop_open_parts(struct sk_shop *shop)
{
    const struct sk_shop_options *options = &shop->options;
    const struct sk_sale *sale = &shop->sale;
    struct sk_recovery *recovery = &shop->recovery;
    if (sk_recovery_open(recovery, sale) != SK_OK)
        return SK_NO_MEM;
    struct sk_writer_events events = {sk_sweep_settled, sk_regrant_add, recovery->sweeper, recovery->regrant};
    for (size_t i = 0; i < sale->shard_count; i++) {
        struct sk_shard *shard = &shop->shards[i];
        shard->writer = sk_writer_open(sale, shard, &events);
        shard->line = sk_line_open(sale, shard);
        shard->returns = sk_returns_open(sale, shard, sk_sweep_settled, recovery->sweeper);
        if (shard->writer == NULL || shard->line == NULL || shard->returns == NULL)
            return SK_NO_MEM;
    }
    shop->sale.batcher = sk_batcher_open(sale);
    shop->control = (struct sk_control){.sale = sale,
                                        .recovery = recovery,
                                        .stores = options->stores,
                                        .reactors = options->reactors,
                                        .ready = shop_is_ready,
                                        .shard_away = shop_shard_away,
                                        .arg = shop,
                                        .on_answer = options->on_answer,
                                        .routes = options->arg,
                                        .queries = sk_queries_open(),
                                        .shown = sk_voucher_cache_open(),
                                        .searches = sk_searches_open(),
                                        .settlements = sk_settlements_open()};
    shop->control.waiting = sk_waiting_open(&shop->control);
    shop->control.feed = sk_feed_open(&shop->control);
    const struct sk_live_wire wire = {options->send, options->end_stream, options->arg};
    shop->control.live = sk_live_open(&shop->control, &wire);
    return sale->batcher != NULL && shop->control.queries != NULL && shop->control.shown != NULL &&
                   shop->control.searches != NULL && shop->control.settlements != NULL &&
                   shop->control.waiting != NULL && shop->control.feed != NULL && shop->control.live != NULL
               ? SK_OK
               : SK_NO_MEM;
}

struct sk_shop *sk_shop_open(const struct sk_shop_options *options)
{
    struct sk_shop *shop = calloc(1, sizeof *shop);
    if (shop == NULL)
        return NULL;
    shop->options = *options;
    shop->sale = (struct sk_sale){.loop = options->loop,
                                  .options = options->sale,
                                  .instance = options->instance,
                                  .purchases = options->purchases,
                                  .shards = shop->shards,
                                  .shard_count = options->stores->shards.count,
                                  .metrics = options->metrics,
                                  .on_result = options->on_result,
                                  .arg = options->arg,
                                  .suspect = sk_recovery_suspect,
                                  .orphaned = sk_recovery_orphaned,
                                  .offers_differ = sk_recovery_offers_differ,
                                  .recovery = &shop->recovery};
    if (shop_open_stores(shop) != SK_OK || shop_open_parts(shop) != SK_OK) {
        sk_shop_close(shop);
        return NULL;
    }
    return shop;
}

void sk_shop_close(struct sk_shop *shop)
{
    if (shop == NULL)
        return;
    // Best effort, for an end with orders left: other instances settle the entries of this session without waiting for
    // its TTL.
    if (shop->sale.session != NULL) {
        (void)sk_session_end(shop->sale.session);
        sk_nodes_flush(shop->sale.nodes);
    }
    // Closes the links first: their last callbacks need the other parts.
    for (size_t i = 0; i < shop->sale.shard_count; i++) {
        sk_pg_close(shop->shards[i].orders);
        sk_pg_close(shop->shards[i].queries);
        sk_pg_close(shop->shards[i].reports);
    }
    sk_nodes_end(shop->sale.nodes);
    sk_batcher_close(shop->sale.batcher);
    for (size_t i = 0; i < shop->sale.shard_count; i++)
        sk_returns_close(shop->shards[i].returns);
    sk_recovery_close(&shop->recovery);
    sk_live_close(shop->control.live);
    sk_waiting_close(shop->control.waiting);
    sk_feed_close(shop->control.feed);
    sk_queries_close(shop->control.queries);
    sk_voucher_cache_close(shop->control.shown);
    sk_searches_close(shop->control.searches);
    sk_settlements_close(shop->control.settlements);
    for (size_t i = 0; i < shop->sale.shard_count; i++) {
        sk_writer_close(shop->shards[i].writer);
        sk_line_close(shop->shards[i].line);
    }
    sk_named_locks_close(shop->sale.locks);
    sk_session_close(shop->sale.session);
    sk_nodes_close(shop->sale.nodes);
    sk_order_pool_free(shop->sale.orders);
    sk_catalogue_free(shop->sale.catalogue);
    free(shop);
}

// ---- the calls ----

struct sk_control *sk_shop_control(struct sk_shop *shop)
{
    return &shop->control;
}

void sk_shop_turn(struct sk_shop *shop)
{
    struct sk_metrics *metrics = shop->sale.metrics;
    bool asked = sk_batcher_flush(shop->sale.batcher);
    bool rush = sk_batcher_busy(shop->sale.batcher);
    for (size_t i = 0; i < shop->sale.shard_count; i++) {
        sk_writer_pump(shop->shards[i].writer, rush);
        sk_line_flush(shop->shards[i].line);
    }
    sk_nodes_flush(shop->sale.nodes);
    bool ready = sk_shop_ready(shop);
    shop->was_ready = shop->was_ready || ready;
    sk_order_pool_measure(shop->sale.orders, metrics);
    sk_metrics_set(metrics, SK_METRIC_VOUCHERS, sk_catalogue_count(shop->sale.catalogue));
    sk_metrics_set(metrics, SK_METRIC_SESSIONS_HELD, sk_session_held(shop->sale.session));
    sk_metrics_set(metrics, SK_METRIC_REACTORS_READY, ready);
    for (size_t i = 0; i < shop->sale.shard_count; i++)
        shop->unfit = shop->unfit || sk_catalogue_sync_went_back(shop->recovery.syncs[i]);
    if (asked)
        SK_FAILPOINT("place.sent");
}

// ---- the end ----

// A refusal is final. So orders that retry the reservation get most of the time, also while Redis is away.
void sk_shop_stop(struct sk_shop *shop, uint64_t time_ms)
{
    uint64_t now = uv_now(shop->sale.loop);
    uint64_t last_ms = time_ms / 5 > GIVE_UP_MS ? time_ms / 5 : time_ms < GIVE_UP_MS ? time_ms : GIVE_UP_MS;
    shop->stop_by_ms = now + time_ms;
    shop->give_up_at_ms = shop->stop_by_ms - last_ms;
    shop->give_up_by_ms = now + (time_ms < GIVE_UP_TRY_MS ? GIVE_UP_TRY_MS : time_ms);
    sk_expiry_stop(shop->recovery.expiry); // it starts no more
    sk_assignments_stop(shop->recovery.assignments);
}

// Nothing is on its way to a store.
static bool shop_idle(const struct sk_shop *shop)
{
    bool idle = sk_regrant_idle(shop->recovery.regrant) && sk_nodes_idle(shop->sale.nodes);
    for (size_t i = 0; i < shop->sale.shard_count; i++)
        idle = idle && sk_writer_idle(shop->shards[i].writer) && sk_line_idle(shop->shards[i].line) &&
               sk_returns_count(shop->shards[i].returns) == 0;
    return idle;
}

bool sk_shop_stopped(struct sk_shop *shop, bool answered)
{
    struct sk_regrant *regrant = shop->recovery.regrant;
    uint64_t now = uv_now(shop->sale.loop), until_ms = shop->stop_by_ms;
    bool done = answered && shop_idle(shop);
    if (!done && now >= shop->give_up_at_ms) { // orders that still retry the reservation are written as refused
        sk_regrant_give_up(regrant);
        until_ms = sk_regrant_idle(regrant) ? until_ms : shop->give_up_by_ms;
    }
    done = done && sk_session_end(shop->sale.session); // so that others need not wait for its TTL
    if (!done && now < until_ms)
        return false;
    struct sk_left left = {0};
    for (size_t i = 0; i < shop->sale.shard_count; i++) {
        sk_writer_count(shop->shards[i].writer, &left);
        left.in_journal += sk_returns_count(shop->shards[i].returns);
    }
    sk_regrant_count(regrant, &left);
    if (done)
        sk_log(SK_LOG_INFO, "drained", "");
    else
        sk_log(left.nowhere > 0 ? SK_LOG_ERROR : SK_LOG_WARN, "not drained in time",
               "kept_by_journal=%zu kept_by_letters=%zu without_end=%zu", left.in_journal, left.in_letters,
               left.nowhere);
    return true;
}
