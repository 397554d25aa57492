// A separate allocation: hiredis closes its socket right after ev.cleanup, while libuv frees handles later.
#include "redis_watch.h"

#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>

enum { ELEMENTS_MAX = 1 << 20 }; // most elements of an array in a reply; we ask for some thousands

struct sk_redis_watch {
    uv_poll_t poll;
    redisAsyncContext *context; // NULL: freed
    sk_redis_watch_cb *before;
    bool writing;
#if HIREDIS_MAJOR < 1
    redisReplyObjectFunctions functions; // hiredis's own, except for arrays
    void *(*create_array)(const redisReadTask *task, int elements);
#endif
};

static void redis_watch_bound_arrays(redisAsyncContext *context);
static void redis_watch_on_poll(uv_poll_t *poll, int status, int events);
static void redis_watch_nothing(void *data);
static void redis_watch_written(void *data);
static void redis_watch_close(void *data);
static void redis_watch_on_closed(uv_handle_t *handle);

enum sk_status sk_redis_watch_open(uv_loop_t *loop, struct redisAsyncContext *context, sk_redis_watch_cb *before,
                                   struct sk_redis_watch **out)
{
    struct sk_redis_watch *watch = calloc(1, sizeof *watch);
    *out = NULL;
    if (watch == NULL)
        return SK_NO_MEM;
    if (uv_poll_init(loop, &watch->poll, context->c.fd) != 0) {
        free(watch);
        return SK_FAIL;
    }
    watch->poll.data = watch;
    watch->context = context;
    watch->before = before;
    context->ev.data = watch;
    context->ev.addRead = redis_watch_nothing;
    context->ev.delRead = redis_watch_nothing;
    context->ev.addWrite = redis_watch_nothing; // the owner writes
    context->ev.delWrite = redis_watch_written;
    context->ev.cleanup = redis_watch_close;
    redis_watch_bound_arrays(context);
    sk_redis_watch_writing(watch, true);
    *out = watch;
    return SK_OK;
}

// hiredis allocates an array as soon as its length is known. For a length of 2^31 - 1 that is 16 GB, and freeing it
// visits each element. That would stop the loop for seconds.
#if HIREDIS_MAJOR >= 1
static void redis_watch_bound_arrays(redisAsyncContext *context)
{
    context->c.reader->maxelements = ELEMENTS_MAX;
}
#else
static void *redis_watch_create_array(const redisReadTask *task, int elements)
{
    const struct sk_redis_watch *watch = task->privdata;
    return elements > ELEMENTS_MAX ? NULL : watch->create_array(task, elements); // NULL means out of memory to hiredis
}

static void redis_watch_bound_arrays(redisAsyncContext *context)
{
    struct sk_redis_watch *watch = context->ev.data;
    redisReader *reader = context->c.reader;
    watch->functions = *reader->fn;
    watch->create_array = watch->functions.createArray;
    watch->functions.createArray = redis_watch_create_array;
    reader->fn = &watch->functions;
    reader->privdata = watch;
}
#endif

void sk_redis_watch_writing(struct sk_redis_watch *watch, bool writing)
{
    if (watch->writing == writing)
        return;
    watch->writing = writing;
    (void)uv_poll_start(&watch->poll, writing ? UV_READABLE | UV_WRITABLE : UV_READABLE, redis_watch_on_poll);
}

static void redis_watch_on_poll(uv_poll_t *poll, int status, int events)
{
    struct sk_redis_watch *watch = poll->data;
    bool reading = status < 0 || (events & UV_READABLE) != 0, writing = (events & UV_WRITABLE) != 0;
    // Each of the four may free the context; redis_watch_close then sets it to NULL.
    if (reading && watch->context->data != NULL)
        watch->before(watch->context->data, true);
    if (reading && watch->context != NULL)
        redisAsyncHandleRead(watch->context);
    if (writing && watch->context != NULL && watch->context->data != NULL)
        watch->before(watch->context->data, false);
    if (writing && watch->context != NULL)
        redisAsyncHandleWrite(watch->context);
}

static void redis_watch_nothing(void *data)
{
    (void)data;
}

static void redis_watch_written(void *data)
{
    sk_redis_watch_writing(data, false);
}

static void redis_watch_close(void *data)
{
    struct sk_redis_watch *watch = data;
    watch->context = NULL;
    (void)uv_poll_stop(&watch->poll);
    uv_close((uv_handle_t *)&watch->poll, redis_watch_on_closed);
}

static void redis_watch_on_closed(uv_handle_t *handle)
{
    free(handle->data);
}
