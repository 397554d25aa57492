// Checks the books of a voucher: the conditions that both stores must meet when no work is pending. Every integration
// test ends with books_must_balance.
#ifndef HARNESS_BOOKS_H
#define HARNESS_BOOKS_H

#include <stdbool.h>
#include <stddef.h>

enum { BOOKS_WHY_SIZE = 256 };

// Checks once. Units in live orders <= units offered; one live order per user. PostgreSQL's stock = units - units in
// live orders - units of refunds without restock, and it counts its live orders right. Redis has fewer units by what
// dead letters hold, its buyers match live and held orders with quantity and key, and its journal is empty. If not,
// `why` describes the first difference.
bool books_balance(const char *voucher, char why[BOOKS_WHY_SIZE]);

// Repeats the check until the books balance; fails the test at the deadline.
void books_must_balance(const char *voucher);

#endif
