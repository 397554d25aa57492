// A connection on which the same is asked again and again: of a sentinel, or of a node about its cluster. It is a link
// (link.h) that is ready once all of a round has been answered.
//
// The server is not trusted: its replies are bounded in bytes and time. An error, or anything that was not asked for,
// ends the connection. The loop's thread, as all functions.
#ifndef SK_STORE_ASKING_H
#define SK_STORE_ASKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "redis_reply.h"
#include "redis_url.h"
#include "socket.h"

struct sk_asking;

struct sk_asking_options {
    uv_loop_t *loop;
    const struct sk_redis_host *at; // borrowed until another one takes its place
    const struct sk_tls_files *tls; // NULL: without TLS
    const char *user, *password;    // NULL: none
    uint32_t timeout_ms;            // for connecting, and for the answers to a round
    size_t most_bytes;              // of these
    // Sends a round by sk_asking_send(). False: it cannot.
    bool (*ask)(struct sk_asking *asking, void *arg);
    uint32_t (*tick)(void *arg); // every 50 ms of a connection; returns the pause from a round to the next
    // A reply, after which so many of the round are left. Returns why the connection must end; NULL: it need not. May
    // close it.
    const char *(*on_reply)(void *arg, unsigned left, const struct sk_reply *reply);
    void (*dropped)(void *arg, const char *why); // the connection, or the attempt
    void (*freed)(void *arg);                    // after sk_asking_close, in a later turn of the loop
    void *arg;
};

// Connects in the loop's next turn, and again after each loss. NULL: out of memory.
struct sk_asking *sk_asking_open(const struct sk_asking_options *options);
void sk_asking_close(struct sk_asking *asking);

// For `ask`: each command is answered by one reply.
bool sk_asking_send(struct sk_asking *asking, int argc, const char **argv);

// For `dropped`: where to connect next. at_once: without the back-off.
void sk_asking_next(struct sk_asking *asking, const struct sk_redis_host *at, bool at_once);

#endif
