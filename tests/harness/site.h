// A test server without a sale: it runs in a child process, which calls the test's handlers, and the test is its
// client. SIGTERM drains it, SIGUSR1 ends it at once.
#ifndef HARNESS_SITE_H
#define HARNESS_SITE_H

#include "server.h"

// ---- in the child ----

struct site {
    uv_loop_t loop;
    struct sk_server *server; // NULL after it was closed
    bool draining;
};

extern struct site site;

struct site_limits {
    int64_t connections, request_timeout_ms; // 0: the service's default
};

// Serves until it ends; returns 0 if nothing is left behind. The handlers' `malformed` is the site's.
int site_serve(const struct sk_handler *handler, const struct site_limits *limits);

// Answers with text; while draining, this is the last answer of its connection.
void site_answer(struct sk_request *request, unsigned status, const char *text);

// ---- in the test ----

// Starts the child, whose exit status is what `serve` returns.
void site_start(int (*serve)(void));

// Opens a connection; the caller closes it. `buffer` 0: the usual size.
int site_connect(int buffer);
void site_signal(int signal);
void site_must_end(int signal); // with status 0; signal 0: it was signalled before

#endif
