// One reactor: a thread with a loop, an HTTP server, and a shop with its own connections to the stores. Operators may
// have one to themselves: what fills the others' connections and queues is not in their way. Reactors share the port
// and, on the hot path, nothing else but the limits of clients where some are set.
#ifndef SK_APP_REACTOR_H
#define SK_APP_REACTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "status.h"
#include "token_keys.h"

struct sk_limits;
struct sk_reactor;
struct sk_secrets;
struct sk_spool_lane;

struct sk_reactor_options {
    const struct sk_config *config; // borrowed
    struct sk_token_ring *ring;     // borrowed until it is joined; NULL: the gateway says who the user is
    struct sk_secrets *secrets;     // borrowed until it is joined
    struct sk_limits *limits;       // borrowed; NULL: no client has a rate
    unsigned number;                // among the process's, from 0 on
    struct sk_spool_lane *lane;     // borrowed, where the access log goes; NULL: nowhere
    bool operators; // its listener is for operators (routes.h), and nobody else's connections count there
};

// The main thread, as all functions. Gives a reactor, whose thread runs; on failure, whose reason is logged, NULL or
// one that only wants to be joined.
enum sk_status sk_reactor_start(const struct sk_reactor_options *options, struct sk_reactor **out) SK_MUST_CHECK;

// Asks it to end: it stops accepting, answers what waits, writes what was granted, within
// drain_timeout_ms.
void sk_reactor_stop(struct sk_reactor *reactor);

struct sk_pulse {
    uint64_t beats; // grows ten times a second while the loop turns
    bool ready;     // what /readyz says; as of the last beat
    bool ended;     // its loop is over: only to be joined
};
struct sk_pulse sk_reactor_pulse(const struct sk_reactor *reactor);

// Waits for its end and frees it. False: one of libuv's threads still looks up a host name, which cannot be called
// off. What it needs is left behind, and the process must leave with _exit: exit() would wait for that thread.
bool sk_reactor_join(struct sk_reactor *reactor) SK_MUST_CHECK;

#endif
