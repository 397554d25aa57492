// Whether Redis is set as the promises need it (seckill --check).
#ifndef SK_STORE_CHECK_REDIS_H
#define SK_STORE_CHECK_REDIS_H

#include "findings.h"
#include "store_options.h"

// Blocks, within redis_timeout_ms for each answer; no loop is needed. Logs in as the service does, reads what Redis
// says of itself, and tries each command that the service uses on keys of its own, which are gone afterwards.
void sk_check_redis(struct sk_findings *findings, const struct sk_store_options *options, int64_t reactors,
                    struct sk_clock_seen *clock);

#endif
