// Tells the process's manager (systemd, or what takes its place) how the process is: datagrams to the socket that
// NOTIFY_SOCKET names, as sd_notify(3) describes them. Our own, since libsystemd would be a library for one sendto().
#ifndef SK_APP_NOTIFY_H
#define SK_APP_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "status.h"

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

#endif
