// hiredis's event adapter for libuv. Ours, not hiredis's own: that one calls epoll_ctl twice for each flush. Here the
// loop watches for reading only, and its owner writes when it wants to. Only a full socket makes it watch for writing,
// too. The loop's thread.
#ifndef SK_STORE_REDIS_WATCH_H
#define SK_STORE_REDIS_WATCH_H

#include <stdbool.h>
#include <uv.h>

#include "status.h"

struct redisAsyncContext;
struct sk_redis_watch;

// Runs before the context reads or writes; it may free the context. `owner` is the context's data, never NULL.
typedef void sk_redis_watch_cb(void *owner, bool reading);

// Attaches the context and watches for both, since a new connection becomes writable. hiredis closes the watch together
// with the context. SK_FAIL, SK_NO_MEM: *out is NULL.
enum sk_status sk_redis_watch_open(uv_loop_t *loop, struct redisAsyncContext *context, sk_redis_watch_cb *before,
                                   struct sk_redis_watch **out) SK_MUST_CHECK;

// Starts or stops watching for writing.
void sk_redis_watch_writing(struct sk_redis_watch *watch, bool writing);

#endif
