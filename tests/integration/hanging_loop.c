// Preloaded into an instance of the service. While the file named by HANGING_LOOP exists, the first thread that waits
// for events hangs forever.
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { PAUSE_US = 5000 };

typedef int wait_for_events(int, struct epoll_event *, int, int, const sigset_t *);

static atomic_flag taken = ATOMIC_FLAG_INIT;

static void hang(void)
{
    const char *file = getenv("HANGING_LOOP");
    if (file == NULL || access(file, F_OK) != 0 || atomic_flag_test_and_set(&taken))
        return;
    while (access(file, F_OK) == 0)
        (void)usleep(PAUSE_US);
    atomic_flag_clear(&taken);
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
