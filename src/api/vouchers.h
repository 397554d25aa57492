// Questions about vouchers: one, and lists of them. Each call answers its handle once, perhaps before it returns, so
// the request must be waiting by then.
//
// The reactor's thread, as all functions.
#ifndef SK_API_VOUCHERS_H
#define SK_API_VOUCHERS_H

#include "call.h"
#include "page.h"

sk_handle sk_handle_voucher, sk_handle_vouchers, sk_handle_inspect, sk_handle_admin_vouchers;

// A voucher is shown as PostgreSQL had it at most so long ago: a crowd that refreshes its pages costs one statement
// a second.
enum { SK_VOUCHER_SHOWN_MS = 1000 };

// FOUND and the voucher; UNKNOWN_VOUCHER; UNAVAILABLE; OVERLOADED.
void sk_query_voucher(struct sk_control *control, int64_t id, uint64_t handle);

// What both stores say of a voucher, side by side: for operators.
void sk_query_inspect(struct sk_control *control, int64_t id, uint64_t handle);

// FOUND and a page of vouchers that are open, the newest first; BAD_PARAMETER; UNAVAILABLE; OVERLOADED. The first page
// of the usual length is from memory, at most a second old, because a crowd asks for it; of others, equal questions
// share one answer, and at most 16 are asked for at a time.
void sk_list_vouchers(struct sk_control *control, const struct sk_page_asked *ask, uint64_t handle);

// The same of vouchers in this state; NULL: in any.
void sk_list_admin_vouchers(struct sk_control *control, const char *state, const struct sk_page_asked *ask,
                            uint64_t handle);

#endif
