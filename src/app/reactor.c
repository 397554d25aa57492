// One turn of a loop: libuv polls, and libmicrohttpd, Redis and PostgreSQL are read as they become readable. Then,
// before the loop polls again, answers are sent, the collected requests go to Redis in one call and one write, and the
// writer starts its next batch.
#include "reactor.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

#include "client_limits.h"
#include "clock.h"
#include "log.h"
#include "measure.h"
#include "metrics_page.h"
#include "routes.h"
#include "server.h"
#include "shop.h"
#include "spool.h"

enum {
    DRAIN_TICK_MS = 20,
    TURN_ROUNDS_MAX = 8,
    LAST_WAIT_MS = 200,
    PULSE_MS = 100,
};

struct sk_reactor {
    struct sk_reactor_options options;
    uv_thread_t thread;
    uv_loop_t loop;
    uv_prepare_t turn;
    uv_async_t stop;
    uv_timer_t drain;
    uv_timer_t pulse;
    _Atomic uint64_t beats; // the main thread reads these three
    atomic_bool ready, ended, misfit;
    bool draining;
    bool has_thread;
    bool left_behind; // a host name lookup still runs
    struct sk_metrics *metrics;
    struct sk_measure *measure;
    struct sk_routes *routes;
    struct sk_server *server;
    struct sk_shop *shop;
    struct sk_user_tokens *users; // NULL: the gateway identifies the user
};

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
        sk_shop_turn(reactor->shop);
        if (!answered)
            break;
    }
    if (sk_shop_is_unfit(reactor->shop) && !atomic_exchange(&reactor->misfit, true))
        (void)kill(getpid(), SIGTERM);
    sk_server_measure(reactor->server, reactor->metrics);
    if (reactor->options.lane != NULL)
        sk_metrics_set(reactor->metrics, SK_METRIC_LINES_DROPPED, sk_spool_lane_dropped(reactor->options.lane));
    sk_measure_turn(reactor->measure);
}

static void reactor_on_pulse(uv_timer_t *timer)
{
    struct sk_reactor *reactor = timer->data;
    sk_shop_measure(reactor->shop);
    atomic_store(&reactor->ready, !reactor->draining && sk_shop_ready(reactor->shop));
    sk_metrics_set(reactor->metrics, SK_METRIC_LOOP_AT, sk_monotonic_ms());
    if (reactor->options.measures_process)
        sk_metrics_set(reactor->metrics, SK_METRIC_LOG_DROPPED, sk_log_dropped());
    atomic_fetch_add(&reactor->beats, 1);
}

static void reactor_on_last_wait_over(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

// This sequence matters: new requests find the routes ended, outcomes that the shop reports while it closes are still
// answered, and then the server sends those answers.
static void reactor_close_all(struct sk_reactor *reactor)
{
    if (reactor->routes != NULL)
        sk_routes_end(reactor->routes);
    sk_shop_close(reactor->shop);
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

static void reactor_on_drain_tick(uv_timer_t *timer)
{
    struct sk_reactor *reactor = timer->data;
    bool answered = sk_server_waiting(reactor->server) == 0 && sk_server_sending(reactor->server) == 0;
    if (!sk_shop_stopped(reactor->shop, answered))
        return;
    sk_server_expire(reactor->server); // an accepted order gets 202
    // One more turn, so that the last answers leave before the sockets close.
    reactor_on_turn(&reactor->turn);
    reactor_close_all(reactor);
}

static void reactor_on_stop(uv_async_t *async)
{
    struct sk_reactor *reactor = async->data;
    if (reactor->draining)
        return;
    reactor->draining = true;
    sk_routes_drain(reactor->routes);
    sk_shop_stop(reactor->shop, (uint64_t)reactor->options.config->drain_timeout_ms);
    sk_server_drain(reactor->server);
    (void)uv_timer_start(&reactor->drain, reactor_on_drain_tick, DRAIN_TICK_MS, DRAIN_TICK_MS);
}

static void reactor_must_be_closed(uv_handle_t *handle, void *arg)
{
    (void)arg;
    SK_ASSERT(uv_is_closing(handle));
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

static enum sk_status reactor_open_routes(struct sk_reactor *reactor)
{
    const struct sk_reactor_options *options = &reactor->options;
    const struct sk_config *config = options->config;
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
                                       .operators = options->operators};
    reactor->routes = sk_routes_open(&routes);
    return reactor->routes == NULL ? SK_FAIL : SK_OK;
}

static enum sk_status reactor_open_parts(struct sk_reactor *reactor)
{
    const struct sk_reactor_options *options = &reactor->options;
    const struct sk_config *config = options->config;
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
                                 options->operators ? NULL : sk_limits_peers(options->limits),
                                 sk_routes_released};
    const struct sk_shop_options shop = {.loop = &reactor->loop,
                                         .sale = &config->sale,
                                         .stores = &config->stores,
                                         .instance = config->server.listen,
                                         .purchases = sk_limits_purchases(options->limits),
                                         .metrics = reactor->metrics,
                                         .process = options->process,
                                         .reactors = config->reactors,
                                         .on_result = sk_routes_result,
                                         .on_answer = sk_routes_answer,
                                         .send = sk_routes_send,
                                         .end_stream = sk_routes_end_stream,
                                         .arg = reactor->routes};
    reactor->shop = sk_shop_open(&shop);
    if (reactor->shop == NULL)
        return SK_FAIL;
    reactor->server = sk_server_open(&reactor->loop, &config->server, &handler);
    if (reactor->server == NULL)
        return SK_FAIL;
    sk_routes_connect(reactor->routes, reactor->server, sk_shop_control(reactor->shop));
    sk_metrics_set(reactor->metrics, SK_METRIC_REACTORS, 1);
    if (!options->operators) { // it takes no purchases: its room would hide that the buyers' is used up
        sk_metrics_set(reactor->metrics, SK_METRIC_ORDERS_MAX, (uint64_t)config->sale.orders_max);
        sk_metrics_set(reactor->metrics, SK_METRIC_CONNECTIONS_MAX, (uint64_t)config->server.max_connections);
    }
    return SK_OK;
}

enum sk_status sk_reactor_start(const struct sk_reactor_options *options, struct sk_reactor **out)
{
    struct sk_reactor *reactor = calloc(1, sizeof *reactor);
    *out = NULL;
    if (reactor == NULL)
        return SK_NO_MEM;
    reactor->options = *options;
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
