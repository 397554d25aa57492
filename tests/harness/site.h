// A server of the test's own, without a sale: it runs in a child process, where the test's handlers are called, and the
// test is its client. SIGTERM drains it, SIGUSR1 ends it at once.
#ifndef HARNESS_SITE_H
#define HARNESS_SITE_H

#include "server.h"

// ---- in the child ----

struct site {
    uv_loop_t loop;
    struct sk_server *server; // NULL when it is closed
    bool draining;
};

extern struct site site;

struct site_limits {
    int64_t connections, request_timeout_ms; // 0: what the service has without a setting
};

// Serves to the end; 0: it has left nothing behind. The handlers' `malformed` is the site's.
int site_serve(const struct sk_handler *handler, const struct site_limits *limits);

// In text; the last one of its connection when it drains.
void site_answer(struct sk_request *request, unsigned status, const char *text);

// ---- in the test ----

// Starts the child, whose exit status is what `serve` returns.
void site_start(int (*serve)(void));

// A connection; the caller closes it. `buffer` 0: for as much as usual.
int site_connect(int buffer);
void site_signal(int signal);
void site_must_end(int signal); // with 0; signal 0: it has been told already

#endif
