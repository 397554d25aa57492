// Parses SECKILL_REDIS_URL: redis://[[user]:password@]host[:port][/db] or unix://[[user]:password@]/path
#ifndef SK_STORE_REDIS_URL_H
#define SK_STORE_REDIS_URL_H

#include "status.h"

enum { SK_REDIS_HOST_SIZE = 256 };

struct sk_redis_url {
    char host[SK_REDIS_HOST_SIZE]; // or the path of a unix socket
    int port;                      // 0: unix socket
    char *user;                    // owned; NULL: Redis's `default`, or none
    char *password;                // owned; NULL: none
    char db[8];
};

// Any thread. *endpoint starts zeroed; give it to sk_redis_url_free in any case. SK_FAIL: not of the form.
enum sk_status sk_redis_url_parse(const char *url, struct sk_redis_url *endpoint) SK_MUST_CHECK;
void sk_redis_url_free(struct sk_redis_url *endpoint);

#endif
