// Reads the bodies of POST /orders/{id}/pay and /refund, and says all that is wrong with them.
#ifndef SK_API_MOVE_BODIES_H
#define SK_API_MOVE_BODIES_H

#include "fields.h"
#include "moves.h"

// The loop's thread, as all functions. What it came to, as sk_fields_end() says; the texts point into `read`, which the
// caller frees in any case.
enum sk_verdict sk_payment_read(const char *body, size_t len, struct sk_payment *payment, struct sk_fields *read);
// A payment of the demo has no reference of its own: that is left as it is.
enum sk_verdict sk_demo_payment_read(const char *body, size_t len, struct sk_payment *payment, struct sk_fields *read);
enum sk_verdict sk_refund_read(const char *body, size_t len, struct sk_refund *refund, struct sk_fields *read);

#endif
