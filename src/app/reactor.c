// One turn of a loop: libuv polls, and libmicrohttpd, Redis and PostgreSQL are read as they become readable. Then,
// before the loop polls again, answers are sent, the collected requests go to Redis in one call and one write, and the
// writer starts its next batch.
#include "reactor.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "client_limits.h"
#include "clock.h"
#include "failpoint.h"
#include "live.h"
#include "log.h"
#include "metrics_page.h"
#include "params.h"
#include "purchase.h"
#include "query.h"
#include "report.h"
#include "returns.h"
#include "routes.h"
#include "sale.h"
#include "server.h"
#include "spool.h"
#include "trace.h"
#include "vouchers.h"
#include "waiting.h"
#include "writer.h"

enum {
    DRAIN_TICK_MS = 20,
    TURN_ROUNDS_MAX = 8,
    GIVE_UP_MS = 2000,     // before the end: an unanswered Redis command, and a statement
    GIVE_UP_TRY_MS = 1000, // also where draining may take no time
    LAST_WAIT_MS = 200,
    PULSE_MS = 100,
    REDIS_WAITING_MAX = 1 << 16,
    PG_WAITING_MAX = 4096,
};

// Everything between a parsed request and its outcome. It connects the floors below: the order path (sale: admit ->
// batcher -> grant -> writer -> entry), background jobs (recovery), and queries and commands (control).
struct shop {
    struct sk_sale sale;
    struct shop_shard {
        struct shop *shop;
        size_t number;
    } shards[SK_SHARDS_MAX];
    atomic_bool *misfit; // a database is another shard than it should be, or lacks changes that were read
    bool was_ready;
    struct sk_batcher *batcher;
    struct sk_writer *writer;
    struct sk_returns *returns;
    struct sk_recovery recovery;
    struct sk_control control;
};

struct sk_reactor {
    struct sk_reactor_options options;
    const struct sk_config *config;
    uv_thread_t thread;
    uv_loop_t loop;
    uv_prepare_t turn;
    uv_async_t stop;
    uv_timer_t drain;
    uv_timer_t pulse;
    _Atomic uint64_t beats; // the main thread reads these three
    atomic_bool ready, ended, misfit;
    uint64_t drain_until_ms;
    uint64_t give_up_at_ms, give_up_until_ms; // while draining: orders that are in no journal end as refused
    bool draining;
    bool has_thread;
    bool left_behind; // a host name lookup still runs
    struct sk_metrics *metrics;
    struct sk_measure *measure;
    struct sk_routes *routes;
    struct sk_server *server;
    struct shop *shop;
    struct sk_user_tokens *users; // NULL: the gateway identifies the user
};

static enum sk_status reactor_open_parts(struct sk_reactor *reactor);
static enum sk_status reactor_open_routes(struct sk_reactor *reactor);
static void reactor_run(void *arg);
static void reactor_must_be_closed(uv_handle_t *handle, void *arg);
static void reactor_on_turn(uv_prepare_t *prepare);
static void reactor_on_pulse(uv_timer_t *timer);
static void reactor_on_stop(uv_async_t *async);
static void reactor_on_drain_tick(uv_timer_t *timer);
static void reactor_close_all(struct sk_reactor *reactor);
static void reactor_on_last_wait_over(uv_timer_t *timer);
static struct shop *shop_open(struct sk_reactor *reactor);
static enum sk_status shop_open_stores(struct shop *shop, const struct sk_config *config, uint64_t process);
static bool shop_open_shard(struct shop *shop, const struct sk_config *config, size_t number);
static const char *shop_on_session(void *arg, const char *misfit, int64_t beat);
static const char *shop_on_report_session(void *arg, const char *misfit, int64_t beat);
static const char *shop_check_shard(const struct shop_shard *shard, const char *misfit);
static void shop_end_process(const struct shop *shop);
static bool shop_shard_away(void *arg, size_t shard);
static enum sk_status shop_open_parts(struct shop *shop, const struct sk_reactor *reactor);
static void shop_show_nodes(const struct shop *shop);
static void shop_show_servers(const struct shop *shop);
static void shop_on_redis(void *arg, bool ready);
static void shop_on_pg(void *arg, bool ready);
static void shop_on_ask_redis(void *arg, bool ready);
static void shop_on_elected(void *arg);
static void shop_on_ask_pg(void *arg, bool ready);
static void shop_on_report_pg(void *arg, bool ready);
static void shop_on_notified(void *arg);
static void shop_turn(struct shop *shop);
static bool shop_ready(void *arg);
static bool shop_idle(const struct shop *shop);
static bool shop_give_up(struct shop *shop);
static struct sk_left shop_left(const struct shop *shop);
static void shop_close(struct shop *shop);

enum sk_status sk_reactor_start(const struct sk_reactor_options *options, struct sk_reactor **out)
{
    struct sk_reactor *reactor = calloc(1, sizeof *reactor);
    *out = NULL;
    if (reactor == NULL)
        return SK_NO_MEM;
    reactor->options = *options;
    reactor->config = options->config;
    if (uv_loop_init(&reactor->loop) != 0) {
        free(reactor);
        return SK_FAIL;
    }
    *out = reactor;
    (void)uv_prepare_init(&reactor->loop, &reactor->turn);
    (void)uv_async_init(&reactor->loop, &reactor->stop, reactor_on_stop);
    (void)uv_timer_init(&reactor->loop, &reactor->drain);
    (void)uv_timer_init(&reactor->loop, &reactor->pulse);
    reactor->turn.data = reactor->stop.data = reactor->drain.data = reactor->pulse.data = reactor;
    (void)uv_prepare_start(&reactor->turn, reactor_on_turn);
    (void)uv_timer_start(&reactor->pulse, reactor_on_pulse, PULSE_MS, PULSE_MS);
    enum sk_status status = reactor_open_parts(reactor);
    if (status == SK_OK && uv_thread_create(&reactor->thread, reactor_run, reactor) != 0)
        status = SK_FAIL;
    reactor->has_thread = status == SK_OK;
    if (status != SK_OK) {
        reactor_close_all(reactor);
        reactor_run(reactor);
    }
    return status;
}

static enum sk_status reactor_open_parts(struct sk_reactor *reactor)
{
    const struct sk_config *config = reactor->config;
    reactor->metrics = sk_metrics_open();
    reactor->measure = sk_measure_open(reactor->metrics);
    if (reactor->metrics == NULL || reactor->measure == NULL || reactor_open_routes(reactor) != SK_OK)
        return SK_NO_MEM;
    struct sk_handler handler = {sk_routes_handle,
                                 sk_routes_expired,
                                 sk_routes_malformed,
                                 sk_routes_streams,
                                 sk_routes_gone,
                                 reactor->routes,
                                 reactor->options.operators ? NULL : sk_limits_peers(reactor->options.limits),
                                 sk_routes_released};
    reactor->shop = shop_open(reactor);
    if (reactor->shop == NULL)
        return SK_FAIL;
    reactor->server = sk_server_open(&reactor->loop, &config->server, &handler);
    if (reactor->server == NULL)
        return SK_FAIL;
    sk_routes_connect(reactor->routes, reactor->server, &reactor->shop->control);
    sk_metrics_set(reactor->metrics, SK_METRIC_REACTORS, 1);
    if (!reactor->options.operators) { // it takes no purchases: its room would hide that the buyers' is used up
        sk_metrics_set(reactor->metrics, SK_METRIC_ORDERS_MAX, (uint64_t)config->sale.orders_max);
        sk_metrics_set(reactor->metrics, SK_METRIC_CONNECTIONS_MAX, (uint64_t)config->server.max_connections);
    }
    return SK_OK;
}

static enum sk_status reactor_open_routes(struct sk_reactor *reactor)
{
    const struct sk_reactor_options *options = &reactor->options;
    const struct sk_config *config = reactor->config;
    if (options->ring != NULL) {
        reactor->users = sk_user_tokens_open(&config->identity, options->ring, options->number, reactor->metrics);
        if (reactor->users == NULL)
            return SK_NO_MEM;
    }
    struct sk_routes_options routes = {.api = &config->api,
                                       .identity = &config->identity,
                                       .stores = &config->stores,
                                       .server = &config->server,
                                       .limits = options->limits,
                                       .secrets = options->secrets,
                                       .users = reactor->users,
                                       .lane = options->lane,
                                       .measure = reactor->measure,
                                       .metrics = reactor->metrics,
                                       .render_metrics = sk_metrics_page,
                                       .history = options->history,
                                       .samples = options->samples,
                                       .operators = options->operators};
    reactor->routes = sk_routes_open(&routes);
    return reactor->routes == NULL ? SK_FAIL : SK_OK;
}

// Runs the loop until everything is closed, or only a host name lookup is left.
static void reactor_run(void *arg)
{
    struct sk_reactor *reactor = arg;
    sk_metrics_set(reactor->metrics, SK_METRIC_LOOP_AT,
                   sk_monotonic_ms()); // one that hangs before its first pulse, too
    (void)uv_run(&reactor->loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&reactor->drain, NULL);
    (void)uv_run(&reactor->loop, UV_RUN_NOWAIT);
    uv_walk(&reactor->loop, reactor_must_be_closed, NULL);
    reactor->left_behind = uv_loop_alive(&reactor->loop) != 0;
    atomic_store(&reactor->ended, true);
}

static void reactor_must_be_closed(uv_handle_t *handle, void *arg)
{
    (void)arg;
    SK_ASSERT(uv_is_closing(handle));
}

static void reactor_on_turn(uv_prepare_t *prepare)
{
    struct sk_reactor *reactor = prepare->data;
    if (reactor->server == NULL)
        return;
    if (reactor->users != NULL)
        sk_user_tokens_turn(reactor->users);
    sk_routes_turn(reactor->routes);
    // Sending answers may bring new requests, and sending requests may bring refusals.
    for (int i = 0; i < TURN_ROUNDS_MAX; i++) {
        bool answered = sk_server_turn(reactor->server);
        shop_turn(reactor->shop);
        if (!answered)
            break;
    }
    sk_server_measure(reactor->server, reactor->metrics);
    if (reactor->options.lane != NULL)
        sk_metrics_set(reactor->metrics, SK_METRIC_LINES_DROPPED, sk_spool_lane_dropped(reactor->options.lane));
    sk_measure_turn(reactor->measure);
}

static void reactor_on_pulse(uv_timer_t *timer)
{
    struct sk_reactor *reactor = timer->data;
    shop_show_nodes(reactor->shop);
    shop_show_servers(reactor->shop);
    atomic_store(&reactor->ready, !reactor->draining && shop_ready(reactor->shop));
    sk_metrics_set(reactor->metrics, SK_METRIC_LOOP_AT, sk_monotonic_ms());
    if (reactor->options.samples) // one for all
        sk_metrics_set(reactor->metrics, SK_METRIC_LOG_DROPPED, sk_log_dropped());
    atomic_fetch_add(&reactor->beats, 1);
}

struct sk_pulse sk_reactor_pulse(const struct sk_reactor *reactor)
{
    return (struct sk_pulse){atomic_load(&reactor->beats), atomic_load(&reactor->ready), atomic_load(&reactor->ended)};
}

bool sk_reactor_misfits(const struct sk_reactor *reactor)
{
    return atomic_load(&reactor->misfit);
}

void sk_reactor_stop(struct sk_reactor *reactor)
{
    if (reactor->has_thread)
        (void)uv_async_send(&reactor->stop);
}

static void reactor_on_stop(uv_async_t *async)
{
    struct sk_reactor *reactor = async->data;
    if (reactor->draining)
        return;
    reactor->draining = true;
    // A refusal is final. So orders that retry the reservation get most of the drain time, also while Redis is away.
    uint64_t now = uv_now(&reactor->loop), time_ms = (uint64_t)reactor->config->drain_timeout_ms;
    uint64_t last_ms = time_ms / 5 > GIVE_UP_MS ? time_ms / 5 : time_ms < GIVE_UP_MS ? time_ms : GIVE_UP_MS;
    reactor->drain_until_ms = now + time_ms;
    reactor->give_up_at_ms = reactor->drain_until_ms - last_ms;
    reactor->give_up_until_ms = now + (time_ms < GIVE_UP_TRY_MS ? GIVE_UP_TRY_MS : time_ms);
    sk_routes_drain(reactor->routes);
    sk_expiry_stop(reactor->shop->recovery.expiry); // it starts no more
    sk_assignments_stop(reactor->shop->recovery.assignments);
    sk_server_drain(reactor->server);
    (void)uv_timer_start(&reactor->drain, reactor_on_drain_tick, DRAIN_TICK_MS, DRAIN_TICK_MS);
}

static void reactor_on_drain_tick(uv_timer_t *timer)
{
    struct sk_reactor *reactor = timer->data;
    uint64_t now = uv_now(&reactor->loop);
    bool done =
        sk_server_waiting(reactor->server) == 0 && sk_server_sending(reactor->server) == 0 && shop_idle(reactor->shop);
    bool give_up = !done && now >= reactor->give_up_at_ms && shop_give_up(reactor->shop);
    done = done && sk_session_end(reactor->shop->sale.session); // so that others need not wait for its TTL
    if (!done && now < (give_up ? reactor->give_up_until_ms : reactor->drain_until_ms))
        return;
    struct sk_left left = shop_left(reactor->shop);
    if (done)
        sk_log(SK_LOG_INFO, "drained", "");
    else
        sk_log(left.nowhere > 0 ? SK_LOG_ERROR : SK_LOG_WARN, "not drained in time",
               "kept_by_journal=%zu kept_by_letters=%zu without_end=%zu", left.in_journal, left.in_letters,
               left.nowhere);
    sk_server_expire(reactor->server); // an accepted order gets 202
    // One more turn, so that the last answers leave before the sockets close.
    reactor_on_turn(&reactor->turn);
    reactor_close_all(reactor);
}

// This sequence matters: new requests find the routes ended, outcomes that the shop reports while it closes are still
// answered, and then the server sends those answers.
static void reactor_close_all(struct sk_reactor *reactor)
{
    if (reactor->routes != NULL)
        sk_routes_end(reactor->routes);
    shop_close(reactor->shop);
    reactor->shop = NULL;
    sk_server_close(reactor->server);
    reactor->server = NULL;
    sk_user_tokens_close(reactor->users); // no more requests arrive
    reactor->users = NULL;
    uv_close((uv_handle_t *)&reactor->turn, NULL);
    uv_close((uv_handle_t *)&reactor->stop, NULL);
    uv_close((uv_handle_t *)&reactor->pulse, NULL);
    sk_metrics_set(reactor->metrics, SK_METRIC_LOOP_AT, 0);
    // A host name lookup keeps the loop alive until the resolver returns.
    (void)uv_timer_start(&reactor->drain, reactor_on_last_wait_over, LAST_WAIT_MS, 0);
    uv_unref((uv_handle_t *)&reactor->drain);
}

static void reactor_on_last_wait_over(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

bool sk_reactor_join(struct sk_reactor *reactor)
{
    if (reactor->has_thread)
        (void)uv_thread_join(&reactor->thread);
    if (reactor->left_behind)
        return false;
    int left = uv_loop_close(&reactor->loop);
    SK_ASSERT(left == 0); // every handle was closed
    sk_routes_close(reactor->routes);
    sk_measure_close(reactor->measure);
    sk_metrics_close(reactor->metrics);
    free(reactor);
    return true;
}

// ---- the shop: its parts, put together and taken apart in reverse order ----

// Starts connecting to both stores. NULL: bad URL or out of memory; the reason is logged.
static struct shop *shop_open(struct sk_reactor *reactor)
{
    struct shop *shop = calloc(1, sizeof *shop);
    if (shop == NULL)
        return NULL;
    shop->misfit = &reactor->misfit;
    shop->sale.loop = &reactor->loop;
    shop->sale.shards = reactor->config->stores.shards.count;
    shop->sale.options = &reactor->config->sale;
    shop->sale.instance = reactor->config->server.listen;
    shop->sale.purchases = sk_limits_purchases(reactor->options.limits);
    shop->sale.metrics = reactor->metrics;
    shop->sale.suspect = sk_recovery_suspect;
    shop->sale.orphaned = sk_recovery_orphaned;
    shop->sale.offers_differ = sk_recovery_offers_differ;
    shop->sale.recovery = &shop->recovery;
    shop->sale.on_result = sk_routes_result;
    shop->sale.arg = reactor->routes;
    if (shop_open_stores(shop, reactor->config, reactor->options.process) != SK_OK ||
        shop_open_parts(shop, reactor) != SK_OK) {
        shop_close(shop);
        return NULL;
    }
    return shop;
}

// Each store has two links; one of them is for orders only. PostgreSQL has a third one for reports, which take seconds,
// and all three for each shard.
static enum sk_status shop_open_stores(struct shop *shop, const struct sk_config *config, uint64_t process)
{
    struct sk_sale *sale = &shop->sale;
    struct sk_nodes_options nodes = {
        .redis = {.url = config->stores.redis_url,
                  .tls = {config->stores.redis_ca, config->stores.redis_cert, config->stores.redis_key},
                  .sentinel_password = config->stores.sentinel_password,
                  .timeout_ms = (uint32_t)config->stores.redis_timeout_ms,
                  .most_waiting = REDIS_WAITING_MAX},
        .on_orders = shop_on_redis,
        .on_queries = shop_on_ask_redis,
        .on_elected = shop_on_elected,
        .arg = shop,
    };
    sale->nodes = sk_nodes_open(sale->loop, &nodes);
    bool opened = sale->nodes != NULL;
    for (size_t i = 0; i < sale->shards; i++)
        opened = opened && shop_open_shard(shop, config, i);
    if (!opened)
        return SK_FAIL;
    const struct sk_session_options session = {(uint32_t)config->sale.lock_ttl_ms, sale->shards, process};
    sale->session = sk_session_open(sale->loop, sale->nodes, sale->metrics, &session);
    if (sale->session != NULL)
        sale->locks = sk_named_locks_open(sale->loop, sale->nodes, sale->session, (uint32_t)config->sale.lock_ttl_ms);
    sale->catalogue = sk_catalogue_new(sk_recovery_maintenance_size());
    sale->orders = sk_order_pool_new((size_t)config->sale.orders_max, sale->shards);
    return sale->locks != NULL && sale->catalogue != NULL && sale->orders != NULL ? SK_OK : SK_NO_MEM;
}

static bool shop_open_shard(struct shop *shop, const struct sk_config *config, size_t number)
{
    struct sk_sale *sale = &shop->sale;
    shop->shards[number] = (struct shop_shard){shop, number};
    struct sk_pg_options pg = {
        .url = config->stores.shards.urls[number],
        .name = "seckill-orders",
        .timeout_ms = (uint32_t)config->stores.pg_timeout_ms,
        .on_change = shop_on_pg,
        .arg = &shop->shards[number],
        .most_waiting = PG_WAITING_MAX,
        .shard = (unsigned)number,
        .shards = (unsigned)sale->shards,
        .on_session = shop_on_session,
    };
    sale->pg[number] = sk_pg_open(sale->loop, &pg);
    pg.on_change = shop_on_ask_pg;
    pg.name = "seckill-queries";
    pg.listen = true;
    pg.on_notified = shop_on_notified;
    sale->ask_pg[number] = sk_pg_open(sale->loop, &pg);
    pg.on_change = shop_on_report_pg; // a report fails if it is down, and with several shards the beats wait
    pg.on_session = shop_on_report_session;
    pg.name = "seckill-reports";
    pg.listen = false;
    pg.statement_ms = SK_REPORT_MS;
    sale->report_pg[number] = sk_pg_open(sale->loop, &pg);
    return sale->pg[number] != NULL && sale->ask_pg[number] != NULL && sale->report_pg[number] != NULL;
}

static enum sk_status shop_open_parts(struct shop *shop, const struct sk_reactor *reactor)
{
    const struct sk_sale *sale = &shop->sale;
    struct sk_recovery *recovery = &shop->recovery;
    if (sk_recovery_open(recovery, sale) != SK_OK)
        return SK_NO_MEM;
    if (sale->shards > 1)
        shop->sale.shard_closed = sk_beats_closed(recovery->beats);
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
                                        .stores = &reactor->config->stores,
                                        .reactors = reactor->config->reactors,
                                        .ready = shop_ready,
                                        .shard_away = shop_shard_away,
                                        .arg = shop,
                                        .on_answer = sk_routes_answer,
                                        .routes = reactor->routes,
                                        .queries = sk_queries_open(),
                                        .shown = sk_voucher_cache_open()};
    shop->control.waiting = sk_waiting_open(&shop->control);
    const struct sk_live_wire wire = {sk_routes_send, sk_routes_end_stream, reactor->routes};
    shop->control.live = sk_live_open(&shop->control, &wire);
    return shop->batcher != NULL && shop->control.queries != NULL && shop->control.shown != NULL &&
                   shop->control.waiting != NULL && shop->control.live != NULL
               ? SK_OK
               : SK_NO_MEM;
}

// Ends at once: waiting purchases are answered with UNAVAILABLE, and the journal keeps the granted orders. The loop
// must run until its handles are closed. NULL is fine.
static void shop_close(struct shop *shop)
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
    for (size_t i = 0; i < shop->sale.shards; i++) {
        sk_pg_close(shop->sale.pg[i]);
        sk_pg_close(shop->sale.ask_pg[i]);
        sk_pg_close(shop->sale.report_pg[i]);
    }
    sk_nodes_end(shop->sale.nodes);
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
    sk_nodes_close(shop->sale.nodes);
    sk_order_pool_free(shop->sale.orders);
    sk_catalogue_free(shop->sale.catalogue);
    free(shop);
}

// ---- the links ----

// A link to Redis is up if those to all nodes are.
static void shop_show_nodes(const struct shop *shop)
{
    struct sk_nodes_state nodes = sk_nodes_state(shop->sale.nodes);
    sk_metrics_set(shop->sale.metrics, SK_METRIC_UP_REDIS, nodes.nodes > 0 && nodes.orders == nodes.nodes);
    sk_metrics_set(shop->sale.metrics, SK_METRIC_UP_ASK_REDIS, nodes.nodes > 0 && nodes.queries == nodes.nodes);
}

// A shard is up without its link for reports.
static void shop_show_servers(const struct shop *shop)
{
    const struct sk_sale *sale = &shop->sale;
    struct sk_server_rows rows;
    rows.count = 0;
    for (size_t i = 0; i < sale->shards; i++) {
        char name[SK_PARAM_NUMBER_SIZE];
        struct sk_server_row *row = sk_server_table_row(&rows, "postgresql", sk_params_number(name, (int64_t)i));
        row->up = 1;
        sk_pg_measure(sale->pg[i], row);
        sk_pg_measure(sale->ask_pg[i], row);
    }
    sk_nodes_measure(sale->nodes, &rows);
    sk_server_table_publish(&sale->metrics->servers, &rows);
}

static void shop_on_redis(void *arg, bool ready)
{
    struct shop *shop = arg;
    sk_metrics_add(shop->sale.metrics, SK_METRIC_LOST_REDIS, !ready);
    shop_show_nodes(shop);
    if (shop->sale.session != NULL)
        sk_session_link(shop->sale.session);
    if (ready)
        sk_recovery_hurry(&shop->recovery); // Redis may have lost data
}

static void shop_on_elected(void *arg)
{
    struct shop *shop = arg;
    sk_recovery_hurry(&shop->recovery); // a node may have lost data
}

// Up means all shards.
static bool shop_all_ready(const struct shop *shop, struct sk_pg *const *links)
{
    bool all = true;
    for (size_t i = 0; i < shop->sale.shards; i++)
        all = all && links[i] != NULL && sk_pg_ready(links[i]);
    return all;
}

static void shop_count_pg(const struct shop *shop, enum sk_metric up, enum sk_metric lost, struct sk_pg *const *links,
                          bool ready)
{
    sk_metrics_set(shop->sale.metrics, up, shop_all_ready(shop, links));
    sk_metrics_add(shop->sale.metrics, lost, !ready);
}

static const char *shop_on_session(void *arg, const char *misfit, int64_t beat)
{
    const struct shop_shard *shard = arg;
    bool fits = misfit != NULL || sk_beats_fit(shard->shop->recovery.beats, shard->number, beat);
    return fits ? shop_check_shard(shard, misfit) : "its beat is older than the known one";
}

// The beats are read by this link. It takes an older database once, so that they notice.
static const char *shop_on_report_session(void *arg, const char *misfit, int64_t beat)
{
    const struct shop_shard *shard = arg;
    return sk_beats_is_restored(shard->shop->recovery.beats, shard->number) ? shop_on_session(arg, misfit, beat)
                                                                            : shop_check_shard(shard, misfit);
}

// A database that is another shard ends the process while it starts. Later the link just does not use it, also if the
// shard has been away since the start: the others sell.
static const char *shop_check_shard(const struct shop_shard *shard, const char *misfit)
{
    const struct shop *shop = shard->shop;
    if (misfit == NULL)
        return NULL;
    sk_log_repeat(SK_LOG_ERROR, "this is not the database that belongs here", "reason", misfit);
    if (!shop->was_ready)
        shop_end_process(shop);
    return "it is another shard";
}

static void shop_end_process(const struct shop *shop)
{
    if (!atomic_exchange(shop->misfit, true))
        (void)kill(getpid(), SIGTERM);
}

static void shop_on_any_pg(const struct shop *shop)
{
    if (shop->recovery.assignments != NULL)
        sk_assignments_check(shop->recovery.assignments);
}

static void shop_on_pg(void *arg, bool ready)
{
    struct shop *shop = ((struct shop_shard *)arg)->shop;
    shop_count_pg(shop, SK_METRIC_UP_PG, SK_METRIC_LOST_PG, shop->sale.pg, ready);
    shop_on_any_pg(shop);
    if (ready && shop->writer != NULL)
        sk_writer_pump(shop->writer, false);
}

static void shop_on_ask_redis(void *arg, bool ready)
{
    struct shop *shop = arg;
    sk_metrics_add(shop->sale.metrics, SK_METRIC_LOST_ASK_REDIS, !ready);
    shop_show_nodes(shop);
    if (ready)
        sk_recovery_hurry(&shop->recovery);
}

static void shop_on_ask_pg(void *arg, bool ready)
{
    struct shop *shop = ((struct shop_shard *)arg)->shop;
    shop_count_pg(shop, SK_METRIC_UP_ASK_PG, SK_METRIC_LOST_ASK_PG, shop->sale.ask_pg, ready);
    shop_on_any_pg(shop);
    if (ready)
        sk_recovery_hurry(&shop->recovery);
}

static void shop_on_report_pg(void *arg, bool ready)
{
    const struct shop *shop = ((struct shop_shard *)arg)->shop;
    shop_count_pg(shop, SK_METRIC_UP_REPORT_PG, SK_METRIC_LOST_REPORT_PG, shop->sale.report_pg, ready);
    if (ready)
        sk_beats_hurry(shop->recovery.beats);
}

static void shop_on_notified(void *arg)
{
    const struct shop_shard *shard = arg;
    sk_recovery_follow(&shard->shop->recovery, shard->number);
}

// ---- the calls ----

static void shop_measure(struct shop *shop)
{
    struct sk_metrics *metrics = shop->sale.metrics;
    sk_order_pool_measure(shop->sale.orders, metrics);
    sk_metrics_set(metrics, SK_METRIC_VOUCHERS, sk_catalogue_count(shop->sale.catalogue));
    sk_metrics_set(metrics, SK_METRIC_SESSIONS_HELD, sk_session_held(shop->sale.session));
    bool ready = shop_ready(shop);
    shop->was_ready = shop->was_ready || ready;
    sk_metrics_set(metrics, SK_METRIC_REACTORS_READY, ready);
}

static void shop_check_catalogues(const struct shop *shop)
{
    for (size_t i = 0; i < shop->sale.shards; i++) {
        if (sk_follow_went_back(shop->recovery.follows[i]))
            shop_end_process(shop);
    }
}

// The end of a loop turn: sends the collected requests.
static void shop_turn(struct shop *shop)
{
    bool asked = sk_batcher_flush(shop->batcher);
    sk_writer_pump(shop->writer, sk_batcher_busy(shop->batcher));
    sk_nodes_flush(shop->sale.nodes);
    shop_measure(shop);
    shop_check_catalogues(shop);
    if (asked)
        SK_FAILPOINT("place.sent");
}

// It can take orders: Redis is connected, or at least one node of a cluster, it has acknowledged the session, and the
// catalogue of a shard has been read. PostgreSQL may have gone away since then: purchases get 202 meanwhile, which a
// gateway that asks for readiness must not withhold from buyers, unless another instance has PostgreSQL.
static bool shop_ready(void *arg)
{
    const struct shop *shop = arg;
    const struct sk_sale *sale = &shop->sale;
    const struct sk_nodes_state nodes = sk_nodes_state(sale->nodes);
    size_t shard = 0;
    while (shard < sale->shards && !sk_follow_complete(shop->recovery.follows[shard]))
        shard++;
    return shard < sale->shards && nodes.orders > 0 && nodes.queries > 0 &&
           !sk_assignments_is_alone(shop->recovery.assignments) &&
           (sk_session_held(sale->session) || sk_session_away(sale->session));
}

static bool shop_shard_away(void *arg, size_t shard)
{
    const struct shop *shop = arg;
    const struct sk_sale *sale = &shop->sale;
    return !sk_pg_ready(sale->pg[shard]) || !sk_pg_ready(sale->ask_pg[shard]) ||
           !sk_follow_complete(shop->recovery.follows[shard]);
}

// For the end of the process, when its time is nearly over; may be repeated. Writes as refused the orders that still
// retry the reservation. True: some of them are not written yet.
static bool shop_give_up(struct shop *shop)
{
    sk_regrant_give_up(shop->recovery.regrant);
    return !sk_regrant_idle(shop->recovery.regrant);
}

// What would be left unfinished now.
static struct sk_left shop_left(const struct shop *shop)
{
    struct sk_left left = {0};
    sk_writer_count(shop->writer, &left);
    sk_regrant_count(shop->recovery.regrant, &left);
    left.in_journal += sk_returns_count(shop->returns);
    return left;
}

// Nothing is on its way to a store.
static bool shop_idle(const struct shop *shop)
{
    return sk_writer_idle(shop->writer) && sk_returns_idle(shop->returns) && sk_regrant_idle(shop->recovery.regrant) &&
           sk_nodes_idle(shop->sale.nodes);
}
