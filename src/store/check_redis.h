// Checks that Redis is configured as the promises need it (seckill --check).
#ifndef SK_STORE_CHECK_REDIS_H
#define SK_STORE_CHECK_REDIS_H

#include "findings.h"
#include "store_options.h"

// Blocks, within redis_timeout_ms for each answer; needs no loop. Logs in as the service does, and reads what Redis
// reports of itself. Tries each command that the service uses, on keys of its own, which are gone afterwards.
void sk_check_redis(struct sk_findings *findings, const struct sk_store_options *options, int64_t reactors,
                    struct sk_clocks_seen *clocks);

#endif
