// Reads what Redis's INFO says about the process that answers.
#ifndef SK_STORE_REDIS_INFO_H
#define SK_STORE_REDIS_INFO_H

#include <stdbool.h>
#include <stddef.h>

enum { SK_RUN_SIZE = 48 };

struct sk_redis_info {
    // "<protocol version>-<run id>", a new one for each start of Redis: what was opened under another one may be lost,
    // or of another release.
    char run[SK_RUN_SIZE];
    bool replica;
};

// Any thread, as both. The value of a line, cut at `size`; false, and "", if there is no such line.
bool sk_redis_info_value(const char *info, const char *name, char *out, size_t size);

// False if the text says nothing of run_id or role. `info` is NUL-terminated.
bool sk_redis_info_read(const char *info, struct sk_redis_info *out);

#endif
