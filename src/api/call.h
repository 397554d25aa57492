// A call: what the service keeps of a request while it works on it, and what all handlers share. A handler reads the
// request and answers it, or asks the stores and leaves it waiting; the answer then comes for its handle.
//
// The loop's thread, as all functions.
#ifndef SK_API_CALL_H
#define SK_API_CALL_H

#include "answer.h"
#include "routes.h"
#include "text.h"
#include "uuid.h"

struct sk_document;
struct sk_fields;
struct sk_pages;
struct sk_tickets;

struct sk_context {
    const struct sk_routes_options *options; // borrowed, as all
    struct sk_control *control;              // NULL: the control plane is closed, and no request reaches a handler
    struct sk_answers *answers;
    const struct sk_document *openapi;
    const struct sk_pages *pages; // NULL: they are off
    const struct sk_tickets *tickets;
    struct sk_limits *limits;   // NULL: no client is limited
    struct sk_metrics *metrics; // NULL: nothing is counted
    uint64_t stores_ms;         // time allowed for asking the stores
    bool draining;              // no new orders
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
    unsigned wait_s;         // GET /orders/{id}: how long to wait
    uint16_t quantity;       // units to buy
    bool respond_async;      // the client does not wait for the commit
};

_Static_assert(sizeof(struct sk_call) <= SK_REQUEST_NOTE_SIZE, "a call is a request's note");

static inline struct sk_call *sk_call_of(struct sk_request *request)
{
    return (struct sk_call *)(void *)request->note.bytes;
}

// Reads Idempotency-Key: 1 to 255 visible ASCII characters; *key NULL: not sent. False: the request was refused.
bool sk_call_read_key(const struct sk_context *context, struct sk_request *request, const char **key);

// Refuses a body, and lists all its errors.
void sk_call_refuse_body(const struct sk_context *context, struct sk_request *request, enum sk_verdict verdict,
                         const struct sk_fields *read);

// Whether a long request may begin. False: it was refused, and its connection is closed.
bool sk_call_hold(const struct sk_context *context, struct sk_request *request);

#endif
