// Notifies the process's manager (systemd or a replacement) of the state: datagrams to the socket in NOTIFY_SOCKET, as
// sd_notify(3) describes them. This is our own code, since libsystemd would be a library for one sendto().
#ifndef SK_APP_NOTIFY_H
#define SK_APP_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "status.h"

struct sk_notify {
    int fd; // -1: there is no manager. The owner closes it
    struct sockaddr_un address;
    socklen_t address_len;
    uint64_t watchdog_ms; // the manager ends a process that is silent for so long; 0: it does not
};

// Before the threads start. Reads NOTIFY_SOCKET (a path, or @name for an abstract socket), WATCHDOG_USEC and
// WATCHDOG_PID. SK_FAIL: a manager is named and cannot be reached; the reason is logged.
enum sk_status sk_notify_open(struct sk_notify *notify) SK_MUST_CHECK;

// One datagram of lines NAME=value. Never waits. False: the manager did not accept it. True without a manager.
bool sk_notify_send(const struct sk_notify *notify, const char *lines);

#endif
