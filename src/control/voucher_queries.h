// Questions about vouchers. Each call answers its ticket once, with FOUND and a document or with a refusal; it may do
// so before it returns, so the request must be waiting by then.
#ifndef SK_CONTROL_VOUCHER_QUERIES_H
#define SK_CONTROL_VOUCHER_QUERIES_H

#include "talk.h"

// Vouchers are shown as PostgreSQL had them at most a second ago: a crowd that refreshes its pages costs one statement
// a second.
void sk_query_voucher(struct sk_control *control, int64_t id, uint64_t ticket);
void sk_query_vouchers(struct sk_control *control, uint64_t ticket);

// What both stores say of a voucher, side by side: for the admin.
void sk_query_inspect(struct sk_control *control, int64_t id, uint64_t ticket);

#endif
