// What the service manager is told of this instance: that it is ready, that all its loops turn, that it
// stops. Without a manager all of this does nothing.
//
// The main thread, as all functions. It reads the reactors' pulses, and never waits for one of them: a reactor that is
// stuck shows itself by a pulse that does not grow.
#ifndef SK_APP_SUPERVISE_H
#define SK_APP_SUPERVISE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "reactor.h"
#include "status.h"

// ---- notify ----

// Tells the process's manager (systemd, or what takes its place) how the process is: datagrams to the socket that
// NOTIFY_SOCKET names, as sd_notify(3) describes them. Our own, since libsystemd would be a library for one sendto().

struct sk_notify {
    int fd; // -1: there is no manager
    struct sockaddr_un address;
    socklen_t address_len;
    uint64_t watchdog_ms; // the manager ends a process that is silent for so long; 0: it does not
};

// Before the threads start. Reads NOTIFY_SOCKET (a path, or @name for an abstract socket), WATCHDOG_USEC and
// WATCHDOG_PID. *notify goes to sk_notify_close in any case. SK_FAIL: a manager is named and cannot be reached; the
// reason is in the log. Without NOTIFY_SOCKET it is SK_OK, and there is no manager.
enum sk_status sk_notify_open(struct sk_notify *notify) SK_MUST_CHECK;
void sk_notify_close(struct sk_notify *notify);

bool sk_notify_wanted(const struct sk_notify *notify);

// One datagram: lines NAME=value. Never waits. False: the manager has not taken it, and the caller may retry. True
// without a manager.
bool sk_notify_send(const struct sk_notify *notify, const char *lines) SK_MUST_CHECK;

// ---- the supervisor ----

enum { SK_SUPERVISED_MAX = 65 }; // reactors; as many as the configuration allows, and that of operators

struct sk_supervisor {
    struct sk_notify notify;
    struct sk_reactor *const *reactors; // borrowed
    size_t count;
    uint64_t beats[SK_SUPERVISED_MAX]; // of each when the manager was told last that all turn
    uint64_t told_ms;                  // when that was
    uint64_t extend_ms;                // when the start, or the end, was last given more time
    bool ready_told, ready, stuck, stopping;
};

// SK_FAIL: the manager cannot be reached. *supervisor goes to sk_supervise_close in any case.
enum sk_status sk_supervise_open(struct sk_supervisor *supervisor) SK_MUST_CHECK;
void sk_supervise_close(struct sk_supervisor *supervisor);

// The reactors that were started; they stay until the end.
void sk_supervise_reactors(struct sk_supervisor *supervisor, struct sk_reactor *const *reactors, size_t count);

// Looks at the reactors and tells the manager what it has to know. Returns in how many ms to call again; -1: never.
int64_t sk_supervise(struct sk_supervisor *supervisor);

// Around a reload of what can be reloaded: the manager waits until it is over.
void sk_supervise_reloading(struct sk_supervisor *supervisor);
void sk_supervise_reloaded(struct sk_supervisor *supervisor);

// The instance ends: before the reactors are told so.
void sk_supervise_stopping(struct sk_supervisor *supervisor);

// After that: waits until all reactors have ended, and tells the manager meanwhile whether they turn.
void sk_supervise_end(struct sk_supervisor *supervisor);

#endif
