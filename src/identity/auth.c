// A field that is sent twice does not identify: the gateway and this service might not agree on which one counts. With
// tokens X-User-Id is ignored, since any client could send one.
#include "auth.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "admin_tokens.h"
#include "clock.h"
#include "log.h"
#include "signature.h"
#include "text.h"
#include "webhook_keys.h"

// NULL: there is not exactly one such field, or it has another scheme.
static const char *auth_bearer(const struct sk_request *request)
{
    static const char scheme[] = "Bearer ";
    unsigned count;
    const char *value = sk_request_header(request, "authorization", &count);
    if (count != 1 || strncasecmp(value, scheme, sizeof scheme - 1) != 0)
        return NULL;
    for (value += sizeof scheme - 1; *value == ' '; value++) // RFC 9110 11.4
        continue;
    return value;
}

// All refusals look the same to the client: none of them shows how near it came.
static enum sk_caller auth_token(const struct sk_request *request, struct sk_user_tokens *users,
                                 char user[SK_USER_SIZE])
{
    const char *token = auth_bearer(request);
    enum sk_jwt_result result =
        token == NULL ? SK_JWT_NOT_SENT : sk_user_tokens_check(users, token, (int64_t)(sk_wall_ms() / 1000), user);
    if (result == SK_JWT_GOOD)
        return SK_CALLER_KNOWN;
    sk_log_text(SK_LOG_DEBUG, "no user", "reason", sk_jwt_reason(result));
    return result == SK_JWT_NO_MEM ? SK_CALLER_NO_MEM : SK_CALLER_UNKNOWN;
}

enum sk_caller sk_auth_user(const struct sk_request *request, struct sk_user_tokens *users, char user[SK_USER_SIZE])
{
    if (users != NULL)
        return auth_token(request, users, user);
    unsigned count;
    const char *value = sk_request_header(request, "x-user-id", &count);
    if (count != 1 || !sk_text_user(value))
        return SK_CALLER_UNKNOWN;
    memcpy(user, value, strlen(value) + 1);
    return SK_CALLER_KNOWN;
}

const char *sk_auth_user_fault(const struct sk_request *request)
{
    unsigned count;
    (void)sk_request_header(request, "x-user-id", &count);
    return count == 0  ? "X-User-Id is missing; the gateway sets it"
           : count > 1 ? "X-User-Id was sent more than once"
                       : "X-User-Id is not 1 to 64 of A-Za-z0-9_.-";
}

enum sk_caller sk_auth_admin(const struct sk_request *request, const struct sk_tokens *tokens, enum sk_role role,
                             char name[SK_ADMIN_NAME_SIZE])
{
    if (!sk_tokens_any(tokens))
        return SK_CALLER_ADMIN_OFF;
    const char *token = auth_bearer(request);
    unsigned roles = token == NULL ? 0 : sk_tokens_find(tokens, token, name);
    if (roles == 0)
        return SK_CALLER_UNKNOWN;
    return (roles & role) != 0 ? SK_CALLER_KNOWN : SK_CALLER_FORBIDDEN;
}

// What is signed, and how often each field was sent.
static struct sk_signed auth_signed(const struct sk_request *request, unsigned *stamps, unsigned *signatures)
{
    return (struct sk_signed){
        .timestamp = sk_request_header(request, "x-seckill-timestamp", stamps),
        .signature = sk_request_header(request, "x-seckill-signature", signatures),
        .path = request->path,
        .body = request->body.data,
        .body_len = request->body.len,
    };
}

bool sk_auth_signs_body_alone(const struct sk_request *request)
{
    unsigned stamps, signatures, webhook;
    (void)auth_signed(request, &stamps, &signatures);
    (void)sk_request_header(request, "webhook-signature", &webhook);
    return stamps + signatures == 0 && webhook > 0;
}

static bool auth_is_webhook(const struct sk_request *request, const char *secrets)
{
    unsigned ids, stamps, signatures;
    const char *id = sk_request_header(request, "webhook-id", &ids),
               *stamp = sk_request_header(request, "webhook-timestamp", &stamps),
               *sent = sk_request_header(request, "webhook-signature", &signatures);
    const struct sk_webhook_message message = {id, stamp, request->body.data, request->body.len};
    return secrets != NULL && ids == 1 && stamps == 1 && signatures == 1 &&
           sk_signature_is_of_now(stamp, (int64_t)(sk_wall_ms() / 1000)) &&
           sk_webhook_signature_good(secrets, &message, sent);
}

enum sk_caller sk_auth_payment(const struct sk_request *request, const struct sk_tokens *tokens, const char *secret,
                               char name[SK_ADMIN_NAME_SIZE])
{
    unsigned stamps, signatures;
    struct sk_signed message = auth_signed(request, &stamps, &signatures);
    bool webhook = sk_auth_signs_body_alone(request);
    if (stamps + signatures == 0 && !webhook && (sk_tokens_any(tokens) || secret == NULL))
        return sk_auth_admin(request, tokens, SK_ROLE_PAYMENTS, name);
    if (webhook ? !auth_is_webhook(request, secret)
                : stamps != 1 || signatures != 1 || secret == NULL ||
                      !sk_signature_good(secret, &message, (int64_t)(sk_wall_ms() / 1000)))
        return SK_CALLER_BAD_SIGNATURE;
    (void)snprintf(name, SK_ADMIN_NAME_SIZE, "payment callback");
    return SK_CALLER_KNOWN;
}

const char *sk_auth_payment_fault(const struct sk_request *request, const char *secret)
{
    unsigned stamps, signatures;
    struct sk_signed message = auth_signed(request, &stamps, &signatures);
    if (secret == NULL)
        return "signatures are off: no payment secret is configured";
    if (sk_auth_signs_body_alone(request))
        return "webhook-id, webhook-timestamp (within 300 s of the service's clock) and webhook-signature (v1, by a "
               "payment secret that is whsec_...) must fit the body, and be there once each";
    if (stamps != 1 || signatures != 1)
        return "X-Seckill-Timestamp and X-Seckill-Signature must be there, once each";
    return sk_signature_is_of_now(message.timestamp, (int64_t)(sk_wall_ms() / 1000))
               ? "X-Seckill-Signature is not the HMAC-SHA256 of time stamp, path and body, in hexadecimal digits"
               : "X-Seckill-Timestamp is not a Unix time in seconds, within 300 s of the service's clock";
}

// ---- lines ----

bool sk_span_line(struct sk_span *text, struct sk_span *line)
{
    *line = *text;
    if (text->len == 0)
        return false;
    const char *end = memchr(text->at, '\n', text->len);
    size_t taken = end == NULL ? text->len : (size_t)(end - text->at) + 1;
    line->len = taken - (end != NULL);
    *text = (struct sk_span){text->at + taken, text->len - taken};
    if (line->len > 0 && line->at[line->len - 1] == '\r')
        line->len--;
    return true;
}

static bool span_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

struct sk_span sk_span_word(struct sk_span *line)
{
    struct sk_span word;
    for (; line->len > 0 && span_is_blank(*line->at); line->len--)
        line->at++;
    for (word = (struct sk_span){line->at, 0}; line->len > 0 && !span_is_blank(*line->at); line->len--) {
        line->at++;
        word.len++;
    }
    return word;
}
