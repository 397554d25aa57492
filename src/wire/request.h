// A request, and how it is answered: at once, later, or much later.
//
// All functions: the loop's thread. A request belongs to the server; handlers borrow it until it is answered, and find
// one that waits or is parked again by its handle (sk_server_find), never by a kept pointer: its client may be gone.
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
    SK_METHOD_OTHER, // known to HTTP, and used by no route
    SK_METHOD_UNKNOWN,
};

struct sk_measure;

enum { SK_REQUEST_NOTE_SIZE = 320 };

// A bit for a field's name, in any case, by its length and its first letter.
#define SK_NAME_BIT(name, len) (UINT64_C(1) << ((len) + 7 * (size_t)((unsigned char)(name)[0] | 0x20U)) % 64)

// False: the request has no field of that name, which is a literal.
#define SK_REQUEST_MAY_HAVE(request, name) (((request)->names & SK_NAME_BIT(name, sizeof(name) - 1)) != 0)

struct sk_address;

// Which limit of a client is nearest to its end, and what it leaves: for the answer's RateLimit.
enum sk_policy { SK_POLICY_NONE, SK_POLICY_USER, SK_POLICY_ADDRESS };

struct sk_limit {
    enum sk_policy policy; // NONE: there is nothing to tell
    uint32_t left;
};

// What a long request, which is an event stream or a long poll, has of the places for those. It ends with the request.
struct sk_hold {
    bool place;               // of the server's
    bool of_user, of_address; // counted in client_limits.h
    uint64_t user, address;
};

struct sk_request {
    enum sk_method method;
    const char *path;  // as sent: nothing is unescaped; without the scheme and host of an absolute target
    const char *route; // the pattern that the path fits; NULL: none, or the routes have not seen it
    bool is_head;      // a GET whose answer has no body
    bool query_bad;    // the target's query has an escape that is none, or stands for a control byte
    // Its answer ends the connection: it is chunked, and libmicrohttpd 0.9.75 reads chunks more leniently than others
    // (a bare LF ends a line), so what follows may be part of it to a gateway, and must not be taken for a request.
    bool last;
    const char *traceparent; // the field, as sent; "" where it was sent twice; NULL: not sent. As long as the request
    uint64_t names;          // SK_NAME_BIT of each field's name: most fields that are asked for were not sent
    struct sk_trace trace;
    struct sk_buf body;
    uint64_t handle; // names this request as long as it lives; never 0
    struct sk_limit limit;
    bool shared; // the document it asks for is the same for all: caches may keep that
    struct sk_hold hold;
    bool *lease; // NULL: none. Set to false when the request has ended: what it was answered with is free again
    // For measure.h: where it is measured, when it was whole, and the number of its route.
    struct sk_measure *measure;
    uint64_t began_ns;
    unsigned row;
    // What the handlers remember of the request until it is answered. Zeroed at first; nothing frees what it points to.
    union {
        unsigned char bytes[SK_REQUEST_NOTE_SIZE];
        max_align_t alignment;
    } note;
};

// The value of a field of the request's header, of several with this name the last; NULL: it was not sent. *count, if
// it is wanted: how often it was sent. Borrowed; lives as long as the request.
const char *sk_request_header(const struct sk_request *request, const char *name, unsigned *count);

// The value of a parameter of the target's query, of several with this name the last; NULL: it was not sent, or the
// query is bad. What has no value has "". Names and values are without escapes, `+` is a blank, and there is no control
// byte in them. *count, if it is wanted: how often it was sent. Borrowed; lives as long as the request.
const char *sk_request_query(const struct sk_request *request, const char *name, unsigned *count);

// Appends the parameters of the target's query, escaped, each followed by `&`, but for those with this name.
void sk_request_put_query(const struct sk_request *request, const char *but, struct sk_buf *out);

// Whether the value of any field with this name does match.
bool sk_request_header_any(const struct sk_request *request, const char *name, bool (*matches)(const char *value));

// The values of all fields with this name, in their order: the last `most` of them. Gives how many. Borrowed.
size_t sk_request_header_values(const struct sk_request *request, const char *name, const char **values, size_t most);

// The other end of its connection. False: it has no address.
bool sk_request_peer(const struct sk_request *request, struct sk_address *peer);

// Whether its body is said to be JSON.
bool sk_request_is_json(const struct sk_request *request);

// The request is answered later, at the latest after `ms`, when it expires. For waits of milliseconds: the server asks
// after each waiting request in each turn of the loop.
void sk_request_wait(struct sk_request *request, uint64_t ms);

// The same for seconds and more: a parked request costs nothing until it is answered, but more than one that waits when
// it is. A request that waits may be parked. A client that closes its side of the connection is taken to be gone, and
// the request is dropped: its handle leads nowhere from then on. While the server drains, a parked request expires.
void sk_request_park(struct sk_request *request, uint64_t ms);

// Takes a place among the server's long requests, until the request has ended. False: there is none.
bool sk_request_hold(struct sk_request *request);

// A request that waits, or is parked, goes on to do so for `ms` from now.
void sk_request_extend(struct sk_request *request, uint64_t ms);

// Answers the request: once. The response stays the caller's.
void sk_request_answer(struct sk_request *request, unsigned http_status, struct sk_response *response);

#endif
