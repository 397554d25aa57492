// The vouchers with orders in progress. Each session publishes those that it finds in a hash of Redis, and all sessions
// search for pending orders there first.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_BUSY_VOUCHERS_H
#define SK_RECOVERY_BUSY_VOUCHERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sale.h"

enum { SK_BUSY_MAX = 1024 }; // published and remembered

// Private. Starts zeroed, but for `sale`.
struct sk_busy {
    const struct sk_sale *sale;
    int64_t found[SK_BUSY_MAX]; // by this reactor, in this round
    size_t found_count;
    int64_t published[SK_BUSY_MAX]; // by all sessions, at their last checks: ids, since one may leave the catalogue
    size_t published_count;
};

// A round notes the vouchers that it finds, and publishes them at its end. What others have published is read at the
// same time.
void sk_busy_note(struct sk_busy *busy, const struct sk_voucher *voucher);
void sk_busy_publish(struct sk_busy *busy);

// See sk_audit_busy().
size_t sk_busy_list(const struct sk_busy *busy, struct sk_voucher **out, size_t most, bool *complete);

#endif
