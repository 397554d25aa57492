// What each route does with its request: asks the shop, and makes an answer of what it says. The only file of
// this floor, beside reactor.c, that calls the shop.
//
// The loop's thread, as all functions.
#ifndef SK_HTTP_HANDLERS_H
#define SK_HTTP_HANDLERS_H

#include "answer.h"
#include "shop.h"
#include "text.h"
#include "uuid.h"

struct sk_context {
    const struct sk_config *config; // borrowed, as all
    struct sk_shop *shop;           // there as long as requests reach a handler
    struct sk_answers *answers;
    bool draining; // no new orders
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
// handle_lists.c
sk_handle sk_handle_orders, sk_handle_vouchers, sk_handle_admin_vouchers, sk_handle_admin_orders;
sk_handle sk_handle_letters, sk_handle_admin_events, sk_handle_order_events;
sk_handle sk_handle_health, sk_handle_ready, sk_handle_not_found;

// The shop has answered a request that waits.
void sk_handle_outcome(const struct sk_context *context, struct sk_request *request, const struct sk_outcome *outcome);
// It has not, in time.
void sk_handle_expired(const struct sk_context *context, struct sk_request *request);

#endif
