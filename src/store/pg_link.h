// A connection to PostgreSQL: non-blocking, one statement at a time, with time-outs and automatic reconnection, also to
// another of several hosts. Calls of one class are made in their order; those of a higher class go first.
//
// All functions: the loop's thread. Results are borrowed for the time of the callback.
#ifndef SK_STORE_PG_LINK_H
#define SK_STORE_PG_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "embedded.h"
#include "pg_result.h"
#include "server_table.h"
#include "status.h"

struct sk_pg;
// Runs exactly once for each accepted call, in order within a class. Every statement is idempotent, so it may be
// retried when its outcome is unknown.
typedef void sk_pg_cb(void *arg, const struct sk_result *result);

struct sk_pg_options {
    const char *url;       // a URI or a connection string of libpq's, with any number of hosts; borrowed for sk_pg_open
    const char *name;      // PostgreSQL shows it as application_name; a constant
    uint32_t timeout_ms;   // for connecting, and for a statement in the server. The connection is dropped if
                           // connecting takes longer, or a result 1.5 times as long
    uint32_t statement_ms; // the same for statements alone; 0: timeout_ms
    void (*on_change)(void *arg, bool ready); // NULL: not wanted
    void *arg;
    size_t most_waiting;            // most calls without a result; SK_FULL beyond
    bool listen;                    // LISTEN for NOTIFY seckill_catalogue
    void (*on_notified)(void *arg); // if `listen`: at least once after one or more notifications, in the same turn.
                                    // Notifications are lost while the link is not ready.
    unsigned shard, shards;         // which shard it must be, of how many; 0 shards: the only one
    // Runs when a connection is set up. `misfit`: what is wrong with this database; NULL: nothing. `beat`: see
    // recovery/shard_heartbeats.h. Returns why it is not used, a text that outlives the call, or NULL. NULL: `misfit`
    // decides.
    const char *(*on_session)(void *arg, const char *misfit, int64_t beat);
};

// Connects in the loop's next turn. NULL if the URL is wrong or memory is short; a wrong URL is logged.
struct sk_pg *sk_pg_open(uv_loop_t *loop, const struct sk_pg_options *options);

// Ends the link, also inside a callback. The callbacks of waiting calls run now, with LOST. The memory is freed in the
// loop's next turn. NULL is fine.
void sk_pg_close(struct sk_pg *pg);

// Ends the connection, also inside a callback; the link connects anew. Waiting calls get LOST. A constant says why.
void sk_pg_drop(struct sk_pg *pg, const char *why);

// A held link connects and sets up its session, but is not ready. Drop a link that is ready before it is held. One that
// is no longer held runs `on_change` if it is ready then.
void sk_pg_hold(struct sk_pg *pg, bool held);

bool sk_pg_ready(const struct sk_pg *pg);

// Its statement has been in progress for a second: the server may hang, and the next call would wait for it.
bool sk_pg_lags(const struct sk_pg *pg);

// Adds what it has seen to the row of its server; a link that is not ready clears `up`. It waits
// for the result of a statement, or until the connection ends.
void sk_pg_measure(const struct sk_pg *pg, struct sk_server_row *row);

enum { SK_PG_PARAMS_MAX = 19 };

// A call waits for the statement in progress, for earlier calls of its class, and for calls of higher classes. No class
// starves: every SK_PG_TURN-th statement is the oldest call of any class.
enum sk_pg_class {
    SK_PG_COMMANDS, // payments, operators' calls, and what the service needs for itself
    SK_PG_MOVES,    // users' moves: cancellations
    SK_PG_QUERIES,
    SK_PG_CLASSES
};
enum { SK_PG_TURN = 8 };

// Queues a statement with text parameters (copied; NULL is SQL's NULL). `done` does not run if this returns SK_DOWN
// (not ready), SK_FULL (too many calls wait) or SK_NO_MEM.
enum sk_status sk_pg_call_as(struct sk_pg *pg, enum sk_pg_class class, enum sk_statement statement, int n,
                             const char *const *params, sk_pg_cb *done, void *arg) SK_MUST_CHECK;
// The same with the class SK_PG_COMMANDS.
enum sk_status sk_pg_call(struct sk_pg *pg, enum sk_statement statement, int n, const char *const *params,
                          sk_pg_cb *done, void *arg) SK_MUST_CHECK;

#endif
