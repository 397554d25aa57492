// Vouchers in which orders were in progress. Each session publishes those that it finds in a hash of Redis. All
// sessions look for pending orders there first.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_BUSY_H
#define SK_RECOVERY_BUSY_H

#include "sale.h"

struct sk_busy;

// NULL: out of memory.
struct sk_busy *sk_busy_open(const struct sk_sale *sale);
void sk_busy_close(struct sk_busy *busy); // after the links were closed; NULL is fine

// A round of this reactor: begin it, note each busy voucher, publish. Publishing also reads the other sessions'
// vouchers.
void sk_busy_begin(struct sk_busy *busy);
void sk_busy_note(struct sk_busy *busy, const struct sk_voucher *voucher);
void sk_busy_publish(struct sk_busy *busy);

// See sk_watch_busy().
size_t sk_busy_list(const struct sk_busy *busy, struct sk_voucher **out, size_t most, bool *complete);

#endif
