// What a voucher is offered for at this moment, and what tickets for it take: asked before a ticket is given out.
#ifndef SK_API_OFFER_H
#define SK_API_OFFER_H

#include "talk.h"

// Answers its handle once, perhaps before it returns: FOUND with the voucher, from the catalogue; ENDED: it is retired;
// UNKNOWN_VOUCHER; UNAVAILABLE or OVERLOADED.
void sk_query_offer(struct sk_control *control, int64_t voucher_id, uint64_t handle);

#endif
