// Vouchers in pages: what everybody sees, and what an admin does.
#ifndef SK_API_VOUCHER_LIST_H
#define SK_API_VOUCHER_LIST_H

#include "page.h"

// The reactor's thread, as both. Each answers its handle once, perhaps before it returns: FOUND and a page of vouchers,
// the newest first; BAD_PARAMETER; UNAVAILABLE; OVERLOADED.
//
// Those that are open. The first page of the usual length is from memory, at most a second old, because a crowd asks
// for it; of others, equal questions share one answer, and at most 16 are asked for at a time.
void sk_list_vouchers(struct sk_control *control, const struct sk_page_asked *ask, uint64_t handle);

// `state` NULL: all of them.
void sk_list_admin_vouchers(struct sk_control *control, const char *state, const struct sk_page_asked *ask,
                            uint64_t handle);

#endif
