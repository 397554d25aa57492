// Captures the log lines of a unit. Included by one source of a program.
#ifndef UNIT_LISTENING_H
#define UNIT_LISTENING_H

#include <check.h>
#include <sys/mman.h>
#include <unistd.h>

static char heard[8192];
static int listening_fd, listening_stderr;

// Lines logged between the two calls are stored in `heard`.
static void begin_listening(void)
{
    listening_fd = memfd_create("log", MFD_CLOEXEC);
    listening_stderr = dup(STDERR_FILENO);
    ck_assert_int_ge(listening_fd, 0);
    ck_assert_int_eq(dup2(listening_fd, STDERR_FILENO), STDERR_FILENO);
}

static void end_listening(void)
{
    (void)dup2(listening_stderr, STDERR_FILENO);
    ssize_t n = pread(listening_fd, heard, sizeof heard - 1, 0);
    ck_assert_int_ge(n, 0);
    heard[n] = '\0';
    (void)close(listening_fd);
    (void)close(listening_stderr);
}

#endif
