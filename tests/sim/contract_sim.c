// The ways of contract.c, simulated. There are no instances and no judge: what net.c and socket.c ask of them is
// answered here, for the one loop that there is.
#include <stdlib.h>

#include "contract.h"
#include "failpoint.h"
#include "instance.h"
#include "net.h"
#include "servers.h"
#include "stores.h"
#include "witness.h"
#include "world.h"

enum { SECONDS_MAX = 10 };

uv_loop_t *ways_loop;
const char *ways_redis_url, *ways_postgres_url;

struct instance {
    char unused;
};
static struct instance ways_instance;

// ---- instance.h, witness.h ----

size_t instance_number(const struct instance *instance)
{
    (void)instance;
    return 0;
}

uint64_t instance_life(const struct instance *instance)
{
    (void)instance;
    return 1;
}

bool instance_drains(const struct instance *instance)
{
    (void)instance;
    return false;
}

struct instance *instance_running(void)
{
    return &ways_instance;
}

bool instance_run(struct instance *instance, world_event *run, void *arg)
{
    (void)instance;
    uv_update_time(ways_loop);
    run(arg);
    (void)uv_run(ways_loop, UV_RUN_NOWAIT);
    return true;
}

void sk_failpoint(const char *name)
{
    (void)name;
}

void witness_before_command(size_t node, const struct command *command, int script)
{
    (void)node;
    (void)command;
    (void)script;
}

void witness_command(const struct instance *from, uint64_t life, const struct command *command, int script,
                     const struct sk_reply *reply)
{
    (void)from;
    (void)life;
    (void)command;
    (void)script;
    (void)reply;
}

int64_t witness_before(const struct instance *from, size_t shard, enum sk_statement statement,
                       const char *const *params)
{
    (void)from;
    (void)shard;
    (void)statement;
    (void)params;
    return 0;
}

void witness_statement(const struct instance *from, size_t shard, enum sk_statement statement,
                       const char *const *params, const PGresult *result, int64_t expected)
{
    (void)from;
    (void)shard;
    (void)statement;
    (void)params;
    (void)result;
    (void)expected;
}

// ---- the ways ----

void ways_open(void)
{
    const struct stores_options options = {.redis = {getenv("SK_SIM_REDIS"), getenv("SK_SIM_REDIS_2")},
                                           .postgres = {getenv("SK_SIM_POSTGRES"), getenv("SK_SIM_POSTGRES_2")},
                                           .owner = {getenv("SK_SIM_OWNER"), getenv("SK_SIM_OWNER_2")},
                                           .time = getenv("SK_SIM_TIME")};
    world_met_open();
    stores_open(&options);
    world_begin(1, false);
    servers_open(SERVERS_ALONE, 1, false);
    stores_empty(1, 1);
    ways_loop = uv_default_loop();
    ways_redis_url = servers_redis_url();
    ways_postgres_url = servers_postgres_url(0);
    net_open(instance_run);
    net_look_at(&ways_instance);
    net_calm();
}

void ways_run_until(bool (*met)(void), void (*turn)(void), const char *what)
{
    uint64_t until = world_now() + (uint64_t)SECONDS_MAX * 1000 * MS;
    for (;;) {
        turn();
        uv_update_time(ways_loop);
        (void)uv_run(ways_loop, UV_RUN_NOWAIT);
        turn();
        if (met())
            return;
        int ms = uv_backend_timeout(ways_loop);
        uint64_t timer = ms < 0 ? UINT64_MAX : world_now() + (uint64_t)ms * MS, event = world_next();
        if ((event < timer ? event : timer) > until)
            world_fail("the contract waited in vain for %s", what);
        if (event <= timer)
            world_run_next();
        else
            world_go_to(timer);
    }
}

void ways_redis_forgets(void)
{
    stores_forget_scripts(0);
}

void ways_redis_hangs(bool hangs)
{
    net_server(SERVER_REDIS)->frozen = hangs;
    if (!hangs)
        net_thaw(SERVER_REDIS);
}

void ways_redis_breaks(void)
{
    net_break_all(SERVER_REDIS, "connection reset");
}

void ways_postgres_notifies(void)
{
    stores_spoil("NOTIFY seckill_catalogue");
}

void ways_postgres_hangs(bool hangs)
{
    net_server(SERVER_POSTGRES)->frozen = hangs;
    if (!hangs)
        net_thaw(SERVER_POSTGRES);
}

void ways_postgres_breaks(void)
{
    net_break_all(SERVER_POSTGRES, "connection reset");
}
