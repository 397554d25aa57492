// Identifies callers. A trusted gateway identifies users by X-User-Id, or a token does (user_tokens.h). Admins have
// tokens of their own kind, and the shop's payment side may sign its requests instead.
#ifndef SK_IDENTITY_AUTH_H
#define SK_IDENTITY_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "admin_tokens.h"
#include "identity_options.h"
#include "request.h"
#include "text.h"
#include "user_tokens.h"

// ---- lines ----
//
// Tokens and secrets are lists of lines, in files and in settings.

struct sk_span {
    const char *at;
    size_t len;
};

// Any thread. Takes the next line off the text, without its end (LF or CR LF); false: there is none.
bool sk_span_line(struct sk_span *text, struct sk_span *line);

// Any thread. Takes the next word off the line; length 0: there is none.
struct sk_span sk_span_word(struct sk_span *line);

// ---- callers ----

enum sk_caller {
    SK_CALLER_KNOWN,
    SK_CALLER_UNKNOWN,   // the caller is not identified
    SK_CALLER_FORBIDDEN, // an admin, whose token lacks the role
    SK_CALLER_BAD_SIGNATURE,
    SK_CALLER_ADMIN_OFF, // no admin token is configured
    SK_CALLER_NO_MEM,
};

// The loop's thread, as all functions. KNOWN, and the caller's user id; UNKNOWN; NO_MEM. `users` NULL: the gateway
// identifies the user.
enum sk_caller sk_auth_user(const struct sk_request *request, struct sk_user_tokens *users, char user[SK_USER_SIZE]);

// Why the gateway's field identifies no user: a constant, without the value. Only after sk_auth_user has found so.
const char *sk_auth_user_fault(const struct sk_request *request);

// Whether the request may make calls that need the role: KNOWN, and the token's name; or the refusal.
enum sk_caller sk_auth_admin(const struct sk_request *request, const struct sk_tokens *tokens, enum sk_role role,
                             char name[SK_ADMIN_NAME_SIZE]);

// Whether the request comes from the shop's payment side: it has a token with the role PAYMENTS, or a signature, whose
// name is "payment callback": one of ours (signature.h), or one of Standard Webhooks (webhook_keys.h). A request with a
// signature is accepted or rejected by it alone. `secret` NULL: no signature is valid.
enum sk_caller sk_auth_payment(const struct sk_request *request, const struct sk_tokens *tokens, const char *secret,
                               char name[SK_ADMIN_NAME_SIZE]);

// Whether the signature is one of Standard Webhooks, which does not cover the path: the body must name the order.
bool sk_auth_signs_body_alone(const struct sk_request *request);

// Why it has rejected the request's signature: a constant. A guess at the secret learns nothing from it.
const char *sk_auth_payment_fault(const struct sk_request *request, const char *secret);

#endif
