// Built with -DSK_FAILPOINTS=ON only. The linker redirects every allocation of our own objects, but of no library, to
// the __wrap functions below.
#include "failpoint.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { POINTS_MAX = 16, NAME_SIZE = 40, FAILS = INT_MIN };

struct point {
    char name[NAME_SIZE];
    char action[NAME_SIZE];
    atomic_long left; // passings until it fires
};

static struct point points[POINTS_MAX];
static size_t point_count;
static pthread_once_t points_once = PTHREAD_ONCE_INIT;

static atomic_long allocations_left; // 0: none fails; FAILS: all do
static bool all_from_then_on;        // not only the one that makes it 0
static atomic_bool counting;
static char counting_from[NAME_SIZE]; // the point whose first passing starts the count; empty: the start
static pthread_once_t allocations_once = PTHREAD_ONCE_INIT;

static void failpoint_say(const char *name, const char *action)
{
    char line[160];
    int n = snprintf(line, sizeof line, "failpoint name=%s action=%s\n", name, action);
    if (n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0)
        return; // no reader is left
}

static void failpoint_read_points(void)
{
    const char *at = getenv("SECKILL_FAILPOINTS");
    while (at != NULL && *at != '\0' && point_count < POINTS_MAX) {
        struct point *point = &points[point_count];
        int read = 0;
        if (sscanf(at, "%39[^=;]=%39[^@;]%n", point->name, point->action, &read) == 2) {
            atomic_init(&point->left, at[read] == '@' ? strtol(at + read + 1, NULL, 10) : 1);
            point_count++;
        }
        at = strchr(at, ';');
        at = at == NULL ? NULL : at + 1;
    }
}

static void failpoint_fire(const struct point *point)
{
    failpoint_say(point->name, point->action);
    if (strcmp(point->action, "kill") == 0) {
        (void)raise(SIGKILL);
    } else if (strcmp(point->action, "stop") == 0) {
        (void)raise(SIGSTOP);
    } else if (strncmp(point->action, "pause:", 6) == 0) {
        long ms = strtol(point->action + 6, NULL, 10);
        struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
        while (nanosleep(&pause, &pause) != 0) {}
    }
}

static void failpoint_read_allocations(void)
{
    const char *text = getenv("SECKILL_FAIL_MALLOC");
    if (text == NULL)
        return;
    const char *from = strchr(text, '@');
    if (from != NULL)
        (void)snprintf(counting_from, sizeof counting_from, "%s",
                       strcmp(from, "@request") == 0 ? "place.sent" : from + 1);
    char *end;
    atomic_store(&allocations_left, strtol(text, &end, 10));
    all_from_then_on = *end == '+';
    atomic_store(&counting, from == NULL);
}

void sk_failpoint(const char *name)
{
    (void)pthread_once(&points_once, failpoint_read_points);
    (void)pthread_once(&allocations_once, failpoint_read_allocations);
    if (strcmp(name, counting_from) == 0)
        atomic_store(&counting, true);
    for (size_t i = 0; i < point_count; i++) {
        if (strcmp(points[i].name, name) == 0 && atomic_fetch_sub(&points[i].left, 1) == 1)
            failpoint_fire(&points[i]);
    }
}

// ---- allocations that fail ----

// The linker's names (--wrap).
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

static bool failpoint_fails(void)
{
    (void)pthread_once(&allocations_once, failpoint_read_allocations);
    if (!atomic_load(&counting))
        return false;
    long left = atomic_load(&allocations_left);
    if (left > 0 && atomic_fetch_sub(&allocations_left, 1) == 1) {
        failpoint_say("malloc", "fail");
        atomic_store(&allocations_left, all_from_then_on ? FAILS : 0);
        return true;
    }
    return left == FAILS;
}

void *__wrap_malloc(size_t size)
{
    return failpoint_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return failpoint_fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return failpoint_fails() ? NULL : __real_realloc(old, size);
}

char *__wrap_strdup(const char *text)
{
    return failpoint_fails() ? NULL : __real_strdup(text);
}
