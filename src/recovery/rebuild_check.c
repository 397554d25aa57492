// In doubt: reads PostgreSQL's side, then Redis's, as the watch does. No other rebuild is in progress by now, so a
// voucher that was missing a moment ago may be there.
//
// To retire a sale: PostgreSQL decides. Its clock may differ from this process's, an order may be unpaid, a dead letter
// may wait for days. So Redis is not closed to find that out.
#include "rebuild_check.h"

#include <string.h>

#include "params.h"

static void check_account(struct sk_rebuild_check *check);
static void check_on_account(void *arg, const struct sk_result *result);
static void check_on_look(void *arg, const struct sk_reply *reply);
static void check_retirement(struct sk_rebuild_check *check);
static void check_on_may_retire(void *arg, const struct sk_result *result);

void sk_rebuild_check(struct sk_rebuild_check *check, const struct sk_sale *sale, struct sk_voucher *voucher,
                      enum sk_rebuild_why why)
{
    check->sale = sale;
    check->voucher = voucher;
    check->why = why;
    if (why == SK_REBUILD_RETIRE)
        check_retirement(check);
    else
        check_account(check);
}

// ---- in doubt ----

static void check_account(struct sk_rebuild_check *check)
{
    struct sk_account_query query;
    enum sk_status status = SK_NO_MEM;
    sk_account_query_begin(&query);
    sk_account_query_add(&query, check->voucher);
    if (sk_account_query_end(&query))
        status =
            sk_pg_call(check->sale->ask_pg, SK_STATEMENT_VOUCHER_ACCOUNTS, 2, query.params, check_on_account, check);
    sk_account_query_free(&query);
    if (status != SK_OK)
        check->done(check->arg, SK_REBUILD_UNKNOWN);
}

static void check_on_account(void *arg, const struct sk_result *result)
{
    struct sk_rebuild_check *check = arg;
    const struct sk_voucher_keys *keys = &check->voucher->keys;
    if (result->rows == NULL || sk_rows_count(result->rows) != 1) {
        check->done(check->arg, SK_REBUILD_UNKNOWN);
        return;
    }
    sk_account_read(result->rows, 0, &check->account);
    if (sk_snapshot_ask(check->sale->ask_redis, keys, NULL, check_on_look, check) != SK_OK)
        check->done(check->arg, SK_REBUILD_UNKNOWN);
}

static void check_on_look(void *arg, const struct sk_reply *reply)
{
    struct sk_rebuild_check *check = arg;
    struct sk_snapshot seen, none = {0};
    if (reply == NULL || !sk_snapshot_read(reply, sk_redis_run(check->sale->ask_redis), &seen)) {
        check->done(check->arg, SK_REBUILD_UNKNOWN);
        return;
    }
    enum sk_finding finding = sk_audit(&check->account, &none, &seen);
    bool well = finding == SK_BOOKS_AGREE || finding == SK_BOOKS_OLD; // OLD: the watch brings it up to date
    well = well && (check->why == SK_REBUILD_DOUBT || seen.epoch > check->voucher->seen.epoch);
    check->done(check->arg, well ? SK_REBUILD_WELL : SK_REBUILD_NEEDED);
}

// ---- to retire a sale ----

static void check_retirement(struct sk_rebuild_check *check)
{
    char id[SK_PARAM_NUMBER_SIZE], after_ms[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(id, check->voucher->id),
                            sk_params_number(after_ms, check->sale->options->retire_after_ms)};
    if (sk_pg_call(check->sale->ask_pg, SK_STATEMENT_MAY_RETIRE, 2, params, check_on_may_retire, check) != SK_OK)
        check->done(check->arg, SK_REBUILD_UNKNOWN);
}

static void check_on_may_retire(void *arg, const struct sk_result *result)
{
    struct sk_rebuild_check *check = arg;
    enum sk_rebuild_need need = SK_REBUILD_UNKNOWN;
    if (result->rows != NULL && sk_rows_count(result->rows) == 1)
        need = strcmp(sk_rows_text(result->rows, 0, 0), "t") == 0 ? SK_REBUILD_NEEDED : SK_REBUILD_NOT_YET;
    check->done(check->arg, need);
}
