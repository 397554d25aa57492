// Purchase tickets: issues them, and checks the ticket that a purchase carries.
//
// The loop's thread, as all functions.
#ifndef SK_API_TICKETS_H
#define SK_API_TICKETS_H

#include "call.h"
#include "query.h"

struct sk_ask;

sk_handle sk_handle_ticket;

// Reads and checks the ticket of a purchase; fills in ask->ticket and ask->offer.
void sk_ticket_read(const struct sk_context *context, const struct sk_request *request, const struct sk_call *call,
                    struct sk_ask *ask);

// Whether the voucher is on offer. Answers its handle once, perhaps before it returns: FOUND without a body: the
// catalogue has it; ENDED: it is retired; UNKNOWN_VOUCHER; UNAVAILABLE or OVERLOADED.
void sk_check_offer(struct sk_control *control, int64_t voucher_id, uint64_t handle);

#endif
