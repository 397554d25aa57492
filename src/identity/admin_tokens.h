// Each has roles, and a name, which is recorded with what is done under it.
#ifndef SK_IDENTITY_ADMIN_TOKENS_H
#define SK_IDENTITY_ADMIN_TOKENS_H

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

#endif
