// Identifies callers. A trusted gateway identifies users by X-User-Id, or a token does (user_tokens.h). Admins have
// tokens of their own kind, and the shop's payment side may sign its requests instead.
#ifndef SK_IDENTITY_AUTH_H
#define SK_IDENTITY_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

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

// ---- admins' tokens ----
//
// Each has roles, and a name, which is recorded with what is done under it.

enum sk_role {
    SK_ROLE_READ = 1,
    SK_ROLE_OPERATE = 2, // includes all below but PAYMENTS
    SK_ROLE_PAYMENTS = 4,
    SK_ROLE_METRICS = 8, // READ includes it
    SK_ROLE_REFUNDS = 16,
    SK_ROLE_ANY = 31, // as a requirement: any one of them
};

// The single roles, by their names in the file of tokens.
enum { SK_ROLE_NAMES = 5 };
extern const struct sk_role_name {
    const char *name;
    enum sk_role role;
    unsigned includes; // itself and others, as bits
} sk_role_names[SK_ROLE_NAMES];

enum { SK_TOKENS_MAX = 64, SK_TOKEN_LEN_MIN = 16, SK_TOKEN_LEN_MAX = 256 };

struct sk_tokens;

// The main thread, as sk_tokens_close. Reads the configuration's admin_token, which has the name "admin" and all roles.
// Reads one token from each line of admin_tokens, "name role[,role...] token"; empty lines and those that begin with #
// are ignored. A token has SK_TOKEN_LEN_MIN to SK_TOKEN_LEN_MAX visible ASCII characters. NULL: a token or its line is
// wrong, or out of memory; prints which and why on `err`, but never what it read. Borrows options.
struct sk_tokens *sk_tokens_open(const struct sk_identity_options *options, FILE *err);
void sk_tokens_close(struct sk_tokens *tokens); // NULL is fine

// Any thread, as both. Whether there are any tokens.
bool sk_tokens_any(const struct sk_tokens *tokens);

// The roles of a token, and its name; 0: there is no such token. A wrong token takes as long as a right one of its
// length.
unsigned sk_tokens_find(const struct sk_tokens *tokens, const char *token, char name[SK_ADMIN_NAME_SIZE]);

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
// name is "payment callback". A request with a signature is accepted or rejected by it alone. `secret` NULL: no
// signature is valid.
enum sk_caller sk_auth_payment(const struct sk_request *request, const struct sk_tokens *tokens, const char *secret,
                               char name[SK_ADMIN_NAME_SIZE]);

// Why it has rejected the request's signature: a constant. A guess at the secret learns nothing from it.
const char *sk_auth_payment_fault(const struct sk_request *request, const char *secret);

// ---- signature ----

// The signature of a request from the shop's payment side. X-Seckill-Timestamp has the Unix time in seconds.
// X-Seckill-Signature has, in hexadecimal digits,
//
//   HMAC-SHA256(secret, timestamp "." path "." body)
//
// The path is that of the target, as sent and without the query.

// The allowed clock skew, and how long a signature may be used again: the signed calls must tolerate that.
enum { SK_SIGNATURE_TOLERANCE_S = 300 };

struct sk_signed {
    const char *timestamp, *signature; // the fields' values
    const char *path;
    const void *body; // may be NULL if body_len is 0
    size_t body_len;
};

// Any thread. Whether the text is signed with one of the secrets, one a line, at about `now_s`, in Unix seconds. False
// also if out of memory.
bool sk_signature_good(const char *secrets, const struct sk_signed *message, int64_t now_s);

#endif
