// A connection to Redis: asynchronous, pipelined, with time-outs, reconnecting by itself. With redis_reply and
// redis_watch, the only module that includes hiredis.
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
#include "status.h"

struct sk_redis;

// Runs exactly once for each accepted command. `reply` is NULL when the link died or the answer came too late: then
// the outcome is unknown.
//
// What order there is: plain commands are carried out and answered in the order of queueing, and so is a script call,
// but for one that meets a Redis which has lost the script: that is loaded and the call queued again, behind everything
// queued meanwhile. So a script call may be carried out and answered later than calls queued after it. Match an answer
// to its question by `arg`, never by counting, and wait for a script's answer before asking what must come after it.
typedef void sk_redis_cb(void *arg, const struct sk_reply *reply);

struct sk_redis_options {
    const char *url;     // borrowed for sk_redis_open
    uint32_t timeout_ms; // from when a call is written to its reply; one that takes longer costs the connection
    void (*on_change)(void *arg, bool ready);
    void *arg;
    size_t most_waiting; // calls without a reply; SK_FULL beyond
};

// Connects with the loop's next turn. NULL if the URL is wrong or memory is short; a wrong URL is logged.
struct sk_redis *sk_redis_open(uv_loop_t *loop, const struct sk_redis_options *options);

// Ends the link, also inside a callback: pending callbacks run with NULL, now or when that one has returned. Its
// memory goes with the loop's next turn. NULL is fine.
void sk_redis_close(struct sk_redis *redis);

// Connected to a master that takes writes.
bool sk_redis_ready(const struct sk_redis *redis);

// Which Redis process it is, since it was ready last: its run id (redis_info.h), and a number that grows with each new
// one.
const char *sk_redis_run(const struct sk_redis *redis);
uint64_t sk_redis_run_number(const struct sk_redis *redis);

// Queues a command; argv is copied. SK_DOWN while not ready, SK_FULL when too many wait, SK_NO_MEM: then `done` does
// not run.
enum sk_status sk_redis_command(struct sk_redis *redis, int argc, const char **argv, const size_t *lens,
                                sk_redis_cb *done, void *arg) SK_MUST_CHECK;

// Queues a script call: argv holds the keys, then the arguments. Scripts that Redis has forgotten are
// loaded again and the call is repeated, unseen by the caller but for its place in the order.
enum sk_status sk_redis_script(struct sk_redis *redis, enum sk_script script, int keys, int argc, const char **argv,
                               const size_t *lens, sk_redis_cb *done, void *arg) SK_MUST_CHECK;

// Writes what is queued, unless a write is unanswered: at the end of each loop turn. While one write is
// under way the next one gathers, so that all kinds of commands share Redis's turns, and the fsync of each.
void sk_redis_flush(struct sk_redis *redis);

// Nothing is queued and nothing unanswered.
bool sk_redis_idle(const struct sk_redis *redis);

// Whether a write is unanswered: what is queued now has to wait, so it may as well gather.
bool sk_redis_busy(const struct sk_redis *redis);

// Most arguments of one call, keys included: four for each order of the largest batch, and a few more.
enum { SK_REDIS_ARGS_MAX = 8200 };

#endif
