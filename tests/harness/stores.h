// Reads and changes the two stores directly, without the service.
#ifndef HARNESS_STORES_H
#define HARNESS_STORES_H

#include <hiredis/hiredis.h>
#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A connection as superuser; the caller closes it with PQfinish.
PGconn *db_connect(void);

// Runs a statement formatted as by printf, in a reset session; the test fails if PostgreSQL rejects it.
void db_run(const char *format, ...) __attribute__((format(printf, 1, 2)));
int64_t db_number(const char *format, ...) __attribute__((format(printf, 1, 2))); // the one value it returns
int64_t voucher_epoch(const char *voucher);                                       // as PostgreSQL has it
void db_text(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

// Delays every commit of an order until released, at the latest at the end of the test.
void db_hold_orders(void);
void db_let_orders_go(void);
// How long a statement has been waiting for the release; 0: none waits.
int64_t db_orders_held_ms(void);

// A connection to Redis, authenticated; the caller closes it with redisFree.
redisContext *redis_connect(void);               // to the first node
redisContext *redis_connect_to(const char *key); // to the node that has it

// Runs a command formatted as by redisCommand, on its own connection; the test fails if Redis rejects it.
void redis_run(const char *format, ...);
int64_t redis_number(const char *format, ...);                    // an integer or digits; -1: nil
bool redis_text(char *out, size_t size, const char *format, ...); // false, and "": nil
void redis_info(int node, const char *section, char *out, size_t size);

#endif
