// The books of a voucher: what must be true of both stores once everything has settled, whatever happened
// before. Every integration test ends with books_must_balance.
#ifndef HARNESS_BOOKS_H
#define HARNESS_BOOKS_H

#include <stdbool.h>
#include <stddef.h>

enum { BOOKS_WHY_SIZE = 256 };

// Looks once. Units and orders are counted apart. Units in live orders <= units, one live order per user, PostgreSQL's
// stock = units - those in live orders - those of refunds that are not sold again, and it has counted its live orders
// right; Redis has as many units less as dead letters hold, its buyers are those of live and held orders, each with the
// order's quantity and key, its journal is empty. If not, says what is wrong.
bool books_balance(const char *voucher, char why[BOOKS_WHY_SIZE]);

// Looks until the books balance; the test fails if they do not in time.
void books_must_balance(const char *voucher);

#endif
