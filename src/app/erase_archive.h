// Erasing a user in the files of an archive.
#ifndef SK_APP_ERASE_ARCHIVE_H
#define SK_APP_ERASE_ARCHIVE_H

#include "archive_file.h"
#include "pg_once.h"
#include "status.h"

// Blocks, also while `seckill archive` runs. Puts the pseudonym in the place of the user in each file of orders, whose
// new SHA-256 PostgreSQL notes; how many files and orders that were is logged. SK_FAIL: PostgreSQL or a file refused,
// or is not as it was archived, and is left so; what was done in others stays.
enum sk_status sk_erase_archive(struct sk_pg_once *pg, struct sk_archive_folder *folder, const char *user,
                                const char *pseudonym) SK_MUST_CHECK;

#endif
