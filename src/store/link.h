// What the links to both stores share: the states of a connection, how long it may take to become ready, when the
// next attempt is due, and when memory may go. Used by redis_link.c and pg_link.c only; each is the owner of one.
//
// DOWN -> CONNECTING (resolve, connect) -> PREPARING (set up the session) -> READY; each may go DOWN, and is CLOSED in
// the end. All functions: the loop's thread.
#ifndef SK_STORE_LINK_H
#define SK_STORE_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

enum sk_link_state { SK_LINK_DOWN, SK_LINK_CONNECTING, SK_LINK_PREPARING, SK_LINK_READY, SK_LINK_CLOSED };

// What only the owner can do. None of these runs inside a function of this module that the owner calls.
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
    uint32_t timeout_ms; // of connecting and of preparing, each; resolving has no limit but the resolver's
    void (*on_change)(void *arg, bool ready); // NULL: not wanted
    void *arg;
    const struct sk_link_steps *steps;
    void *owner;
};

struct sk_link;

// Connects in the loop's next turn, and again after each loss. NULL: out of memory.
struct sk_link *sk_link_open(const struct sk_link_options *options);

// Moves to CLOSED. Link and owner go with the loop's next turn, or with the end of a look-up that is under way.
void sk_link_close(struct sk_link *link);

// The one function that changes the state; it aborts on a move that is impossible. Runs on_change when the link
// becomes ready, or ceases to be.
void sk_link_move(struct sk_link *link, enum sk_link_state state);
enum sk_link_state sk_link_state(const struct sk_link *link);

#endif
