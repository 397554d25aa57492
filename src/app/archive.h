// `seckill archive FOLDER [DAYS [ORDERS]]`: moves the orders of vouchers that are retired out of PostgreSQL.
#ifndef SK_APP_ARCHIVE_H
#define SK_APP_ARCHIVE_H

#include "config.h"
#include "status.h"

// Blocks until all is moved of vouchers whose sale ended DAYS days ago (30), at most ORDERS orders in a file (50,000).
// What it does is logged. SK_FAIL: a wrong word, or it could not go on; running it again goes on where it stopped.
enum sk_status sk_archive_run(const struct sk_config *config) SK_MUST_CHECK;

// ---- archive file ----

// The files of an archive: each is there whole, or not.
//
// All functions: one thread. What goes wrong is logged here.

struct sk_archive_folder;

// NULL: there is no such folder, or memory is short.
struct sk_archive_folder *sk_archive_folder_open(const char *path);
void sk_archive_folder_close(struct sk_archive_folder *folder); // NULL is fine

// Writes the text under another name, syncs it, and gives it this one, in place of what may have had it.
enum sk_status sk_archive_file_write(struct sk_archive_folder *folder, const char *name,
                                     const char *text) SK_MUST_CHECK;

// Reads a file whole, which the caller frees. NULL: it cannot, or there is a NUL in it.
char *sk_archive_file_read(struct sk_archive_folder *folder, const char *name);

// Visits the names in the folder, in their order. SK_FAIL: the folder cannot be read, or a visit failed; the others
// come all the same.
typedef enum sk_status sk_archive_visit(void *arg, const char *name);
enum sk_status sk_archive_folder_visit(struct sk_archive_folder *folder, sk_archive_visit *visit,
                                       void *arg) SK_MUST_CHECK;

// After it the names of all files written are on disk, too.
enum sk_status sk_archive_folder_sync(struct sk_archive_folder *folder) SK_MUST_CHECK;

#endif
