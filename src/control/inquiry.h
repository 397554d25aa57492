// Everything that is asked rather than ordered: orders and vouchers to look at. Each call answers its ticket
// once, through the core's on_outcome, with FOUND and a document, or with a refusal; it may do so before it
// returns, so the request must be waiting by then.
#ifndef SK_SALE_INQUIRY_H
#define SK_SALE_INQUIRY_H

#include "core.h"

struct sk_inquiries;

// The reactor's thread, as all calls. NULL: out of memory.
struct sk_inquiries *sk_inquiries_open(const struct sk_core *core);
void sk_inquiries_close(struct sk_inquiries *inquiries); // after the links were closed

// The caller's own order: settled, or accepted and pending. Never NOT_FOUND while it may be pending (P5).
void sk_inquiry_order(struct sk_inquiries *inquiries, const char *order_id, const char *user, uint64_t ticket);
// The caller's newest 100 orders, and after them all that are pending.
void sk_inquiry_orders(struct sk_inquiries *inquiries, const char *user, uint64_t ticket);

void sk_inquiry_voucher(struct sk_inquiries *inquiries, int64_t id, uint64_t ticket);
void sk_inquiry_vouchers(struct sk_inquiries *inquiries, uint64_t ticket);

// What both stores say of a voucher, side by side: for the admin.
void sk_inquiry_inspect(struct sk_inquiries *inquiries, int64_t id, uint64_t ticket);

#endif
