// Questions about vouchers. Each call answers its handle once, with FOUND and a document or with a refusal; it may do
// so before it returns, so the request must be waiting by then.
#ifndef SK_API_VOUCHER_QUERIES_H
#define SK_API_VOUCHER_QUERIES_H

#include "talk.h"

// A voucher is shown as PostgreSQL had it at most so long ago: a crowd that refreshes its pages costs one statement
// a second.
enum { SK_VOUCHER_SHOWN_MS = 1000 };
void sk_query_voucher(struct sk_control *control, int64_t id, uint64_t handle);

// What both stores say of a voucher, side by side: for the admin.
void sk_query_inspect(struct sk_control *control, int64_t id, uint64_t handle);

// For voucher_list.c. Answers from memory; `next` as in the outcome. False: what is there is too old.
bool sk_voucher_tell_shown(const struct sk_control *control, const struct sk_shown *shown, const char *next,
                           uint64_t handle);

// Puts what is known at this moment in front of an object: {"server_time":"...","can_sell":true,<rest of the object>.
// can_sell is false while Redis is away: what the object says is left cannot be bought.
void sk_voucher_put_time(const struct sk_sale *sale, struct sk_buf *out, const char *object);

#endif
