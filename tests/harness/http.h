// A small blocking HTTP client that sends any bytes, also those that no client should send.
#ifndef HARNESS_HTTP_H
#define HARNESS_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "stack.h"

enum { HTTP_REPLY_SIZE = 3 << 17, HTTP_FIELD_SIZE = 256 };

struct http_reply {
    int status;       // 0: the connection ended without a whole reply
    const char *body; // a NUL-terminated part of text
    size_t body_len;
    char text[HTTP_REPLY_SIZE]; // the head, separated from the body by a NUL
};

// Building blocks for slow, broken and pipelined requests. A connection is a file descriptor; the caller closes it.
int http_connect(const struct service *service);
bool http_send(int fd, const void *bytes, size_t n); // false: the other end has closed
bool http_send_text(int fd, const char *text);
// Reads one reply; false, and status 0, if the connection ends first. The test fails at the deadline.
bool http_receive(int fd, struct http_reply *reply);
// Waits until the other end closes the connection; discards what still arrives.
bool http_closed(int fd);

// Sends one request on a new connection; returns the status.
int http_raw(const struct service *service, const void *bytes, size_t n, struct http_reply *reply);

// `headers`: whole lines, each with its CRLF, or "". `body` NULL: none.
int http_ask(const struct service *service, const char *method, const char *path, const char *headers, const char *body,
             struct http_reply *reply);
int http_get(const struct service *service, const char *path, const char *user, struct http_reply *reply);
// POST /seckill/{voucher}; user NULL: no X-User-Id.
int http_buy(const struct service *service, const char *voucher, const char *user, struct http_reply *reply);
// Retries while the answer is 503, like a client that honors Retry-After: a voucher is closed briefly while it is being
// loaded, even if the service is ready.
int http_buy_patiently(const struct service *service, const char *voucher, const char *user, struct http_reply *reply);
void http_must_buy(const struct service *service, const char *voucher, const char *user); // with retries; 201
int http_buy_async(const struct service *service, const char *voucher, const char *user, struct http_reply *reply);
// Sends a purchase and returns its connection; http_end_buying reads the answer, which must have this status.
int http_begin_buying(const struct service *service, const char *voucher, const char *user);
void http_end_buying(int fd, int status);
// The bytes of such a purchase, to send many at once.
void http_buy_text(const char *voucher, const char *user, char *out, size_t size);

// The value of a header field; false, and "", if there is none.
bool http_header(const struct http_reply *reply, const char *name, char out[HTTP_FIELD_SIZE]);

// A member of the JSON object in the body as text; false, and "", if there is none.
bool http_member(const struct http_reply *reply, const char *name, char out[HTTP_FIELD_SIZE]);

// Whether the reply is this problem: status, type, and a body with this code. `code` NULL: only the status is checked,
// since libmicrohttpd itself answers.
bool http_is_problem(const struct http_reply *reply, int status, const char *code);

// Fails the test if it is not.
void http_must_be_problem(const struct http_reply *reply, int status, const char *code);

// ---- metrics ----

// The value of the one sample of /metrics with this name and labels; -1: there is none.
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
