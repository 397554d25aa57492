// Preloaded into an instance of the service. While the file named by HANGING_LOOP exists, the oldest of the threads
// that wait for events hangs: the first reactor's.
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { PAUSE_US = 5000 };

typedef int wait_for_events(int, struct epoll_event *, int, int, const sigset_t *);

static atomic_int oldest;

static void hang(void)
{
    const char *file = getenv("HANGING_LOOP");
    int own = gettid(), seen = atomic_load(&oldest);
    if (own == getpid())
        return; // the main thread, while it opens a reactor
    while ((seen == 0 || own < seen) && !atomic_compare_exchange_weak(&oldest, &seen, own)) {}
    while (file != NULL && atomic_load(&oldest) == own && access(file, F_OK) == 0)
        (void)usleep(PAUSE_US);
}

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
int epoll_pwait(int fd, struct epoll_event *events, int most, int timeout_ms, const sigset_t *mask)
{
    union {
        void *object;
        wait_for_events *function;
    } real = {.object = dlsym(RTLD_NEXT, "epoll_pwait")};
    hang();
    return real.function == NULL ? -1 : real.function(fd, events, most, timeout_ms, mask);
}

int epoll_wait(int fd, struct epoll_event *events, int most, int timeout_ms)
{
    return epoll_pwait(fd, events, most, timeout_ms, NULL);
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
