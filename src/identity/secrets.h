// What admins' tokens, signatures of payments and purchase tickets are checked with, as the process has it, and how new
// ones reach the reactors without a restart. What was read at the start is each reactor's own (routes.h); from the
// first reload on all of them share one set.
//
// A reload reads the configuration as a start does, and takes of it the secrets alone. An environment does not change,
// so they must stand in files (SECKILL_ADMIN_TOKENS_FILE and its like).
#ifndef SK_IDENTITY_SECRETS_H
#define SK_IDENTITY_SECRETS_H

#include "identity_options.h"
#include "ticket.h"
#include "tokens.h"

struct sk_secrets;

// Never changes.
struct sk_secret_set {
    const struct sk_tokens *tokens;
    const struct sk_tickets *tickets;
    const char *payment_secret; // one or two lines; NULL: none
};

// Where the secrets are read again: what `read` gives, `release` takes back.
struct sk_secrets_source {
    struct sk_identity_options *(*read)(void *arg, FILE *err); // NULL: something is wrong, and printed on err
    void (*release)(struct sk_identity_options *options);
    void *arg;
};

// The main thread, as the next two. NULL: out of memory.
struct sk_secrets *sk_secrets_open(const struct sk_secrets_source *source);
void sk_secrets_close(struct sk_secrets *secrets); // all sets are back; NULL is fine

// False: something is wrong with the configuration, which is logged, and all stays as it was.
bool sk_secrets_reload(struct sk_secrets *secrets);

// Any thread. 0: nothing was reloaded yet. Else how often it was: whether the set that was taken is the newest.
uint64_t sk_secrets_version(const struct sk_secrets *secrets);

// Any thread, after a reload. The caller holds the set until it gives it back.
const struct sk_secret_set *sk_secrets_take(struct sk_secrets *secrets, uint64_t *version);
void sk_secrets_give_back(struct sk_secrets *secrets, const struct sk_secret_set *set);

#endif
