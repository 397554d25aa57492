// Each lane is a ring of bytes with one producer and one consumer, so neither ever waits for the other. While there is
// little to do, the spool's thread checks all lanes every few milliseconds. To wake it for each line would cost the
// producers a system call.
//
// It writes whole lines, at most PIPE_BUF bytes at a time. A pipe takes those in one piece, so they never mix with
// lines that others write to the same pipe. It polls the descriptor before each write, so it can end although the other
// side does not read.
#include "spool.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "status.h"

enum { RING_BYTES = 1 << 20, REST_MS = 10, POLL_MS = 50, REPORT_MS = 1000, STUCK_MS = 500 };

struct sk_spool_lane {
    _Alignas(64) _Atomic size_t put; // all bytes ever put; modulo RING_BYTES it is the ring's index
    _Atomic uint64_t dropped;        // lines
    _Alignas(64) _Atomic size_t taken;
    _Atomic uint64_t lost; // lines that were taken but could not be written
    char ring[RING_BYTES];
};

struct sk_spool {
    int fd;
    const char *what;
    pthread_t thread;
    _Atomic uint64_t end_at_ms; // 0: not asked to end
    uint64_t reported, report_at_ms;
    size_t count;
    struct sk_spool_lane *lanes;
};

uint64_t sk_spool_dropped(const struct sk_spool *spool)
{
    uint64_t lines = 0;
    for (size_t i = 0; i < spool->count; i++)
        lines += sk_spool_lane_dropped(&spool->lanes[i]);
    return lines;
}

uint64_t sk_spool_lane_dropped(const struct sk_spool_lane *lane)
{
    return atomic_load_explicit(&lane->dropped, memory_order_relaxed) +
           atomic_load_explicit(&lane->lost, memory_order_relaxed);
}

// ---- putting ----

void sk_spool_put(struct sk_spool_lane *lane, const char *line, size_t len)
{
    size_t put = atomic_load_explicit(&lane->put, memory_order_relaxed);
    size_t used = put - atomic_load_explicit(&lane->taken, memory_order_acquire);
    SK_ASSERT(len > 0 && len <= SK_SPOOL_LINE_MAX && line[len - 1] == '\n');
    if (len > RING_BYTES - used) {
        uint64_t dropped = atomic_load_explicit(&lane->dropped, memory_order_relaxed);
        atomic_store_explicit(&lane->dropped, dropped + 1, memory_order_relaxed);
        return;
    }
    size_t at = put % RING_BYTES, first = len < RING_BYTES - at ? len : RING_BYTES - at;
    memcpy(lane->ring + at, line, first);
    memcpy(lane->ring, line + first, len - first);
    atomic_store_explicit(&lane->put, put + len, memory_order_release);
}

// ---- writing ----

// Takes whole lines. A lane that is not empty always has one.
static size_t spool_take(struct sk_spool_lane *lane, char *out, size_t room)
{
    size_t taken = atomic_load_explicit(&lane->taken, memory_order_relaxed);
    size_t n = atomic_load_explicit(&lane->put, memory_order_acquire) - taken;
    n = n < room ? n : room;
    if (n == 0)
        return 0;
    size_t at = taken % RING_BYTES, first = n < RING_BYTES - at ? n : RING_BYTES - at;
    memcpy(out, lane->ring + at, first);
    memcpy(out + first, lane->ring, n - first);
    const char *end = memrchr(out, '\n', n);
    SK_ASSERT(end != NULL);
    n = (size_t)(end - out) + 1;
    atomic_store_explicit(&lane->taken, taken + n, memory_order_release);
    return n;
}

static void spool_report(struct sk_spool *spool, bool last)
{
    uint64_t dropped = sk_spool_dropped(spool), now = sk_monotonic_ms();
    if (dropped == spool->reported || (!last && now < spool->report_at_ms))
        return;
    sk_log(SK_LOG_WARN, spool->what, "dropped=%" PRIu64 " dropped_in_all=%" PRIu64, dropped - spool->reported, dropped);
    spool->reported = dropped;
    spool->report_at_ms = now + REPORT_MS;
}

// Waits until the descriptor takes more. False: the time is over.
static bool spool_await(struct sk_spool *spool)
{
    struct pollfd out = {.fd = spool->fd, .events = POLLOUT};
    for (;;) {
        uint64_t end_at_ms = atomic_load(&spool->end_at_ms);
        if (end_at_ms != 0 && sk_monotonic_ms() >= end_at_ms)
            return false;
        if (poll(&out, 1, POLL_MS) > 0)
            return true; // or it has an error, which write() returns
        spool_report(spool, false);
    }
}

static void spool_write(struct sk_spool *spool, struct sk_spool_lane *lane, const char *lines, size_t len)
{
    size_t done = 0;
    uint64_t lost = 0;
    while (done < len) {
        ssize_t n = spool_await(spool) ? write(spool->fd, lines + done, len - done) : 0;
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    for (; done < len; done++)
        lost += lines[done] == '\n';
    (void)atomic_fetch_add(&lane->lost, lost);
}

// Writes one piece of each lane that has lines. Returns whether there was one.
static bool spool_write_all(struct sk_spool *spool)
{
    char lines[PIPE_BUF];
    bool wrote = false;
    for (size_t i = 0; i < spool->count; i++) {
        size_t len = spool_take(&spool->lanes[i], lines, sizeof lines);
        if (len > 0)
            spool_write(spool, &spool->lanes[i], lines, len);
        wrote = wrote || len > 0;
    }
    return wrote;
}

static void *spool_run(void *arg)
{
    static const struct timespec rest = {.tv_nsec = REST_MS * 1000000L};
    struct sk_spool *spool = arg;
    bool wrote, ending;
    do {
        ending = atomic_load(&spool->end_at_ms) != 0; // read first, so that lines put before the end are seen
        wrote = spool_write_all(spool);
        spool_report(spool, false);
        if (!wrote && !ending)
            (void)nanosleep(&rest, NULL);
    } while (wrote || !ending);
    spool_report(spool, true);
    return NULL;
}

// ---- opening and closing ----

struct sk_spool *sk_spool_open(int fd, size_t lanes, const char *what)
{
    struct sk_spool *spool = calloc(1, sizeof *spool);
    if (spool == NULL)
        return NULL;
    spool->fd = fd;
    spool->what = what;
    spool->count = lanes;
    spool->lanes = aligned_alloc(64, lanes * sizeof *spool->lanes);
    if (spool->lanes != NULL) {
        for (size_t i = 0; i < lanes; i++)
            memset(&spool->lanes[i], 0, offsetof(struct sk_spool_lane, ring));
    }
    if (spool->lanes == NULL || pthread_create(&spool->thread, NULL, spool_run, spool) != 0) {
        free(spool->lanes);
        free(spool);
        return NULL;
    }
    return spool;
}

struct sk_spool_lane *sk_spool_lane(struct sk_spool *spool, size_t number)
{
    SK_ASSERT(number < spool->count);
    return &spool->lanes[number];
}

bool sk_spool_close(struct sk_spool *spool, unsigned ms)
{
    struct timespec until;
    if (spool == NULL)
        return true;
    atomic_store(&spool->end_at_ms, sk_monotonic_ms() + ms);
    (void)clock_gettime(CLOCK_REALTIME, &until);
    uint64_t most_ns = (uint64_t)until.tv_nsec + ((uint64_t)ms + STUCK_MS) * 1000000;
    until.tv_sec += (time_t)(most_ns / 1000000000);
    until.tv_nsec = (long)(most_ns % 1000000000);
    if (pthread_timedjoin_np(spool->thread, NULL, &until) != 0) {
        (void)pthread_detach(spool->thread);
        return false;
    }
    free(spool->lanes);
    free(spool);
    return true;
}
