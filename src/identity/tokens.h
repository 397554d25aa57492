// The tokens of admin calls: each has a name, which is written beside what is done with it, and roles.
#ifndef SK_IDENTITY_TOKENS_H
#define SK_IDENTITY_TOKENS_H

#include <stdbool.h>
#include <stdio.h>

#include "identity_options.h"
#include "text.h"

enum sk_role {
    SK_ROLE_READ = 1,
    SK_ROLE_OPERATE = 2, // includes all below but PAYMENTS
    SK_ROLE_PAYMENTS = 4,
    SK_ROLE_METRICS = 8, // READ includes it
    SK_ROLE_REFUNDS = 16,
    SK_ROLE_ANY = 31, // of what is asked for: one of them
};

enum { SK_TOKENS_MAX = 64, SK_TOKEN_LEN_MIN = 16, SK_TOKEN_LEN_MAX = 256 };

struct sk_tokens;

// The main thread, as sk_tokens_close. The configuration's: admin_token, whose name is "admin" and which has all roles,
// and one for each line of admin_tokens, "name role[,role...] token", where empty lines and those that begin with # are
// none. A token has SK_TOKEN_LEN_MIN to SK_TOKEN_LEN_MAX visible ASCII characters. NULL: one or its line is wrong, or
// out of memory; it says which and why on `err`, and never repeats what it reads. Borrows options.
struct sk_tokens *sk_tokens_open(const struct sk_identity_options *options, FILE *err);
void sk_tokens_close(struct sk_tokens *tokens); // NULL is fine

// Any thread, as both. Whether there are any.
bool sk_tokens_any(const struct sk_tokens *tokens);

// The roles of a token and the name it goes by; 0: there is no such token. Takes as long for a wrong token as for a
// right one of its length.
unsigned sk_tokens_find(const struct sk_tokens *tokens, const char *token, char name[SK_ADMIN_NAME_SIZE]);

#endif
