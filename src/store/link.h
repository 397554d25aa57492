// The common part of the links to both stores: the states of a connection, its time limit for becoming ready, the time
// of the next attempt, and when to free memory. Only redis_link.c, pg_link.c and asking.c use it; each is the owner of
// one link.
//
// DOWN -> CONNECTING (resolve, connect) -> PREPARING (set up the session) -> READY. Each state may go DOWN, and ends as
// CLOSED. All functions: the loop's thread.
#ifndef SK_STORE_LINK_H
#define SK_STORE_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

enum sk_link_state { SK_LINK_DOWN, SK_LINK_CONNECTING, SK_LINK_PREPARING, SK_LINK_READY, SK_LINK_CLOSED };

// The steps that only the owner can do. They never run inside a call from the owner to this module.
struct sk_link_steps {
    // Starts to connect. `address`: numeric, borrowed for the call; NULL if there is no host to resolve.
    void (*connect)(void *owner, const char *address);
    // Runs every 50 ms while there is a connection. Returns why the connection must end, or NULL.
    const char *(*tick)(void *owner);
    // Ends the connection, or the attempt, and moves the link to DOWN.
    void (*drop)(void *owner, const char *why);
    // After sk_link_close, once libuv refers to nothing of the link: frees the owner.
    void (*free)(void *owner);
};

struct sk_link_options {
    uv_loop_t *loop;
    const char *host;    // resolved for each connection; NULL: nothing to resolve. Borrowed until `free` runs
    uint32_t timeout_ms; // for connecting and for preparing, each; resolving has only the resolver's limit
    void (*on_change)(void *arg, bool ready); // NULL: not wanted
    void *arg;
    const struct sk_link_steps *steps;
    void *owner;
};

struct sk_link;

// Connects in the loop's next turn, and again after each loss. NULL: out of memory.
struct sk_link *sk_link_open(const struct sk_link_options *options);

// Another host from the next attempt on, which begins in the next tick; borrowed as in the options.
void sk_link_set_host(struct sk_link *link, const char *host);

// The next of several hosts that are tried in turn. at_once: in the next tick; else the back-off comes first, which is
// one for each turn.
void sk_link_next_host(struct sk_link *link, const char *host, bool at_once);

// Moves to CLOSED. Link and owner are freed in the loop's next turn, or when a lookup in progress ends.
void sk_link_close(struct sk_link *link);

// The only function that changes the state; aborts on an impossible move. Runs on_change when the link becomes ready or
// stops being ready.
void sk_link_move(struct sk_link *link, enum sk_link_state state);
enum sk_link_state sk_link_state(const struct sk_link *link);

// How often a link that was ready has gone down.
uint64_t sk_link_lost(const struct sk_link *link);

#endif
