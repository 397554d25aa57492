// Tokens of admins and signatures of payments that were sent and are wrong: guesses, or what was forgotten when a
// secret changed.
#ifndef SK_IDENTITY_FAILED_AUTH_H
#define SK_IDENTITY_FAILED_AUTH_H

#include "client_limits.h"
#include "metrics.h"

// The loop's thread. If that is what the verdict says of the request, counts it, also for its address, and logs it, at
// most SK_LOG_LINES_PER_S times a second. `limits`, `metrics`: NULL is fine.
void sk_failed_auth_note(const struct sk_request *request, enum sk_verdict verdict, struct sk_limits *limits,
                         struct sk_metrics *metrics);

#endif
