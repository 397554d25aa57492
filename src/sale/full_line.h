// A line that is full refuses further users from memory, as a sale that is sold out does: for as long as a refusal may
// be cached, and not those who wait. PostgreSQL lets nobody join before such refusals have expired (join_orders()), and
// each user who has joined since changes the number that all refusals are for. So nobody who waits is refused (P6).
//
// Who waits is in a filter, which PostgreSQL's rows fill once for each such number.
#ifndef SK_SALE_FULL_LINE_H
#define SK_SALE_FULL_LINE_H

#include "sale.h"

// The reactor's thread, as all functions. PostgreSQL, asked then, has answered that the voucher's line is full, and
// that so many had ever joined it.
void sk_full_line_note(const struct sk_sale *sale, struct sk_voucher *voucher, uint64_t asked_at_ms, int64_t joined);

// Whether it is full, and this user surely does not wait. For a user whom the refusal cache refuses as SOLD_OUT.
bool sk_full_line_refuses(const struct sk_voucher *voucher, const char *user);

#endif
