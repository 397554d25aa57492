// A field that is sent twice does not identify: the gateway and this service might not agree on which one counts. With
// tokens X-User-Id is ignored, since any client could send one.
#include "auth.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "buf.h"
#include "clock.h"
#include "log.h"
#include "text.h"

static enum sk_caller auth_token(const struct sk_request *request, struct sk_user_tokens *users,
                                 char user[SK_USER_SIZE]);
static const char *auth_bearer(const struct sk_request *request);
static bool signature_is_of_now(const char *timestamp, int64_t now_s);

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
    if (count != 1 || strncasecmp(value, scheme, sizeof scheme - 1) != 0)
        return NULL;
    for (value += sizeof scheme - 1; *value == ' '; value++) // RFC 9110 11.4
        continue;
    return value;
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

enum sk_caller sk_auth_payment(const struct sk_request *request, const struct sk_tokens *tokens, const char *secret,
                               char name[SK_ADMIN_NAME_SIZE])
{
    unsigned stamps, signatures;
    struct sk_signed message = auth_signed(request, &stamps, &signatures);
    if (stamps + signatures == 0 && (sk_tokens_any(tokens) || secret == NULL))
        return sk_auth_admin(request, tokens, SK_ROLE_PAYMENTS, name);
    if (stamps != 1 || signatures != 1 || secret == NULL ||
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
    if (stamps != 1 || signatures != 1)
        return "X-Seckill-Timestamp and X-Seckill-Signature must be there, once each";
    return signature_is_of_now(message.timestamp, (int64_t)(sk_wall_ms() / 1000))
               ? "X-Seckill-Signature is not the HMAC-SHA256 of time stamp, path and body, in hexadecimal digits"
               : "X-Seckill-Timestamp is not a Unix time in seconds, within 300 s of the service's clock";
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

static bool signature_read(const char *text, unsigned char mac[MAC_SIZE])
{
    if (strlen(text) != (size_t)MAC_SIZE * 2)
        return false;
    for (size_t i = 0; i < MAC_SIZE; i++) {
        int high = sk_hex_digit(text[2 * i]), low = sk_hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        mac[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static bool signature_make(struct sk_span secret, const struct sk_signed *message, unsigned char mac[MAC_SIZE])
{
    unsigned char made[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    struct sk_buf text = {0};
    sk_buf_printf(&text, "%s.%s.", message->timestamp, message->path);
    if (message->body_len > 0)
        sk_buf_add(&text, message->body, message->body_len);
    bool done = !text.failed && HMAC(EVP_sha256(), secret.at, (int)secret.len, (const unsigned char *)text.data,
                                     text.len, made, &len) != NULL;
    sk_buf_free(&text);
    if (!done || len != MAC_SIZE)
        return false;
    memcpy(mac, made, MAC_SIZE);
    return true;
}

bool sk_signature_good(const char *secrets, const struct sk_signed *message, int64_t now_s)
{
    unsigned char sent[MAC_SIZE], made[MAC_SIZE];
    struct sk_span text = {secrets, strlen(secrets)}, secret;
    bool good = false;
    if (!signature_is_of_now(message->timestamp, now_s) || !signature_read(message->signature, sent))
        return false;
    while (!good && sk_span_line(&text, &secret))
        good = secret.len > 0 && signature_make(secret, message, made) && CRYPTO_memcmp(sent, made, MAC_SIZE) == 0;
    return good;
}

// ---- admins' tokens ----
//
// Read at the start, and again at each reload. A list with any error is rejected as a whole: an operator who believes
// that a token is gone, or has fewer roles, must not be mistaken.
//
// A token is compared with all of them, to the end, whatever it matches. So the time that takes reveals neither how
// much of a token was guessed, nor which line it is in.

enum {
    ROLES_OF_READ = SK_ROLE_READ | SK_ROLE_METRICS,
    ROLES_OF_OPERATE = ROLES_OF_READ | SK_ROLE_OPERATE | SK_ROLE_REFUNDS,
    ALL_ROLES = ROLES_OF_OPERATE | SK_ROLE_PAYMENTS
};

const struct sk_role_name sk_role_names[SK_ROLE_NAMES] = {{"read", SK_ROLE_READ, ROLES_OF_READ},
                                                          {"operate", SK_ROLE_OPERATE, ROLES_OF_OPERATE},
                                                          {"refunds", SK_ROLE_REFUNDS, SK_ROLE_REFUNDS},
                                                          {"payments", SK_ROLE_PAYMENTS, SK_ROLE_PAYMENTS},
                                                          {"metrics", SK_ROLE_METRICS, SK_ROLE_METRICS}};

struct token {
    char name[SK_ADMIN_NAME_SIZE];
    struct sk_span text; // borrowed from the configuration
    unsigned roles;
};

struct sk_tokens {
    size_t count, longest;
    struct token all[SK_TOKENS_MAX];
};

static const char *tokens_read_admin(struct sk_tokens *tokens, const char *text);
static const char *tokens_read(struct sk_tokens *tokens, const char *lines, unsigned *line);
static const char *tokens_read_line(struct sk_tokens *tokens, struct sk_span line);
static const char *tokens_read_name(const struct sk_tokens *tokens, struct sk_span word, struct token *token);
static unsigned tokens_read_roles(struct sk_span word);
static const char *tokens_read_text(const struct sk_tokens *tokens, struct sk_span word, struct token *token);
static void tokens_add(struct sk_tokens *tokens, const struct token *token);

// ---- reading ----

struct sk_tokens *sk_tokens_open(const struct sk_identity_options *options, FILE *err)
{
    unsigned line = 0;
    struct sk_tokens *tokens = calloc(1, sizeof *tokens);
    if (tokens == NULL) {
        (void)fprintf(err, "seckill: out of memory\n");
        return NULL;
    }
    const char *wrong = options->admin_token == NULL ? NULL : tokens_read_admin(tokens, options->admin_token);
    if (wrong != NULL) {
        (void)fprintf(err, "seckill: SECKILL_ADMIN_TOKEN: %s\n", wrong);
        sk_tokens_close(tokens);
        return NULL;
    }
    wrong = options->admin_tokens == NULL ? NULL : tokens_read(tokens, options->admin_tokens, &line);
    if (wrong != NULL) {
        (void)fprintf(err, "seckill: SECKILL_ADMIN_TOKENS: line %u: %s\n", line, wrong);
        sk_tokens_close(tokens);
        return NULL;
    }
    return tokens;
}

void sk_tokens_close(struct sk_tokens *tokens)
{
    free(tokens);
}

// Reads admin_token, which has no line.
static const char *tokens_read_admin(struct sk_tokens *tokens, const char *text)
{
    struct token token = {.name = "admin", .roles = ALL_ROLES};
    const char *wrong = tokens_read_text(tokens, (struct sk_span){text, strlen(text)}, &token);
    if (wrong == NULL)
        tokens_add(tokens, &token);
    return wrong;
}

static void tokens_add(struct sk_tokens *tokens, const struct token *token)
{
    tokens->all[tokens->count++] = *token;
    if (token->text.len > tokens->longest)
        tokens->longest = token->text.len;
}

// Returns what is wrong in the line of that number; NULL: nothing.
static const char *tokens_read(struct sk_tokens *tokens, const char *lines, unsigned *line)
{
    struct sk_span text = {lines, strlen(lines)}, one;
    const char *wrong = NULL;
    for (; wrong == NULL && sk_span_line(&text, &one); (*line)++)
        wrong = tokens_read_line(tokens, one);
    return wrong;
}

static const char *tokens_read_line(struct sk_tokens *tokens, struct sk_span line)
{
    struct token token = {0};
    struct sk_span name = sk_span_word(&line), roles = sk_span_word(&line), text = sk_span_word(&line);
    bool more = sk_span_word(&line).len > 0;
    if (name.len == 0 || *name.at == '#')
        return NULL;
    if (text.len == 0 || more)
        return "is not of the form: name role[,role...] token";
    const char *wrong = tokens_read_name(tokens, name, &token);
    token.roles = tokens_read_roles(roles);
    if (wrong == NULL && token.roles == 0)
        wrong = "the roles are not a list of read, operate, payments, refunds and metrics, parted by commas";
    if (wrong == NULL)
        wrong = tokens_read_text(tokens, text, &token);
    if (wrong == NULL && tokens->count == SK_TOKENS_MAX)
        wrong = "there are more than 64 tokens";
    if (wrong == NULL)
        tokens_add(tokens, &token);
    return wrong;
}

static const char *tokens_read_name(const struct sk_tokens *tokens, struct sk_span word, struct token *token)
{
    if (word.len > SK_ADMIN_NAME_MAX)
        return "the name is too long";
    memcpy(token->name, word.at, word.len);
    if (!sk_text_user(token->name))
        return "the name has other characters than A-Za-z0-9_.-";
    for (size_t i = 0; i < tokens->count; i++) {
        if (strcmp(tokens->all[i].name, token->name) == 0)
            return "the name is taken";
    }
    return NULL;
}

// 0: one of them is not a role.
static unsigned tokens_read_roles(struct sk_span word)
{
    unsigned roles = 0;
    for (size_t from = 0; from <= word.len;) {
        const char *role = word.at + from, *comma = memchr(role, ',', word.len - from);
        size_t len = comma == NULL ? word.len - from : (size_t)(comma - role), i = 0;
        while (i < SK_ROLE_NAMES &&
               (strlen(sk_role_names[i].name) != len || memcmp(sk_role_names[i].name, role, len) != 0))
            i++;
        if (i == SK_ROLE_NAMES)
            return 0;
        roles |= sk_role_names[i].includes;
        from += len + 1;
    }
    return roles;
}

static const char *tokens_read_text(const struct sk_tokens *tokens, struct sk_span word, struct token *token)
{
    token->text = word;
    if (word.len < SK_TOKEN_LEN_MIN)
        return "the token is shorter than 16 characters";
    if (word.len > SK_TOKEN_LEN_MAX)
        return "the token is longer than 256 characters";
    for (size_t i = 0; i < word.len; i++) {
        if (word.at[i] <= ' ' || word.at[i] > '~')
            return "the token has other characters than visible ASCII";
    }
    for (size_t i = 0; i < tokens->count; i++) {
        if (tokens->all[i].text.len == word.len && memcmp(tokens->all[i].text.at, word.at, word.len) == 0)
            return "the token is taken";
    }
    return NULL;
}

// ---- lookup ----

bool sk_tokens_any(const struct sk_tokens *tokens)
{
    return tokens->count > 0;
}

// 0: they are equal. Takes equally long in both cases.
static unsigned tokens_difference(struct sk_span a, struct sk_span b)
{
    unsigned difference = a.len != b.len;
    for (size_t i = 0; i < a.len; i++)
        difference |= (unsigned char)(a.at[i] ^ b.at[i % b.len]);
    return difference;
}

unsigned sk_tokens_find(const struct sk_tokens *tokens, const char *token, char name[SK_ADMIN_NAME_SIZE])
{
    struct sk_span text = {token, strlen(token)};
    size_t found = 0;
    if (text.len > tokens->longest)
        return 0;
    for (size_t i = 0; i < tokens->count; i++) {
        // All ones if they are equal: a difference is at most one byte, so only 0 - 1 sets the higher bits.
        size_t equal = (size_t)0 - ((tokens_difference(text, tokens->all[i].text) - 1) >> 8 & 1);
        found |= equal & (i + 1);
    }
    if (found == 0)
        return 0;
    memcpy(name, tokens->all[found - 1].name, SK_ADMIN_NAME_SIZE);
    return tokens->all[found - 1].roles;
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
