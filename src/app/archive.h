// `seckill archive FOLDER [DAYS [ORDERS]]`: moves the orders of retired vouchers out of PostgreSQL.
#ifndef SK_APP_ARCHIVE_H
#define SK_APP_ARCHIVE_H

#include "config.h"
#include "status.h"

// Blocks until it has moved every retired voucher whose sale ended at least DAYS days ago (default 30), with at most
// ORDERS orders in a file (default 50,000). It logs what it does. SK_FAIL: an argument is wrong, or it could not
// continue. Another run continues where this one stopped.
enum sk_status sk_archive_run(const struct sk_config *config) SK_MUST_CHECK;

// ---- archive file ----

// The files of an archive. Each file is either complete or absent.
//
// All functions: one thread. Errors are logged here.

struct sk_archive_folder;

// NULL: the folder cannot be opened, or out of memory.
struct sk_archive_folder *sk_archive_folder_open(const char *path);
void sk_archive_folder_close(struct sk_archive_folder *folder); // NULL is fine

// Writes the text under another name, syncs it, and renames it to `name`, replacing an earlier file of that name.
enum sk_status sk_archive_file_write(struct sk_archive_folder *folder, const char *name,
                                     const char *text) SK_MUST_CHECK;

// Reads a whole file; the caller frees the text. NULL: it cannot be read, or it contains a NUL.
char *sk_archive_file_read(struct sk_archive_folder *folder, const char *name);

// Visits the names in the folder in sorted order. SK_FAIL: the folder cannot be read, or a visit failed; the other
// names are still visited.
typedef enum sk_status sk_archive_visit(void *arg, const char *name);
enum sk_status sk_archive_folder_visit(struct sk_archive_folder *folder, sk_archive_visit *visit,
                                       void *arg) SK_MUST_CHECK;

// Afterwards the names of all files written are on disk as well.
enum sk_status sk_archive_folder_sync(struct sk_archive_folder *folder) SK_MUST_CHECK;

#endif
