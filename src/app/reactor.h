// One reactor: a thread with a loop, an HTTP server, and a shop with its own connections to the stores. Operators may
// have a reactor of their own, so that buyers who fill connections and queues do not block them. Reactors share the
// port. On the hot path they share nothing else, except client limits where these are set.
#ifndef SK_APP_REACTOR_H
#define SK_APP_REACTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "status.h"
#include "user_tokens.h"

struct sk_limits;
struct sk_reactor;
struct sk_secrets;
struct sk_spool_lane;

struct sk_reactor_options {
    const struct sk_config *config; // borrowed
    struct sk_token_ring *ring;     // borrowed until it is joined; NULL: the gateway identifies the user
    struct sk_secrets *secrets;     // borrowed until it is joined
    struct sk_limits *limits;       // borrowed; NULL: no rate limits
    unsigned number;                // its index in the process, from 0
    uint64_t process;               // a random number, the same for all reactors of the process
    struct sk_spool_lane *lane;     // borrowed, for the access log; NULL: none
    bool measures_process;          // it alone counts what is the process's, not a reactor's
    bool operators; // its listener is for operators (routes.h); its connections are outside the client limits
};

// The main thread, as all functions. *out is a reactor whose thread runs. On failure, which is logged, it is NULL or a
// reactor that must only be joined.
enum sk_status sk_reactor_start(const struct sk_reactor_options *options, struct sk_reactor **out) SK_MUST_CHECK;

// Asks it to end within drain_timeout_ms: it stops accepting, answers waiting requests and writes the granted orders.
void sk_reactor_stop(struct sk_reactor *reactor);

struct sk_pulse {
    uint64_t beats; // grows ten times a second while the loop turns
    bool ready;     // what /readyz reports; as of the last beat
    bool ended;     // its loop has ended; only join it
};
struct sk_pulse sk_reactor_pulse(const struct sk_reactor *reactor);

// Whether it met, while it started, a database that is another shard; or later one that lacks changes which it had
// read. It has sent SIGTERM to the process then.
bool sk_reactor_misfits(const struct sk_reactor *reactor);

// Waits for its end and frees it. False: one of libuv's threads still looks up a host name, which cannot be cancelled.
// The memory that thread needs is not freed. The process must then end with _exit, since exit() would wait for that
// thread.
bool sk_reactor_join(struct sk_reactor *reactor) SK_MUST_CHECK;

#endif
