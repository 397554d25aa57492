// A refusal as RFC 9457 problem details: its text, and the fields that belong to it.
#ifndef SK_API_PROBLEM_H
#define SK_API_PROBLEM_H

#include <stddef.h>
#include <stdint.h>

#include "verdict.h"

// A problem's type is this and its code.
#define SK_PROBLEM_TYPE  "urn:seckill:problem:"
#define SK_PROBLEM_MEDIA "application/problem+json"

enum { SK_PROBLEM_SIZE = 512 };

struct sk_response;

// Any thread. `members`: further ones, each after a comma, or ""; `trace_id` NULL: it has none. All of it is printed as
// it is. Gives the length.
size_t sk_problem_put(char out[SK_PROBLEM_SIZE], enum sk_verdict verdict, const char *members, const char *trace_id);

// The loop's thread. `retry_after_ms` 0: what the verdict says; rounded up to seconds. NULL is fine.
void sk_problem_add_fields(struct sk_response *response, enum sk_verdict verdict, uint64_t retry_after_ms);

#endif
