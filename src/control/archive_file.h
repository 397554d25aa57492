// The files of an archive: each is there whole, or not.
//
// All functions: one thread. What goes wrong is logged here.
#ifndef SK_CONTROL_ARCHIVE_FILE_H
#define SK_CONTROL_ARCHIVE_FILE_H

#include "status.h"

struct sk_archive_folder;

// NULL: there is no such folder, or memory is short.
struct sk_archive_folder *sk_archive_folder_open(const char *path);
void sk_archive_folder_close(struct sk_archive_folder *folder); // NULL is fine

// Writes the text under another name, syncs it, and gives it this one, in place of what may have had it.
enum sk_status sk_archive_file_write(struct sk_archive_folder *folder, const char *name,
                                     const char *text) SK_MUST_CHECK;

// After it the names of all files written are on disk, too.
enum sk_status sk_archive_folder_sync(struct sk_archive_folder *folder) SK_MUST_CHECK;

#endif
