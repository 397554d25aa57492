// Judges what was read from both stores; audit.c, rebuild.c and order_lookup.c query them.
#include "voucher_books.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "journal.h"
#include "params.h"
#include "trust.h"

// The columns of voucher_accounts.sql.
enum {
    COLUMN_SLOT,
    COLUMN_VOUCHER,
    COLUMN_EPOCH,
    COLUMN_JOURNAL_MS,
    COLUMN_JOURNAL_SEQ,
    COLUMN_STOCK,
    COLUMN_BUYERS,
    COLUMN_CHANGE,
    COLUMN_STATE,
    COLUMN_BEGIN_MS,
    COLUMN_END_MS,
    COLUMN_LETTERS,
    COLUMN_OFFER,
    COLUMN_PHASE,
    COLUMN_WAITING
};

void sk_account_query_begin(struct sk_account_query *query)
{
    *query = (struct sk_account_query){0};
    sk_params_begin(&query->slots);
    sk_params_begin(&query->vouchers);
}

void sk_account_query_add(struct sk_account_query *query, const struct sk_voucher *voucher)
{
    char number[SK_PARAM_NUMBER_SIZE];
    sk_params_add(&query->slots, sk_params_number(number, voucher->slot));
    sk_params_add(&query->vouchers, sk_params_number(number, voucher->id));
}

bool sk_account_query_end(struct sk_account_query *query)
{
    query->params[0] = sk_params_end(&query->slots);
    query->params[1] = sk_params_end(&query->vouchers);
    return query->params[0] != NULL && query->params[1] != NULL;
}

void sk_account_query_free(struct sk_account_query *query)
{
    sk_buf_free(&query->slots);
    sk_buf_free(&query->vouchers);
}

void sk_account_read(const struct sk_rows *rows, size_t row, struct sk_account *account)
{
    *account = (struct sk_account){
        .voucher_id = sk_rows_number(rows, row, COLUMN_VOUCHER),
        .slot = (unsigned)sk_rows_number(rows, row, COLUMN_SLOT),
        .epoch = sk_rows_number(rows, row, COLUMN_EPOCH),
        .stock = sk_rows_number(rows, row, COLUMN_STOCK),
        .buyers = sk_rows_number(rows, row, COLUMN_BUYERS),
        .letters = sk_rows_number(rows, row, COLUMN_LETTERS),
        .waiting = sk_rows_number(rows, row, COLUMN_WAITING),
        .terms = {.change = sk_rows_number(rows, row, COLUMN_CHANGE),
                  .begin_ms = sk_rows_number(rows, row, COLUMN_BEGIN_MS),
                  .end_ms = sk_rows_number(rows, row, COLUMN_END_MS),
                  .offer = sk_rows_number(rows, row, COLUMN_OFFER),
                  .state = sk_voucher_state_of(sk_rows_text(rows, row, COLUMN_STATE))},
    };
    (void)snprintf(account->newest, sizeof account->newest, "%" PRId64 "-%" PRId64,
                   sk_rows_number(rows, row, COLUMN_JOURNAL_MS), sk_rows_number(rows, row, COLUMN_JOURNAL_SEQ));
    const char *phase = sk_rows_text(rows, row, COLUMN_PHASE);
    (void)snprintf(account->phase, sizeof account->phase, "%s", phase == NULL ? "" : phase);
}

enum sk_status sk_snapshot_ask(struct sk_redis *redis, const struct sk_voucher_keys *keys, const char *user,
                               sk_redis_cb *done, void *arg)
{
    const char *argv[] = {keys->voucher, keys->buyers, keys->journal, sk_redis_run(redis), user};
    return sk_redis_script(redis, SK_SCRIPT_READ_VOUCHER, 3, user == NULL ? 4 : 5, argv, NULL, done, arg);
}

static bool books_number(const struct sk_reply *reply, size_t i, int64_t most, int64_t *value)
{
    return sk_trust_number(sk_reply_at(reply, i), most, value);
}

static bool books_read_terms(const struct sk_reply *reply, const char *state, struct sk_terms_seen *terms)
{
    terms->state = sk_voucher_state_of(state);
    return books_number(reply, SK_SNAPSHOT_CHANGE, SK_TRUST_MAX, &terms->change) &&
           books_number(reply, SK_SNAPSHOT_BEGIN_MS, SK_TRUST_MAX, &terms->begin_ms) &&
           books_number(reply, SK_SNAPSHOT_END_MS, SK_TRUST_MAX, &terms->end_ms) &&
           books_number(reply, SK_SNAPSHOT_OFFER, INT32_MAX, &terms->offer);
}

bool sk_snapshot_read(const struct sk_reply *reply, struct sk_snapshot *snapshot)
{
    const char *state = sk_reply_text(sk_reply_at(reply, SK_SNAPSHOT_STATE), NULL),
               *opened = sk_reply_text(sk_reply_at(reply, SK_SNAPSHOT_RUN), NULL);
    const char *last = sk_reply_text(sk_reply_at(reply, SK_SNAPSHOT_LAST), NULL);
    const char *error = sk_reply_error(reply);
    *snapshot = (struct sk_snapshot){0};
    if (error != NULL && sk_trust_is_damage(error)) {
        snapshot->present = true; // but not to be relied on
        return true;
    }
    if (state == NULL || opened == NULL || last == NULL ||
        !books_number(reply, SK_SNAPSHOT_BUYERS, SK_TRUST_BUYERS_MAX, &snapshot->buyers) ||
        !books_number(reply, SK_SNAPSHOT_JOURNAL, SK_TRUST_MAX, &snapshot->journal))
        return false;
    snapshot->present = state[0] != '\0';
    snapshot->loading = sk_voucher_state_of(state) == SK_VOUCHER_RETIRED; // it sells to no one, and has no terms
    // The epoch counts also if another process of Redis opened the voucher: a rebuild needs a newer one. An impossible
    // value counts as lost.
    bool has_epoch = books_number(reply, SK_SNAPSHOT_EPOCH, SK_TRUST_MAX, &snapshot->epoch);
    snapshot->same_run = opened[0] != '\0' && has_epoch &&
                         books_number(reply, SK_SNAPSHOT_STOCK, SK_TRUST_MAX, &snapshot->stock) &&
                         sk_trust_is_version(last) && books_read_terms(reply, state, &snapshot->terms);
    if (sk_trust_is_version(last))
        memcpy(snapshot->last, last, strlen(last) + 1);
    return true;
}

int64_t sk_snapshot_age_ms(const struct sk_reply *reply)
{
    int64_t age_ms = 0;
    return books_number(reply, SK_SNAPSHOT_AGE_MS, SK_TRUST_MAX, &age_ms) ? age_ms : 0;
}

bool sk_snapshot_is_behind(const struct sk_snapshot *snapshot, int64_t epoch, const char *last)
{
    if (snapshot->epoch != epoch)
        return snapshot->epoch < epoch;
    // A label like epoch-7, or nothing, comes before all journal ids.
    return sk_trust_is_journal_id(last) &&
           (!sk_trust_is_journal_id(snapshot->last) || sk_journal_compare(snapshot->last, last) < 0);
}

static bool books_is_behind(const struct sk_account *account, const struct sk_snapshot *now)
{
    if (now->epoch != account->epoch)
        return now->epoch < account->epoch;
    const char *last = strncmp(now->last, "epoch-", 6) == 0 ? "0-0" : now->last;
    return sk_journal_compare(last, account->newest) < 0;
}

static bool books_has_terms(const struct sk_account *account, const struct sk_snapshot *now)
{
    const struct sk_terms_seen *wanted = &account->terms, *seen = &now->terms;
    return seen->state == wanted->state && seen->begin_ms == wanted->begin_ms && seen->end_ms == wanted->end_ms &&
           seen->offer == wanted->offer;
}

enum sk_books sk_books_compare(const struct sk_account *account, const struct sk_snapshot *before,
                               const struct sk_snapshot *now)
{
    if (!now->present)
        return SK_BOOKS_MISSING;
    if (now->loading)
        return SK_BOOKS_LOADING;
    if (!now->same_run)
        return SK_BOOKS_UNSURE;
    if (books_is_behind(account, now))
        return SK_BOOKS_BEHIND;
    // PostgreSQL has a new epoch before Redis does. So it must know any epoch that Redis had before.
    if (now->epoch > account->epoch)
        return before->present && before->epoch == now->epoch ? SK_BOOKS_DIFFER : SK_BOOKS_AGREE;
    if (now->terms.change < account->terms.change)
        return SK_BOOKS_OLD;
    if (now->terms.change > account->terms.change) // applied in between; or PostgreSQL has lost it
        return before->present && before->terms.change == now->terms.change ? SK_BOOKS_DIFFER : SK_BOOKS_AGREE;
    if (!books_has_terms(account, now))
        return SK_BOOKS_DIFFER;
    if (sk_snapshot_is_at_rest(before, now) && (now->stock != account->stock || now->buyers != account->buyers))
        return SK_BOOKS_DIFFER;
    return SK_BOOKS_AGREE;
}

bool sk_snapshot_is_at_rest(const struct sk_snapshot *before, const struct sk_snapshot *now)
{
    return before->terms.change == now->terms.change && before->present && !before->loading && before->journal == 0 &&
           now->journal == 0 && before->epoch == now->epoch && before->stock == now->stock &&
           before->buyers == now->buyers && strcmp(before->last, now->last) == 0;
}

const char *sk_books_name(enum sk_books finding)
{
    static const char *const names[] = {"agree", "missing", "loading", "unsure", "behind", "differ", "old"};
    return names[finding];
}
