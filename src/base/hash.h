// A well-mixed hash of a name.
#ifndef SK_BASE_HASH_H
#define SK_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

// Any thread.
uint64_t sk_hash(const char *name, size_t len);

#endif
