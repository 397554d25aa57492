// Who is calling. Of users a trusted gateway says so in X-User-Id; a verifier of tokens will slot in here. Admins have
// tokens (tokens.h), and the shop's payment side may sign what it sends instead (signature.h).
#ifndef SK_HTTP_AUTH_H
#define SK_HTTP_AUTH_H

#include "request.h"
#include "text.h"
#include "tokens.h"
#include "verdict.h"

// The loop's thread, as all functions. The caller's user id; false: not identified.
bool sk_auth_user(const struct sk_request *request, char user[SK_USER_SIZE]);

// Whether the request may make calls that need the role: FOUND, and the token's name; or the refusal.
enum sk_verdict sk_auth_admin(const struct sk_request *request, const struct sk_tokens *tokens, enum sk_role role,
                              char name[SK_ADMIN_NAME_SIZE]);

// Whether the request comes from the shop's payment side: a token with the role PAYMENTS, or a signature, by the name
// of "payment callback". A request with a signature stands or falls with it. `secret` NULL: none is good.
enum sk_verdict sk_auth_payment(const struct sk_request *request, const struct sk_tokens *tokens, const char *secret,
                                char name[SK_ADMIN_NAME_SIZE]);

#endif
