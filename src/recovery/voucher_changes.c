// The steps, each one call to a store:
//   1 Redis       epoch and change number that the voucher has
//   2 PostgreSQL  the newest change number and its terms, and the units added since Redis's: all of one moment
//   3 Redis       apply_change, unless the voucher has changed in between; then from the beginning
// A rebuild in between opens the voucher with PostgreSQL's terms, stock and change number. So step 3 finds another
// number, or another epoch, and does nothing.
#include "voucher_changes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admit.h"
#include "failpoint.h"
#include "log.h"
#include "params.h"
#include "trust.h"

enum { ROUNDS_MAX = 3 };

enum { COLUMN_CHANGE, COLUMN_STATE, COLUMN_BEGIN_MS, COLUMN_END_MS, COLUMN_ADDED, COLUMN_OFFER };

struct changes {
    const struct sk_sale *sale;
    struct sk_voucher *voucher; // pinned
    sk_changes_cb *done;
    void *arg;
    unsigned rounds;
    char epoch[SK_PARAM_NUMBER_SIZE], from[SK_PARAM_NUMBER_SIZE], to[SK_PARAM_NUMBER_SIZE];
};

static enum sk_status changes_read_voucher(struct changes *changes);

static void changes_end(struct changes *changes, bool ok)
{
    changes->done(changes->arg, ok);
    sk_voucher_unpin(changes->voucher);
    free(changes);
}

static void changes_on_applied(void *arg, const struct sk_reply *reply)
{
    struct changes *changes = arg;
    const char *word = reply == NULL ? NULL : sk_reply_text(sk_reply_at(reply, 0), NULL);
    bool applied = word != NULL && strcmp(word, "applied") == 0;
    if (applied) {
        sk_log(SK_LOG_INFO, "voucher brought up to date", "voucher=%" PRId64 " epoch=%s change=%s from=%s",
               changes->voucher->id, changes->epoch, changes->to, changes->from);
        sk_admit_forget(changes->voucher);
        changes_end(changes, true);
    } else if (word != NULL && strcmp(word, "other") == 0 && changes->rounds < ROUNDS_MAX) {
        if (changes_read_voucher(changes) != SK_OK)
            changes_end(changes, false);
    } else {
        changes_end(changes, word != NULL && strcmp(word, "already") == 0);
    }
}

static void changes_on_row(void *arg, const struct sk_result *result)
{
    struct changes *changes = arg;
    struct sk_redis *redis = sk_sale_ask_redis(changes->sale, changes->voucher);
    const struct sk_rows *rows = result->rows;
    if (rows == NULL || sk_rows_count(rows) != 1) {
        changes_end(changes, false);
        return;
    }
    (void)snprintf(changes->to, sizeof changes->to, "%s", sk_rows_text(rows, 0, COLUMN_CHANGE));
    const char *argv[] = {changes->voucher->keys.voucher,
                          sk_redis_run(redis),
                          changes->epoch,
                          changes->from,
                          changes->to,
                          sk_rows_text(rows, 0, COLUMN_STATE),
                          sk_rows_text(rows, 0, COLUMN_BEGIN_MS),
                          sk_rows_text(rows, 0, COLUMN_END_MS),
                          sk_rows_text(rows, 0, COLUMN_ADDED),
                          sk_rows_text(rows, 0, COLUMN_OFFER)};
    SK_FAILPOINT("changes.apply");
    if (sk_redis_script(redis, SK_SCRIPT_APPLY_CHANGE, 1, sizeof argv / sizeof argv[0], argv, NULL, changes_on_applied,
                        changes) != SK_OK)
        changes_end(changes, false);
}

static void changes_on_voucher(void *arg, const struct sk_reply *reply)
{
    struct changes *changes = arg;
    const struct sk_voucher *voucher = changes->voucher;
    int64_t epoch, change;
    char slot[SK_PARAM_NUMBER_SIZE], id[SK_PARAM_NUMBER_SIZE];
    if (reply == NULL || !sk_trust_number(sk_reply_at(reply, 0), SK_TRUST_MAX, &epoch) ||
        !sk_trust_number(sk_reply_at(reply, 1), SK_TRUST_MAX, &change)) {
        changes_end(changes, false);
        return;
    }
    (void)sk_params_number(changes->epoch, epoch);
    const char *params[] = {sk_params_number(slot, voucher->slot), sk_params_number(id, voucher->id),
                            sk_params_number(changes->from, change)};
    if (sk_pg_call(sk_sale_shard(changes->sale, voucher)->queries, SK_STATEMENT_VOUCHER_CHANGES, 3, params,
                   changes_on_row, changes) != SK_OK)
        changes_end(changes, false);
}

static enum sk_status changes_read_voucher(struct changes *changes)
{
    const char *argv[] = {"HMGET", changes->voucher->keys.voucher, "epoch", "change"};
    changes->rounds++;
    return sk_redis_command(sk_sale_ask_redis(changes->sale, changes->voucher), 4, argv, NULL, changes_on_voucher,
                            changes);
}

enum sk_status sk_changes_carry_out(const struct sk_sale *sale, struct sk_voucher *voucher, sk_changes_cb *done,
                                    void *arg)
{
    struct changes *changes = calloc(1, sizeof *changes);
    if (changes == NULL)
        return SK_NO_MEM;
    *changes = (struct changes){.sale = sale, .voucher = voucher, .done = done, .arg = arg};
    enum sk_status status = changes_read_voucher(changes);
    if (status != SK_OK)
        free(changes);
    else
        sk_voucher_pin(voucher);
    return status;
}
