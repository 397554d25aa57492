// The stores of the simulation: real Redis servers and databases of a real PostgreSQL, asked one command at a time over
// unix sockets. Their clock is the world's. Nothing here waits for anything but their answer.
//
// Opened once for many worlds: each world empties those that it uses first. One thread.
#ifndef SIM_STORES_H
#define SIM_STORES_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>

#include "embedded.h"
#include "redis_reply.h"

// Redis servers, and databases. Worlds use the first of each, or all.
enum { STORES_NODES = 2, STORES_SHARDS = 2 };

struct stores_options {
    const char *redis[STORES_NODES];     // the paths of their sockets
    const char *postgres[STORES_SHARDS]; // connection strings of the service's login
    const char *owner[STORES_SHARDS];    // of a superuser
    const char *time;                    // the file of their clock (store_time.c)
};

// Ends the process if it cannot.
void stores_open(const struct stores_options *options);
// So many are as new, and their clock is the world's.
void stores_empty(size_t nodes, size_t shards);

// Sets by how much the clock of a server (servers.h) is wrong.
void stores_shift_clock(size_t server, int64_t ns);
bool stores_clocks_are_right(void);

// ---- Redis ----

// Executes a command as the service's user. *reply is the caller's; the bytes of the reply are borrowed until the next
// call.
const char *stores_redis(size_t node, const char *command, size_t len, struct sk_reply **reply, size_t *n);
// As a user with all rights: asks for the judge, and harms for a trouble, which is in the log. The arguments end with
// NULL.
struct sk_reply *stores_redis_ask(size_t node, const char *const *argv);
void stores_redis_harm(size_t node, const char *const *argv);

// The number of the script with this hash; -1: none.
int stores_script(const char *sha, size_t len);
// SCRIPT LOAD of one of the service's, which is sent once after each loss: the reply.
const char *stores_load_script(size_t node, const char *text, size_t len);
void stores_forget_scripts(size_t node); // SCRIPT FLUSH
// What a link learns of the process when it connects: its run id is another one after each restart.
const char *stores_redis_info(size_t number);

// It starts again, and has lost its last `lost` commands, or all of them. It has no scripts.
void stores_redis_restart(size_t number, size_t lost);
// Its replica takes its place, with what it has received: another process, or that of the time before.
void stores_redis_replace(size_t number, size_t lost);
// The keys of a slot are taken from one node to another one.
void stores_redis_migrate(size_t from, size_t to, unsigned slot);
// Whether data was harmed, or is in another process since the world began: then a rebuild has a reason.
bool stores_redis_harmed(void);

// ---- PostgreSQL ----

// Executes a statement as the service's login; the caller clears the result.
PGresult *stores_postgres(size_t number, enum sk_statement statement, int n, const char *const *params);
// The same in a transaction that stays open, while others run: of a statement for which stores_may_be_late(). Its
// result counts once the transaction has been committed. One at a time.
bool stores_may_be_late(size_t shard, enum sk_statement statement);
PGresult *stores_postgres_begin(size_t number, enum sk_statement statement, int n, const char *const *params);
void stores_postgres_end(size_t number, bool commit); // also: none is open
// Somebody else's transaction holds the row of this voucher; 0: of none any more. Statements that need it are refused.
void stores_lock(size_t number, int64_t voucher);
int64_t stores_locked(void);
// An error with this code, as PostgreSQL sends it.
PGresult *stores_postgres_error(size_t shard, const char *sqlstate);
// Whether it notified since the last call.
bool stores_notified(size_t shard);

// Whether a statement that may change something was executed since the last call.
bool stores_changed(void);

// It has lost its last statements, `lost` at most: what was there when the newest voucher was created stays.
void stores_postgres_restore(size_t number, size_t lost);
// What an operator does with a shard that has lost commits (accept_shard()).
void stores_accept(size_t shard);
// When one has lost anything; 0: never.
uint64_t stores_postgres_lost_at(void);

// A query of the judge's, which must succeed; the caller clears the result.
PGresult *stores_query(size_t shard, const char *sql, int n, const char *const *params);

// Changes its data behind everybody's back.
void stores_spoil(const char *sql);

#endif
