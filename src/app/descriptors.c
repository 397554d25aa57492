// The server limits its client connections by number, not by free descriptors. So the limit must cover all of them and
// everything else. Otherwise idle clients could hold every descriptor, and a lost store link could not be reopened.
#include "descriptors.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "log.h"
#include "nodes.h"

// Per reactor: its loop, the server, the listener. Per process: the standard streams, and what a host name lookup opens
// for a moment in each of libuv's threads.
enum { PER_REACTOR = 11, PER_PROCESS = 64 };

// Of a reactor. Each of its links to Redis has a connection to each sentinel. How many masters a cluster has is known
// only later, and may grow; one connection more reads its slots.
static uint64_t descriptors_of_redis(const char *redis_url)
{
    uint64_t servers = 1;
    if (strstr(redis_url, "+cluster://") != NULL)
        return SK_NODES_MAX * SK_NODE_LINKS + 1;
    servers += strstr(redis_url, "+sentinel://") != NULL;
    for (const char *at = strchr(redis_url, ','); servers > 1 && at != NULL; at = strchr(at + 1, ','))
        servers++; // a comma in the password only makes it too many
    return servers * SK_NODE_LINKS;
}

uint64_t sk_descriptors_needed(const struct sk_config *config)
{
    uint64_t each = PER_REACTOR + descriptors_of_redis(config->stores.redis_url) +
                    (uint64_t)config->stores.shards.count * SK_SHARD_LINKS;
    uint64_t operators = config->api.admin_listen == NULL ? 0 : SK_ADMIN_CONNECTIONS + each;
    return (uint64_t)config->reactors * ((uint64_t)config->server.max_connections + each) + operators + PER_PROCESS;
}

enum sk_status sk_descriptors_reserve(const struct sk_config *config)
{
    uint64_t needed = sk_descriptors_needed(config);
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        sk_log_text(SK_LOG_ERROR, "cannot read the limit of file descriptors", "reason", strerror(errno));
        return SK_FAIL;
    }
    if (limit.rlim_cur >= needed)
        return SK_OK;
    limit.rlim_cur = needed;
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0)
        return SK_OK;
    sk_log_text(SK_LOG_ERROR, "cannot raise the limit of file descriptors", "reason", strerror(errno));
    return SK_FAIL;
}
