// Whether a token identifies a user: what a reactor checks tokens with.
//
// The reactor's thread, as all functions.
#ifndef SK_IDENTITY_USER_TOKENS_H
#define SK_IDENTITY_USER_TOKENS_H

#include "identity_options.h"
#include "metrics.h"
#include "token_ring.h"

struct sk_user_tokens;

// `reader`: this reactor's number (jws.h). `metrics` NULL: nothing is counted. NULL: out of memory. Borrows all.
struct sk_user_tokens *sk_user_tokens_open(const struct sk_identity_options *options, struct sk_token_ring *ring,
                                           unsigned reader, struct sk_metrics *metrics);
void sk_user_tokens_close(struct sk_user_tokens *users); // before the ring; NULL is fine

// GOOD, and the id of the user; or why not, which is for the log alone. Allocates nothing of its own for a token of the
// usual form.
enum sk_jwt_result sk_user_tokens_check(struct sk_user_tokens *users, const char *text, int64_t now_s,
                                        char id[SK_USER_SIZE]) SK_MUST_CHECK;

// Lets go of keys that were replaced: now and then also where no token comes.
void sk_user_tokens_turn(struct sk_user_tokens *users);

#endif
