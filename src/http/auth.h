// Who is calling. Today a trusted gateway says so in X-User-Id; a verifier of tokens will slot in here.
#ifndef SK_HTTP_AUTH_H
#define SK_HTTP_AUTH_H

#include "server.h"

// Any thread. The caller's user id, borrowed from the request; NULL: not identified.
const char *sk_auth_user(const struct sk_request *request);

// Whether the request may make admin calls: FOUND, or the refusal. `token` NULL: nobody may.
enum sk_verdict sk_auth_admin(const struct sk_request *request, const char *token);

#endif
