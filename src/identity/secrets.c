#include "secrets.h"

#include <inttypes.h>
#include <stdlib.h>

#include "admin_tokens.h"
#include "editions.h"
#include "log.h"

struct sk_secrets {
    struct sk_secrets_source source;
    struct sk_editions *sets; // owned
};

struct owned_set {
    struct sk_secret_set set;            // must be first: a set is cast to its owner
    struct sk_identity_options *options; // the set borrows from it
    void (*release)(struct sk_identity_options *options);
};

static void secrets_free_set(void *value)
{
    struct owned_set *owned = value;
    sk_tokens_close(owned->set.tokens);
    sk_tickets_close(owned->set.tickets);
    if (owned->options != NULL)
        owned->release(owned->options);
    free(owned);
}

struct sk_secrets *sk_secrets_open(const struct sk_secrets_source *source)
{
    struct sk_secrets *secrets = calloc(1, sizeof *secrets);
    if (secrets == NULL)
        return NULL;
    *secrets = (struct sk_secrets){*source, sk_editions_open(secrets_free_set)};
    if (secrets->sets != NULL)
        return secrets;
    free(secrets);
    return NULL;
}

void sk_secrets_close(struct sk_secrets *secrets)
{
    if (secrets != NULL)
        sk_editions_close(secrets->sets);
    free(secrets);
}

static bool secrets_open_set(struct owned_set *owned, const struct sk_secrets_source *source, FILE *err)
{
    owned->release = source->release;
    owned->options = source->read(source->arg, err);
    if (owned->options == NULL)
        return false;
    owned->set = (struct sk_secret_set){sk_tokens_open(owned->options, err), sk_tickets_open(owned->options, err),
                                        owned->options->payment_secret};
    return owned->set.tokens != NULL && owned->set.tickets != NULL;
}

// NULL: the reason is logged.
static struct owned_set *secrets_read(const struct sk_secrets *secrets)
{
    char *reason = NULL;
    size_t len = 0;
    FILE *err = open_memstream(&reason, &len);
    struct owned_set *owned = calloc(1, sizeof *owned);
    bool good = err != NULL && owned != NULL && secrets_open_set(owned, &secrets->source, err);
    if (err != NULL)
        (void)fclose(err);
    if (!good) {
        sk_log_text(SK_LOG_ERROR, "cannot read the new secrets; the old ones stay", "reason",
                    reason == NULL || len == 0 ? "out of memory" : reason);
        if (owned != NULL)
            secrets_free_set(owned);
        owned = NULL;
    }
    free(reason);
    return owned;
}

bool sk_secrets_reload(struct sk_secrets *secrets)
{
    struct owned_set *owned = secrets_read(secrets);
    if (owned == NULL)
        return false;
    if (!sk_editions_publish(secrets->sets, owned)) {
        sk_log(SK_LOG_ERROR, "no memory for new secrets; the old ones stay", "");
        secrets_free_set(owned);
        return false;
    }
    sk_log(SK_LOG_INFO, "secrets read again", "version=%" PRIu64, sk_secrets_version(secrets));
    return true;
}

uint64_t sk_secrets_version(const struct sk_secrets *secrets)
{
    return sk_editions_version(secrets->sets);
}

const struct sk_secret_set *sk_secrets_take(struct sk_secrets *secrets, uint64_t *version)
{
    return sk_editions_take(secrets->sets, version);
}

void sk_secrets_give_back(struct sk_secrets *secrets, const struct sk_secret_set *set)
{
    sk_editions_give_back(secrets->sets, set);
}
