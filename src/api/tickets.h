// Purchase tickets: what is offered to those who ask for one, and what becomes of one that a purchase carries.
//
// The loop's thread, as all functions.
#ifndef SK_API_TICKETS_H
#define SK_API_TICKETS_H

#include "call.h"
#include "query.h"

struct sk_ask;

sk_handle sk_handle_ticket;

// What became of the purchase's ticket.
void sk_ticket_read(const struct sk_context *context, const struct sk_request *request, const struct sk_call *call,
                    struct sk_ask *ask);

// Whether the voucher is on offer: answers its handle once, perhaps before it returns: FOUND without a body: the
// catalogue has it; ENDED: it is retired; UNKNOWN_VOUCHER; UNAVAILABLE or OVERLOADED.
void sk_check_offer(struct sk_control *control, int64_t voucher_id, uint64_t handle);

#endif
