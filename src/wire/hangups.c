// A separate epoll set, which the loop polls as one descriptor. It reports only, and once, that the client has closed
// its side. So bytes that a client sends while it is parked do not wake the loop.
#include "hangups.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { EVENTS_MAX = 256 };

struct sk_hangups {
    uv_poll_t poll; // must be first: libuv passes it back when it is closed
    int epoll_fd;
    void (*on_hangup)(void *arg, uint64_t handle);
    void *arg;
};

// Events that do not fit into one call come with the next turn of the loop.
static void hangups_on_readable(uv_poll_t *poll, int status, int events)
{
    struct sk_hangups *hangups = (struct sk_hangups *)(void *)poll;
    struct epoll_event ready[EVENTS_MAX];
    (void)status;
    (void)events;
    int count = epoll_wait(hangups->epoll_fd, ready, EVENTS_MAX, 0);
    for (int i = 0; i < count; i++)
        hangups->on_hangup(hangups->arg, ready[i].data.u64);
}

struct sk_hangups *sk_hangups_open(uv_loop_t *loop, void (*on_hangup)(void *arg, uint64_t handle), void *arg)
{
    struct sk_hangups *hangups = calloc(1, sizeof *hangups);
    if (hangups == NULL)
        return NULL;
    hangups->on_hangup = on_hangup;
    hangups->arg = arg;
    hangups->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (hangups->epoll_fd < 0 || uv_poll_init(loop, &hangups->poll, hangups->epoll_fd) != 0) {
        if (hangups->epoll_fd >= 0)
            (void)close(hangups->epoll_fd);
        free(hangups);
        return NULL;
    }
    (void)uv_poll_start(&hangups->poll, UV_READABLE, hangups_on_readable);
    return hangups;
}

enum sk_status sk_hangups_watch(struct sk_hangups *hangups, int fd, uint64_t handle)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = handle};
    return epoll_ctl(hangups->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? SK_OK : SK_NO_MEM;
}

void sk_hangups_unwatch(struct sk_hangups *hangups, int fd)
{
    (void)epoll_ctl(hangups->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static void hangups_free(uv_handle_t *handle)
{
    free(handle);
}

void sk_hangups_close(struct sk_hangups *hangups)
{
    if (hangups == NULL)
        return;
    (void)uv_poll_stop(&hangups->poll);
    (void)close(hangups->epoll_fd);
    uv_close((uv_handle_t *)&hangups->poll, hangups_free);
}
