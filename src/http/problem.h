// Refusals as RFC 9457 problem details, and the other bodies of our own making.
#ifndef SK_HTTP_PROBLEM_H
#define SK_HTTP_PROBLEM_H

#include <stdint.h>

#include "server.h"
#include "verdict.h"

// The reactor's thread. Gives a response, NULL: out of memory.
// `order_id` NULL: none. `retry_after_ms` 0: no Retry-After; otherwise it is rounded up to seconds.
sk_response *sk_problem(enum sk_verdict verdict, const char *order_id, uint64_t retry_after_ms);

struct json_t;

// The same with the member `errors`: a list, borrowed.
sk_response *sk_problem_with_errors(enum sk_verdict verdict, struct json_t *errors);

// A voucher that was created.
sk_response *sk_voucher_response(int64_t voucher_id, const char *document);

// An order that was placed or accepted just now: `status` is "unpaid" or "pending".
sk_response *sk_order_response(const char *order_id, int64_t voucher_id, const char *user, const char *status);

#endif
