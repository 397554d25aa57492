// Expiry: unpaid orders end when their voucher's `pay_within_s` is over, and their units sell again.
//
// The living sessions share the vouchers among them, as the watch does, and a voucher has one at a time: the holder of
// its lock "expire". When that one dies, its lock ends with its TTL, and another goes on. PostgreSQL's clock decides
// what is due, and says when it is worth looking again. While its clock and Redis's differ by more than five seconds,
// nothing expires: one of them is wrong, and an order that ends too soon cannot be revived.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_EXPIRY_H
#define SK_RECOVERY_EXPIRY_H

#include "care.h"
#include "returns.h"
#include "sale.h"

struct sk_expiry;

// NULL: out of memory. The returns are set once they exist.
struct sk_expiry *sk_expiry_open(const struct sk_sale *sale);
void sk_expiry_set_returns(struct sk_expiry *expiry, struct sk_returns *returns);
void sk_expiry_stop(struct sk_expiry *expiry);  // what is under way ends, and nothing begins
void sk_expiry_close(struct sk_expiry *expiry); // after the links and the returns were closed; NULL is fine

#endif
