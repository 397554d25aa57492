#include "instance.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "failpoint.h"
#include "metrics.h"
#include "net.h"
#include "servers.h"
#include "shop.h"

enum { BATCH_MAX = 64, JOURNAL_SMALL = 2, DRAIN_MS = 5000, DRAIN_TICK_MS = 20, INBOX_MAX = 4096, SUPERVISED_MS = 500 };

struct instance {
    size_t number;
    enum instance_state state;
    uint64_t life;
    uv_loop_t *loop; // as the rest: of its present life
    uv_prepare_t *turn;
    uv_timer_t *drain;
    bool draining, closed;
    struct sk_shop *shop;
    struct sk_metrics *metrics;
    struct world_clock clock;
    struct memory memory;
    char failpoint[FAILPOINT_SIZE];
    unsigned failpoint_left;
    struct {
        world_event *run;
        void *arg;
    } * inbox; // while it is paused
    size_t waiting;
};

static struct {
    struct instance all[INSTANCES_MAX];
    size_t count;
    struct instance_events events;
    struct instance *running;
    sigjmp_buf out;
    uint64_t process;
} instances;

// As ./dev up has it, but for small numbers.
static struct sk_sale_options sale_options = {.lock_ttl_ms = 3000, .sold_out_mark_ms = 200, .retire_after_ms = 3000};
static struct sk_store_options store_options;

void instances_open(size_t count, unsigned orders_max, const struct instance_events *events)
{
    store_options.redis_url = (char *)servers_redis_url();
    store_options.database_url = (char *)servers_postgres_url(0);
    store_options.shards.count = servers_shards();
    for (size_t i = 0; i < servers_shards(); i++)
        store_options.shards.urls[i] = servers_postgres_url(i);
    sale_options.orders_max = orders_max;
    sale_options.batch_max = orders_max < BATCH_MAX ? 2 : BATCH_MAX;
    sale_options.journal_max = orders_max < BATCH_MAX ? JOURNAL_SMALL : 0;
    store_options.redis_timeout_ms = 1000;
    store_options.pg_timeout_ms = 2000;
    instances.count = count;
    instances.events = *events;
    for (size_t i = 0; i < count; i++)
        instances.all[i].number = i;
    net_open(instance_run);
}

size_t instances_count(void)
{
    return instances.count;
}

struct instance *instance_at(size_t i)
{
    return &instances.all[i];
}

size_t instance_number(const struct instance *instance)
{
    return instance->number;
}

char instance_letter(const struct instance *instance)
{
    return (char)('A' + instance->number);
}

enum instance_state instance_state(const struct instance *instance)
{
    return instance->state;
}

uint64_t instance_life(const struct instance *instance)
{
    return instance->life;
}

struct world_clock *instance_clock(struct instance *instance)
{
    return &instance->clock;
}

struct memory *instance_memory(struct instance *instance)
{
    return &instance->memory;
}

struct sk_control *instance_control(struct instance *instance)
{
    return sk_shop_control(instance->shop);
}

struct instance *instance_running(void)
{
    return instances.running;
}

bool instance_drains(const struct instance *instance)
{
    return instance->draining;
}

// ---- running ----

static void instance_look_at(struct instance *instance)
{
    instances.running = instance;
    world_look_at(instance == NULL ? NULL : &instance->clock);
    memory_look_at(instance == NULL ? NULL : &instance->memory);
    net_look_at(instance);
}

static void instance_on_supervised(void *arg)
{
    struct instance *instance = arg;
    if (instance->state == INSTANCE_OFF)
        instance_start(instance);
}

// The service ends by itself, and is started again.
static void instance_end_unfit(struct instance *instance)
{
    instance_kill(instance, "its database does not fit");
    world_at(world_now() + (uint64_t)SUPERVISED_MS * MS, instance_on_supervised, instance);
}

static void instance_ended(struct instance *instance)
{
    instance->state = INSTANCE_OFF;
    world_tell("%c has ended", instance_letter(instance));
    if (instance->memory.count > 0)
        world_fail("%c has ended, and leaves %zu blocks of memory", instance_letter(instance), instance->memory.count);
}

static void instance_run_now(struct instance *instance, world_event *run, void *arg)
{
    struct instance *before = instances.running;
    SK_ASSERT(before == NULL);
    if (sigsetjmp(instances.out, 0) == 0) {
        instance_look_at(instance);
        uv_update_time(instance->loop);
        if (run != NULL)
            run(arg);
        (void)uv_run(instance->loop, UV_RUN_NOWAIT);
    }
    instance_look_at(NULL);
    if (instance->state == INSTANCE_ON && instance->shop != NULL && sk_shop_is_unfit(instance->shop))
        instance_end_unfit(instance);
    if (instance->closed && instance->state == INSTANCE_ON && !uv_loop_alive(instance->loop))
        instance_ended(instance);
}

bool instance_run(struct instance *instance, world_event *run, void *arg)
{
    if (instance->state == INSTANCE_OFF)
        return false;
    if (instance->state == INSTANCE_ON) {
        instance_run_now(instance, run, arg);
    } else if (instance->waiting < INBOX_MAX) {
        instance->inbox[instance->waiting].run = run;
        instance->inbox[instance->waiting++].arg = arg;
    }
    return instance->state != INSTANCE_OFF;
}

static uint64_t instance_next(const struct instance *instance)
{
    if (instance->state != INSTANCE_ON)
        return UINT64_MAX;
    int ms = uv_backend_timeout(instance->loop);
    return ms < 0 ? UINT64_MAX : world_now() + (uint64_t)ms * MS;
}

static struct instance *instances_first(uint64_t *at)
{
    struct instance *first = NULL;
    *at = UINT64_MAX;
    for (size_t i = 0; i < instances.count; i++) {
        struct instance *one = &instances.all[i];
        if (one->state != INSTANCE_ON)
            continue;
        world_look_at(&one->clock);
        uv_update_time(one->loop);
        uint64_t next = instance_next(one);
        if (next < *at) {
            *at = next;
            first = one;
        }
    }
    world_look_at(NULL);
    return first;
}

uint64_t instances_next(void)
{
    uint64_t at;
    (void)instances_first(&at);
    return at;
}

void instances_turn(void)
{
    uint64_t at;
    struct instance *first = instances_first(&at);
    world_go_to(at);
    instance_run_now(first, NULL, NULL);
}

// ---- its life ----

static void instance_on_turn(uv_prepare_t *prepare)
{
    const struct instance *instance = prepare->data;
    if (instance->shop != NULL)
        sk_shop_turn(instance->shop);
}

static bool instance_send(void *arg, uint64_t handle, const char *text, size_t len)
{
    (void)arg;
    (void)handle;
    (void)text;
    (void)len;
    return true;
}

static void instance_end_stream(void *arg, uint64_t handle)
{
    (void)arg;
    (void)handle;
}

static void instance_open(void *arg)
{
    struct instance *instance = arg;
    instance->metrics = sk_metrics_open();
    const struct sk_shop_options options = {.loop = instance->loop,
                                            .sale = &sale_options,
                                            .stores = &store_options,
                                            .instance = "127.0.0.1:8080",
                                            .metrics = instance->metrics,
                                            .process = ++instances.process,
                                            .reactors = 1,
                                            .on_result = instances.events.on_result,
                                            .on_answer = instances.events.on_answer,
                                            .send = instance_send,
                                            .end_stream = instance_end_stream,
                                            .arg = instance};
    instance->shop = sk_shop_open(&options);
    SK_ASSERT(instance->shop != NULL);
}

void instance_start(struct instance *instance)
{
    SK_ASSERT(instance->state == INSTANCE_OFF);
    struct world_clock clock = instance->clock;
    size_t number = instance->number;
    uint64_t life = instance->life + 1;
    *instance = (struct instance){.number = number, .life = life, .clock = clock, .state = INSTANCE_ON};
    instance->inbox = world_alloc(INBOX_MAX * sizeof *instance->inbox);
    instance->loop = world_alloc(sizeof *instance->loop);
    instance->turn = world_alloc(sizeof *instance->turn);
    instance->drain = world_alloc(sizeof *instance->drain);
    SK_ASSERT(uv_loop_init(instance->loop) == 0);
    (void)uv_prepare_init(instance->loop, instance->turn);
    (void)uv_timer_init(instance->loop, instance->drain);
    instance->turn->data = instance->drain->data = instance;
    (void)uv_prepare_start(instance->turn, instance_on_turn);
    world_tell("%c starts", instance_letter(instance));
    instance_run_now(instance, instance_open, instance);
}

void instance_kill(struct instance *instance, const char *why)
{
    if (instance->state == INSTANCE_OFF)
        return;
    world_tell("%c is killed: %s", instance_letter(instance), why);
    instance->state = INSTANCE_OFF;
    net_died(instance);
    if (instances.running == instance)
        siglongjmp(instances.out, 1);
}

void instance_kill_at(struct instance *instance, const char *failpoint, unsigned nth)
{
    (void)snprintf(instance->failpoint, sizeof instance->failpoint, "%s", failpoint);
    instance->failpoint_left = nth;
}

// Of our own code. No lock may be held there, since the process goes on.
void sk_failpoint(const char *name)
{
    struct instance *running = instances.running;
    world_met("failpoint %s", name);
    if (running == NULL || strcmp(running->failpoint, name) != 0 || --running->failpoint_left > 0)
        return;
    running->failpoint[0] = '\0';
    instance_kill(running, name);
}

void instance_pause(struct instance *instance)
{
    if (instance->state != INSTANCE_ON)
        return;
    world_tell("%c is paused", instance_letter(instance));
    instance->state = INSTANCE_PAUSED;
}

void instance_go_on(struct instance *instance)
{
    if (instance->state != INSTANCE_PAUSED)
        return;
    world_tell("%c goes on", instance_letter(instance));
    instance->state = INSTANCE_ON;
    for (size_t i = 0; i < instance->waiting && instance->state == INSTANCE_ON; i++)
        instance_run_now(instance, instance->inbox[i].run, instance->inbox[i].arg);
    instance->waiting = 0;
}

static void instance_on_drain(uv_timer_t *timer)
{
    struct instance *instance = timer->data;
    if (instance->closed || !sk_shop_stopped(instance->shop, true))
        return;
    instance->closed = true;
    sk_shop_close(instance->shop);
    instance->shop = NULL;
    sk_metrics_close(instance->metrics);
    uv_close((uv_handle_t *)instance->turn, NULL);
    uv_close((uv_handle_t *)instance->drain, NULL);
}

static void instance_begin_draining(void *arg)
{
    struct instance *instance = arg;
    sk_shop_stop(instance->shop, DRAIN_MS);
    (void)uv_timer_start(instance->drain, instance_on_drain, DRAIN_TICK_MS, DRAIN_TICK_MS);
}

void instance_drain(struct instance *instance)
{
    if (instance->state != INSTANCE_ON || instance->draining)
        return;
    world_tell("%c drains", instance_letter(instance));
    instance->draining = true;
    instance_run_now(instance, instance_begin_draining, instance);
}

bool instance_ready(const struct instance *instance)
{
    return instance->state == INSTANCE_ON && !instance->draining && sk_shop_ready(instance->shop);
}
