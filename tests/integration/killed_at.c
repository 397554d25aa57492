// Kills its process at step number SK_KILLED_AT. A step opens, writes, syncs or renames a file, sends a statement to
// PostgreSQL, or receives its answer. A write at that step is cut in half.
#include <dlfcn.h>
#include <fcntl.h>
#include <libpq-fe.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

static long steps;

static bool last_step(void)
{
    const char *at = getenv("SK_KILLED_AT");
    return ++steps == (at == NULL ? 0 : strtol(at, NULL, 10));
}

static void step(void)
{
    if (last_step())
        (void)kill(getpid(), SIGKILL);
}

// dlsym returns functions as data pointers.
#define NEXT(type, name) \
    type *next;          \
    *(void **)&next = dlsym(RTLD_NEXT, name)

typedef int openat_t(int folder, const char *path, int flags, ...);
typedef ssize_t write_t(int fd, const void *bytes, size_t n);
typedef int fsync_t(int fd);
typedef int renameat_t(int from_folder, const char *from, int to_folder, const char *to);
typedef PGresult *exec_t(PGconn *conn, const char *command, int n, const Oid *types, const char *const *values,
                         const int *lengths, const int *formats, int format);

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): the names of libc are reserved ones
int openat(int folder, const char *path, int flags, ...)
{
    NEXT(openat_t, "openat");
    va_list more;
    va_start(more, flags);
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
    va_end(more);
    step();
    return next(folder, path, flags, mode);
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    NEXT(write_t, "write");
    if (last_step()) {
        (void)next(fd, bytes, n / 2);
        (void)kill(getpid(), SIGKILL);
    }
    return next(fd, bytes, n);
}

int fsync(int fd)
{
    NEXT(fsync_t, "fsync");
    step();
    return next(fd);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    NEXT(renameat_t, "renameat");
    step();
    return next(from_folder, from, to_folder, to);
}

// NOLINTEND(readability-inconsistent-declaration-parameter-name)

PGresult *PQexecParams(PGconn *conn, const char *command, int n, const Oid *types, const char *const *values,
                       const int *lengths, const int *formats, int format)
{
    NEXT(exec_t, "PQexecParams");
    step();
    PGresult *result = next(conn, command, n, types, values, lengths, formats, format);
    step();
    return result;
}
