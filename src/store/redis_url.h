// Parses SECKILL_REDIS_URL. With rediss instead of redis, all connections of the URL use TLS:
//
//   redis://[[user]:password@]host[:port][/db]
//   redis+sentinel://[[user]:password@]host[:port],host[:port].../name[/db]     sentinels, and the name of the master
//   redis+cluster://[[user]:password@]host[:port],host[:port]...                  any nodes of a cluster
//   unix://[[user]:password@]/path
//
// User and password may have escapes (RFC 3986 2.1), as %40 for @. Other bytes may also stand as they are.
#ifndef SK_STORE_REDIS_URL_H
#define SK_STORE_REDIS_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

enum { SK_REDIS_HOST_SIZE = 256, SK_SENTINELS_MAX = 9, SK_SEEDS_MAX = 16, SK_MASTER_NAME_SIZE = 64 };

struct sk_redis_host {
    char name[SK_REDIS_HOST_SIZE]; // or the path of a unix socket; "": not known
    int port;                      // 0: unix socket
};

struct sk_redis_url {
    struct sk_redis_host at; // of Redis; with sentinels, or a cluster, not known
    bool tls;
    char *user;        // owned; NULL: Redis's `default`, or none
    char *password;    // owned; NULL: none
    const char *wrong; // what SK_FAIL means: a constant
    char db[8];
    struct sk_redis_host sentinels[SK_SENTINELS_MAX];
    size_t sentinel_count;
    char master[SK_MASTER_NAME_SIZE];         // by which the sentinels know it
    struct sk_redis_host seeds[SK_SEEDS_MAX]; // nodes of a cluster; any of them knows the others
    size_t seed_count;                        // 0: it is no cluster
};

// Whether a store has named a host: its name has plain characters only, since it goes to the resolver and into the log.
// Then *host has it, else it is zeroed. `name` has n bytes. Any thread.
bool sk_redis_host_read(const char *name, size_t n, uint64_t port, struct sk_redis_host *host);

// Whether both are the same, to the letter. Any thread.
bool sk_redis_host_same(const struct sk_redis_host *a, const struct sk_redis_host *b);

// Any thread. *url starts zeroed; give it to sk_redis_url_free in any case. SK_FAIL: not of the form.
enum sk_status sk_redis_url_parse(const char *text, struct sk_redis_url *url) SK_MUST_CHECK;
void sk_redis_url_free(struct sk_redis_url *url);

#endif
