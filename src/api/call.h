// A call: what the service keeps of a request while it works on it, and what all handlers share. A handler reads the
// request and answers it, or asks the stores and leaves it waiting; the answer then comes for its handle.
//
// The loop's thread, as all functions.
#ifndef SK_API_CALL_H
#define SK_API_CALL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "answer.h"
#include "routes.h"
#include "text.h"
#include "uuid.h"
#include "verdict.h"

struct sk_document;
struct sk_fields;
struct sk_pages;
struct sk_tickets;
struct sk_tokens;

struct sk_context {
    const struct sk_routes_options *options; // borrowed, as all
    struct sk_control *control;              // NULL: the control plane is closed, and no request reaches a handler
    struct sk_answers *answers;
    const struct sk_document *openapi;
    const struct sk_pages *pages;   // NULL: they are off
    const struct sk_cors *pictures; // origins of vouchers' pictures
    const struct sk_tickets *tickets;
    const struct sk_tokens *tokens;
    uint64_t stores_ms; // time allowed for asking the stores
    bool draining;      // no new orders
};

// Answers the request, or leaves it waiting for its answer. It is waiting already, unless its route never waits.
typedef void sk_handle(const struct sk_context *context, struct sk_request *request);

// Receives the answer to a call that asked the stores.
typedef void sk_on_answer(const struct sk_context *context, struct sk_request *request, const struct sk_answer *answer);

// Lies in the request's note. The routes fill in what the path and the caller's fields contain, as far as the route has
// it.
struct sk_call {
    char user[SK_USER_SIZE];     // who asks; "": not a user
    char by[SK_ADMIN_NAME_SIZE]; // which admin asks: the name of the token; "": none
    char order_id[SK_UUID_SIZE]; // from the path, or of the accepted order
    int64_t voucher_id, dead_letter_id;
    int64_t if_match;        // OPERATE: the version that the change is meant for; 0: any
    sk_on_answer *on_answer; // NULL: the answer is sent
    sk_handle *on_expired;   // no answer came in time; NULL: 503 UNAVAILABLE
    sk_handle *on_gone;      // the client of a suspended request has left, or a stream ends; NULL: nothing to do
    const char *only_while;  // GET /orders/{id}: waits while the status is this one; NULL: while it may change
    unsigned wait_s;         // GET /orders/{id}, /admin/events, POST /seckill/{id}: how long to wait
    uint16_t quantity;       // units to buy
    uint16_t checked;        // GET /vouchers/events: so many of its vouchers were checked, and exist
    bool respond_async;      // the client does not wait for the commit
    bool waits;              // POST /seckill/{id}: it joins the line if there is no unit
};

_Static_assert(sizeof(struct sk_call) <= SK_REQUEST_NOTE_SIZE, "a call is a request's note");

static inline struct sk_call *sk_call_of(struct sk_request *request)
{
    return (struct sk_call *)(void *)request->note.bytes;
}

// Reads Idempotency-Key: 1 to 255 visible ASCII characters, or a string of structured fields (RFC 9651, 3.3.3), which
// is the same key without its quotes. *key lies in the request or in `room`; NULL: not sent. False: the request was
// refused.
enum { SK_REQUEST_KEY_SIZE = 256 };
bool sk_call_read_key(const struct sk_context *context, struct sk_request *request, char room[SK_REQUEST_KEY_SIZE],
                      const char **key);

// Reads the parameter `wait`, 0 to 60 seconds, into the call. False: the request was refused.
bool sk_call_read_wait(const struct sk_context *context, struct sk_request *request);

// Whether a body that was sent can be read: OK, UNSUPPORTED_MEDIA_TYPE or UNSUPPORTED_ENCODING.
enum sk_verdict sk_call_body_type(const struct sk_request *request);

// Whether the verdict of a body is OK. False: the request was refused, with all errors of the body.
bool sk_call_body_good(const struct sk_context *context, struct sk_request *request, enum sk_verdict verdict,
                       const struct sk_fields *read);

// Whether a long request may begin. False: it was refused, and its connection is closed.
bool sk_call_hold(const struct sk_context *context, struct sk_request *request);

// ---- bodies ----
//
// Reads a body that is a JSON object with known members, and lists everything that is wrong with it.
//
//   struct sk_fields read;
//   if (sk_fields_open(&read, body, len, members, MEMBERS, values)) {
//       ...sk_fields_check() for each member...
//   }
//   enum sk_verdict verdict = sk_fields_end(&read);
//   ...OK: use the values; else answer with the verdict and read.errors...
//   sk_fields_free(&read);

struct sk_field {
    const char *name;
    const char *detail; // what its value must be
    bool optional;
};

struct sk_fields {
    enum sk_verdict verdict; // so far
    json_t *document;        // owned; the values point into it; NULL: not an object
    json_t *errors; // owned; a list of {"pointer": RFC 6901, "detail": text}; NULL after the end if it is empty
};

// The most problems that are listed; one more entry reports that there are others. Longer member names are cut.
enum { SK_FIELDS_ERRORS_MAX = 16, SK_FIELDS_NAME_MAX = 64 };

// True: the body is an object, and the caller can check the values of its members; NULL: not in the body. Members that
// are missing though required, unknown, or there twice are listed. In any case the caller ends and frees `read`.
bool sk_fields_open(struct sk_fields *read, const char *body, size_t len, const struct sk_field *fields, size_t count,
                    const json_t **values);

// Lists a member's value as wrong, if it is there and not good.
void sk_fields_check(struct sk_fields *read, const struct sk_field *field, const json_t *value, bool good);

// Lists a member's value as wrong, for this reason.
void sk_fields_refuse(struct sk_fields *read, const char *name, const char *detail);

// The result: BAD_JSON if the form is wrong, INVALID if only values are, OK; OVERLOADED: out of memory.
enum sk_verdict sk_fields_end(struct sk_fields *read);

void sk_fields_free(struct sk_fields *read);

#define SK_TIME_DETAIL "must be a time of RFC 3339 from 1970 to 9999, such as 2030-01-31T20:00:00+08:00"

// Read a value. False: it is missing, has another type, or is outside the bounds (inclusive).
bool sk_fields_integer(const json_t *value, int64_t least, int64_t most, int64_t *out);
bool sk_fields_text(const json_t *value, size_t least_bytes, size_t most_bytes, const char **out); // borrowed

#endif
