// Arguments and reply are described in lua/place_orders.lua.
#include "grant.h"

#include <string.h>

#include "catalogue.h"
#include "journal.h"
#include "params.h"
#include "slot_map.h"
#include "trust.h"

enum {
    JOURNAL_ENTRIES_MAX = 100000,
    FIRST_MORE = 7, // the elements from here on belong to single results
    FIXED_ARGS = 14,
    OTHERS_MAX = 15, // in a scope: create_voucher() allows no more
    ARGS_MAX = FIXED_ARGS + OTHERS_MAX + 2 * SK_JOURNAL_ORDERS_MAX,
};

// Adds nothing if all orders have one unit and no key, as nearly always.
static void grant_put_details(const struct sk_order_list *orders, struct sk_buf *details)
{
    const struct sk_order *order = orders->head;
    char key[SK_JOURNAL_KEY_SIZE];
    while (order != NULL && order->quantity == 1 && order->key == 0)
        order = order->next;
    for (order = order == NULL ? NULL : orders->head; order != NULL; order = order->next)
        sk_buf_printf(details, "%s%u%s%s", order == orders->head ? "" : ",", (unsigned)order->quantity,
                      order->key == 0 ? "" : " ", order->key == 0 ? "" : sk_journal_key(order->key, key));
}

// The buyers of the other vouchers in the scope, which have the same tag. Nearly always there are none.
static int grant_put_others(const struct sk_sale *sale, const struct sk_voucher *voucher, const char *argv[OTHERS_MAX])
{
    int n = 0;
    const struct sk_voucher *other = sk_catalogue_at_slot(sale->catalogue, voucher->slot);
    for (; other != NULL && n < OTHERS_MAX; other = other->next_in_slot) {
        if (other != voucher && strcmp(other->tag, voucher->tag) == 0)
            argv[n++] = other->keys.buyers;
    }
    return n;
}

enum sk_status sk_grant_ask(const struct sk_sale *sale, const struct sk_voucher *voucher,
                            const struct sk_order_list *orders, bool again, sk_redis_cb *done, void *arg)
{
    const char *argv[ARGS_MAX];
    size_t lens[ARGS_MAX];
    char journal_max[SK_PARAM_NUMBER_SIZE], seen_epoch[SK_PARAM_NUMBER_SIZE], offer[SK_PARAM_NUMBER_SIZE];
    char orders_max[SK_PARAM_NUMBER_SIZE];
    struct sk_buf details = {0};
    struct sk_redis *redis = sk_sale_redis(sale, voucher);
    int n = 0;
    SK_ASSERT(orders->count > 0 && orders->count <= SK_JOURNAL_ORDERS_MAX);
    argv[n++] = voucher->keys.voucher;
    argv[n++] = voucher->keys.buyers;
    argv[n++] = voucher->keys.journal;
    argv[n++] = voucher->keys.repeats;
    argv[n++] = voucher->keys.ended;
    n += grant_put_others(sale, voucher, &argv[n]);
    int keys = n;
    int64_t entries_max = sale->options->journal_max > 0 ? sale->options->journal_max : JOURNAL_ENTRIES_MAX;
    argv[n++] = sk_params_number(journal_max, entries_max);
    argv[n++] = sk_redis_run(redis);
    argv[n++] = again ? "again" : "new";
    argv[n++] = sk_params_number(seen_epoch, voucher->seen.epoch);
    argv[n++] = voucher->seen.last;
    argv[n++] = sk_session_id(sale->session);
    grant_put_details(orders, &details);
    argv[n++] = details.data == NULL ? "-" : details.data;
    argv[n++] = sk_params_number(offer, orders->head->offer);
    argv[n++] = sk_params_number(orders_max, voucher->orders_per_user);
    for (int i = 0; i < n; i++)
        lens[i] = strlen(argv[i]);
    for (const struct sk_order *order = orders->head; order != NULL; order = order->next) {
        lens[n] = strlen(order->user);
        argv[n++] = order->user;
        lens[n] = SK_UUID_CHARS;
        argv[n++] = order->id;
    }
    enum sk_status status = SK_NO_MEM;
    if (!details.failed)
        status = sk_redis_script(redis, SK_SCRIPT_PLACE_ORDERS, keys, n, argv, lens, done, arg);
    sk_buf_free(&details);
    if (status == SK_OK) {
        sk_metrics_add(sale->metrics, SK_METRIC_SCRIPT_CALLS, 1);
        sk_metrics_add(sale->metrics, SK_METRIC_ORDERS_TRIED, again ? 0 : orders->count);
    }
    return status;
}

static enum sk_grant_status grant_read_status(const struct sk_reply *reply)
{
    static const char *const names[] = {"ok", "other", "missing", "loading", "unsure"};
    static const enum sk_grant_status redirected[] = {
        [SK_REDIRECT_NONE] = SK_GRANT_MALFORMED,
        [SK_REDIRECT_MOVED] = SK_GRANT_MOVED,
        [SK_REDIRECT_UNSTABLE] = SK_GRANT_UNSTABLE,
    };
    const char *error = sk_reply_error(reply), *text = sk_reply_text(sk_reply_at(reply, 0), NULL);
    if (error != NULL)
        return sk_trust_is_damage(error) ? SK_GRANT_DAMAGED : redirected[sk_redirect_of(error)];
    for (int i = 0; text != NULL && i <= SK_GRANT_UNSURE; i++) {
        if (strcmp(text, names[i]) == 0)
            return (enum sk_grant_status)i;
    }
    return SK_GRANT_MALFORMED;
}

static bool grant_read_answers(struct sk_grant *grant, size_t n)
{
    const struct sk_reply *reply = grant->reply;
    bool other = grant->status == SK_GRANT_OTHER;
    size_t results = 0, more = 0;
    int64_t left;
    grant->last = sk_reply_text(sk_reply_at(reply, 4), NULL);
    grant->journal_id = sk_reply_text(sk_reply_at(reply, 5), NULL);
    grant->results = sk_reply_text(sk_reply_at(reply, 6), &results);
    if (!sk_trust_number(sk_reply_at(reply, 1), SK_TRUST_MAX, &grant->now_ms) ||
        !sk_trust_number(sk_reply_at(reply, 2), SK_TRUST_MAX, &grant->begin_ms) ||
        !sk_trust_number(sk_reply_at(reply, 3), SK_TRUST_MAX, &grant->epoch) || grant->last == NULL ||
        grant->journal_id == NULL || grant->results == NULL || results != n || sk_reply_count(reply) < FIRST_MORE)
        return false;
    if (other && !sk_trust_number(sk_reply_at(reply, 5), INT32_MAX, &grant->offer))
        return false;
    if (memchr(grant->results, SK_GRANT_PLACED, n) != NULL && !sk_trust_is_journal_id(grant->journal_id))
        return false;
    for (size_t i = 0; i < n; i++) {
        char result = grant->results[i];
        if (result == '\0' || strchr(other ? "oabsnefhumtkdq" : "pabsnefhumtkdq", result) == NULL)
            return false;
        if (!sk_grant_has_existing(result) && result != SK_GRANT_TOO_FEW)
            continue;
        const struct sk_reply *extra = sk_reply_at(reply, FIRST_MORE + more++);
        if (result == SK_GRANT_IN_SCOPE && sk_reply_text(sk_reply_at(reply, FIRST_MORE + more++), NULL) == NULL)
            return false;
        if (result == SK_GRANT_TOO_FEW ? !sk_trust_number(extra, SK_TRUST_MAX, &left)
                                       : sk_reply_text(extra, NULL) == NULL)
            return false;
    }
    return sk_reply_count(reply) == FIRST_MORE + more;
}

struct sk_grant sk_grant_read(const struct sk_reply *reply, size_t n)
{
    struct sk_grant grant = {.status = grant_read_status(reply), .reply = reply, .next_more = FIRST_MORE};
    if (grant.status <= SK_GRANT_OTHER && !grant_read_answers(&grant, n))
        grant.status = SK_GRANT_MALFORMED;
    return grant;
}

void sk_grant_remember(const struct sk_grant *grant, struct sk_voucher *voucher)
{
    if (!sk_trust_is_version(grant->last))
        return;
    voucher->seen.epoch = grant->epoch;
    memcpy(voucher->seen.last, grant->last, strlen(grant->last) + 1);
}

void sk_grant_expect(struct sk_voucher *voucher, int64_t epoch, const char *last)
{
    struct sk_seen *seen = &voucher->seen;
    if (epoch < seen->epoch || (epoch == seen->epoch && sk_journal_compare(last, seen->last) <= 0))
        return;
    *seen = (struct sk_seen){.epoch = epoch};
    memcpy(seen->last, last, strlen(last) + 1);
}

void sk_grant_forget(struct sk_voucher *voucher, int64_t epoch)
{
    voucher->seen = (struct sk_seen){.epoch = epoch};
}

struct sk_entry *sk_grant_take_entry(const struct sk_grant *grant, struct sk_entry **entry)
{
    struct sk_entry *taken = *entry;
    if (strchr(grant->results, SK_GRANT_PLACED) == NULL)
        return NULL;
    sk_entry_name(taken, grant->epoch, grant->journal_id);
    *entry = NULL;
    return taken;
}

bool sk_grant_has_existing(char result)
{
    return result != '\0' && strchr("abkdq", result) != NULL;
}

const char *sk_grant_next_existing(struct sk_grant *grant, enum sk_grant_result result, int64_t *voucher)
{
    const char *id = sk_reply_text(sk_reply_at(grant->reply, grant->next_more++), NULL);
    *voucher = 0;
    if (result == SK_GRANT_IN_SCOPE &&
        !sk_trust_number(sk_reply_at(grant->reply, grant->next_more++), INT64_MAX, voucher))
        return NULL;
    return id != NULL && sk_uuid_valid(id) ? id : NULL;
}

int64_t sk_grant_next_left(struct sk_grant *grant)
{
    int64_t left;
    (void)sk_trust_number(sk_reply_at(grant->reply, grant->next_more++), SK_TRUST_MAX, &left);
    return left;
}
