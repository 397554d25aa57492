// Reads what Redis's INFO says about the process that answers.
#ifndef SK_STORE_REDIS_INFO_H
#define SK_STORE_REDIS_INFO_H

#include <stdbool.h>

enum { SK_RUN_SIZE = 48 };

struct sk_redis_info {
    // "<protocol version>-<run id>", a new one for each start of Redis: what was opened under another one may be lost,
    // or of another release.
    char run[SK_RUN_SIZE];
    bool replica;
};

// False if the text says nothing of run_id or role. `info` is NUL-terminated.
bool sk_redis_info_read(const char *info, struct sk_redis_info *out);

#endif
