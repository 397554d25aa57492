// `seckill erase USER [FOLDER]`: replaces a user's id by a pseudonym in PostgreSQL, and in the files that `seckill
// archive` has written to the folder.
#ifndef SK_APP_ERASE_H
#define SK_APP_ERASE_H

#include "archive.h"
#include "config.h"
#include "pg_once.h"
#include "status.h"

// Blocks until done: PostgreSQL in one transaction, then file by file. Logs what it did, without the id. SK_FAIL: the
// word is not a user id, the folder does not exist, or PostgreSQL could not be asked. Also if the user has orders of
// vouchers that are not retired, or a file is not as it was archived. Finished work stays; another run does the rest.
enum sk_status sk_erase_run(const struct sk_config *config) SK_MUST_CHECK;

// ---- erase archive ----

// Erases a user in the files of an archive.

// Blocks, also while `seckill archive` runs. Replaces the user by the pseudonym in each file of orders; PostgreSQL
// records the new SHA-256. Logs the number of files and orders. SK_FAIL: PostgreSQL or a file failed, or a file is not
// as it was archived and stays unchanged. Finished files stay.
enum sk_status sk_erase_archive(struct sk_pg_once *pg, struct sk_archive_folder *folder, const char *user,
                                const char *pseudonym) SK_MUST_CHECK;

#endif
