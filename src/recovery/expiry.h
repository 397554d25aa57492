// Expiry: unpaid orders end when their voucher's `pay_within_s` is over, and their units sell again.
//
// The sessions divide the vouchers among them, as in the audit, and one session at a time works on a voucher: the
// holder of its lock "expire". If that session dies, its lock ends with it, and another goes on. PostgreSQL's clock
// decides what is due, and when to check again. While its clock and Redis's differ by more than five seconds nothing
// expires: one of them is wrong, and an order that ended too soon cannot be revived.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_EXPIRY_H
#define SK_RECOVERY_EXPIRY_H

#include "returns.h"

struct sk_expiry;

// NULL: out of memory.
struct sk_expiry *sk_expiry_open(const struct sk_sale *sale);
void sk_expiry_stop(struct sk_expiry *expiry);  // runs in progress end, and none begins
void sk_expiry_close(struct sk_expiry *expiry); // after the links and the returns were closed; NULL is fine

#endif
