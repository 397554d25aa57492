// A connection to Redis: asynchronous, pipelined, with time-outs and automatic reconnection.
//
// All functions: the loop's thread. Replies are borrowed for the time of the callback.
#ifndef SK_STORE_REDIS_LINK_H
#define SK_STORE_REDIS_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "embedded.h"
#include "redis_reply.h"
#include "redis_url.h"
#include "server_table.h"
#include "socket.h"
#include "status.h"

struct sk_redis;

// Runs exactly once for each accepted command. `reply` is NULL when the link died or the answer came too late: then the
// outcome is unknown.
//
// Redis executes and answers plain commands and script calls in the order of queueing, with one exception. If Redis has
// lost a script, the link loads it and queues the call again, behind everything queued meanwhile. So a script call may
// be executed and answered later than calls queued after it. Match an answer to its call by `arg`, never by counting.
// Wait for a script's answer before you send what must come after it.
typedef void sk_redis_cb(void *arg, const struct sk_reply *reply);

struct sk_redis_options {
    const char *url;                // borrowed for sk_redis_open
    const struct sk_redis_host *at; // the node of the URL's cluster; borrowed for sk_redis_open. NULL: it is no cluster
    struct sk_tls_files tls;        // borrowed until the link is freed
    const char *sentinel_password;  // the same; NULL: none
    uint32_t timeout_ms;            // from writing a call to its reply; beyond it the connection is dropped
    void (*on_change)(void *arg, bool ready);
    // Another node of the cluster has the slot: a call was not executed. Runs before its callback. NULL: not wanted.
    void (*on_moved)(void *arg, const char *error);
    void *arg;
    size_t most_waiting; // most calls without a reply; SK_FULL beyond
};

// Connects in the loop's next turn. NULL if the URL is wrong or memory is short; a wrong URL is logged.
struct sk_redis *sk_redis_open(uv_loop_t *loop, const struct sk_redis_options *options);

// Ends the link, also inside a callback. Pending callbacks run with NULL, now or when that callback has returned. The
// memory is freed in the loop's next turn. NULL is fine.
void sk_redis_close(struct sk_redis *redis);

// Whether it is connected to a master that takes writes. NULL, here and below: a link that is never ready.
bool sk_redis_ready(const struct sk_redis *redis);

// The Redis process that the link was last ready with: its run id (redis_reply.h), and a number made of it, so that two
// links to one process have the same. "" and 0: it was never ready.
const char *sk_redis_run(const struct sk_redis *redis);
uint64_t sk_redis_run_number(const struct sk_redis *redis);

// Where it is, or is to connect to; no name: not known.
const struct sk_redis_host *sk_redis_at(const struct sk_redis *redis);

// Adds what it has seen to the row of its server; one that is not ready clears `up`. It waits
// for the answers to a write together, until the last one, or until the connection ends.
void sk_redis_measure(const struct sk_redis *redis, struct sk_server_row *row);

// Queues a command; copies argv. `done` does not run if this returns SK_DOWN (not ready), SK_FULL (too many calls wait)
// or SK_NO_MEM.
enum sk_status sk_redis_command(struct sk_redis *redis, int argc, const char **argv, const size_t *lens,
                                sk_redis_cb *done, void *arg) SK_MUST_CHECK;

// Queues a script call: argv holds the keys, then the arguments. If Redis has lost the script, the link loads it and
// repeats the call. The caller can notice only the order.
enum sk_status sk_redis_script(struct sk_redis *redis, enum sk_script script, int keys, int argc, const char **argv,
                               const size_t *lens, sk_redis_cb *done, void *arg) SK_MUST_CHECK;

// Writes what is queued, unless a write is unanswered: at the end of each loop turn. While one write is in progress the
// next one gathers, so that all kinds of commands share Redis's turns, and the fsync of each.
void sk_redis_flush(struct sk_redis *redis);

// Whether nothing is queued and nothing unanswered.
bool sk_redis_idle(const struct sk_redis *redis);

// Whether a write is unanswered. New commands then wait anyway, so the caller may as well gather them.
bool sk_redis_busy(const struct sk_redis *redis);

// Most arguments of one call, keys included: four for each order of the largest batch, and a few more.
enum { SK_REDIS_ARGS_MAX = 8200 };

#endif
