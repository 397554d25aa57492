// Shared by the tests of PostgreSQL's own promises: runs the service's statements as its login, and batches of orders
// with the expected outcome of each.
#ifndef HARNESS_SQL_H
#define HARNESS_SQL_H

#include <libpq-fe.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "embedded.h"
#include "uuid.h"

extern PGconn *sql_service;  // a connection as the service's login
extern char sql_voucher[24]; // the last voucher made
extern char sql_slot[8];     // its slot

// Fixtures: start PostgreSQL; empty tables and a connection for each test.
void sql_start(void);
void sql_setup(void);
void sql_teardown(void);

PGconn *sql_connect(void); // as the service's login

// Makes a voucher on sale under epoch 3; sets sql_voucher and sql_slot.
void sql_make_voucher(int stock);

// Runs one of the service's statements as the service does; it must succeed.
PGresult *sql_run(enum sk_statement statement, int n, const char *const *params);

#define SQL_RUN(statement, ...) \
    sql_run(statement, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), (const char *const[]){__VA_ARGS__})

// ---- batches ----

struct sql_order {
    int id; // stands for a UUID
    const char *user;
};

struct sql_end {
    const char *outcome;
    int live_id; // 0: none
};

void sql_put_id(char out[SK_UUID_SIZE], int id);
void sql_put_arrays(struct sk_buf *ids, struct sk_buf *users, size_t n, const struct sql_order *orders);
void sql_send_batch(PGconn *conn, const char *epoch, size_t n, const struct sql_order *orders);
PGresult *sql_receive(PGconn *conn);
void sql_must_end(PGresult *result, size_t n, const struct sql_end *ends);
void sql_place(const char *epoch, size_t n, const struct sql_order *orders, const struct sql_end *ends);

// The orders and their expected outcomes, in the same order.
#define ORDERS(...) ((const struct sql_order[]){__VA_ARGS__})
#define ENDS(...)   ((const struct sql_end[]){__VA_ARGS__})
#define PLACE(epoch, orders, ends)                                                                           \
    do {                                                                                                     \
        ck_assert_uint_eq(sizeof(orders) / sizeof(struct sql_order), sizeof(ends) / sizeof(struct sql_end)); \
        sql_place(epoch, sizeof(orders) / sizeof(struct sql_order), orders, ends);                           \
    } while (0)

// Refuses one order; checks its row and the outcome that the statement returns.
void sql_refuse(const char *ids, const char *users, const char *reasons, const char *outcome);

// ---- results ----

int64_t sql_stock(void);

// Units offered = live orders + stock; checks both, and the count of live orders.
void sql_must_have(int64_t live, int64_t left);

// sql_cancel does what a cancelling function does, except for the unit; sql_return_unit returns the unit.
void sql_cancel(int id);
void sql_return_unit(void);

#define SQL_ID1 "00000000-0000-7000-8000-000000000001"
#define SQL_ID2 "00000000-0000-7000-8000-000000000002"
#define SQL_ID3 "00000000-0000-7000-8000-000000000003"
#define SQL_ID0 "00000000-0000-0000-0000-000000000000"

#endif
