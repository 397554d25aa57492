// The server limits its client connections by number, not by free descriptors. So the limit must cover all of them and
// everything else. Otherwise idle clients could hold every descriptor, and a lost store link could not be reopened.
#include "descriptors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include "log.h"

// Per reactor: its loop, the server, the listener, a few for each store. Per process: the standard streams, and what a
// host name lookup opens for a moment in each of libuv's threads.
enum { PER_REACTOR = 16, PER_PROCESS = 64 };

// Of a reactor: each of its two links to Redis has a connection to each sentinel.
static uint64_t descriptors_of_sentinels(const char *redis_url)
{
    uint64_t count = strstr(redis_url, "+sentinel://") == NULL ? 0 : 2;
    for (const char *at = strchr(redis_url, ','); count > 0 && at != NULL; at = strchr(at + 1, ','))
        count += 2; // a comma in the password only makes it too many
    return count;
}

uint64_t sk_descriptors_needed(const struct sk_config *config)
{
    uint64_t each = PER_REACTOR + descriptors_of_sentinels(config->stores.redis_url);
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
    if (limit.rlim_max < needed) {
        sk_log(SK_LOG_ERROR,
               "too few file descriptors: raise the hard limit, or lower SECKILL_MAX_CONNECTIONS or SECKILL_REACTORS",
               "needed=%" PRIu64 " hard_limit=%" PRIu64 " max_connections=%" PRId64 " reactors=%" PRId64, needed,
               (uint64_t)limit.rlim_max, config->server.max_connections, config->reactors);
        return SK_FAIL;
    }
    limit.rlim_cur = needed;
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0)
        return SK_OK;
    sk_log_text(SK_LOG_ERROR, "cannot raise the limit of file descriptors", "reason", strerror(errno));
    return SK_FAIL;
}
