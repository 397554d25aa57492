// Who is calling. Today a trusted gateway says so in X-User-Id; a verifier of tokens will slot in here.
#ifndef SK_HTTP_AUTH_H
#define SK_HTTP_AUTH_H

#include "request.h"
#include "text.h"
#include "verdict.h"

// The loop's thread, as both. The caller's user id; false: not identified.
bool sk_auth_user(const struct sk_request *request, char user[SK_USER_SIZE]);

// Whether the request may make admin calls: FOUND, or the refusal. `token` NULL: such calls are off.
enum sk_verdict sk_auth_admin(const struct sk_request *request, const char *token);

#endif
