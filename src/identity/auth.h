// Who is calling. Of users a trusted gateway says so in X-User-Id, or a token does (user_tokens.h). Admins have tokens
// of their own kind (tokens.h), and the shop's payment side may sign what it sends instead.
#ifndef SK_IDENTITY_AUTH_H
#define SK_IDENTITY_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "request.h"
#include "text.h"
#include "tokens.h"
#include "user_tokens.h"
#include "verdict.h"

// The loop's thread, as all functions. OK, and the caller's user id; UNAUTHENTICATED; OVERLOADED: there was no
// memory to tell. `users` NULL: the gateway says who the user is.
enum sk_verdict sk_auth_user(const struct sk_request *request, struct sk_user_tokens *users, char user[SK_USER_SIZE]);

// Whether the request may make calls that need the role: OK, and the token's name; or the refusal.
enum sk_verdict sk_auth_admin(const struct sk_request *request, const struct sk_tokens *tokens, enum sk_role role,
                              char name[SK_ADMIN_NAME_SIZE]);

// Whether the request comes from the shop's payment side: a token with the role PAYMENTS, or a signature, by the name
// of "payment callback". A request with a signature stands or falls with it. `secret` NULL: none is good.
enum sk_verdict sk_auth_payment(const struct sk_request *request, const struct sk_tokens *tokens, const char *secret,
                                char name[SK_ADMIN_NAME_SIZE]);

// ---- signature ----

// The signature of what the shop's payment side sends. X-Seckill-Timestamp has the Unix time in seconds, and
// X-Seckill-Signature, in hexadecimal digits,
//
//   HMAC-SHA256(secret, timestamp "." path "." body)
//
// The path is that of the target, as it was sent and without a query.

// By so much the two clocks may differ, and for so long a signature may be used again: what it signs must bear that.
enum { SK_SIGNATURE_TOLERANCE_S = 300 };

struct sk_signed {
    const char *timestamp, *signature; // the fields' values
    const char *path;
    const void *body; // of no length: may be NULL
    size_t body_len;
};

// Any thread. Whether it is signed with one of the secrets, a line each, and was at about `now_s`, in Unix seconds.
// False also if there is no memory to tell.
bool sk_signature_good(const char *secrets, const struct sk_signed *said, int64_t now_s);

#endif
