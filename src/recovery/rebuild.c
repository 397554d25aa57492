// The steps, each one call to a store:
//   0 Redis       a lock, so that not everybody does the same work; it carries no promise
//   1 PostgreSQL  a new epoch, newer than any that was seen: every writer still in flight is fenced off
//   2 Redis       reconcile_begin: closed under that epoch, unless a newer one is there; old buyers go
//   3 Redis, PostgreSQL, Redis  the journal, a page at a time: read, settle under the new epoch, remove
//   4 PostgreSQL  stock, terms, number of buyers, as long as the epoch is still ours
//   5 PostgreSQL, Redis  the buyers, a chunk at a time
//   6 Redis       reconcile_open: stock, terms, open; if the journal is empty and no buyer is missing
// Whoever comes later takes a newer epoch, and every step of the older one then does nothing. Whoever dies
// leaves the voucher closed under an epoch of its own; the next caller starts again. Nobody but the holder of
// the newest epoch writes orders until step 6, so what step 4 and 5 read does not move.
//
// Orders of older epochs that are still in an instance are granted again afterwards (regrant.c).
#include "rebuild.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admit.h"
#include "dead_letter.h"
#include "failpoint.h"
#include "journal.h"
#include "log.h"
#include "params.h"
#include "settlement.h"

enum {
    CHUNK = 500, // buyers; Redis is busy with them for about half a millisecond
    PAGE = 64,   // most journal entries at once
    PAGE_FIRST = 4,
    TRIES_MAX = 3, // of an order that PostgreSQL refuses
    FAILED_PAUSE_MS = 500,
};

struct rebuild {
    const struct sk_core *core;
    struct sk_segment *segment;
    sk_rebuild_cb *done;
    void *arg;
    struct sk_lock *lock;
    uint64_t since_ms;
    size_t settled, buyers;
    bool last_chunk;
    char slot[SK_PARAM_NUMBER_SIZE], id[SK_PARAM_NUMBER_SIZE]; // the segment's name
    char epoch[24], stock[24], buyer_count[24], begin_ms[24], end_ms[24], state[16];
    char after[SK_UUID_SIZE]; // the last order id read

    // The page of the journal that is being settled.
    char ids[PAGE][SK_JOURNAL_ID_SIZE];
    int entries;
    int page; // entries to read
    size_t orders;
    struct sk_buf order_ids, users; // arrays for place_orders()

    // A page was refused: one entry at a time, and of that one orders[from] to orders[from + part - 1], in parts that
    // become smaller until the order is found that PostgreSQL refuses.
    bool alone;
    struct sk_buf text; // the orders of the first entry
    size_t count, from, part, next;
    char order[SK_UUID_SIZE], user[SK_USER_SIZE]; // orders[from]
    unsigned tries;
};

static void end(struct rebuild *rebuild, const char *failed_at)
{
    struct sk_segment *segment = rebuild->segment;
    const struct sk_core *core = rebuild->core;
    segment->care->rebuilding = false;
    segment->care->rebuild_at_ms = failed_at == NULL ? 0 : uv_now(core->loop) + FAILED_PAUSE_MS;
    sk_admit_forget(segment);
    if (failed_at == NULL)
        sk_log(SK_INFO, "voucher reconciled", "voucher=%s epoch=%s stock=%s buyers=%zu journal_orders=%zu ms=%" PRIu64,
               rebuild->id, rebuild->epoch, rebuild->stock, rebuild->buyers, rebuild->settled,
               uv_now(core->loop) - rebuild->since_ms);
    else if (strcmp(failed_at, "lock") != 0)
        sk_log(SK_WARN, "voucher not reconciled", "voucher=%s step=%s", rebuild->id, failed_at);
    sk_segment_unpin(segment);
    sk_lock_release(rebuild->lock);
    if (rebuild->done != NULL)
        rebuild->done(rebuild->arg, failed_at == NULL);
    sk_buf_free(&rebuild->order_ids);
    sk_buf_free(&rebuild->users);
    sk_buf_free(&rebuild->text);
    free(rebuild);
}

static enum sk_status ask_pg(struct rebuild *rebuild, enum sk_statement statement, const char *third, sk_pg_cb *done)
{
    const char *params[] = {rebuild->slot, rebuild->id, third};
    return sk_pg_call(rebuild->core->pg, statement, 3, params, done, rebuild);
}

static bool answers(const struct sk_reply *reply, int64_t wanted)
{
    int64_t answer = -1;
    return reply != NULL && sk_reply_number(reply, &answer) && answer == wanted;
}

static void read_journal(struct rebuild *rebuild);
static void read_chunk(struct rebuild *rebuild);

// ---- 6: open ----

static void on_opened(void *arg, const struct sk_reply *reply)
{
    struct rebuild *rebuild = arg;
    if (answers(reply, 2))
        read_journal(rebuild);
    else
        end(rebuild, answers(reply, 1) ? NULL : "open");
}

static void open_voucher(struct rebuild *rebuild)
{
    const struct sk_segment *segment = rebuild->segment;
    const char *argv[] = {segment->keys.voucher, segment->keys.buyers,
                          segment->keys.journal, rebuild->epoch,
                          rebuild->stock,        rebuild->buyer_count,
                          rebuild->begin_ms,     rebuild->end_ms,
                          rebuild->state,        sk_redis_run(rebuild->core->redis)};
    SK_FAILPOINT("reconcile.opening");
    if (sk_redis_script(rebuild->core->redis, SK_SCRIPT_RECONCILE_OPEN, 3, 10, argv, NULL, on_opened, rebuild) != SK_OK)
        end(rebuild, "open");
}

// ---- 5: buyers ----

static void on_chunk_stored(void *arg, const struct sk_reply *reply)
{
    struct rebuild *rebuild = arg;
    SK_FAILPOINT("reconcile.buyers");
    if (!answers(reply, 1))
        end(rebuild, "buyers");
    else if (rebuild->last_chunk)
        open_voucher(rebuild);
    else
        read_chunk(rebuild);
}

static void on_chunk(void *arg, const struct sk_result *result)
{
    const struct sk_rows *rows = result->rows;
    struct rebuild *rebuild = arg;
    const char *argv[2 * CHUNK + 3] = {rebuild->segment->keys.voucher, rebuild->segment->keys.buyers, rebuild->epoch};
    int n = 3;
    if (rows == NULL) {
        end(rebuild, "buyers");
        return;
    }
    size_t count = sk_rows_count(rows);
    rebuild->last_chunk = count < CHUNK;
    rebuild->buyers += count;
    if (count == 0) {
        open_voucher(rebuild);
        return;
    }
    SK_ASSERT(count <= CHUNK);
    for (size_t i = 0; i < count; i++) {
        argv[n++] = sk_rows_text(rows, i, 1);
        argv[n++] = sk_rows_text(rows, i, 0);
    }
    memcpy(rebuild->after, argv[n - 1], SK_UUID_SIZE);
    if (sk_redis_script(rebuild->core->redis, SK_SCRIPT_RECONCILE_BUYERS, 2, n, argv, NULL, on_chunk_stored, rebuild) !=
        SK_OK)
        end(rebuild, "buyers");
}

static void read_chunk(struct rebuild *rebuild)
{
    char most[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {rebuild->slot, rebuild->id, rebuild->after, sk_params_number(most, CHUNK)};
    if (sk_pg_call(rebuild->core->pg, SK_STATEMENT_REBUILD_BUYERS, 4, params, on_chunk, rebuild) != SK_OK)
        end(rebuild, "buyers");
}

// ---- 4: stock and terms ----

static void on_stock(void *arg, const struct sk_result *result)
{
    const struct sk_rows *rows = result->rows;
    struct rebuild *rebuild = arg;
    if (rows == NULL || sk_rows_count(rows) != 1) {
        end(rebuild, "stock");
        return;
    }
    struct {
        char *out;
        size_t size;
    } columns[] = {{rebuild->stock, sizeof rebuild->stock},
                   {rebuild->begin_ms, sizeof rebuild->begin_ms},
                   {rebuild->end_ms, sizeof rebuild->end_ms},
                   {rebuild->state, sizeof rebuild->state},
                   {rebuild->buyer_count, sizeof rebuild->buyer_count}};
    for (int i = 0; i < 5; i++)
        (void)snprintf(columns[i].out, columns[i].size, "%s", sk_rows_text(rows, 0, i));
    rebuild->buyers = 0;
    memcpy(rebuild->after, "00000000-0000-0000-0000-000000000000", SK_UUID_SIZE);
    SK_FAILPOINT("reconcile.stock");
    read_chunk(rebuild);
}

static void read_stock(struct rebuild *rebuild)
{
    if (ask_pg(rebuild, SK_STATEMENT_REBUILD_STOCK, rebuild->epoch, on_stock) != SK_OK)
        end(rebuild, "stock");
}

// ---- 3: the journal ----

static void on_removed(void *arg, const struct sk_reply *reply)
{
    struct rebuild *rebuild = arg;
    if (reply == NULL || sk_reply_error(reply) != NULL)
        end(rebuild, "journal");
    else
        read_journal(rebuild);
}

static void remove_page(struct rebuild *rebuild)
{
    const char *argv[PAGE + 2] = {"XDEL", rebuild->segment->keys.journal};
    for (int i = 0; i < rebuild->entries; i++)
        argv[i + 2] = rebuild->ids[i];
    SK_FAILPOINT("reconcile.settling");
    if (sk_redis_command(rebuild->core->redis, rebuild->entries + 2, argv, NULL, on_removed, rebuild) != SK_OK)
        end(rebuild, "journal");
}

static void settle_part(struct rebuild *rebuild);

// The next part of an entry that goes alone; or it is done.
static void go_on(struct rebuild *rebuild)
{
    rebuild->tries = 0;
    if (rebuild->alone && rebuild->from < rebuild->count) {
        settle_part(rebuild);
        return;
    }
    rebuild->alone = false;
    remove_page(rebuild);
}

static void on_set_aside(void *arg, bool kept)
{
    struct rebuild *rebuild = arg;
    if (!kept) {
        end(rebuild, "dead letter");
        return;
    }
    rebuild->from++;
    go_on(rebuild);
}

// What PostgreSQL refuses for what it says is bisected, so that one bad order does not take others along.
static void on_refused(struct rebuild *rebuild)
{
    if (!rebuild->alone) {
        rebuild->alone = true;
        read_journal(rebuild);
    } else if (rebuild->orders > 1) {
        rebuild->part = rebuild->orders / 2;
        settle_part(rebuild);
    } else if (++rebuild->tries < TRIES_MAX) {
        settle_part(rebuild);
    } else if (sk_dead_letter_put_order(rebuild->core, rebuild->segment, rebuild->ids[0], rebuild->order, rebuild->user,
                                        on_set_aside, rebuild) != SK_OK) {
        end(rebuild, "dead letter");
    }
}

static void on_settled(void *arg, const struct sk_result *result)
{
    const struct sk_rows *rows = result->rows;
    struct rebuild *rebuild = arg;
    if (result->kind == SK_RESULT_REFUSED) {
        on_refused(rebuild);
        return;
    }
    size_t first;
    if (rows == NULL || sk_rows_count(rows) != rebuild->orders ||
        sk_settlement_read(rows, 0, &first, NULL) == SK_SETTLEMENT_STALE) {
        end(rebuild, "journal");
        return;
    }
    // Whatever became of each order, PostgreSQL knows it now, and the rest is read from there.
    rebuild->settled += rebuild->orders;
    rebuild->from += rebuild->orders;
    rebuild->part = rebuild->orders * 2; // the bad order may be behind us
    go_on(rebuild);
}

static void settle(struct rebuild *rebuild)
{
    const char *params[] = {
        rebuild->slot, rebuild->id, rebuild->epoch, sk_params_end(&rebuild->order_ids), sk_params_end(&rebuild->users),
        NULL};
    if (params[3] == NULL || params[4] == NULL ||
        sk_pg_call(rebuild->core->pg, SK_STATEMENT_PLACE_ORDERS, 6, params, on_settled, rebuild) != SK_OK)
        end(rebuild, "journal");
}

static void add_order(void *arg, const char *id, const char *user)
{
    struct rebuild *rebuild = arg;
    sk_params_add(&rebuild->order_ids, id);
    sk_params_add_text(&rebuild->users, user);
    rebuild->orders++;
}

static void clear_orders(struct rebuild *rebuild)
{
    sk_params_begin(&rebuild->order_ids);
    sk_params_begin(&rebuild->users);
    rebuild->orders = 0;
}

static void add_of_part(void *arg, const char *id, const char *user)
{
    struct rebuild *rebuild = arg;
    size_t at = rebuild->next++;
    if (at < rebuild->from || at >= rebuild->from + rebuild->part)
        return;
    if (at == rebuild->from) {
        memcpy(rebuild->order, id, SK_UUID_SIZE);
        memcpy(rebuild->user, user, strlen(user) + 1);
    }
    add_order(rebuild, id, user);
}

static void settle_part(struct rebuild *rebuild)
{
    clear_orders(rebuild);
    rebuild->next = 0;
    (void)sk_journal_parse(rebuild->text.data, rebuild->text.len, add_of_part, rebuild);
    settle(rebuild);
}

// The next page reads about as many entries as can be used.
static void fit_page(struct rebuild *rebuild, const struct sk_reply *reply)
{
    size_t read = sk_reply_count(reply), used = (size_t)rebuild->entries;
    if (used < read)
        rebuild->page = rebuild->entries;
    else if (used == (size_t)rebuild->page && rebuild->orders <= SK_JOURNAL_ORDERS_MAX / 2)
        rebuild->page = rebuild->page * 2 < PAGE ? rebuild->page * 2 : PAGE;
}

// Takes as many readable entries as fit, or one that is not readable: that becomes *unreadable.
static bool take_page(struct rebuild *rebuild, const struct sk_reply *reply, const struct sk_reply **unreadable)
{
    clear_orders(rebuild);
    sk_buf_clear(&rebuild->text);
    rebuild->entries = 0;
    rebuild->count = rebuild->from = 0;
    rebuild->part = SK_JOURNAL_ORDERS_MAX;
    *unreadable = NULL;
    for (size_t i = 0; i < sk_reply_count(reply) && rebuild->entries < PAGE; i++) {
        const struct sk_reply *element = sk_reply_at(reply, i);
        struct sk_journal_entry entry;
        if (!sk_journal_read(element, &entry))
            return false;
        bool readable = entry.orders != NULL;
        if (rebuild->entries > 0 && (!readable || rebuild->orders + (size_t)entry.count > SK_JOURNAL_ORDERS_MAX))
            break;
        memcpy(rebuild->ids[rebuild->entries++], entry.id, strlen(entry.id) + 1);
        if (!readable) {
            *unreadable = element;
            break;
        }
        if (rebuild->alone) {
            sk_buf_add(&rebuild->text, entry.orders, entry.orders_len);
            rebuild->count = (size_t)entry.count;
            break;
        }
        (void)sk_journal_parse(entry.orders, entry.orders_len, add_order, rebuild);
    }
    return !rebuild->text.failed;
}

static void on_journal(void *arg, const struct sk_reply *reply)
{
    struct rebuild *rebuild = arg;
    const struct sk_reply *unreadable;
    if (reply == NULL || sk_reply_error(reply) != NULL || !take_page(rebuild, reply, &unreadable)) {
        end(rebuild, "journal");
        return;
    }
    if (rebuild->entries == 0) {
        read_stock(rebuild);
    } else if (unreadable == NULL && rebuild->alone) {
        settle_part(rebuild);
    } else if (unreadable == NULL) {
        fit_page(rebuild, reply);
        settle(rebuild);
    } else if (sk_dead_letter_put_unreadable(rebuild->core, rebuild->segment, rebuild->ids[0], unreadable, on_set_aside,
                                             rebuild) != SK_OK) {
        end(rebuild, "dead letter");
    }
}

static void read_journal(struct rebuild *rebuild)
{
    char page[8];
    const char *argv[] = {"XRANGE", rebuild->segment->keys.journal, "-", "+", "COUNT", page};
    (void)snprintf(page, sizeof page, "%d", rebuild->alone ? 1 : rebuild->page);
    if (sk_redis_command(rebuild->core->redis, 6, argv, NULL, on_journal, rebuild) != SK_OK)
        end(rebuild, "journal");
}

// ---- 0 to 2: lock, fence, close ----

static void on_begun(void *arg, const struct sk_reply *reply)
{
    struct rebuild *rebuild = arg;
    struct sk_segment *segment = rebuild->segment;
    SK_FAILPOINT("reconcile.begun");
    if (!answers(reply, 1)) {
        end(rebuild, "begin");
        return;
    }
    // Now both stores have this epoch. What was seen before is forgotten, above all an epoch that was forged: nothing
    // would ever be newer.
    segment->seen.epoch = strtoll(rebuild->epoch, NULL, 10);
    segment->seen.last[0] = '\0';
    segment->care->lost.stale_epoch = segment->seen.epoch - 1;
    segment->care->look = (struct sk_look){0};
    read_journal(rebuild);
}

static void on_epoch(void *arg, const struct sk_result *result)
{
    const struct sk_rows *rows = result->rows;
    struct rebuild *rebuild = arg;
    if (rows == NULL || sk_rows_count(rows) != 1) {
        end(rebuild, "epoch");
        return;
    }
    SK_FAILPOINT("reconcile.epoch");
    (void)snprintf(rebuild->epoch, sizeof rebuild->epoch, "%s", sk_rows_text(rows, 0, 0));
    const struct sk_segment *segment = rebuild->segment;
    const char *argv[] = {segment->keys.voucher, segment->keys.buyers, segment->keys.journal, rebuild->epoch};
    if (sk_redis_script(rebuild->core->redis, SK_SCRIPT_RECONCILE_BEGIN, 3, 4, argv, NULL, on_begun, rebuild) != SK_OK)
        end(rebuild, "begin");
}

static void on_locked(void *arg, struct sk_lock *lock)
{
    struct rebuild *rebuild = arg;
    const struct sk_segment *segment = rebuild->segment;
    char seen[24];
    (void)snprintf(seen, sizeof seen, "%" PRId64,
                   segment->care->look.epoch > segment->seen.epoch ? segment->care->look.epoch : segment->seen.epoch);
    if (sk_lock_state(lock, 0) != SK_LOCK_HELD)
        end(rebuild, "lock"); // somebody else is at it
    else if (ask_pg(rebuild, SK_STATEMENT_REBUILD_EPOCH, seen, on_epoch) != SK_OK)
        end(rebuild, "epoch");
}

enum sk_status sk_rebuild(const struct sk_core *core, struct sk_segment *segment, sk_rebuild_cb *done, void *arg)
{
    static const struct sk_lock_events events = {.taken = on_locked};
    if (segment->care->rebuilding || uv_now(core->loop) < segment->care->rebuild_at_ms)
        return SK_FULL;
    if (!sk_redis_ready(core->redis) || !sk_pg_ready(core->pg))
        return SK_DOWN;
    char name[SK_KEY_SIZE];
    const char *key = name;
    struct rebuild *rebuild = calloc(1, sizeof *rebuild);
    if (rebuild == NULL)
        return SK_NO_MEM;
    rebuild->core = core;
    rebuild->segment = segment;
    rebuild->done = done;
    rebuild->arg = arg;
    rebuild->since_ms = uv_now(core->loop);
    rebuild->page = PAGE_FIRST;
    (void)sk_params_number(rebuild->slot, segment->slot);
    (void)sk_params_number(rebuild->id, segment->voucher_id);
    sk_key_of_lock("rebuild", segment->tag, name);
    rebuild->lock = sk_lock_take(core->locker, 1, &key, &events, rebuild);
    if (rebuild->lock == NULL) {
        free(rebuild);
        return SK_DOWN;
    }
    segment->care->rebuilding = true;
    sk_segment_pin(segment);
    return SK_OK;
}
