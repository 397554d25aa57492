// A Bloom filter of buyers (B. H. Bloom, "Space/time trade-offs in hash coding with allowable errors", 1970): "surely
// not a buyer" or "perhaps one". So a sold-out sale refuses the crowd from memory and still answers each winner with
// the order id (P6): only "perhaps" asks Redis.
#ifndef SK_BASE_FILTER_H
#define SK_BASE_FILTER_H

#include <stdbool.h>
#include <stddef.h>

struct sk_filter;

// The reactor's thread. Gives a filter sized for `expected` names: 12 bits each, about 0.3 % false positives. NULL: out
// of memory, or an impossible number. The owner frees it; NULL is fine.
struct sk_filter *sk_filter_new(size_t expected);
void sk_filter_free(struct sk_filter *filter);

void sk_filter_add(struct sk_filter *filter, const char *name, size_t len);
bool sk_filter_maybe(const struct sk_filter *filter, const char *name, size_t len);

#endif
