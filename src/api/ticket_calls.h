// Issues purchase tickets, and checks the one that a purchase carries.
#ifndef SK_API_TICKET_CALLS_H
#define SK_API_TICKET_CALLS_H

#include "buy.h"
#include "call.h"

sk_handle sk_handle_ticket;

// Reads and checks the ticket of a purchase; fills in wish->ticket and wish->offer.
void sk_ticket_read(const struct sk_context *context, const struct sk_request *request, const struct sk_call *call,
                    struct sk_wish *wish);

#endif
