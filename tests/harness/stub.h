// A fake server on the test's own loop: it sends, when the test wants it, replies that no real server can be made to
// send. One client at a time; a new one replaces the previous.
#ifndef HARNESS_STUB_H
#define HARNESS_STUB_H

#include <check.h>
#include <stddef.h>
#include <uv.h>

#include "clock.h"

enum { STUB_BYTES_MAX = 65536, DEADLINE_MS = 20000 };

// Runs the test's `loop` until the condition holds.
#define RUN_UNTIL(condition)                                               \
    do {                                                                   \
        uint64_t until_ms = sk_monotonic_ms() + DEADLINE_MS;               \
        while (!(condition)) {                                             \
            ck_assert_msg(sk_monotonic_ms() < until_ms, "%s", #condition); \
            (void)uv_run(&loop, UV_RUN_ONCE);                              \
        }                                                                  \
    } while (0)

struct stub {
    uv_loop_t *loop;
    uv_tcp_t listener;
    uv_tcp_t *client; // NULL: none
    int port;
    int clients;                    // so far
    char bytes[STUB_BYTES_MAX + 1]; // with a NUL behind them
    size_t len;
    // Consumes what it can of the `n` bytes received so far; returns how many.
    size_t (*receive)(struct stub *stub, const char *bytes, size_t n);
};

// Listens on a loopback port.
void stub_open(struct stub *stub, uv_loop_t *loop, size_t (*receive)(struct stub *stub, const char *bytes, size_t n));
void stub_close(struct stub *stub);

// Sends to the client, which must be connected.
void stub_send(struct stub *stub, const void *bytes, size_t n);
void stub_say(struct stub *stub, const char *text);
void stub_say_bulk(struct stub *stub, const char *text); // as Redis does: with its length before it
void stub_hang_up(struct stub *stub);

#endif
