// Formats a Redis command for the wire: an array of bulk strings (RESP). hiredis formats each length with sprintf. For
// the two arguments of an order that took a tenth of the instructions that the order costs.
#ifndef SK_STORE_REDIS_FORMAT_H
#define SK_STORE_REDIS_FORMAT_H

#include <stddef.h>

// Any thread. Gives a block that the caller frees, and its length in *len. `lens` NULL: the arguments end with a NUL.
// NULL: out of memory.
char *sk_redis_format(int argc, const char **argv, const size_t *lens, size_t *len);

#endif
