// Brings the database's tables and functions up to date.
#ifndef SK_STORE_MIGRATE_H
#define SK_STORE_MIGRATE_H

#include "status.h"

// Blocks; before the reactors start. Applies, each in a transaction of its own, the migrations that the
// database has not seen, as the owner that `database_url` names. SK_FAIL, and nothing is changed: it was migrated by a
// version of another line, so that ours do not follow on its own. One that a newer version has migrated is fine.
enum sk_status sk_migrate(const char *database_url) SK_MUST_CHECK;

#endif
