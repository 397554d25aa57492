// Checks that PostgreSQL is configured as the promises need it (seckill --check).
#ifndef SK_STORE_CHECK_POSTGRES_H
#define SK_STORE_CHECK_POSTGRES_H

#include "findings.h"
#include "store_options.h"

// Checks one shard. Blocks; each statement within pg_timeout_ms. Logs in as the service does, and changes nothing.
void sk_check_postgres(struct sk_findings *findings, const struct sk_store_options *options, size_t shard,
                       int64_t reactors, struct sk_clock_seen *clock);

#endif
