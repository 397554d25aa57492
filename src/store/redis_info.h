// Reads from Redis's INFO which process answers, and since which promotion.
//
// A replica that becomes the master takes a new replication id and keeps the one before as its second one
// (`master_replid2`). So a master that was replaced, copied what the other one had and took its place again has the run
// id of before, but another second id: it may have lost its last commands. A master that was never a replica has none.
#ifndef SK_STORE_REDIS_INFO_H
#define SK_STORE_REDIS_INFO_H

#include <stdbool.h>
#include <stddef.h>

enum { SK_RUN_SIZE = 64, SK_PROMOTION_SIZE = 17 };

struct sk_redis_info {
    // "<protocol version>-<run id>", then "-<promotion>" if there was one: a new one for each start of Redis and for
    // each promotion. A voucher that was opened under another one may be lost, or of another release.
    char run[SK_RUN_SIZE];
    char promotion[SK_PROMOTION_SIZE]; // the begin of the second replication id; "": it was never a replica
    bool replica;
};

// Any thread. Copies the value of a line, truncated to `size`. False, and "": there is no such line.
bool sk_redis_info_value(const char *info, const char *name, char *out, size_t size);

// Any thread, as both below. Reads role and promotion, and leaves `run` alone. False: the role is missing. `info` is
// NUL-terminated.
bool sk_redis_info_role(const char *info, struct sk_redis_info *out);

// Reads all. False: run_id or role is missing.
bool sk_redis_info_read(const char *info, struct sk_redis_info *out);

#endif
