#include "slot_map.h"

#include <stdint.h>
#include <string.h>

#include "text.h"

static bool slot_map_begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

enum sk_redirect sk_redirect_of(const char *error)
{
    if (error == NULL)
        return SK_REDIRECT_NONE;
    if (slot_map_begins(error, "MOVED "))
        return SK_REDIRECT_MOVED;
    return slot_map_begins(error, "ASK ") || slot_map_begins(error, "TRYAGAIN") || slot_map_begins(error, "CLUSTERDOWN")
               ? SK_REDIRECT_UNSTABLE
               : SK_REDIRECT_NONE;
}

// A node does not know, or does not say, its own name: "", or "?" for a host name that is not set.
static bool slot_map_take_host(const char *name, size_t n, uint64_t port, const struct sk_redis_host *by,
                               struct sk_redis_host *host)
{
    if (n == 0 || (n == 1 && name[0] == '?'))
        return sk_redis_host_read(by->name, strlen(by->name), port, host);
    return sk_redis_host_read(name, n, port, host);
}

// "MOVED 3999 127.0.0.1:6381": an address of IPv6 has no brackets.
bool sk_moved_read(const char *error, const struct sk_redis_host *by, struct sk_moved *moved)
{
    char digits[SK_NUMBER_SIZE] = {0};
    uint64_t slot = 0, port = 0;
    const char *at = error + strlen("MOVED ");
    size_t n = strcspn(at, " ");
    const char *host = at + n + (at[n] != '\0'), *colon = strrchr(host, ':');
    if (n >= sizeof digits || colon == NULL)
        return false;
    memcpy(digits, at, n);
    if (!sk_text_number(digits, SK_SLOTS - 1, &slot) || !sk_text_number(colon + 1, UINT16_MAX, &port))
        return false;
    moved->slot = (unsigned)slot;
    return slot_map_take_host(host, (size_t)(colon - host), port, by, &moved->to);
}

// { first, last, { host, port, ... } of the master, replicas ... }
static bool slot_map_read_range(const struct sk_reply *range, const struct sk_redis_host *by, sk_slots_each *each,
                                void *arg)
{
    const struct sk_reply *master = sk_reply_at(range, 2);
    const char *name = sk_reply_text(sk_reply_at(master, 0), NULL); // NULL: nil, which is its own
    int64_t first, last, port;
    struct sk_redis_host at;
    if (!sk_reply_number(sk_reply_at(range, 0), &first) || !sk_reply_number(sk_reply_at(range, 1), &last) ||
        !sk_reply_number(sk_reply_at(master, 1), &port) || first < 0 || last < first || last >= SK_SLOTS || port < 0 ||
        !slot_map_take_host(name == NULL ? "" : name, name == NULL ? 0 : strlen(name), (uint64_t)port, by, &at))
        return false;
    each(arg, (unsigned)first, (unsigned)last, &at);
    return true;
}

bool sk_slots_read(const struct sk_reply *reply, const struct sk_redis_host *by, sk_slots_each *each, void *arg)
{
    size_t ranges = sk_reply_count(reply);
    bool good = ranges > 0;
    for (size_t i = 0; good && i < ranges; i++)
        good = slot_map_read_range(sk_reply_at(reply, i), by, each, arg);
    return good;
}
