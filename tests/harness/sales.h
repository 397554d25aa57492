// Sales too large to make through the API one call at a time: vouchers and orders written by SQL, an earlier end of a
// sale, and admin calls.
#ifndef HARNESS_SALES_H
#define HARNESS_SALES_H

#include <stdbool.h>
#include <stdint.h>

#include "http.h"

enum { ORDER_ID_SIZE = 40 };

// Whether SECKILL_TEST_FULL is set: then tests use large numbers and check time limits.
bool sales_full(void);

// Makes vouchers on sale, without a service, with consecutive ids. Returns the first id.
int64_t sales_make(int count, int stock);
// Adds live orders of the users p1, p2 ... to each of these vouchers, as if the service had placed them. Redis does not
// know them.
void sales_add_orders(int64_t first, int vouchers, int each);
// Moves the end of the sale to three days ago.
void sales_end(const char *voucher);

// Makes PostgreSQL reject every order of this user, until sales_refuse_none().
void sales_refuse_user(const char *user);
void sales_refuse_none(void);

// Stops notifications of voucher changes, until sales_notify_again().
void sales_stop_notifying(void);
void sales_notify_again(void);

// An admin call on a voucher: `what` begins with a slash, or is empty.
int sales_admin(const struct service *service, const char *method, const char *voucher, const char *what,
                struct http_reply *reply);

// Buys with respond-async, retrying while the answer is 503; it must be 202.
void sales_accept(const struct service *service, const char *voucher, const char *user, char id[ORDER_ID_SIZE]);
// Reads the order; returns the status of the answer, and the order's status or "".
int sales_order(const struct service *service, const char *id, const char *user, char status[HTTP_FIELD_SIZE]);
bool sales_order_is(const struct service *service, const char *id, const char *user, const char *status);

// Makes a second voucher on the shard of the first, whose orders the same writer then writes.
void sales_beside(const struct service *service, int stock, const char *first, char second[VOUCHER_ID_SIZE]);

bool sales_redis_has(const char *voucher, const char *state);

// Prints how long something took.
void sales_note(const char *what, uint64_t since_ms);

#endif
