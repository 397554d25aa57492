// A field that is sent twice does not identify: the gateway and this service might not agree on which one counts. With
// tokens X-User-Id is ignored, since any client could send one.
#include "auth.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "buf.h"
#include "clock.h"
#include "log.h"
#include "text.h"

static enum sk_caller auth_token(const struct sk_request *request, struct sk_user_tokens *users,
                                 char user[SK_USER_SIZE]);
static const char *auth_bearer(const struct sk_request *request);

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

// NULL: there is not exactly one such field, or it has another scheme.
static const char *auth_bearer(const struct sk_request *request)
{
    static const char scheme[] = "Bearer ";
    unsigned count;
    const char *value = sk_request_header(request, "authorization", &count);
    return count == 1 && strncasecmp(value, scheme, sizeof scheme - 1) == 0 ? value + sizeof scheme - 1 : NULL;
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

enum sk_caller sk_auth_payment(const struct sk_request *request, const struct sk_tokens *tokens, const char *secret,
                               char name[SK_ADMIN_NAME_SIZE])
{
    unsigned stamps, signatures;
    struct sk_signed message = {
        .timestamp = sk_request_header(request, "x-seckill-timestamp", &stamps),
        .signature = sk_request_header(request, "x-seckill-signature", &signatures),
        .path = request->path,
        .body = request->body.data,
        .body_len = request->body.len,
    };
    if (stamps + signatures == 0 && (sk_tokens_any(tokens) || secret == NULL))
        return sk_auth_admin(request, tokens, SK_ROLE_PAYMENTS, name);
    if (stamps != 1 || signatures != 1 || secret == NULL ||
        !sk_signature_good(secret, &message, (int64_t)(sk_wall_ms() / 1000)))
        return SK_CALLER_BAD_SIGNATURE;
    (void)snprintf(name, SK_ADMIN_NAME_SIZE, "payment callback");
    return SK_CALLER_KNOWN;
}

// ---- signature ----

// The signed text can be read in one way only: a time stamp has digits alone, and the paths of calls that take
// signatures have no dot.

enum { MAC_SIZE = 32 };

static bool signature_is_of_now(const char *timestamp, int64_t now_s)
{
    uint64_t stamp_s;
    if (!sk_text_number(timestamp, INT64_MAX, &stamp_s) || now_s < 0)
        return false;
    uint64_t now = (uint64_t)now_s;
    return (stamp_s < now ? now - stamp_s : stamp_s - now) <= SK_SIGNATURE_TOLERANCE_S;
}

// -1: not a hexadecimal digit.
static int signature_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool signature_read(const char *text, unsigned char mac[MAC_SIZE])
{
    if (strlen(text) != (size_t)MAC_SIZE * 2)
        return false;
    for (size_t i = 0; i < MAC_SIZE; i++) {
        int high = signature_digit(text[2 * i]), low = signature_digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        mac[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static bool signature_make(const char *secret, size_t secret_len, const struct sk_signed *message,
                           unsigned char mac[MAC_SIZE])
{
    unsigned char made[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    struct sk_buf text = {0};
    sk_buf_printf(&text, "%s.%s.", message->timestamp, message->path);
    if (message->body_len > 0)
        sk_buf_add(&text, message->body, message->body_len);
    bool done = !text.failed && HMAC(EVP_sha256(), secret, (int)secret_len, (const unsigned char *)text.data, text.len,
                                     made, &len) != NULL;
    sk_buf_free(&text);
    if (!done || len != MAC_SIZE)
        return false;
    memcpy(mac, made, MAC_SIZE);
    return true;
}

bool sk_signature_good(const char *secrets, const struct sk_signed *message, int64_t now_s)
{
    unsigned char sent[MAC_SIZE], made[MAC_SIZE];
    bool good = false;
    if (!signature_is_of_now(message->timestamp, now_s) || !signature_read(message->signature, sent))
        return false;
    for (const char *at = secrets; !good && *at != '\0'; at += *at == '\n') {
        size_t len = strcspn(at, "\n"), kept = len > 0 && at[len - 1] == '\r' ? len - 1 : len;
        good = kept > 0 && signature_make(at, kept, message, made) && CRYPTO_memcmp(sent, made, MAC_SIZE) == 0;
        at += len;
    }
    return good;
}
