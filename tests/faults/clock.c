// Preloaded into a process whose wall clock is to step: it adds the seconds that stand in the file CLOCK_FILE
// (eight bytes, mapped, so that a step is one write) to what the kernel says. The monotonic clock stays.
// libfaketime would do, but not inside Redis, whose allocator asks for the time before it can answer.
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *step_s;

__attribute__((constructor)) static void open_clock(void)
{
    const char *path = getenv("CLOCK_FILE");
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    void *map = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *step_s, PROT_READ, MAP_SHARED, fd, 0);
    if (map != MAP_FAILED)
        step_s = map;
    if (fd >= 0)
        (void)close(fd);
}

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
int clock_gettime(clockid_t clock, struct timespec *now)
{
    long result = syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && step_s != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += *step_s;
    return (int)result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exact;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return result;
}

time_t time(time_t *out)
{
    struct timespec exact;
    (void)clock_gettime(CLOCK_REALTIME, &exact);
    if (out != NULL)
        *out = exact.tv_sec;
    return exact.tv_sec;
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
