// `seckill token USER [SECONDS]`: issues a token for testing. In production your login issues the users' tokens.
#ifndef SK_APP_MINT_H
#define SK_APP_MINT_H

#include <stdio.h>

#include "config.h"
#include "user_tokens.h"

enum { SK_MINT_SECONDS_MAX = 31536000 };

struct sk_mint {
    const char *issuer, *audience, *user;
    int64_t now_s, exp_s;
};

// Returns a token that the caller frees. `key` must be able to sign. NULL: out of memory.
char *sk_mint(const struct sk_token_key *key, const struct sk_mint *mint);

// The main thread. Prints a token signed with the first key of SECKILL_TOKEN_KEYS that can sign. Reports errors on
// `err`.
enum sk_status sk_mint_run(const struct sk_config *config, FILE *out, FILE *err) SK_MUST_CHECK;

#endif
