// Reports this instance to the service manager: it is ready, all its loops turn, it stops. Without a manager all of
// this does nothing.
//
// The main thread, as all functions. It reads the reactors' pulses and never waits for a reactor: the pulse of a stuck
// reactor does not grow.
#ifndef SK_APP_SUPERVISE_H
#define SK_APP_SUPERVISE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "reactor.h"
#include "status.h"

// ---- notify ----

// Notifies the process's manager (systemd or a replacement) of the state: datagrams to the socket in NOTIFY_SOCKET, as
// sd_notify(3) describes them. This is our own code, since libsystemd would be a library for one sendto().

struct sk_notify {
    int fd; // -1: there is no manager
    struct sockaddr_un address;
    socklen_t address_len;
    uint64_t watchdog_ms; // the manager ends a process that is silent for so long; 0: it does not
};

// Call before the threads start. Reads NOTIFY_SOCKET (a path, or @name for an abstract socket), WATCHDOG_USEC and
// WATCHDOG_PID. Always pass *notify to sk_notify_close. SK_FAIL: a manager is named and cannot be reached; the reason
// is logged. Without NOTIFY_SOCKET it returns SK_OK, and there is no manager.
enum sk_status sk_notify_open(struct sk_notify *notify) SK_MUST_CHECK;
void sk_notify_close(struct sk_notify *notify);

bool sk_notify_wanted(const struct sk_notify *notify);

// One datagram of lines NAME=value. Never waits. False: the manager did not accept it, and the caller may retry. True
// without a manager.
bool sk_notify_send(const struct sk_notify *notify, const char *lines) SK_MUST_CHECK;

// ---- the supervisor ----

enum { SK_SUPERVISED_MAX = 65 }; // reactors: as many as the configuration allows, and the operators' one

struct sk_supervisor {
    struct sk_notify notify;
    struct sk_reactor *const *reactors; // borrowed
    size_t count;
    uint64_t beats[SK_SUPERVISED_MAX]; // of each reactor, when all were last seen to turn
    uint64_t sent_ms;                  // when that was
    uint64_t extend_ms;                // when the start, or the end, was last given more time
    bool ready_sent, ready, stuck, stopping;
};

// SK_FAIL: the manager cannot be reached. Always pass *supervisor to sk_supervise_close.
enum sk_status sk_supervise_open(struct sk_supervisor *supervisor) SK_MUST_CHECK;
void sk_supervise_close(struct sk_supervisor *supervisor);

// The started reactors; they must stay until the end.
void sk_supervise_reactors(struct sk_supervisor *supervisor, struct sk_reactor *const *reactors, size_t count);

// Checks the reactors and notifies the manager. Returns in how many ms to call again; -1: never.
int64_t sk_supervise(struct sk_supervisor *supervisor);

// Call around a reload: the manager waits until it is over.
void sk_supervise_reloading(struct sk_supervisor *supervisor);
void sk_supervise_reloaded(struct sk_supervisor *supervisor);

// The instance ends. Call before the reactors are stopped.
void sk_supervise_stopping(struct sk_supervisor *supervisor);

// Call after that: waits until all reactors have ended, and meanwhile notifies the manager whether they turn.
void sk_supervise_end(struct sk_supervisor *supervisor);

#endif
