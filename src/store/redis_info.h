// Reads what Redis's INFO says about the process that answers.
#ifndef SK_STORE_REDIS_INFO_H
#define SK_STORE_REDIS_INFO_H

#include <stdbool.h>

enum { SK_RUN_SIZE = 41 }; // 40 hexadecimal digits and NUL

struct sk_redis_info {
    char run[SK_RUN_SIZE]; // a new one for each start: a Redis with another one may have lost data
    bool replica;
};

// False if the text says nothing of run_id or role. `info` is NUL-terminated.
bool sk_redis_info_read(const char *info, struct sk_redis_info *out);

#endif
