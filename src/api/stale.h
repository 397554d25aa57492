// Vouchers as buyers are shown them while PostgreSQL cannot be asked: from the catalogue, with the terms that this
// reactor has read last. The units that are left are asked of Redis, within a limit, so that readers of lists take
// nothing from the buyers.
//
// The reactor's thread, as all functions.
#ifndef SK_API_STALE_H
#define SK_API_STALE_H

#include "page.h"
#include "query.h"

enum { SK_STALE_READS_PER_S = 200 }; // vouchers that a reactor asks Redis about; of others the units are not known

// At most SK_PAGE_MOST vouchers, for one query.
struct sk_stale;

// NULL: out of memory. `done` runs once, after sk_stale_ask().
struct sk_stale *sk_stale_new(struct sk_query *query, void (*done)(struct sk_query *query));
void sk_stale_free(struct sk_stale *stale); // no call to Redis may be in progress; NULL is fine

// False: nothing is added, because the voucher's document has not been read yet.
bool sk_stale_add(struct sk_stale *stale, struct sk_voucher *voucher);

// `done` may run, and the query may end, before this returns.
void sk_stale_ask(struct sk_stale *stale);

// Appends the vouchers' JSON, with commas between them, as sk_phase_put().
void sk_stale_put(const struct sk_stale *stale, struct sk_buf *out, struct sk_phase_span *span);

#endif
