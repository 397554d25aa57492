// Sales in numbers that no client could make one by one: vouchers and orders written by SQL, the end of a sale brought
// forward, and what an admin asks of them.
#ifndef HARNESS_SALES_H
#define HARNESS_SALES_H

#include <stdbool.h>
#include <stdint.h>

#include "http.h"

enum { ORDER_ID_SIZE = 40 };

// Whether SECKILL_TEST_FULL is set: tests of numbers take the large ones, and bounds on time are checked.
bool sales_full(void);

// Makes vouchers on sale, without a service; their ids follow each other. Returns the first one.
int64_t sales_make(int count, int stock);
// Live orders of the users p1, p2 ... of each of these vouchers, as if the service had placed them. Redis does not know
// of them.
void sales_add_orders(int64_t first, int vouchers, int each);
// The sale ended three days ago.
void sales_end(const char *voucher);

// PostgreSQL refuses every order of this user, until it takes them again.
void sales_refuse_user(const char *user);
void sales_refuse_none(void);

// No change of a voucher is notified, until they are again.
void sales_stop_notifying(void);
void sales_notify_again(void);

// An admin's call about a voucher: `what` begins with a slash, or is empty.
int sales_admin(const struct service *service, const char *method, const char *voucher, const char *what,
                struct http_reply *reply);

// Buys with respond-async, and again while the answer is 503; it must be 202.
void sales_accept(const struct service *service, const char *voucher, const char *user, char id[ORDER_ID_SIZE]);
// Asks for the order; returns the answer's status, and that of the order or "".
int sales_order(const struct service *service, const char *id, const char *user, char status[HTTP_FIELD_SIZE]);
bool sales_order_is(const struct service *service, const char *id, const char *user, const char *status);

bool sales_redis_has(const char *voucher, const char *state);

// Tells in the test's output how long something took.
void sales_note(const char *what, uint64_t since_ms);

#endif
