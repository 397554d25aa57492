// The steps, each one call to a store:
//   0 Redis       a lock, so that instances do not do the same work; it carries no promise
//   1 both        in doubt: one more look, now that no other rebuild is under way. If all is well that is the end
//   2 PostgreSQL  a new epoch, newer than any that was seen: every writer still in flight is fenced off
//   3 Redis       rebuild_begin: closed under that epoch, unless a newer one is there; old buyers go
//   4 both        the journal, a page at a time: read, settle under the new epoch, remove (rebuild_journal.c)
//   5 PostgreSQL  stock, terms, number of buyers, as long as the epoch is still ours
//   6 both        the buyers, a chunk at a time
//   7 Redis       rebuild_open: stock, terms, open; if the journal is empty and no buyer is missing
// To retire a sale, 5 to 7 are:
//   5 PostgreSQL  retired, under one more epoch, if nothing is open; else it is opened again
//   6 Redis       retire: a mark stays, all else goes
// A later rebuild takes a newer epoch, and every step of the older one then does nothing. One that dies leaves the
// segment closed under an epoch of its own; the next one starts again. Only the owner of the newest epoch writes orders
// until it is open, so what steps 5 and 6 read does not move.
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
#include "params.h"
#include "rebuild_journal.h"

enum { CHUNK = 500 }; // buyers; Redis is busy with them for about half a millisecond

enum { COLUMN_ID, COLUMN_USER, COLUMN_VALUE, COLUMN_ENDED }; // of rebuild_buyers.sql

enum rebuild_step {
    REBUILD_LOCK,
    REBUILD_ACCOUNT,
    REBUILD_LOOK,
    REBUILD_EPOCH,
    REBUILD_BEGIN,
    REBUILD_JOURNAL,
    REBUILD_DEAD_LETTER, // the journal needs one that cannot be written
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
    struct sk_segment *segment;
    enum sk_rebuild_why why;
    sk_rebuild_run_cb *done;
    void *arg;
    struct sk_named_lock *lock;
    struct sk_rebuild_journal *journal; // owned
    uint64_t since_ms;
    size_t buyers;
    struct sk_account account;
    char slot[SK_PARAM_NUMBER_SIZE], id[SK_PARAM_NUMBER_SIZE]; // the segment's name
    char epoch[24], stock[24], buyer_count[24], begin_ms[24], end_ms[24], state[16], change[24];
    char after[SK_UUID_SIZE]; // the last order id read
};

static void rebuild_on_locked(void *arg, bool held);
static void rebuild_look(struct rebuild *rebuild);
static void rebuild_on_account(void *arg, const struct sk_result *result);
static void rebuild_on_look(void *arg, const struct sk_reply *reply);
static void rebuild_fence(struct rebuild *rebuild);
static void rebuild_on_epoch(void *arg, const struct sk_result *result);
static void rebuild_on_begun(void *arg, const struct sk_reply *reply);
static void rebuild_settle_journal(struct rebuild *rebuild);
static void rebuild_on_journal(void *arg, enum sk_rebuild_journal_end end);
static void rebuild_read_stock(struct rebuild *rebuild);
static void rebuild_on_stock(void *arg, const struct sk_result *result);
static void rebuild_read_chunk(struct rebuild *rebuild);
static void rebuild_on_chunk(void *arg, const struct sk_result *result);
static void rebuild_on_chunk_stored(void *arg, const struct sk_reply *reply);
static void rebuild_open(struct rebuild *rebuild);
static void rebuild_on_opened(void *arg, const struct sk_reply *reply);
static void rebuild_retire(struct rebuild *rebuild);
static void rebuild_on_retired(void *arg, const struct sk_result *result);
static void rebuild_on_removed(void *arg, const struct sk_reply *reply);
static void rebuild_fail(struct rebuild *rebuild);
static void rebuild_end(struct rebuild *rebuild, enum sk_rebuild_end end);
static void rebuild_free(struct rebuild *rebuild);

#define TO(step) [REBUILD_##step] = true

static void rebuild_move(struct rebuild *rebuild, enum rebuild_step step)
{
    static const bool allowed[REBUILD_STEPS][REBUILD_STEPS] = {
        [REBUILD_LOCK] = {TO(ACCOUNT), TO(EPOCH), TO(ENDED)},
        [REBUILD_ACCOUNT] = {TO(LOOK), TO(ENDED)},
        [REBUILD_LOOK] = {TO(EPOCH), TO(ENDED)},
        [REBUILD_EPOCH] = {TO(BEGIN), TO(ENDED)},
        [REBUILD_BEGIN] = {TO(JOURNAL), TO(ENDED)},
        [REBUILD_JOURNAL] = {TO(STOCK), TO(RETIRE), TO(DEAD_LETTER), TO(ENDED)},
        [REBUILD_DEAD_LETTER] = {TO(ENDED)},
        [REBUILD_STOCK] = {TO(BUYERS), TO(ENDED)},
        [REBUILD_BUYERS] = {TO(BUYERS), TO(LAST_BUYERS), TO(OPEN), TO(ENDED)},
        [REBUILD_LAST_BUYERS] = {TO(OPEN), TO(ENDED)},
        [REBUILD_OPEN] = {TO(JOURNAL), TO(ENDED)},
        [REBUILD_RETIRE] = {TO(STOCK), TO(REMOVE), TO(ENDED)},
        [REBUILD_REMOVE] = {TO(ENDED)},
    };
    SK_ASSERT(allowed[rebuild->step][step]);
    rebuild->step = step;
}

#undef TO

enum sk_status sk_rebuild_run(const struct sk_sale *sale, struct sk_segment *segment, enum sk_rebuild_why why,
                              sk_rebuild_run_cb *done, void *arg)
{
    char key[SK_KEY_SIZE];
    struct rebuild *rebuild = calloc(1, sizeof *rebuild);
    if (rebuild == NULL)
        return SK_NO_MEM;
    *rebuild = (struct rebuild){.sale = sale, .segment = segment, .why = why, .done = done, .arg = arg};
    rebuild->since_ms = uv_now(sale->loop);
    rebuild->journal = sk_rebuild_journal_new(sale, segment, rebuild_on_journal, rebuild);
    if (rebuild->journal == NULL) {
        rebuild_free(rebuild);
        return SK_NO_MEM;
    }
    (void)sk_params_number(rebuild->slot, segment->slot);
    (void)sk_params_number(rebuild->id, segment->voucher_id);
    sk_key_of_lock("rebuild", segment->tag, key);
    rebuild->lock = sk_named_lock_take(sale->locks, key, rebuild_on_locked, rebuild);
    if (rebuild->lock == NULL) {
        rebuild_free(rebuild);
        return SK_DOWN;
    }
    return SK_OK;
}

static enum sk_status rebuild_ask_pg(struct rebuild *rebuild, enum sk_statement statement, const char *third,
                                     sk_pg_cb *done)
{
    const char *params[] = {rebuild->slot, rebuild->id, third};
    return sk_pg_call(rebuild->sale->ask_pg, statement, 3, params, done, rebuild);
}

static bool rebuild_answers(const struct sk_reply *reply, int64_t wanted)
{
    int64_t answer = -1;
    return reply != NULL && sk_reply_number(reply, &answer) && answer == wanted;
}

// ---- 0, 1: lock, and look once more ----

static void rebuild_on_locked(void *arg, bool held)
{
    struct rebuild *rebuild = arg;
    if (!held)
        rebuild_end(rebuild, SK_REBUILD_MISSED); // another instance rebuilds it
    else if (rebuild->why == SK_REBUILD_DOUBT || rebuild->why == SK_REBUILD_BEHIND)
        rebuild_look(rebuild);
    else
        rebuild_fence(rebuild);
}

static void rebuild_look(struct rebuild *rebuild)
{
    struct sk_account_query query;
    enum sk_status status = SK_NO_MEM;
    rebuild_move(rebuild, REBUILD_ACCOUNT);
    sk_account_query_begin(&query);
    sk_account_query_add(&query, rebuild->segment);
    if (sk_account_query_end(&query))
        status = sk_pg_call(rebuild->sale->ask_pg, SK_STATEMENT_SEGMENT_ACCOUNTS, 2, query.params, rebuild_on_account,
                            rebuild);
    sk_account_query_free(&query);
    if (status != SK_OK)
        rebuild_fail(rebuild);
}

static void rebuild_on_account(void *arg, const struct sk_result *result)
{
    struct rebuild *rebuild = arg;
    const struct sk_segment_keys *keys = &rebuild->segment->keys;
    const char *argv[] = {keys->voucher, keys->buyers, keys->journal};
    if (result->rows == NULL || sk_rows_count(result->rows) != 1) {
        rebuild_fail(rebuild);
        return;
    }
    sk_account_read(result->rows, 0, &rebuild->account);
    rebuild_move(rebuild, REBUILD_LOOK);
    if (sk_redis_script(rebuild->sale->ask_redis, SK_SCRIPT_LOOK_AT_VOUCHER, 3, 3, argv, NULL, rebuild_on_look,
                        rebuild) != SK_OK)
        rebuild_fail(rebuild);
}

static void rebuild_on_look(void *arg, const struct sk_reply *reply)
{
    struct rebuild *rebuild = arg;
    struct sk_look seen, none = {0};
    if (reply == NULL || !sk_look_read(reply, sk_redis_run(rebuild->sale->ask_redis), &seen)) {
        rebuild_fail(rebuild);
        return;
    }
    enum sk_finding finding = sk_audit(&rebuild->account, &none, &seen);
    bool well = finding == SK_BOOKS_AGREE || finding == SK_BOOKS_OLD; // which the watch brings up to date
    if (well && (rebuild->why == SK_REBUILD_DOUBT || seen.epoch > rebuild->segment->seen.epoch))
        rebuild_end(rebuild, SK_REBUILD_OPENED);
    else
        rebuild_fence(rebuild);
}

// ---- 2, 3: fence, close ----

static void rebuild_fence(struct rebuild *rebuild)
{
    const struct sk_segment *segment = rebuild->segment;
    int64_t looked = segment->care->watched.look.epoch;
    char seen[SK_PARAM_NUMBER_SIZE];
    rebuild_move(rebuild, REBUILD_EPOCH);
    (void)sk_params_number(seen, looked > segment->seen.epoch ? looked : segment->seen.epoch);
    if (rebuild_ask_pg(rebuild, SK_STATEMENT_REBUILD_EPOCH, seen, rebuild_on_epoch) != SK_OK)
        rebuild_fail(rebuild);
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
    const struct sk_segment_keys *keys = &rebuild->segment->keys;
    const char *argv[] = {keys->voucher, keys->buyers, keys->journal, keys->repeats, rebuild->epoch};
    rebuild_move(rebuild, REBUILD_BEGIN);
    if (sk_redis_script(rebuild->sale->ask_redis, SK_SCRIPT_REBUILD_BEGIN, 4, 5, argv, NULL, rebuild_on_begun,
                        rebuild) != SK_OK)
        rebuild_fail(rebuild);
}

static void rebuild_on_begun(void *arg, const struct sk_reply *reply)
{
    struct rebuild *rebuild = arg;
    struct sk_segment *segment = rebuild->segment;
    SK_FAILPOINT("rebuild.begun");
    if (!rebuild_answers(reply, 1)) {
        rebuild_fail(rebuild);
        return;
    }
    // Now both stores have this epoch. What was seen before is forgotten, above all an epoch that was forged: nothing
    // would ever be newer.
    sk_grant_forget(segment, strtoll(rebuild->epoch, NULL, 10));
    segment->care->lost.stale_epoch = segment->seen.epoch - 1;
    segment->care->watched.look = (struct sk_look){0};
    rebuild_settle_journal(rebuild);
}

// ---- 4: the journal ----

static void rebuild_settle_journal(struct rebuild *rebuild)
{
    rebuild_move(rebuild, REBUILD_JOURNAL);
    sk_rebuild_journal_settle(rebuild->journal, rebuild->epoch);
}

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

// ---- 5: stock and terms ----

static void rebuild_read_stock(struct rebuild *rebuild)
{
    rebuild_move(rebuild, REBUILD_STOCK);
    if (rebuild_ask_pg(rebuild, SK_STATEMENT_REBUILD_STOCK, rebuild->epoch, rebuild_on_stock) != SK_OK)
        rebuild_fail(rebuild);
}

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
                   {rebuild->change, sizeof rebuild->change}};
    for (int i = 0; i < 6; i++)
        (void)snprintf(columns[i].out, columns[i].size, "%s", sk_rows_text(result->rows, 0, i));
    rebuild->buyers = 0;
    memcpy(rebuild->after, "00000000-0000-0000-0000-000000000000", SK_UUID_SIZE);
    SK_FAILPOINT("rebuild.stock");
    rebuild_read_chunk(rebuild);
}

// ---- 6: buyers ----

static void rebuild_read_chunk(struct rebuild *rebuild)
{
    char most[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {rebuild->slot, rebuild->id, rebuild->after, sk_params_number(most, CHUNK)};
    rebuild_move(rebuild, REBUILD_BUYERS);
    if (sk_pg_call(rebuild->sale->ask_pg, SK_STATEMENT_REBUILD_BUYERS, 4, params, rebuild_on_chunk, rebuild) != SK_OK)
        rebuild_fail(rebuild);
}

// Adds the orders of a chunk that are live, or those that have ended.
static int rebuild_add_rows(const struct sk_rows *rows, bool ended, const char **argv, int n)
{
    for (size_t i = 0; i < sk_rows_count(rows); i++) {
        if ((strcmp(sk_rows_text(rows, i, COLUMN_ENDED), "t") == 0) != ended)
            continue;
        argv[n++] = sk_rows_text(rows, i, COLUMN_USER);
        argv[n++] = sk_rows_text(rows, i, COLUMN_VALUE);
    }
    return n;
}

static void rebuild_on_chunk(void *arg, const struct sk_result *result)
{
    struct rebuild *rebuild = arg;
    const struct sk_rows *rows = result->rows;
    const struct sk_segment_keys *keys = &rebuild->segment->keys;
    char buyers[SK_PARAM_NUMBER_SIZE];
    const char *argv[2 * CHUNK + 5] = {keys->voucher, keys->buyers, keys->repeats, rebuild->epoch, buyers};
    int n = 5;
    if (rows == NULL) {
        rebuild_fail(rebuild);
        return;
    }
    size_t count = sk_rows_count(rows);
    if (count == 0) {
        rebuild_open(rebuild);
        return;
    }
    SK_ASSERT(count <= CHUNK);
    if (count < CHUNK)
        rebuild_move(rebuild, REBUILD_LAST_BUYERS);
    n = rebuild_add_rows(rows, false, argv, n);
    (void)sk_params_number(buyers, (n - 5) / 2);
    rebuild->buyers += (size_t)(n - 5) / 2;
    n = rebuild_add_rows(rows, true, argv, n);
    memcpy(rebuild->after, sk_rows_text(rows, count - 1, COLUMN_ID), SK_UUID_SIZE);
    if (sk_redis_script(rebuild->sale->ask_redis, SK_SCRIPT_REBUILD_BUYERS, 3, n, argv, NULL, rebuild_on_chunk_stored,
                        rebuild) != SK_OK)
        rebuild_fail(rebuild);
}

static void rebuild_on_chunk_stored(void *arg, const struct sk_reply *reply)
{
    struct rebuild *rebuild = arg;
    SK_FAILPOINT("rebuild.buyers");
    if (!rebuild_answers(reply, 1))
        rebuild_fail(rebuild);
    else if (rebuild->step == REBUILD_LAST_BUYERS)
        rebuild_open(rebuild);
    else
        rebuild_read_chunk(rebuild);
}

// ---- 7: open ----

static void rebuild_open(struct rebuild *rebuild)
{
    const struct sk_segment_keys *keys = &rebuild->segment->keys;
    const char *run = sk_redis_run(rebuild->sale->ask_redis);
    const char *argv[] = {keys->voucher,        keys->buyers,      keys->journal,   rebuild->epoch, rebuild->stock,
                          rebuild->buyer_count, rebuild->begin_ms, rebuild->end_ms, rebuild->state, run,
                          rebuild->change};
    rebuild_move(rebuild, REBUILD_OPEN);
    SK_FAILPOINT("rebuild.opening");
    if (sk_redis_script(rebuild->sale->ask_redis, SK_SCRIPT_REBUILD_OPEN, 3, 11, argv, NULL, rebuild_on_opened,
                        rebuild) != SK_OK)
        rebuild_fail(rebuild);
}

static void rebuild_on_opened(void *arg, const struct sk_reply *reply)
{
    struct rebuild *rebuild = arg;
    if (rebuild_answers(reply, 2)) // something is in the journal again
        rebuild_settle_journal(rebuild);
    else if (rebuild_answers(reply, 1))
        rebuild_end(rebuild, SK_REBUILD_OPENED);
    else
        rebuild_fail(rebuild);
}

// ---- 5, 6 of a sale that is over: retire ----

static void rebuild_retire(struct rebuild *rebuild)
{
    const char *params[] = {rebuild->id, rebuild->slot, rebuild->epoch};
    rebuild_move(rebuild, REBUILD_RETIRE);
    if (sk_pg_call(rebuild->sale->ask_pg, SK_STATEMENT_RETIRE_VOUCHER, 3, params, rebuild_on_retired, rebuild) != SK_OK)
        rebuild_fail(rebuild);
}

static void rebuild_on_retired(void *arg, const struct sk_result *result)
{
    struct rebuild *rebuild = arg;
    const struct sk_segment_keys *keys = &rebuild->segment->keys;
    const char *argv[] = {keys->voucher, keys->buyers, keys->journal, keys->repeats, rebuild->epoch};
    if (result->rows == NULL || sk_rows_count(result->rows) != 1) {
        rebuild_fail(rebuild);
    } else if (strcmp(sk_rows_text(result->rows, 0, 0), "t") != 0) {
        rebuild->why = SK_REBUILD_ORDERED; // something is open after all
        rebuild_read_stock(rebuild);
    } else {
        rebuild_move(rebuild, REBUILD_REMOVE);
        if (sk_redis_script(rebuild->sale->ask_redis, SK_SCRIPT_RETIRE, 4, 5, argv, NULL, rebuild_on_removed,
                            rebuild) != SK_OK)
            rebuild_fail(rebuild);
    }
}

static void rebuild_on_removed(void *arg, const struct sk_reply *reply)
{
    struct rebuild *rebuild = arg;
    if (rebuild_answers(reply, 1))
        rebuild_end(rebuild, SK_REBUILD_OPENED);
    else
        rebuild_fail(rebuild);
}

// ---- the end ----

static void rebuild_fail(struct rebuild *rebuild)
{
    rebuild_end(rebuild, SK_REBUILD_FAILED);
}

static void rebuild_log(const struct rebuild *rebuild, enum sk_rebuild_end end)
{
    static const char *const names[REBUILD_STEPS] = {
        [REBUILD_LOCK] = "lock",
        [REBUILD_ACCOUNT] = "account",
        [REBUILD_LOOK] = "look",
        [REBUILD_EPOCH] = "epoch",
        [REBUILD_BEGIN] = "begin",
        [REBUILD_JOURNAL] = "journal",
        [REBUILD_DEAD_LETTER] = "dead letter",
        [REBUILD_STOCK] = "stock",
        [REBUILD_BUYERS] = "buyers",
        [REBUILD_LAST_BUYERS] = "buyers",
        [REBUILD_OPEN] = "open",
        [REBUILD_RETIRE] = "retire",
        [REBUILD_REMOVE] = "remove",
    };
    bool ok = end == SK_REBUILD_OPENED, rebuilt = rebuild->epoch[0] != '\0';
    if (ok && rebuilt && rebuild->why == SK_REBUILD_RETIRE)
        sk_log(SK_LOG_INFO, "voucher retired", "voucher=%s epoch=%s journal_orders=%zu", rebuild->id, rebuild->epoch,
               sk_rebuild_journal_settled(rebuild->journal));
    else if (ok && rebuilt)
        sk_log(SK_LOG_INFO, "voucher rebuilt", "voucher=%s epoch=%s stock=%s buyers=%zu journal_orders=%zu ms=%" PRIu64,
               rebuild->id, rebuild->epoch, rebuild->stock, rebuild->buyers,
               sk_rebuild_journal_settled(rebuild->journal), uv_now(rebuild->sale->loop) - rebuild->since_ms);
    else if (end == SK_REBUILD_FAILED)
        sk_log(SK_LOG_WARN, "voucher not rebuilt", "voucher=%s step=%s", rebuild->id, names[rebuild->step]);
}

static void rebuild_end(struct rebuild *rebuild, enum sk_rebuild_end end)
{
    bool rebuilt = rebuild->epoch[0] != '\0', retired = rebuild->why == SK_REBUILD_RETIRE;
    sk_admit_forget(rebuild->segment);
    if (end == SK_REBUILD_OPENED && rebuilt)
        sk_metrics_add(rebuild->sale->metrics, retired ? SK_METRIC_RETIRED : SK_METRIC_REBUILDS, 1);
    rebuild_log(rebuild, end);
    rebuild_move(rebuild, REBUILD_ENDED);
    sk_named_lock_release(rebuild->lock);
    rebuild->done(rebuild->arg, end);
    rebuild_free(rebuild);
}

static void rebuild_free(struct rebuild *rebuild)
{
    sk_rebuild_journal_free(rebuild->journal);
    free(rebuild);
}
