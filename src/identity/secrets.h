// The secrets that check admins' tokens, signatures of payments and purchase tickets, and how new ones reach the
// reactors without a restart. Each reactor has its own copy of what was read at the start (routes.h). From the first
// reload on all of them share one set.
//
// A reload reads the configuration as a start does, and uses only the secrets in it. An environment does not change, so
// they must be in files (SECKILL_ADMIN_TOKENS_FILE and its like).
#ifndef SK_IDENTITY_SECRETS_H
#define SK_IDENTITY_SECRETS_H

#include "auth.h"
#include "identity_options.h"
#include "ticket.h"

struct sk_secrets;

// Never changes.
struct sk_secret_set {
    struct sk_tokens *tokens;
    struct sk_tickets *tickets;
    const char *payment_secret; // one or two lines; NULL: none
};

// How the secrets are read again: `release` frees what `read` gives.
struct sk_secrets_source {
    struct sk_identity_options *(*read)(void *arg, FILE *err); // NULL: an error, which is printed on err
    void (*release)(struct sk_identity_options *options);
    void *arg;
};

// The main thread, as the next two. NULL: out of memory.
struct sk_secrets *sk_secrets_open(const struct sk_secrets_source *source);
void sk_secrets_close(struct sk_secrets *secrets); // all sets must be back; NULL is fine

// False: the configuration has an error, which is logged, and nothing changes.
bool sk_secrets_reload(struct sk_secrets *secrets);

// Any thread. The number of reloads; 0: none yet. A holder compares it with its version to see whether its set is
// newest.
uint64_t sk_secrets_version(const struct sk_secrets *secrets);

// Any thread, after a reload. The caller holds the set until it gives it back.
const struct sk_secret_set *sk_secrets_take(struct sk_secrets *secrets, uint64_t *version);
void sk_secrets_give_back(struct sk_secrets *secrets, const struct sk_secret_set *set);

#endif
