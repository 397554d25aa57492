// Each datagram names the socket. A restarted manager has a new socket under the old name, which a connected socket
// would never find.
#include "notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "text.h"

static bool notify_read_address(struct sk_notify *notify, const char *name)
{
    size_t len = strlen(name);
    if ((name[0] != '/' && name[0] != '@') || name[1] == '\0' || len >= sizeof notify->address.sun_path)
        return false;
    notify->address.sun_family = AF_UNIX;
    memcpy(notify->address.sun_path, name, len);
    notify->address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    if (name[0] == '@')
        notify->address.sun_path[0] = '\0'; // an abstract name is all bytes, without a NUL at the end
    else
        notify->address_len++;
    return true;
}

// The watchdog is meant for one process, not for a child that inherits the environment.
static bool notify_read_watchdog(struct sk_notify *notify)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    uint64_t number;
    if (usec == NULL)
        return true;
    if (pid != NULL && (!sk_text_number(pid, INT32_MAX, &number) || number != (uint64_t)getpid()))
        return true;
    if (!sk_text_number(usec, UINT64_MAX / 2, &number))
        return false;
    notify->watchdog_ms = number / 1000;
    return true;
}

enum sk_status sk_notify_open(struct sk_notify *notify)
{
    const char *name = getenv("NOTIFY_SOCKET");
    *notify = (struct sk_notify){.fd = -1};
    if (name == NULL || name[0] == '\0')
        return SK_OK;
    if (!notify_read_address(notify, name)) {
        sk_log_text(SK_LOG_ERROR, "NOTIFY_SOCKET is neither a path nor @name", "value", name);
        return SK_FAIL;
    }
    if (!notify_read_watchdog(notify)) {
        sk_log_text(SK_LOG_ERROR, "WATCHDOG_USEC is not a number", "value", getenv("WATCHDOG_USEC"));
        return SK_FAIL;
    }
    notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (notify->fd < 0) {
        sk_log_text(SK_LOG_ERROR, "cannot notify the service manager", "reason", strerror(errno));
        return SK_FAIL;
    }
    return SK_OK;
}

bool sk_notify_send(const struct sk_notify *notify, const char *lines)
{
    if (notify->fd < 0)
        return true;
    ssize_t sent = sendto(notify->fd, lines, strlen(lines), MSG_NOSIGNAL, (const struct sockaddr *)&notify->address,
                          notify->address_len);
    if (sent >= 0)
        return true;
    sk_log_repeat(SK_LOG_WARN, "the service manager does not take a notification", "reason", strerror(errno));
    return false;
}
