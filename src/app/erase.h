// `seckill erase USER [FOLDER]`: a user's id gives way to a pseudonym in all that PostgreSQL keeps, and in the files
// that `seckill archive` has written to the folder.
#ifndef SK_APP_ERASE_H
#define SK_APP_ERASE_H

#include "archive.h"
#include "config.h"
#include "pg_once.h"
#include "status.h"

// Blocks until it is done: in PostgreSQL all or nothing, then file by file. What it did is logged, without the id.
// SK_FAIL: the word is not a user's id, there is no such folder, the user has orders of vouchers that are not retired,
// PostgreSQL could not be asked, or a file is not as it was archived; what was done stays, and running it again does
// the rest.
enum sk_status sk_erase_run(const struct sk_config *config) SK_MUST_CHECK;

// ---- erase archive ----

// Erasing a user in the files of an archive.

// Blocks, also while `seckill archive` runs. Puts the pseudonym in the place of the user in each file of orders, whose
// new SHA-256 PostgreSQL notes; how many files and orders that were is logged. SK_FAIL: PostgreSQL or a file refused,
// or is not as it was archived, and is left so; what was done in others stays.
enum sk_status sk_erase_archive(struct sk_pg_once *pg, struct sk_archive_folder *folder, const char *user,
                                const char *pseudonym) SK_MUST_CHECK;

#endif
