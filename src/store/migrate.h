// Brings the database's tables and functions up to date.
#ifndef SK_STORE_MIGRATE_H
#define SK_STORE_MIGRATE_H

#include "status.h"

// Blocks; before the reactors start. Applies the migrations that the database has not seen, each in its own
// transaction, as the owner that `database_url` names. A database that a newer version has migrated is fine. SK_FAIL,
// and nothing is changed, if a version of another lineage has migrated it: ours do not follow on that.
enum sk_status sk_migrate(const char *database_url) SK_MUST_CHECK;

#endif
