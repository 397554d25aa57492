// Preloaded into the stores of the simulation: their wall clock is a number in a file, which the simulation writes.
// While it is 0, and for all other clocks, time is real. The file is SK_SIM_TIME: nanoseconds since 1970, one for each
// store; which one is this store's is SK_SIM_CLOCK.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { NS_PER_S = 1000000000, NS_PER_US = 1000, CLOCKS = 3 };

static const volatile int64_t *shared;

__attribute__((constructor)) static void store_time_open(void)
{
    const char *path = getenv("SK_SIM_TIME"), *clock = getenv("SK_SIM_CLOCK");
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    void *mapped = mmap(NULL, CLOCKS * sizeof *shared, PROT_READ, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (mapped != MAP_FAILED)
        shared = (const volatile int64_t *)mapped + (clock == NULL ? 0 : strtoul(clock, NULL, 10) % CLOCKS);
}

// The C library's names of the parameters are reserved.
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
int clock_gettime(clockid_t id, struct timespec *out)
{
    static int (*real)(clockid_t, struct timespec *);
    int64_t now = shared == NULL || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE) ? 0 : *shared;
    if (now != 0) {
        *out = (struct timespec){now / NS_PER_S, now % NS_PER_S};
        return 0;
    }
    if (real == NULL)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    return real(id, out);
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    *out = (struct timeval){now.tv_sec, now.tv_nsec / NS_PER_US};
    return 0;
}

time_t time(time_t *out)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    if (out != NULL)
        *out = now.tv_sec;
    return now.tv_sec;
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
