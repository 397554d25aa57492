// The steps, each one call to a store; below they stand from the last to the first:
//   0 Redis       a lock, so that instances do not do the same work; it carries no promise
//   1 both        is it needed? One more check; to retire a sale, PostgreSQL decides. If it is not
//                 needed, that is the end, and Redis was never closed
//   2 PostgreSQL  a new epoch, newer than any seen: it fences every writer still in flight. And how long instances may
//                 have cached refusals, and may cache them from now on (lua/shared/voucher.lua)
//   3 Redis       rebuild_begin: closes the voucher under that epoch, unless a newer one is there; old buyers go
//   4 both        the journal, a page at a time: read, settle under the new epoch, remove (rebuild_journal.c)
//   5 PostgreSQL  stock, terms, number of buyers, as long as the epoch is still ours
//   6 both        the buyers, a chunk at a time: PostgreSQL and Redis take turns, so that Redis has time for others.
//                 Where a walk has passed many orders that ended, it goes on while Redis stores the chunk
//   7 Redis       rebuild_open: stock, terms, open; if the journal is empty and no buyer is missing
// To retire a sale, steps 5 to 7 are:
//   5 PostgreSQL  retired, under one more epoch, if nothing is open by now; else it is opened again
//   6 Redis       retire: a marker stays, all else goes
// A later rebuild takes a newer epoch, and then every step of the older one does nothing. A rebuild that dies leaves
// the voucher closed under an epoch of its own, and the next one starts from the beginning. Until the voucher is open,
// only the owner of the newest epoch writes orders. So the data that steps 5 and 6 read does not change.
//
// Orders of older epochs that are still in an instance are granted again afterwards (regrant.c).
#include "rebuild.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admit.h"
#include "failpoint.h"
#include "grant.h"
#include "log.h"
#include "maintenance.h"
#include "params.h"
#include "rebuild_journal.h"

enum { CHUNK = 500 };    // buyers; Redis is busy with them for about half a millisecond
enum { LONG_WALK = 8 };  // `passed` rows of a chunk: some 2,000 orders, for which PostgreSQL needs as long
enum { FIXED_ARGS = 7 }; // of rebuild_buyers.lua

enum { COLUMN_ID, COLUMN_KIND, COLUMN_FIELD, COLUMN_VALUE, COLUMN_NTH }; // of rebuild_buyers.sql

enum rebuild_step {
    REBUILD_LOCK,
    REBUILD_CHECK,
    REBUILD_EPOCH,
    REBUILD_BEGIN,
    REBUILD_JOURNAL,
    REBUILD_DEAD_LETTER, // the journal needs a dead letter that cannot be written
    REBUILD_STOCK,
    REBUILD_BUYERS,
    REBUILD_LAST_BUYERS, // no chunk comes after this one
    REBUILD_OPEN,
    REBUILD_RETIRE,
    REBUILD_REMOVE,
    REBUILD_ENDED,
    REBUILD_STEPS
};

struct rebuild {
    enum rebuild_step step;
    const struct sk_sale *sale;
    struct sk_voucher *voucher;
    enum sk_rebuild_why why;
    sk_rebuild_run_cb *done;
    void *arg;
    struct sk_named_lock *lock;
    struct sk_rebuild_journal *journal; // owned
    uint64_t since_ms;
    size_t buyers;
    struct sk_account account;                                 // of the check, in doubt
    int64_t found_epoch;                                       // in Redis; 0: not checked
    char slot[SK_PARAM_NUMBER_SIZE], id[SK_PARAM_NUMBER_SIZE]; // the voucher's, as text
    char epoch[24], cached_ms[24], cache_ms[24];               // of rebuild_epoch.sql
    char stock[24], buyer_count[24], begin_ms[24], end_ms[24], state[16], change[24], offer[24];
    char after[SK_UUID_SIZE]; // the last order id read
    bool reading;             // a question to PostgreSQL for the next chunk is in progress
    unsigned storing;         // calls to Redis with a chunk that are in progress: two at most
    bool broken;              // it fails when none of them is in progress any more
};

static void rebuild_settle_journal(struct rebuild *rebuild);
static void rebuild_on_chunk(void *arg, const struct sk_result *result);

static void rebuild_move(struct rebuild *rebuild, enum rebuild_step step)
{
#define TO(name) (1U << REBUILD_##name)
    static const unsigned allowed[REBUILD_STEPS] = {
        [REBUILD_LOCK] = TO(CHECK) | TO(EPOCH) | TO(ENDED),
        [REBUILD_CHECK] = TO(EPOCH) | TO(ENDED),
        [REBUILD_EPOCH] = TO(BEGIN) | TO(ENDED),
        [REBUILD_BEGIN] = TO(JOURNAL) | TO(ENDED),
        [REBUILD_JOURNAL] = TO(STOCK) | TO(RETIRE) | TO(DEAD_LETTER) | TO(ENDED),
        [REBUILD_DEAD_LETTER] = TO(ENDED),
        [REBUILD_STOCK] = TO(BUYERS) | TO(ENDED),
        [REBUILD_BUYERS] = TO(BUYERS) | TO(LAST_BUYERS) | TO(OPEN) | TO(ENDED),
        [REBUILD_LAST_BUYERS] = TO(OPEN) | TO(ENDED),
        [REBUILD_OPEN] = TO(JOURNAL) | TO(ENDED),
        [REBUILD_RETIRE] = TO(STOCK) | TO(REMOVE) | TO(ENDED),
        [REBUILD_REMOVE] = TO(ENDED),
    };
#undef TO
    SK_ASSERT((allowed[rebuild->step] & 1U << step) != 0);
    rebuild->step = step;
}

static void rebuild_free(struct rebuild *rebuild)
{
    sk_rebuild_journal_free(rebuild->journal);
    free(rebuild);
}

static void rebuild_log(const struct rebuild *rebuild, enum sk_rebuild_end end)
{
    static const char *const names[REBUILD_STEPS] = {
        [REBUILD_LOCK] = "lock",   [REBUILD_CHECK] = "check",     [REBUILD_EPOCH] = "epoch",
        [REBUILD_BEGIN] = "begin", [REBUILD_JOURNAL] = "journal", [REBUILD_DEAD_LETTER] = "dead letter",
        [REBUILD_STOCK] = "stock", [REBUILD_BUYERS] = "buyers",   [REBUILD_LAST_BUYERS] = "buyers",
        [REBUILD_OPEN] = "open",   [REBUILD_RETIRE] = "retire",   [REBUILD_REMOVE] = "remove",
    };
    bool ok = end == SK_REBUILD_OPENED, rebuilt = rebuild->epoch[0] != '\0';
    if (ok && rebuilt && rebuild->why == SK_REBUILD_RETIRE)
        sk_log(SK_LOG_INFO, "voucher retired", "voucher=%s epoch=%s journal_orders=%zu", rebuild->id, rebuild->epoch,
               sk_rebuild_journal_settled(rebuild->journal));
    else if (ok && rebuilt)
        sk_log(SK_LOG_INFO, "voucher rebuilt", "voucher=%s epoch=%s stock=%s buyers=%zu journal_orders=%zu ms=%" PRIu64,
               rebuild->id, rebuild->epoch, rebuild->stock, rebuild->buyers,
               sk_rebuild_journal_settled(rebuild->journal), uv_now(rebuild->sale->loop) - rebuild->since_ms);
    else if (end == SK_REBUILD_KEPT)
        sk_log(SK_LOG_DEBUG, "voucher not retired yet", "voucher=%s", rebuild->id);
    else if (end == SK_REBUILD_FAILED)
        sk_log(SK_LOG_WARN, "voucher not rebuilt", "voucher=%s step=%s", rebuild->id, names[rebuild->step]);
}

static void rebuild_end(struct rebuild *rebuild, enum sk_rebuild_end end)
{
    bool rebuilt = rebuild->epoch[0] != '\0', retired = rebuild->why == SK_REBUILD_RETIRE;
    sk_admit_forget(rebuild->voucher);
    if (end == SK_REBUILD_OPENED && rebuilt)
        sk_metrics_add(rebuild->sale->metrics, retired ? SK_METRIC_RETIRED : SK_METRIC_REBUILDS, 1);
    rebuild_log(rebuild, end);
    rebuild_move(rebuild, REBUILD_ENDED);
    sk_named_lock_release(rebuild->lock);
    rebuild->done(rebuild->arg, end);
    rebuild_free(rebuild);
}

static void rebuild_fail(struct rebuild *rebuild)
{
    rebuild_end(rebuild, SK_REBUILD_FAILED);
}

// A call that is not accepted ends the rebuild.
static void rebuild_ask_pg(struct rebuild *rebuild, enum sk_statement statement, int n, const char *const *params,
                           sk_pg_cb *done)
{
    if (sk_pg_call(sk_sale_shard(rebuild->sale, rebuild->voucher)->queries, statement, n, params, done, rebuild) !=
        SK_OK)
        rebuild_fail(rebuild);
}

static void rebuild_ask_redis(struct rebuild *rebuild, enum sk_script script, int keys, int n, const char **argv,
                              sk_redis_cb *done)
{
    if (sk_redis_script(sk_sale_ask_redis(rebuild->sale, rebuild->voucher), script, keys, n, argv, NULL, done,
                        rebuild) != SK_OK)
        rebuild_fail(rebuild);
}

static bool rebuild_answers(const struct sk_reply *reply, int64_t wanted)
{
    int64_t answer = -1;
    return reply != NULL && sk_reply_number(reply, &answer) && answer == wanted;
}

// ---- 7: open ----

// Or removed.
static void rebuild_on_opened(void *arg, const struct sk_reply *reply)
{
    struct rebuild *rebuild = arg;
    if (rebuild->step == REBUILD_OPEN && rebuild_answers(reply, 2)) // something is in the journal again
        rebuild_settle_journal(rebuild);
    else if (rebuild_answers(reply, 1))
        rebuild_end(rebuild, SK_REBUILD_OPENED);
    else
        rebuild_fail(rebuild);
}

static void rebuild_open(struct rebuild *rebuild)
{
    const struct sk_voucher_keys *keys = &rebuild->voucher->keys;
    const char *run = sk_redis_run(sk_sale_ask_redis(rebuild->sale, rebuild->voucher));
    const char *argv[] = {keys->voucher,        keys->buyers,       keys->journal,     rebuild->epoch, rebuild->stock,
                          rebuild->buyer_count, rebuild->begin_ms,  rebuild->end_ms,   rebuild->state, run,
                          rebuild->change,      rebuild->cached_ms, rebuild->cache_ms, rebuild->offer};
    rebuild_move(rebuild, REBUILD_OPEN);
    SK_FAILPOINT("rebuild.opening");
    rebuild_ask_redis(rebuild, SK_SCRIPT_REBUILD_OPEN, 3, 14, argv, rebuild_on_opened);
}

// ---- 6: buyers ----

// Ends it once nothing is in progress: until then, replies come to it.
static void rebuild_break(struct rebuild *rebuild)
{
    rebuild->broken = true;
    if (!rebuild->reading && rebuild->storing == 0)
        rebuild_fail(rebuild);
}

static void rebuild_read_chunk(struct rebuild *rebuild)
{
    char most[SK_PARAM_NUMBER_SIZE], bound[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {rebuild->slot, rebuild->id, rebuild->after, sk_params_number(most, CHUNK),
                            sk_params_number(bound, rebuild->voucher->orders_per_user)};
    rebuild_move(rebuild, REBUILD_BUYERS);
    rebuild->reading = sk_pg_call(sk_sale_shard(rebuild->sale, rebuild->voucher)->queries, SK_STATEMENT_REBUILD_BUYERS,
                                  5, params, rebuild_on_chunk, rebuild) == SK_OK;
    if (!rebuild->reading)
        rebuild_break(rebuild);
}

// `ahead`: while a chunk is being stored.
static void rebuild_go_on(struct rebuild *rebuild, bool ahead)
{
    if (rebuild->reading || rebuild->storing > (ahead ? 1 : 0))
        return;
    if (rebuild->step != REBUILD_LAST_BUYERS)
        rebuild_read_chunk(rebuild);
    else if (rebuild->storing == 0)
        rebuild_open(rebuild);
}

static void rebuild_on_chunk_stored(void *arg, const struct sk_reply *reply)
{
    struct rebuild *rebuild = arg;
    SK_FAILPOINT("rebuild.buyers");
    SK_ASSERT(rebuild->storing > 0);
    rebuild->storing--;
    if (rebuild->broken || !rebuild_answers(reply, 1))
        rebuild_break(rebuild);
    else
        rebuild_go_on(rebuild, false);
}

// Adds field and column of a chunk's rows that have the column and are of this kind; NULL: of any kind.
static int rebuild_add_rows(const struct sk_rows *rows, const char *kind, int column, const char **argv, int n)
{
    for (size_t i = 0; i < sk_rows_count(rows); i++) {
        const char *value = sk_rows_text(rows, i, column);
        if (value == NULL || (kind != NULL && strcmp(sk_rows_text(rows, i, COLUMN_KIND), kind) != 0))
            continue;
        argv[n++] = sk_rows_text(rows, i, COLUMN_FIELD);
        argv[n++] = value;
    }
    return n;
}

// False: the call was not accepted.
static bool rebuild_store_chunk(struct rebuild *rebuild, const struct sk_rows *rows)
{
    const struct sk_voucher_keys *keys = &rebuild->voucher->keys;
    char buyers[SK_PARAM_NUMBER_SIZE], repeats[SK_PARAM_NUMBER_SIZE];
    const char *argv[4 * CHUNK + FIXED_ARGS] = {keys->voucher,  keys->buyers, keys->repeats, keys->ended,
                                                rebuild->epoch, buyers,       repeats};
    int live = rebuild_add_rows(rows, "live", COLUMN_VALUE, argv, FIXED_ARGS);
    int ended = rebuild_add_rows(rows, "ended", COLUMN_VALUE, argv, live);
    int n = rebuild_add_rows(rows, NULL, COLUMN_NTH, argv, ended);
    (void)sk_params_number(buyers, (live - FIXED_ARGS) / 2);
    (void)sk_params_number(repeats, (ended - live) / 2);
    rebuild->buyers += (size_t)(live - FIXED_ARGS) / 2;
    if (sk_redis_script(sk_sale_ask_redis(rebuild->sale, rebuild->voucher), SK_SCRIPT_REBUILD_BUYERS, 4, n, argv, NULL,
                        rebuild_on_chunk_stored, rebuild) != SK_OK)
        return false;
    rebuild->storing++;
    return true;
}

static size_t rebuild_count_passed(const struct sk_rows *rows)
{
    size_t passed = 0;
    for (size_t i = 0; i < sk_rows_count(rows); i++)
        passed += strcmp(sk_rows_text(rows, i, COLUMN_KIND), "passed") == 0;
    return passed;
}

static void rebuild_on_chunk(void *arg, const struct sk_result *result)
{
    struct rebuild *rebuild = arg;
    const struct sk_rows *rows = result->rows;
    rebuild->reading = false;
    if (rows == NULL || rebuild->broken) {
        rebuild_break(rebuild);
        return;
    }
    size_t count = sk_rows_count(rows);
    SK_ASSERT(count <= CHUNK);
    if (count < CHUNK)
        rebuild_move(rebuild, REBUILD_LAST_BUYERS);
    else
        memcpy(rebuild->after, sk_rows_text(rows, count - 1, COLUMN_ID), SK_UUID_SIZE);
    if (count > 0 && !rebuild_store_chunk(rebuild, rows))
        rebuild_break(rebuild);
    else
        rebuild_go_on(rebuild, rebuild_count_passed(rows) >= LONG_WALK);
}

// ---- 5: stock and terms ----

static void rebuild_on_stock(void *arg, const struct sk_result *result)
{
    struct rebuild *rebuild = arg;
    if (result->rows == NULL || sk_rows_count(result->rows) != 1) {
        rebuild_fail(rebuild);
        return;
    }
    const struct {
        char *out;
        size_t size;
    } columns[] = {{rebuild->stock, sizeof rebuild->stock},
                   {rebuild->begin_ms, sizeof rebuild->begin_ms},
                   {rebuild->end_ms, sizeof rebuild->end_ms},
                   {rebuild->state, sizeof rebuild->state},
                   {rebuild->buyer_count, sizeof rebuild->buyer_count},
                   {rebuild->change, sizeof rebuild->change},
                   {rebuild->offer, sizeof rebuild->offer}};
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
        (void)snprintf(columns[i].out, columns[i].size, "%s", sk_rows_text(result->rows, 0, (int)i));
    rebuild->buyers = 0;
    memcpy(rebuild->after, "00000000-0000-0000-0000-000000000000", SK_UUID_SIZE);
    SK_FAILPOINT("rebuild.stock");
    rebuild_read_chunk(rebuild);
}

static void rebuild_read_stock(struct rebuild *rebuild)
{
    const char *params[] = {rebuild->slot, rebuild->id, rebuild->epoch};
    rebuild_move(rebuild, REBUILD_STOCK);
    rebuild_ask_pg(rebuild, SK_STATEMENT_REBUILD_STOCK, 3, params, rebuild_on_stock);
}

// ---- 5, 6 of a sale that is over: retire ----

static void rebuild_on_retired(void *arg, const struct sk_result *result)
{
    struct rebuild *rebuild = arg;
    const struct sk_voucher_keys *keys = &rebuild->voucher->keys;
    const char *argv[] = {keys->voucher, keys->buyers, keys->journal, keys->repeats, keys->ended, rebuild->epoch};
    if (result->rows == NULL || sk_rows_count(result->rows) != 1) {
        rebuild_fail(rebuild);
    } else if (strcmp(sk_rows_text(result->rows, 0, 0), "t") != 0) {
        rebuild->why = SK_REBUILD_ORDERED; // something is open after all
        rebuild_read_stock(rebuild);
    } else {
        rebuild_move(rebuild, REBUILD_REMOVE);
        rebuild_ask_redis(rebuild, SK_SCRIPT_RETIRE, 5, 6, argv, rebuild_on_opened);
    }
}

static void rebuild_retire(struct rebuild *rebuild)
{
    const char *params[] = {rebuild->id, rebuild->slot, rebuild->epoch};
    rebuild_move(rebuild, REBUILD_RETIRE);
    rebuild_ask_pg(rebuild, SK_STATEMENT_RETIRE_VOUCHER, 3, params, rebuild_on_retired);
}

// ---- 4: the journal ----

static void rebuild_on_journal(void *arg, enum sk_rebuild_journal_end end)
{
    struct rebuild *rebuild = arg;
    if (end == SK_REBUILD_JOURNAL_NOT_KEPT)
        rebuild_move(rebuild, REBUILD_DEAD_LETTER);
    if (end != SK_REBUILD_JOURNAL_EMPTY)
        rebuild_fail(rebuild);
    else if (rebuild->why == SK_REBUILD_RETIRE)
        rebuild_retire(rebuild);
    else
        rebuild_read_stock(rebuild);
}

static void rebuild_settle_journal(struct rebuild *rebuild)
{
    rebuild_move(rebuild, REBUILD_JOURNAL);
    sk_rebuild_journal_settle(rebuild->journal, rebuild->epoch);
}

// ---- 2, 3: fence, close ----

static void rebuild_on_begun(void *arg, const struct sk_reply *reply)
{
    struct rebuild *rebuild = arg;
    struct sk_voucher *voucher = rebuild->voucher;
    SK_FAILPOINT("rebuild.begun");
    if (!rebuild_answers(reply, 1)) {
        rebuild_fail(rebuild);
        return;
    }
    // Both stores have this epoch now. Forgets what was seen before, above all a forged epoch: no epoch would ever be
    // newer.
    sk_grant_forget(voucher, strtoll(rebuild->epoch, NULL, 10));
    voucher->maintenance->lost.stale_epoch = voucher->seen.epoch - 1;
    voucher->maintenance->audited.snapshot = (struct sk_snapshot){0};
    rebuild_settle_journal(rebuild);
}

static void rebuild_on_epoch(void *arg, const struct sk_result *result)
{
    struct rebuild *rebuild = arg;
    if (result->rows == NULL || sk_rows_count(result->rows) != 1) {
        rebuild_fail(rebuild);
        return;
    }
    SK_FAILPOINT("rebuild.epoch");
    (void)snprintf(rebuild->epoch, sizeof rebuild->epoch, "%s", sk_rows_text(result->rows, 0, 0));
    (void)snprintf(rebuild->cached_ms, sizeof rebuild->cached_ms, "%s", sk_rows_text(result->rows, 0, 1));
    (void)snprintf(rebuild->cache_ms, sizeof rebuild->cache_ms, "%s", sk_rows_text(result->rows, 0, 2));
    const struct sk_voucher_keys *keys = &rebuild->voucher->keys;
    const char *argv[] = {keys->voucher, keys->buyers, keys->journal, keys->repeats, keys->ended, rebuild->epoch};
    rebuild_move(rebuild, REBUILD_BEGIN);
    rebuild_ask_redis(rebuild, SK_SCRIPT_REBUILD_BEGIN, 5, 6, argv, rebuild_on_begun);
}

static void rebuild_fence(struct rebuild *rebuild)
{
    const struct sk_voucher *voucher = rebuild->voucher;
    const int64_t checked = voucher->maintenance->audited.snapshot.epoch, found = rebuild->found_epoch;
    int64_t newest = voucher->seen.epoch;
    newest = checked > newest ? checked : newest;
    newest = found > newest ? found : newest;
    char seen[SK_PARAM_NUMBER_SIZE], cache_ms[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {rebuild->slot, rebuild->id, sk_params_number(seen, newest),
                            sk_params_number(cache_ms, rebuild->sale->options->sold_out_mark_ms)};
    rebuild_move(rebuild, REBUILD_EPOCH);
    rebuild_ask_pg(rebuild, SK_STATEMENT_REBUILD_EPOCH, 4, params, rebuild_on_epoch);
}

// ---- 0, 1: lock, and check ----

static void rebuild_on_may_retire(void *arg, const struct sk_result *result)
{
    struct rebuild *rebuild = arg;
    if (result->rows == NULL || sk_rows_count(result->rows) != 1)
        rebuild_fail(rebuild);
    else if (strcmp(sk_rows_text(result->rows, 0, 0), "t") == 0)
        rebuild_fence(rebuild);
    else
        rebuild_end(rebuild, SK_REBUILD_KEPT); // something of the sale is open
}

// PostgreSQL decides. Its clock may differ from this process's, an order may be unpaid, a dead letter may wait for
// days. So Redis is not closed to find that out.
static void rebuild_check_retirement(struct rebuild *rebuild)
{
    char after_ms[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {rebuild->id, sk_params_number(after_ms, rebuild->sale->options->retire_after_ms)};
    rebuild_move(rebuild, REBUILD_CHECK);
    rebuild_ask_pg(rebuild, SK_STATEMENT_MAY_RETIRE, 2, params, rebuild_on_may_retire);
}

static void rebuild_on_snapshot(void *arg, const struct sk_reply *reply)
{
    struct rebuild *rebuild = arg;
    struct sk_snapshot seen, none = {0};
    if (reply == NULL || !sk_snapshot_read(reply, &seen)) {
        rebuild_fail(rebuild);
        return;
    }
    rebuild->found_epoch = seen.epoch;
    enum sk_books finding = sk_books_compare(&rebuild->account, &none, &seen);
    bool well = finding == SK_BOOKS_AGREE || finding == SK_BOOKS_OLD; // OLD: the audit brings it up to date
    if (well && (rebuild->why == SK_REBUILD_DOUBT || seen.epoch > rebuild->voucher->seen.epoch))
        rebuild_end(rebuild, SK_REBUILD_OPENED);
    else
        rebuild_fence(rebuild);
}

static void rebuild_on_account(void *arg, const struct sk_result *result)
{
    struct rebuild *rebuild = arg;
    bool found = result->rows != NULL && sk_rows_count(result->rows) == 1;
    if (found)
        sk_account_read(result->rows, 0, &rebuild->account);
    if (!found || sk_snapshot_ask(sk_sale_ask_redis(rebuild->sale, rebuild->voucher), &rebuild->voucher->keys, NULL,
                                  rebuild_on_snapshot, rebuild) != SK_OK)
        rebuild_fail(rebuild);
}

// Reads PostgreSQL's side, then Redis's, as the audit does. No other rebuild is in progress by now, so a voucher that
// was missing a moment ago may be there.
static void rebuild_check_doubt(struct rebuild *rebuild)
{
    struct sk_account_query query;
    rebuild_move(rebuild, REBUILD_CHECK);
    sk_account_query_begin(&query);
    sk_account_query_add(&query, rebuild->voucher);
    if (sk_account_query_end(&query))
        rebuild_ask_pg(rebuild, SK_STATEMENT_VOUCHER_ACCOUNTS, 2, query.params, rebuild_on_account);
    else
        rebuild_fail(rebuild);
    sk_account_query_free(&query);
}

static void rebuild_on_locked(void *arg, bool held)
{
    struct rebuild *rebuild = arg;
    if (!held)
        rebuild_end(rebuild, SK_REBUILD_MISSED); // another instance rebuilds it
    else if (rebuild->why == SK_REBUILD_ORDERED)
        rebuild_fence(rebuild);
    else if (rebuild->why == SK_REBUILD_RETIRE)
        rebuild_check_retirement(rebuild);
    else
        rebuild_check_doubt(rebuild);
}

enum sk_status sk_rebuild_run(const struct sk_sale *sale, struct sk_voucher *voucher, enum sk_rebuild_why why,
                              sk_rebuild_run_cb *done, void *arg)
{
    char key[SK_KEY_SIZE];
    struct rebuild *rebuild = calloc(1, sizeof *rebuild);
    if (rebuild == NULL)
        return SK_NO_MEM;
    *rebuild = (struct rebuild){.sale = sale, .voucher = voucher, .why = why, .done = done, .arg = arg};
    rebuild->since_ms = uv_now(sale->loop);
    rebuild->journal = sk_rebuild_journal_new(sale, voucher, rebuild_on_journal, rebuild);
    if (rebuild->journal == NULL) {
        rebuild_free(rebuild);
        return SK_NO_MEM;
    }
    (void)sk_params_number(rebuild->slot, voucher->slot);
    (void)sk_params_number(rebuild->id, voucher->id);
    sk_key_of_lock("rebuild", voucher->id, voucher->tag, key);
    rebuild->lock = sk_named_lock_take(sale->locks, key, rebuild_on_locked, rebuild);
    if (rebuild->lock == NULL) {
        rebuild_free(rebuild);
        return SK_DOWN;
    }
    return SK_OK;
}
