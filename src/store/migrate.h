// Brings the database's tables and functions up to date.
#ifndef SK_STORE_MIGRATE_H
#define SK_STORE_MIGRATE_H

#include "shards.h"
#include "status.h"

// Blocks; before the reactors start. Applies the migrations that the database has not seen, each in its own
// transaction, as the owner that `database_url` names. A database that a newer version has migrated is fine. SK_FAIL,
// and nothing is changed, if a version of another lineage has migrated it: ours do not follow on that.
// Then the database is shard `number` of `count`; SK_FAIL if it has vouchers as another one.
enum sk_status sk_migrate_shard(const char *database_url, size_t number, size_t count) SK_MUST_CHECK;

// The same for all shards, one after the other. SK_FAIL: one of them failed; the others are up to date.
enum sk_status sk_migrate(const struct sk_shards *shards) SK_MUST_CHECK;

#endif
