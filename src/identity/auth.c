// A field that is sent twice does not identify: the gateway and this service might not agree on which one counts. With
// tokens X-User-Id is not looked at: any client could send one.
#include "auth.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "clock.h"
#include "log.h"
#include "signature.h"

static enum sk_verdict auth_token(const struct sk_request *request, struct sk_user_tokens *users,
                                  char user[SK_USER_SIZE]);
static const char *auth_bearer(const struct sk_request *request);

enum sk_verdict sk_auth_user(const struct sk_request *request, struct sk_user_tokens *users, char user[SK_USER_SIZE])
{
    if (users != NULL)
        return auth_token(request, users, user);
    unsigned count;
    const char *value = sk_request_header(request, "x-user-id", &count);
    if (count != 1 || !sk_text_user(value))
        return SK_VERDICT_UNAUTHENTICATED;
    memcpy(user, value, strlen(value) + 1);
    return SK_VERDICT_FOUND;
}

// All refusals are one to the client: it learns from none of them how near it came.
static enum sk_verdict auth_token(const struct sk_request *request, struct sk_user_tokens *users,
                                  char user[SK_USER_SIZE])
{
    const char *token = auth_bearer(request);
    enum sk_jwt_result result =
        token == NULL ? SK_JWT_NOT_SENT : sk_user_tokens_check(users, token, (int64_t)(sk_wall_ms() / 1000), user);
    if (result == SK_JWT_GOOD)
        return SK_VERDICT_FOUND;
    sk_log_text(SK_LOG_DEBUG, "no user", "reason", sk_jwt_reason(result));
    return result == SK_JWT_NO_MEM ? SK_VERDICT_OVERLOADED : SK_VERDICT_UNAUTHENTICATED;
}

// NULL: there is not one such field, of that scheme.
static const char *auth_bearer(const struct sk_request *request)
{
    static const char scheme[] = "Bearer ";
    unsigned count;
    const char *value = sk_request_header(request, "authorization", &count);
    return count == 1 && strncasecmp(value, scheme, sizeof scheme - 1) == 0 ? value + sizeof scheme - 1 : NULL;
}

enum sk_verdict sk_auth_admin(const struct sk_request *request, const struct sk_tokens *tokens, enum sk_role role,
                              char name[SK_ADMIN_NAME_SIZE])
{
    if (!sk_tokens_any(tokens))
        return SK_VERDICT_ADMIN_OFF;
    const char *token = auth_bearer(request);
    unsigned roles = token == NULL ? 0 : sk_tokens_find(tokens, token, name);
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
