// A small blocking HTTP client that sends whatever it is told to, also what no client should.
#ifndef HARNESS_HTTP_H
#define HARNESS_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "stack.h"

enum { HTTP_REPLY_SIZE = 1 << 18, HTTP_FIELD_SIZE = 256 };

struct http_reply {
    int status;       // 0: the connection ended without a whole reply
    const char *body; // in text, NUL-terminated
    size_t body_len;
    char text[HTTP_REPLY_SIZE]; // the head, cut from the body by a NUL
};

// Pieces, for slow, broken and pipelined requests. A connection is a file descriptor; closing it is up to
// the caller.
int http_connect(const struct service *service);
bool http_send(int fd, const void *bytes, size_t n); // false: the other end has closed
bool http_send_text(int fd, const char *text);
// Reads one reply; false, and status 0, if the connection ends first. The test fails at the deadline.
bool http_receive(int fd, struct http_reply *reply);
// Whether the other end closes, or has closed, the connection; what still comes is dropped.
bool http_closed(int fd);

// One request on a connection of its own; returns the status.
int http_raw(const struct service *service, const void *bytes, size_t n, struct http_reply *reply);

// `headers`: whole lines, each with its CRLF, or "". `body` NULL: none.
int http_ask(const struct service *service, const char *method, const char *path, const char *headers, const char *body,
             struct http_reply *reply);
int http_get(const struct service *service, const char *path, const char *user, struct http_reply *reply);
// POST /seckill/{voucher}; user NULL: no X-User-Id.
int http_buy(const struct service *service, const char *voucher, const char *user, struct http_reply *reply);
// Asks again while the answer is 503, as a client does that heeds Retry-After: a voucher is closed for a moment
// while it is being loaded, also when the service is ready.
int http_buy_patiently(const struct service *service, const char *voucher, const char *user, struct http_reply *reply);
void http_must_buy(const struct service *service, const char *voucher, const char *user); // patiently; 201
int http_buy_async(const struct service *service, const char *voucher, const char *user, struct http_reply *reply);
// One whose answer is read later, on the connection that it gives; then it must have this status.
int http_begin_buying(const struct service *service, const char *voucher, const char *user);
void http_end_buying(int fd, int status);
// The bytes of such a purchase, for many at once.
void http_buy_text(const char *voucher, const char *user, char *out, size_t size);

// The value of a header field; false, and "", if there is none.
bool http_header(const struct http_reply *reply, const char *name, char out[HTTP_FIELD_SIZE]);

// A member of the JSON object in the body as text; false, and "", if there is none.
bool http_member(const struct http_reply *reply, const char *name, char out[HTTP_FIELD_SIZE]);

// Whether the reply is this problem: status, type, and body with this code. `code` NULL: libmicrohttpd
// answers by itself, and the status must do.
bool http_is_problem(const struct http_reply *reply, int status, const char *code);

// It must be.
void http_must_be_problem(const struct http_reply *reply, int status, const char *code);

// ---- metrics ----

// The value of a sample of /metrics, named with its labels, which is there once; -1: it is not there.
double http_sample(const struct service *service, const char *name);

// ---- vouchers ----

enum { VOUCHER_ID_SIZE = 24 };

struct voucher_terms {
    int stock;
    int begin_in_s, end_in_s; // from now; both 0: on sale for an hour
};

// Makes a voucher through the admin API.
void voucher_make(const struct service *service, const struct voucher_terms *terms, char id[VOUCHER_ID_SIZE]);
void voucher_on_sale(const struct service *service, int stock, char id[VOUCHER_ID_SIZE]);

#endif
