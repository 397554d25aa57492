#include "archive_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"

enum { NAME_SIZE = 128 };

struct sk_archive_folder {
    int fd;
};

static enum sk_status archive_file_fail(const char *what)
{
    sk_log_text(SK_LOG_ERROR, what, "reason", strerror(errno));
    return SK_FAIL;
}

struct sk_archive_folder *sk_archive_folder_open(const char *path)
{
    struct sk_archive_folder *folder = calloc(1, sizeof *folder);
    if (folder == NULL)
        return NULL;
    folder->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->fd < 0) {
        (void)archive_file_fail("cannot open the folder of the archive");
        free(folder);
        return NULL;
    }
    return folder;
}

void sk_archive_folder_close(struct sk_archive_folder *folder)
{
    if (folder == NULL)
        return;
    (void)close(folder->fd);
    free(folder);
}

static enum sk_status archive_file_write_all(int fd, const char *text)
{
    for (size_t left = strlen(text); left > 0;) {
        ssize_t n = write(fd, text, left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return archive_file_fail("cannot write a file of the archive");
        text += n;
        left -= (size_t)n;
    }
    return fsync(fd) == 0 ? SK_OK : archive_file_fail("cannot sync a file of the archive");
}

enum sk_status sk_archive_file_write(struct sk_archive_folder *folder, const char *name, const char *text)
{
    char unfinished[NAME_SIZE];
    int n = snprintf(unfinished, sizeof unfinished, "%s.new", name);
    SK_ASSERT(n > 0 && (size_t)n < sizeof unfinished);
    // For its owner alone: there are users' ids in it.
    int fd = openat(folder->fd, unfinished, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return archive_file_fail("cannot make a file of the archive");
    enum sk_status status = archive_file_write_all(fd, text);
    if (close(fd) != 0 && status == SK_OK)
        status = archive_file_fail("cannot close a file of the archive");
    if (status == SK_OK && renameat(folder->fd, unfinished, folder->fd, name) != 0)
        status = archive_file_fail("cannot name a file of the archive");
    return status;
}

// ---- reading ----

// The text, of so many bytes, in memory of its own.
static char *archive_file_read_all(int fd, size_t size)
{
    char *text = malloc(size + 1);
    size_t len = 0;
    while (text != NULL && len < size) {
        ssize_t n = read(fd, text + len, size - len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    if (text != NULL && len < size) {
        free(text);
        return NULL;
    }
    if (text != NULL)
        text[len] = '\0';
    return text;
}

char *sk_archive_file_read(struct sk_archive_folder *folder, const char *name)
{
    struct stat about;
    char *text = NULL;
    int fd = openat(folder->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && fstat(fd, &about) == 0)
        text = archive_file_read_all(fd, (size_t)about.st_size);
    if (text == NULL) {
        (void)archive_file_fail("cannot read a file of the archive");
    } else if (strlen(text) != (size_t)about.st_size) {
        sk_log_text(SK_LOG_ERROR, "a file of the archive has a NUL in it", "name", name);
        free(text);
        text = NULL;
    }
    if (fd >= 0)
        (void)close(fd);
    return text;
}

enum sk_status sk_archive_folder_visit(struct sk_archive_folder *folder, sk_archive_visit *visit, void *arg)
{
    struct dirent **found = NULL;
    enum sk_status status = SK_OK;
    int count = scandirat(folder->fd, ".", &found, NULL, alphasort);
    if (count < 0)
        return archive_file_fail("cannot read the folder of the archive");
    for (int i = 0; i < count; i++) {
        if (visit(arg, found[i]->d_name) != SK_OK)
            status = SK_FAIL;
        free(found[i]);
    }
    free(found);
    return status;
}

enum sk_status sk_archive_folder_sync(struct sk_archive_folder *folder)
{
    return fsync(folder->fd) == 0 ? SK_OK : archive_file_fail("cannot sync the folder of the archive");
}
