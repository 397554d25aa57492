// Asks the sentinels of a URL which Redis is the master, five times a second, each on a connection of its own. What
// more than half of all sentinels of the URL name is the master. So a sentinel that lies, or is cut off from the
// others, changes nothing.
//
// The loop's thread, as all functions.
#ifndef SK_STORE_SENTINELS_H
#define SK_STORE_SENTINELS_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "redis_reply.h"
#include "redis_url.h"
#include "socket.h"

struct sk_sentinels;

struct sk_sentinels_options {
    uv_loop_t *loop;
    const struct sk_redis_url *url; // borrowed, as all, until `closed` runs
    const struct sk_tls_files *tls;
    const char *password; // of the sentinels; NULL: none
    uint32_t timeout_ms;  // for connecting, and for each answer
    // The sentinels agree on a master, and it is another than before. Borrowed for the call.
    void (*on_master)(void *arg, const struct sk_redis_host *master);
    void (*closed)(void *arg); // after sk_sentinels_close, in a later turn of the loop
    void *arg;
};

// Reads a sentinel's reply: an address or a host name, and a port. False: it names none.
bool sk_sentinels_read(const struct sk_reply *reply, struct sk_redis_host *master);

// The master that most of the n sentinels name, in `named` (borrowed; port 0: a sentinel names none), and how many
// those are. NULL and 0: none names one.
const struct sk_redis_host *sk_sentinels_most_named(const struct sk_redis_host *named, size_t n, size_t *votes);

// NULL: out of memory; `closed` does not run.
struct sk_sentinels *sk_sentinels_open(const struct sk_sentinels_options *options);
void sk_sentinels_close(struct sk_sentinels *sentinels);

// Why no master is known, a constant: no sentinel answers, too few do, or they disagree.
const char *sk_sentinels_why(const struct sk_sentinels *sentinels);

#endif
