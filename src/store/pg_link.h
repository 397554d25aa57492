// A connection to PostgreSQL: non-blocking, one statement at a time, with time-outs, reconnecting by itself. Calls of
// one class are made in their order; those of a higher class go first.
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
#include "status.h"

struct sk_pg;
// Runs exactly once for each accepted call, in the order of its class. Every statement is idempotent, so that it may be
// retried when its outcome is unknown.
typedef void sk_pg_cb(void *arg, const struct sk_result *result);

struct sk_pg_options {
    const char *url;       // libpq URI; borrowed for sk_pg_open
    const char *name;      // PostgreSQL shows it as application_name; a constant
    uint32_t timeout_ms;   // for connecting, and from when a statement is sent to its result; what takes longer costs
                           // the connection
    uint32_t statement_ms; // the same of statements alone; 0: they have no time of their own
    void (*on_change)(void *arg, bool ready); // NULL: not wanted
    void *arg;
    size_t most_waiting;            // calls without a result; SK_FULL beyond
    bool listen;                    // for NOTIFY seckill_catalogue
    void (*on_notified)(void *arg); // if `listen`: at least once after one or more notifications, in the same turn.
                                    // Those of the time in which the link was not ready are lost.
};

// Connects with the loop's next turn. NULL if the URL is wrong or memory is short; a wrong URL is logged.
struct sk_pg *sk_pg_open(uv_loop_t *loop, const struct sk_pg_options *options);

// Ends the link, also inside a callback: those that wait run now, as LOST. Its memory goes with the loop's next
// turn. NULL is fine.
void sk_pg_close(struct sk_pg *pg);

bool sk_pg_ready(const struct sk_pg *pg);

enum { SK_PG_PARAMS_MAX = 16 };

// Who waits for whom: a call waits for the statement under way and for the calls of its own and of higher classes. No
// class starves: every SK_PG_TURN-th statement is the oldest call of any class.
enum sk_pg_class {
    SK_PG_COMMANDS, // payments, operators' calls, and what the service needs for itself
    SK_PG_MOVES,    // of users: cancellations
    SK_PG_QUESTIONS,
    SK_PG_CLASSES
};
enum { SK_PG_TURN = 8 };

// Queues a statement with text parameters (copied; NULL is SQL's NULL). SK_DOWN while not ready, SK_FULL
// when too many wait, SK_NO_MEM: then `done` does not run.
enum sk_status sk_pg_call_as(struct sk_pg *pg, enum sk_pg_class class, enum sk_statement statement, int n,
                             const char *const *params, sk_pg_cb *done, void *arg) SK_MUST_CHECK;
// The same as SK_PG_COMMANDS.
enum sk_status sk_pg_call(struct sk_pg *pg, enum sk_statement statement, int n, const char *const *params,
                          sk_pg_cb *done, void *arg) SK_MUST_CHECK;

#endif
