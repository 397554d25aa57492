// Reads from Redis's INFO which process answers.
#ifndef SK_STORE_REDIS_INFO_H
#define SK_STORE_REDIS_INFO_H

#include <stdbool.h>
#include <stddef.h>

enum { SK_RUN_SIZE = 48 };

struct sk_redis_info {
    // "<protocol version>-<run id>", a new one for each start of Redis. A voucher that was opened under another one may
    // be lost, or of another release.
    char run[SK_RUN_SIZE];
    bool replica;
};

// Any thread, as both. Copies the value of a line, truncated to `size`. False, and "": there is no such line.
bool sk_redis_info_value(const char *info, const char *name, char *out, size_t size);

// False if run_id or role is missing. `info` is NUL-terminated.
bool sk_redis_info_read(const char *info, struct sk_redis_info *out);

#endif
