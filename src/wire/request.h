// A request, and how it is answered: at once, later, or much later.
//
// All functions: the loop's thread. The server owns a request; handlers borrow it until it is answered. They find a
// waiting or parked request again by its handle (sk_server_find), never by a kept pointer: its client may be gone.
#ifndef SK_WIRE_REQUEST_H
#define SK_WIRE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "response.h"
#include "trace.h"

enum sk_method {
    SK_METHOD_GET, // and HEAD
    SK_METHOD_POST,
    SK_METHOD_PATCH,
    SK_METHOD_OPTIONS,
    SK_METHOD_OTHER, // known to HTTP, but used by no route
    SK_METHOD_UNKNOWN,
};

struct sk_measure;

enum { SK_REQUEST_NOTE_SIZE = 320 };

// A bit for a field's name, in any case, from its length and its first letter.
#define SK_NAME_BIT(name, len) (UINT64_C(1) << ((len) + 7 * (size_t)((unsigned char)(name)[0] | 0x20U)) % 64)

// False: the request has no field of that name, which is a literal. True: it may have one.
#define SK_REQUEST_MAY_HAVE(request, name) (((request)->names & SK_NAME_BIT(name, sizeof(name) - 1)) != 0)

struct sk_address;

// The rate limit that is nearest to exhaustion, and what it leaves: for the answer's RateLimit.
enum sk_policy { SK_POLICY_NONE, SK_POLICY_USER, SK_POLICY_ADDRESS };

struct sk_limit {
    enum sk_policy policy; // NONE: nothing to report
    uint32_t left;
};

// The places that a long request (an event stream or a long poll) holds until it ends.
struct sk_hold {
    bool place;               // one of the server's
    bool of_user, of_address; // counted in client_limits.h
    uint64_t user, address;
};

struct sk_request {
    enum sk_method method;
    const char *path;  // as sent: nothing is unescaped; without the scheme and host of an absolute target
    const char *route; // the pattern that the path matches; NULL: none, or the routes have not seen it
    bool is_head;      // a GET whose answer has no body
    bool has_query;    // the target has a query, if an empty one
    bool query_bad;    // the target's query has an invalid escape, or the escape of a control byte
    // Its answer ends the connection. It is chunked, and libmicrohttpd 0.9.75 reads chunks more leniently than others
    // (a bare LF ends a line). So to a gateway the bytes that follow may be part of it; they must not be read as a
    // request.
    bool last;
    const char *traceparent; // the field as sent; "" if it was sent twice; NULL: not sent. Lives as long as the request
    uint64_t names;          // SK_NAME_BIT of each field's name: most fields that are looked up were not sent
    struct sk_trace trace;
    struct sk_buf body;
    uint64_t handle; // identifies this request as long as it lives; never 0
    struct sk_limit limit;
    struct sk_hold hold;
    bool *lease; // NULL: none. Set to false when the request has ended: its answer may be reused
    // For trace.h: where it is measured, when it was complete, and the number of its route.
    struct sk_measure *measure;
    uint64_t began_ns;
    unsigned row;
    // The handlers' notes on the request until it is answered. Zeroed at first; nothing frees what they point to.
    union {
        unsigned char bytes[SK_REQUEST_NOTE_SIZE];
        max_align_t alignment;
    } note;
};

// The value of a field of the request's header; of several with this name, the last. NULL: it was not sent. *count, if
// not NULL: how often it was sent. Borrowed; lives as long as the request.
const char *sk_request_header(const struct sk_request *request, const char *name, unsigned *count);

// The value of a parameter of the target's query; of several with this name, the last. NULL: it was not sent, or the
// query is bad. A parameter without a value has "". Names and values are unescaped, with `+` as a blank, and have no
// control bytes. *count, if not NULL: how often it was sent. Borrowed; lives as long as the request.
const char *sk_request_query(const struct sk_request *request, const char *name, unsigned *count);

// Calls back with each parameter's name, in their order, until that returns false. Returns whether it never did. A bad
// query has none.
bool sk_request_query_all(const struct sk_request *request, bool (*on_name)(void *arg, const char *name), void *arg);

// Appends the parameters of the target's query, escaped, each followed by `&`, except those named `but`.
void sk_request_put_query(const struct sk_request *request, const char *but, struct sk_buf *out);

// Whether the value of any field with this name matches.
bool sk_request_header_any(const struct sk_request *request, const char *name, bool (*matches)(const char *value));

// The values of all fields with this name, in their order: the last `most` of them. Returns their number. Borrowed.
size_t sk_request_header_values(const struct sk_request *request, const char *name, const char **values, size_t most);

// The peer address of its connection. False: it has none.
bool sk_request_peer(const struct sk_request *request, struct sk_address *peer);

// Whether its Content-Type is JSON.
bool sk_request_is_json(const struct sk_request *request);

// The request will be answered later; it expires after `ms`. For waits of milliseconds: the server polls each waiting
// request in each turn of the loop.
void sk_request_wait(struct sk_request *request, uint64_t ms);

// The same for seconds and more. A parked request costs nothing until it is answered, but then more than a waiting one.
// A waiting request may be parked. A client that closes its side of the connection is assumed to be gone. Its request
// is dropped, and the handle is invalid from then on. While the server drains, a parked request expires.
void sk_request_park(struct sk_request *request, uint64_t ms);

// Takes a place among the server's long requests, until the request has ended. False: none is free.
bool sk_request_hold(struct sk_request *request);

// Makes a waiting or parked request go on waiting, for `ms` from now.
void sk_request_extend(struct sk_request *request, uint64_t ms);

// Answers the request, once only. The caller keeps the response.
void sk_request_answer(struct sk_request *request, unsigned http_status, struct sk_response *response);

#endif
