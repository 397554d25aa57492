// `seckill token USER [SECONDS]`: a token to try things with. What issues tokens to users is your login, not this.
#ifndef SK_APP_MINT_H
#define SK_APP_MINT_H

#include <stdio.h>

#include "config.h"
#include "token_keys.h"

enum { SK_MINT_SECONDS_MAX = 31536000 };

struct sk_mint {
    const char *issuer, *audience, *user;
    int64_t now_s, exp_s;
};

// The token, of the heap: the caller frees it. `key` can sign. NULL: out of memory.
char *sk_mint(const struct sk_token_key *key, const struct sk_mint *mint);

// The main thread. Prints a token, with the first key of the configuration's file that can sign. What is wrong it says
// on `err`.
enum sk_status sk_mint_run(const struct sk_config *config, FILE *out, FILE *err) SK_MUST_CHECK;

#endif
