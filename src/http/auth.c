// A field that is sent twice does not identify: the gateway and this service might not agree on which one counts.
#include "auth.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "clock.h"
#include "signature.h"

bool sk_auth_user(const struct sk_request *request, char user[SK_USER_SIZE])
{
    unsigned count;
    const char *value = sk_request_header(request, "x-user-id", &count);
    if (count != 1 || !sk_text_user(value))
        return false;
    memcpy(user, value, strlen(value) + 1);
    return true;
}

enum sk_verdict sk_auth_admin(const struct sk_request *request, const struct sk_tokens *tokens, enum sk_role role,
                              char name[SK_ADMIN_NAME_SIZE])
{
    static const char scheme[] = "Bearer ";
    unsigned count;
    if (!sk_tokens_any(tokens))
        return SK_VERDICT_ADMIN_OFF;
    const char *value = sk_request_header(request, "authorization", &count);
    if (count != 1 || strncasecmp(value, scheme, sizeof scheme - 1) != 0)
        return SK_VERDICT_UNAUTHENTICATED;
    unsigned roles = sk_tokens_find(tokens, value + sizeof scheme - 1, name);
    if (roles == 0)
        return SK_VERDICT_UNAUTHENTICATED;
    return (roles & role) != 0 ? SK_VERDICT_FOUND : SK_VERDICT_FORBIDDEN;
}

enum sk_verdict sk_auth_payment(const struct sk_request *request, const struct sk_tokens *tokens, const char *secret,
                                char name[SK_ADMIN_NAME_SIZE])
{
    unsigned stamps, signatures;
    struct sk_signed said = {
        .timestamp = sk_request_header(request, "x-seckill-timestamp", &stamps),
        .signature = sk_request_header(request, "x-seckill-signature", &signatures),
        .path = request->path,
        .body = request->body.data,
        .body_len = request->body.len,
    };
    if (stamps + signatures == 0 && (sk_tokens_any(tokens) || secret == NULL))
        return sk_auth_admin(request, tokens, SK_ROLE_PAYMENTS, name);
    if (stamps != 1 || signatures != 1 || secret == NULL ||
        !sk_signature_good(secret, &said, (int64_t)(sk_wall_ms() / 1000)))
        return SK_VERDICT_BAD_SIGNATURE;
    (void)snprintf(name, SK_ADMIN_NAME_SIZE, "payment callback");
    return SK_VERDICT_FOUND;
}
