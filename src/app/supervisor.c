// The manager gets READY=1 once every reactor is ready, as /readyz reports it. It gets WATCHDOG=1 only if the pulse of
// every reactor has grown since the last one. The process could answer while one of its loops hangs, which keeps that
// loop's buyers waiting. Before it is ready, and while it drains, the manager's time-out is extended as long as the
// loops turn. Missing stores are no reason to restart an instance; a hanging loop is one.
#include "supervisor.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "log.h"

enum {
    SOON_MS = 50,        // until it is ready, and while it ends
    SELDOM_MS = 1000,    // after that, without a watchdog
    EXTEND_MS = 1000,    // how often to ask for more time,
    PATIENCE_MS = 10000, // and how much
    PINGS = 4,           // within the watchdog's time
    LINES_SIZE = 160,
};

enum sk_status sk_supervisor_open(struct sk_supervisor *supervisor)
{
    *supervisor = (struct sk_supervisor){0};
    return sk_notify_open(&supervisor->notify);
}

void sk_supervisor_close(struct sk_supervisor *supervisor)
{
    if (supervisor->notify.fd >= 0)
        (void)close(supervisor->notify.fd);
}

void sk_supervisor_reactors(struct sk_supervisor *supervisor, struct sk_reactor *const *reactors, size_t count)
{
    SK_ASSERT(count <= SK_SUPERVISED_MAX);
    supervisor->reactors = reactors;
    supervisor->count = count;
    supervisor->sent_ms = sk_monotonic_ms();
}

// True: every reactor has turned since the last note of the beats, or has ended. *stuck: the first that has not.
static bool supervisor_all_turn(const struct sk_supervisor *supervisor, size_t *stuck)
{
    for (size_t i = 0; i < supervisor->count; i++) {
        struct sk_pulse pulse = sk_reactor_pulse(supervisor->reactors[i]);
        if (!pulse.ended && pulse.beats == supervisor->beats[i]) {
            *stuck = i;
            return false;
        }
    }
    return true;
}

static void supervisor_note_beats(struct sk_supervisor *supervisor, uint64_t now)
{
    for (size_t i = 0; i < supervisor->count; i++)
        supervisor->beats[i] = sk_reactor_pulse(supervisor->reactors[i]).beats;
    supervisor->sent_ms = now;
    if (supervisor->stuck)
        sk_log(SK_LOG_INFO, "all loops turn again", "");
    supervisor->stuck = false;
}

// Where it matters, the next check sends again what the manager did not accept.
static void supervisor_send_ready(struct sk_supervisor *supervisor)
{
    bool ready = true;
    for (size_t i = 0; i < supervisor->count; i++)
        ready = ready && sk_reactor_pulse(supervisor->reactors[i]).ready;
    if (ready && !supervisor->ready_sent)
        supervisor->ready_sent = sk_notify_send(&supervisor->notify, "READY=1\nSTATUS=ready");
    else if (supervisor->ready_sent && ready != supervisor->ready)
        (void)sk_notify_send(&supervisor->notify, ready ? "STATUS=ready" : "STATUS=not ready: see /readyz");
    supervisor->ready = ready;
}

// The loops must turn within each PATIENCE_MS, or the manager's own time-out ends the instance.
static void supervisor_extend(struct sk_supervisor *supervisor, uint64_t now)
{
    char lines[LINES_SIZE];
    if (supervisor->stuck || now < supervisor->extend_ms + EXTEND_MS)
        return;
    (void)snprintf(lines, sizeof lines, "EXTEND_TIMEOUT_USEC=%d%s", PATIENCE_MS * 1000,
                   supervisor->stopping ? "" : "\nSTATUS=waits for the stores");
    if (sk_notify_send(&supervisor->notify, lines))
        supervisor->extend_ms = now;
}

int64_t sk_supervisor_check(struct sk_supervisor *supervisor)
{
    const struct sk_notify *notify = &supervisor->notify;
    if (notify->fd < 0)
        return SELDOM_MS;
    uint64_t now = sk_monotonic_ms(), ping_ms = notify->watchdog_ms / PINGS;
    ping_ms = ping_ms < SOON_MS ? SOON_MS : ping_ms;
    bool extending = !supervisor->ready_sent || supervisor->stopping;
    uint64_t due_ms = notify->watchdog_ms > 0 ? ping_ms : EXTEND_MS;
    size_t stuck = 0;
    if (!supervisor->stopping)
        supervisor_send_ready(supervisor);
    if (now >= supervisor->sent_ms + due_ms) {
        bool turning = supervisor_all_turn(supervisor, &stuck);
        if (turning && (notify->watchdog_ms == 0 || sk_notify_send(notify, "WATCHDOG=1"))) {
            supervisor_note_beats(supervisor, now);
        } else if (!turning && !supervisor->stuck) {
            sk_log(SK_LOG_WARN, "a loop does not turn", "reactor=%zu for_ms=%" PRIu64, stuck,
                   now - supervisor->sent_ms);
            supervisor->stuck = true;
        }
    }
    if (extending)
        supervisor_extend(supervisor, now);
    if (extending || supervisor->stuck)
        return SOON_MS;
    return notify->watchdog_ms > 0 && ping_ms < SELDOM_MS ? (int64_t)ping_ms : SELDOM_MS;
}

void sk_supervisor_reloading(struct sk_supervisor *supervisor)
{
    char lines[LINES_SIZE];
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    (void)snprintf(lines, sizeof lines, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
                   (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
    (void)sk_notify_send(&supervisor->notify, lines);
}

void sk_supervisor_reloaded(struct sk_supervisor *supervisor)
{
    if (supervisor->ready_sent)
        supervisor->ready_sent = sk_notify_send(&supervisor->notify, "READY=1"); // else the next check sends it
}

void sk_supervisor_stopping(struct sk_supervisor *supervisor)
{
    supervisor->stopping = true;
    supervisor->extend_ms = 0;
    (void)sk_notify_send(&supervisor->notify, "STOPPING=1\nSTATUS=drains");
}

void sk_supervisor_end(struct sk_supervisor *supervisor)
{
    const struct timespec pause = {0, SOON_MS * 1000000L};
    size_t ended = 0;
    while (supervisor->notify.fd >= 0 && ended < supervisor->count) {
        (void)sk_supervisor_check(supervisor);
        for (ended = 0; ended < supervisor->count && sk_reactor_pulse(supervisor->reactors[ended]).ended;)
            ended++;
        if (ended < supervisor->count)
            (void)nanosleep(&pause, NULL);
    }
}
