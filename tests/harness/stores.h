// Reads and changes the two stores directly, without the service.
#ifndef HARNESS_STORES_H
#define HARNESS_STORES_H

#include <hiredis/hiredis.h>
#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A connection as superuser; the caller closes it with PQfinish.
PGconn *db_connect(void);                      // to the first shard
PGconn *db_connect_to(const char *voucher_id); // to the shard that has it
int db_shard_of(const char *voucher_id);

// Leaves what a fresh shard has, though ids go on. A transaction that a failed test left open holds it up for 10 s.
void db_empty(void);

// Runs a statement formatted as by printf, in a reset session, on each shard; the test fails if one rejects it. Only
// one shard has a voucher. Numbers of several shards are added up; of their texts, the first one that is not empty
// counts.
void db_run(const char *format, ...) __attribute__((format(printf, 1, 2)));
int64_t db_number(const char *format, ...) __attribute__((format(printf, 1, 2))); // the one value it returns
int64_t voucher_epoch(const char *voucher);                                       // as PostgreSQL has it
void db_text(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

// Delays every commit of an order until released, at the latest at the end of the test.
void db_hold_orders(void);
void db_let_orders_go(void);
// How long a statement has been waiting for the release; 0: none waits.
int64_t db_orders_held_ms(void);

// Every commit waits for a standby that never comes, until released; also in the next test. Releasing is repeatable.
void db_hold_commits(void);
void db_let_commits_go(void);
// Whether the connection's statement waits so.
bool db_commit_waits(const PGconn *conn);
// Waits for the end of the statement, and releases its commit. True: it had to. The caller reads the result.
bool db_release_commit(PGconn *conn);

// A connection to Redis, authenticated; the caller closes it with redisFree.
redisContext *redis_connect(int node);
redisContext *redis_connect_to(const char *key); // to the node that has it
int redis_node_of(const char *key);

// Runs a command formatted as by redisCommand, on its own connection; the test fails if Redis rejects it.
void redis_run(const char *format, ...);
int64_t redis_number(const char *format, ...);                    // an integer or digits; -1: nil
bool redis_text(char *out, size_t size, const char *format, ...); // false, and "": nil
void redis_info(int node, const char *section, char *out, size_t size);

#endif
