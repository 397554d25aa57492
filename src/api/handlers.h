// What each route does with its request: asks the shop, and makes an answer of what it says. The only file of
// this floor, beside reactor.c, that calls the shop.
//
// The loop's thread, as all functions.
#ifndef SK_API_HANDLERS_H
#define SK_API_HANDLERS_H

#include "answer.h"
#include "routes.h"
#include "text.h"
#include "ticket.h"
#include "uuid.h"

struct sk_document;
struct sk_pages;

struct sk_context {
    const struct sk_routes_options *options; // borrowed, as all
    struct sk_control *control;              // there as long as requests reach a handler
    struct sk_answers *answers;
    const struct sk_document *openapi;
    const struct sk_pages *pages; // NULL: they are off
    const struct sk_tickets *tickets;
    struct sk_limits *limits;   // NULL: no client is limited
    struct sk_metrics *metrics; // NULL: nothing is counted
    uint64_t stores_ms;         // enough to ask the stores
    bool draining;              // no new orders
};

// A request that takes its time, and for what (handle_live.c).
enum sk_call_wait {
    SK_CALL_AT_ONCE,
    SK_CALL_ASKS,   // whether the order is as its client has it
    SK_CALL_PARKED, // it is, and may change
    SK_CALL_OVER,   // it has not changed in time, and is asked about once more
    SK_CALL_FINDS,  // the voucher that it wants to listen to
    SK_CALL_STREAMS,
};

// What is remembered of a request while it is handled: in its note. The routes have filled in what the path and the
// caller's fields say, as far as the route has it.
struct sk_call {
    char user[SK_USER_SIZE];     // who asks; "" where that is no user
    char by[SK_ADMIN_NAME_SIZE]; // which admin asks: the name of the token; "" where that is none
    char order_id[SK_UUID_SIZE]; // of the path; or of the order, once one is accepted
    int64_t voucher_id, letter_id;
    int64_t if_match;   // OPERATE: the version that the change is meant for; 0: whichever it is
    const char *type;   // of the document that is asked for, a constant; NULL: JSON
    uint16_t quantity;  // units that are asked for
    bool accepted;      // the order waits for its commit
    bool repeats;       // an order that came with the same Idempotency-Key: its first answer is given again
    bool respond_async; // and the client does not
    enum sk_call_wait waits;
    unsigned wait_s;
    const char *only_while; // the request's; NULL: any status that may change
};

_Static_assert(sizeof(struct sk_call) <= SK_REQUEST_NOTE_SIZE, "a call is a request's note");

static inline struct sk_call *sk_call_of(struct sk_request *request)
{
    return (struct sk_call *)(void *)request->note.bytes;
}

// Each answers the request, or leaves it waiting for an outcome. It waits already, unless its route never does.
typedef void sk_handle(const struct sk_context *context, struct sk_request *request);

sk_handle sk_handle_buy, sk_handle_order, sk_handle_voucher;
sk_handle sk_handle_create, sk_handle_inspect, sk_handle_rebuild;
sk_handle sk_handle_settlement;
sk_handle sk_handle_requeue, sk_handle_write_off;
sk_handle sk_handle_change, sk_handle_pause, sk_handle_resume, sk_handle_close, sk_handle_stock; // handle_operate.c
sk_handle sk_handle_ticket;                                                                      // handle_ticket.c
sk_handle sk_handle_cancel, sk_handle_pay, sk_handle_refund;                                     // handle_moves.c
sk_handle sk_handle_events;                                                                      // handle_live.c
// handle_lists.c
sk_handle sk_handle_orders, sk_handle_vouchers, sk_handle_admin_vouchers, sk_handle_admin_orders;
sk_handle sk_handle_letters, sk_handle_admin_events, sk_handle_order_events, sk_handle_instances;
sk_handle sk_handle_metrics;                                       // handle_metrics.c
sk_handle sk_handle_page, sk_handle_demo_page, sk_handle_demo_pay; // handle_pages.c
sk_handle sk_handle_health, sk_handle_ready, sk_handle_not_found, sk_handle_openapi;

// Idempotency-Key: none, which is NULL, or one of 1 to 255 visible ASCII characters. False: the request was refused.
bool sk_handle_read_key(const struct sk_context *context, struct sk_request *request, const char **key);
// Refuses a body, with all that is wrong with it.
struct sk_fields;
void sk_handle_bad_body(const struct sk_context *context, struct sk_request *request, enum sk_verdict verdict,
                        const struct sk_fields *read);

// ---- for handlers.c, in handle_ticket.c ----

// What became of the purchase's ticket.
struct sk_ask;
void sk_handle_read_ticket(const struct sk_context *context, const struct sk_request *request,
                           const struct sk_call *call, struct sk_ask *ask);
// Answers a request for a ticket, or for the challenge that one takes.
void sk_handle_offer(const struct sk_context *context, struct sk_request *request, const struct sk_voucher *voucher);

// The shop has answered a request that waits.
void sk_handle_outcome(const struct sk_context *context, struct sk_request *request, const struct sk_outcome *outcome);
// It has not, in time.
void sk_handle_expired(const struct sk_context *context, struct sk_request *request);
// A stream is open; a parked request's client is gone, or a stream ends.
void sk_handle_streams(const struct sk_context *context, struct sk_request *request);
void sk_handle_gone(const struct sk_context *context, struct sk_request *request);

// ---- for handlers.c, in handle_live.c ----

// What of the query says how long to wait. False: it is bad.
bool sk_handle_read_wait(struct sk_request *request);
// Whether a long request may begin. False: it was refused, and its connection ends.
bool sk_handle_hold(const struct sk_context *context, struct sk_request *request);
// Whether the outcome is no answer yet: the request is parked, or becomes a stream.
bool sk_handle_goes_on(const struct sk_context *context, struct sk_request *request, const struct sk_outcome *outcome);
// Whether a request whose time is up is asked about once more.
bool sk_handle_overtime(const struct sk_context *context, struct sk_request *request);

#endif
