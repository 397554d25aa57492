// The stores of the simulation: a real Redis and a real PostgreSQL, asked one command at a time over unix sockets.
// Their clock is the world's. Nothing here waits for anything but their answer.
//
// Opened once for many worlds: each world empties them first. One thread.
#ifndef SIM_STORES_H
#define SIM_STORES_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>

#include "embedded.h"
#include "redis_reply.h"

struct stores_options {
    const char *redis;    // the path of its socket
    const char *postgres; // connection string of the service's login
    const char *owner;    // of a superuser
    const char *time;     // the file of their clock (store_time.c)
};

// Ends the process if it cannot.
void stores_open(const struct stores_options *options);
// Both are as new, and their clock is the world's.
void stores_empty(void);

// ---- Redis ----

// Executes a command as the service's user; the caller frees the reply.
struct sk_reply *stores_redis(const char *command, size_t len);
// As a user with all rights: asks for the judge, and harms for a trouble, which is in the log. The arguments end with
// NULL.
struct sk_reply *stores_redis_ask(const char *const *argv);
void stores_redis_harm(const char *const *argv);

const char *stores_sha(enum sk_script script);
// What a link learns of the process when it connects: its run id is another one after each restart. Loads the scripts.
const char *stores_redis_info(void);

// It starts again, and has lost its last `lost` commands, or all of them. It has no scripts.
void stores_redis_restart(size_t lost);
// Whether its data was harmed, or it is another process since the world began: then a rebuild has a reason.
bool stores_redis_harmed(void);

// ---- PostgreSQL ----

// Executes a statement as the service's login; the caller clears the result.
PGresult *stores_postgres(enum sk_statement statement, int n, const char *const *params);
// Whether it notified since the last call.
bool stores_notified(void);

// Whether a statement was executed since the last call.
bool stores_changed(void);

// A query of the judge's, which must succeed; the caller clears the result.
PGresult *stores_query(const char *sql, int n, const char *const *params);

// Changes its data behind everybody's back.
void stores_spoil(const char *sql);

#endif
