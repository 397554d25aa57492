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
#include "reconcile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admit.h"
#include "dead_letter.h"
#include "failpoint.h"
#include "journal.h"
#include "log.h"

enum {
    CHUNK = 500, // buyers, as in reconcile_buyers.sql; Redis is busy with them for about half a millisecond
    PAGE = 64,   // most journal entries at once
    PAGE_FIRST = 4,
    TRIES_MAX = 3, // of an order that PostgreSQL refuses
    FAILED_PAUSE_MS = 500,
    LOCK_KEY_SIZE = 64,
};

struct reconcile {
    const struct sk_core *core;
    struct sk_voucher *voucher;
    sk_reconcile_cb *done;
    void *arg;
    struct sk_lock *lock;
    uint64_t since_ms;
    size_t settled, buyers;
    bool last_chunk;
    char id[24], epoch[24], stock[24], buyer_count[24], begin_ms[24], end_ms[24], state[16];
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

static void end(struct reconcile *reconcile, const char *failed_at)
{
    struct sk_voucher *voucher = reconcile->voucher;
    const struct sk_core *core = reconcile->core;
    voucher->reconciling = false;
    voucher->reconcile_at_ms = failed_at == NULL ? 0 : uv_now(core->loop) + FAILED_PAUSE_MS;
    sk_admit_forget(voucher);
    if (failed_at == NULL)
        sk_log(SK_INFO, "voucher reconciled", "voucher=%s epoch=%s stock=%s buyers=%zu journal_orders=%zu ms=%" PRIu64,
               reconcile->id, reconcile->epoch, reconcile->stock, reconcile->buyers, reconcile->settled,
               uv_now(core->loop) - reconcile->since_ms);
    else if (strcmp(failed_at, "lock") != 0)
        sk_log(SK_WARN, "voucher not reconciled", "voucher=%s step=%s", reconcile->id, failed_at);
    sk_lock_release(reconcile->lock);
    if (reconcile->done != NULL)
        reconcile->done(reconcile->arg, failed_at == NULL);
    sk_buf_free(&reconcile->order_ids);
    sk_buf_free(&reconcile->users);
    sk_buf_free(&reconcile->text);
    free(reconcile);
}

static enum sk_status ask_pg(struct reconcile *reconcile, enum sk_statement statement, int n, const char *second,
                             sk_pg_cb *done)
{
    const char *params[] = {reconcile->id, second};
    return sk_pg_call(reconcile->core->pg, statement, n, params, done, reconcile);
}

static bool answers(const struct sk_reply *reply, int64_t wanted)
{
    int64_t answer = -1;
    return reply != NULL && sk_reply_number(reply, &answer) && answer == wanted;
}

static void read_journal(struct reconcile *reconcile);
static void read_chunk(struct reconcile *reconcile);

// ---- 6: open ----

static void on_opened(void *arg, const struct sk_reply *reply)
{
    struct reconcile *reconcile = arg;
    if (answers(reply, 2))
        read_journal(reconcile);
    else
        end(reconcile, answers(reply, 1) ? NULL : "open");
}

static void open_voucher(struct reconcile *reconcile)
{
    const struct sk_voucher *voucher = reconcile->voucher;
    const char *argv[] = {voucher->voucher_key, voucher->buyers_key,
                          voucher->journal_key, reconcile->epoch,
                          reconcile->stock,     reconcile->buyer_count,
                          reconcile->begin_ms,  reconcile->end_ms,
                          reconcile->state,     sk_redis_run(reconcile->core->redis)};
    SK_FAILPOINT("reconcile.opening");
    if (sk_redis_script(reconcile->core->redis, SK_SCRIPT_RECONCILE_OPEN, 3, 10, argv, NULL, on_opened, reconcile) !=
        SK_OK)
        end(reconcile, "open");
}

// ---- 5: buyers ----

static void on_chunk_stored(void *arg, const struct sk_reply *reply)
{
    struct reconcile *reconcile = arg;
    SK_FAILPOINT("reconcile.buyers");
    if (!answers(reply, 1))
        end(reconcile, "buyers");
    else if (reconcile->last_chunk)
        open_voucher(reconcile);
    else
        read_chunk(reconcile);
}

static void on_chunk(void *arg, const struct sk_rows *rows)
{
    struct reconcile *reconcile = arg;
    const char *argv[2 * CHUNK + 3] = {reconcile->voucher->voucher_key, reconcile->voucher->buyers_key,
                                       reconcile->epoch};
    int n = 3;
    if (rows == NULL) {
        end(reconcile, "buyers");
        return;
    }
    size_t count = sk_rows_count(rows);
    reconcile->last_chunk = count < CHUNK;
    reconcile->buyers += count;
    if (count == 0) {
        open_voucher(reconcile);
        return;
    }
    SK_ASSERT(count <= CHUNK);
    for (size_t i = 0; i < count; i++) {
        argv[n++] = sk_rows_text(rows, i, 1);
        argv[n++] = sk_rows_text(rows, i, 0);
    }
    memcpy(reconcile->after, argv[n - 1], SK_UUID_SIZE);
    if (sk_redis_script(reconcile->core->redis, SK_SCRIPT_RECONCILE_BUYERS, 2, n, argv, NULL, on_chunk_stored,
                        reconcile) != SK_OK)
        end(reconcile, "buyers");
}

static void read_chunk(struct reconcile *reconcile)
{
    if (ask_pg(reconcile, SK_STATEMENT_RECONCILE_BUYERS, 2, reconcile->after, on_chunk) != SK_OK)
        end(reconcile, "buyers");
}

// ---- 4: stock and terms ----

static void on_stock(void *arg, const struct sk_rows *rows)
{
    struct reconcile *reconcile = arg;
    if (rows == NULL || sk_rows_count(rows) != 1) {
        end(reconcile, "stock");
        return;
    }
    struct {
        char *out;
        size_t size;
    } columns[] = {{reconcile->stock, sizeof reconcile->stock},
                   {reconcile->begin_ms, sizeof reconcile->begin_ms},
                   {reconcile->end_ms, sizeof reconcile->end_ms},
                   {reconcile->state, sizeof reconcile->state},
                   {reconcile->buyer_count, sizeof reconcile->buyer_count}};
    for (int i = 0; i < 5; i++)
        (void)snprintf(columns[i].out, columns[i].size, "%s", sk_rows_text(rows, 0, i));
    reconcile->buyers = 0;
    memcpy(reconcile->after, "00000000-0000-0000-0000-000000000000", SK_UUID_SIZE);
    SK_FAILPOINT("reconcile.stock");
    read_chunk(reconcile);
}

static void read_stock(struct reconcile *reconcile)
{
    if (ask_pg(reconcile, SK_STATEMENT_RECONCILE_STOCK, 2, reconcile->epoch, on_stock) != SK_OK)
        end(reconcile, "stock");
}

// ---- 3: the journal ----

static void on_removed(void *arg, const struct sk_reply *reply)
{
    struct reconcile *reconcile = arg;
    if (reply == NULL || sk_reply_error(reply) != NULL)
        end(reconcile, "journal");
    else
        read_journal(reconcile);
}

static void remove_page(struct reconcile *reconcile)
{
    const char *argv[PAGE + 2] = {"XDEL", reconcile->voucher->journal_key};
    for (int i = 0; i < reconcile->entries; i++)
        argv[i + 2] = reconcile->ids[i];
    SK_FAILPOINT("reconcile.settling");
    if (sk_redis_command(reconcile->core->redis, reconcile->entries + 2, argv, NULL, on_removed, reconcile) != SK_OK)
        end(reconcile, "journal");
}

static void settle_part(struct reconcile *reconcile);

// The next part of an entry that goes alone; or it is done.
static void go_on(struct reconcile *reconcile)
{
    reconcile->tries = 0;
    if (reconcile->alone && reconcile->from < reconcile->count) {
        settle_part(reconcile);
        return;
    }
    reconcile->alone = false;
    remove_page(reconcile);
}

static void on_set_aside(void *arg, bool kept)
{
    struct reconcile *reconcile = arg;
    if (!kept) {
        end(reconcile, "dead letter");
        return;
    }
    reconcile->from++;
    go_on(reconcile);
}

// What PostgreSQL refuses for what it says is bisected, so that one bad order does not take others along.
static void on_refused(struct reconcile *reconcile)
{
    if (!reconcile->alone) {
        reconcile->alone = true;
        read_journal(reconcile);
    } else if (reconcile->orders > 1) {
        reconcile->part = reconcile->orders / 2;
        settle_part(reconcile);
    } else if (++reconcile->tries < TRIES_MAX) {
        settle_part(reconcile);
    } else if (sk_dead_letter_put_order(reconcile->core, reconcile->voucher->id, reconcile->ids[0], reconcile->order,
                                        reconcile->user, on_set_aside, reconcile) != SK_OK) {
        end(reconcile, "dead letter");
    }
}

static void on_settled(void *arg, const struct sk_rows *rows)
{
    struct reconcile *reconcile = arg;
    if (rows == NULL && sk_pg_refused(reconcile->core->pg)) {
        on_refused(reconcile);
        return;
    }
    if (rows == NULL || sk_rows_count(rows) != reconcile->orders || strcmp(sk_rows_text(rows, 0, 1), "stale") == 0) {
        end(reconcile, "journal");
        return;
    }
    // Whatever became of each order, PostgreSQL knows it now, and the rest is read from there.
    reconcile->settled += reconcile->orders;
    reconcile->from += reconcile->orders;
    reconcile->part = reconcile->orders * 2; // the bad order may be behind us
    go_on(reconcile);
}

static void settle(struct reconcile *reconcile)
{
    sk_buf_puts(&reconcile->order_ids, "}");
    sk_buf_puts(&reconcile->users, "}");
    const char *params[] = {reconcile->id, reconcile->epoch, reconcile->order_ids.data, reconcile->users.data, NULL};
    if (reconcile->order_ids.failed || reconcile->users.failed ||
        sk_pg_call(reconcile->core->pg, SK_STATEMENT_PLACE_ORDERS, 5, params, on_settled, reconcile) != SK_OK)
        end(reconcile, "journal");
}

static void add_order(void *arg, const char *id, const char *user)
{
    struct reconcile *reconcile = arg;
    sk_buf_printf(&reconcile->order_ids, "%s%s", reconcile->orders == 0 ? "{" : ",", id);
    sk_buf_printf(&reconcile->users, "%s\"%s\"", reconcile->orders == 0 ? "{" : ",", user);
    reconcile->orders++;
}

static void clear_orders(struct reconcile *reconcile)
{
    sk_buf_clear(&reconcile->order_ids);
    sk_buf_clear(&reconcile->users);
    reconcile->orders = 0;
}

static void add_of_part(void *arg, const char *id, const char *user)
{
    struct reconcile *reconcile = arg;
    size_t at = reconcile->next++;
    if (at < reconcile->from || at >= reconcile->from + reconcile->part)
        return;
    if (at == reconcile->from) {
        memcpy(reconcile->order, id, SK_UUID_SIZE);
        memcpy(reconcile->user, user, strlen(user) + 1);
    }
    add_order(reconcile, id, user);
}

static void settle_part(struct reconcile *reconcile)
{
    clear_orders(reconcile);
    reconcile->next = 0;
    (void)sk_journal_parse(reconcile->text.data, reconcile->text.len, add_of_part, reconcile);
    settle(reconcile);
}

// The next page reads about as many entries as can be used.
static void fit_page(struct reconcile *reconcile, const struct sk_reply *reply)
{
    size_t read = sk_reply_count(reply), used = (size_t)reconcile->entries;
    if (used < read)
        reconcile->page = reconcile->entries;
    else if (used == (size_t)reconcile->page && reconcile->orders <= SK_JOURNAL_ORDERS_MAX / 2)
        reconcile->page = reconcile->page * 2 < PAGE ? reconcile->page * 2 : PAGE;
}

// Takes as many readable entries as fit, or one that is not readable: that becomes *unreadable.
static bool take_page(struct reconcile *reconcile, const struct sk_reply *reply, const struct sk_reply **unreadable)
{
    clear_orders(reconcile);
    sk_buf_clear(&reconcile->text);
    reconcile->entries = 0;
    reconcile->count = reconcile->from = 0;
    reconcile->part = SK_JOURNAL_ORDERS_MAX;
    *unreadable = NULL;
    for (size_t i = 0; i < sk_reply_count(reply) && reconcile->entries < PAGE; i++) {
        const struct sk_reply *element = sk_reply_at(reply, i);
        struct sk_journal_entry entry;
        if (!sk_journal_read(element, &entry))
            return false;
        bool readable = entry.orders != NULL;
        if (reconcile->entries > 0 && (!readable || reconcile->orders + (size_t)entry.count > SK_JOURNAL_ORDERS_MAX))
            break;
        memcpy(reconcile->ids[reconcile->entries++], entry.id, strlen(entry.id) + 1);
        if (!readable) {
            *unreadable = element;
            break;
        }
        if (reconcile->alone) {
            sk_buf_add(&reconcile->text, entry.orders, entry.orders_len);
            reconcile->count = (size_t)entry.count;
            break;
        }
        (void)sk_journal_parse(entry.orders, entry.orders_len, add_order, reconcile);
    }
    return !reconcile->text.failed;
}

static void on_journal(void *arg, const struct sk_reply *reply)
{
    struct reconcile *reconcile = arg;
    const struct sk_reply *unreadable;
    if (reply == NULL || sk_reply_error(reply) != NULL || !take_page(reconcile, reply, &unreadable)) {
        end(reconcile, "journal");
        return;
    }
    if (reconcile->entries == 0) {
        read_stock(reconcile);
    } else if (unreadable == NULL && reconcile->alone) {
        settle_part(reconcile);
    } else if (unreadable == NULL) {
        fit_page(reconcile, reply);
        settle(reconcile);
    } else if (sk_dead_letter_put_unreadable(reconcile->core, reconcile->voucher->id, reconcile->ids[0], unreadable,
                                             on_set_aside, reconcile) != SK_OK) {
        end(reconcile, "dead letter");
    }
}

static void read_journal(struct reconcile *reconcile)
{
    char page[8];
    const char *argv[] = {"XRANGE", reconcile->voucher->journal_key, "-", "+", "COUNT", page};
    (void)snprintf(page, sizeof page, "%d", reconcile->alone ? 1 : reconcile->page);
    if (sk_redis_command(reconcile->core->redis, 6, argv, NULL, on_journal, reconcile) != SK_OK)
        end(reconcile, "journal");
}

// ---- 0 to 2: lock, fence, close ----

static void on_begun(void *arg, const struct sk_reply *reply)
{
    struct reconcile *reconcile = arg;
    struct sk_voucher *voucher = reconcile->voucher;
    SK_FAILPOINT("reconcile.begun");
    if (!answers(reply, 1)) {
        end(reconcile, "begin");
        return;
    }
    // Now both stores have this epoch. What was seen before is forgotten, above all an epoch that was forged: nothing
    // would ever be newer.
    voucher->seen_epoch = strtoll(reconcile->epoch, NULL, 10);
    voucher->seen_last[0] = '\0';
    voucher->stale_epoch = voucher->seen_epoch - 1;
    voucher->look = (struct sk_look){0};
    read_journal(reconcile);
}

static void on_epoch(void *arg, const struct sk_rows *rows)
{
    struct reconcile *reconcile = arg;
    if (rows == NULL || sk_rows_count(rows) != 1) {
        end(reconcile, "epoch");
        return;
    }
    SK_FAILPOINT("reconcile.epoch");
    (void)snprintf(reconcile->epoch, sizeof reconcile->epoch, "%s", sk_rows_text(rows, 0, 0));
    const struct sk_voucher *voucher = reconcile->voucher;
    const char *argv[] = {voucher->voucher_key, voucher->buyers_key, voucher->journal_key, reconcile->epoch};
    if (sk_redis_script(reconcile->core->redis, SK_SCRIPT_RECONCILE_BEGIN, 3, 4, argv, NULL, on_begun, reconcile) !=
        SK_OK)
        end(reconcile, "begin");
}

static void on_locked(void *arg, struct sk_lock *lock)
{
    struct reconcile *reconcile = arg;
    const struct sk_voucher *voucher = reconcile->voucher;
    char seen[24];
    (void)snprintf(seen, sizeof seen, "%" PRId64,
                   voucher->look.epoch > voucher->seen_epoch ? voucher->look.epoch : voucher->seen_epoch);
    if (sk_lock_state(lock, 0) != SK_LOCK_HELD)
        end(reconcile, "lock"); // somebody else is at it
    else if (ask_pg(reconcile, SK_STATEMENT_RECONCILE_EPOCH, 2, seen, on_epoch) != SK_OK)
        end(reconcile, "epoch");
}

enum sk_status sk_reconcile(const struct sk_core *core, struct sk_voucher *voucher, sk_reconcile_cb *done, void *arg)
{
    static const struct sk_lock_events events = {.taken = on_locked};
    if (voucher->reconciling || uv_now(core->loop) < voucher->reconcile_at_ms)
        return SK_FULL;
    if (!sk_redis_ready(core->redis) || !sk_pg_ready(core->pg))
        return SK_DOWN;
    char name[LOCK_KEY_SIZE];
    const char *key = name;
    struct reconcile *reconcile = calloc(1, sizeof *reconcile);
    if (reconcile == NULL)
        return SK_NO_MEM;
    reconcile->core = core;
    reconcile->voucher = voucher;
    reconcile->done = done;
    reconcile->arg = arg;
    reconcile->since_ms = uv_now(core->loop);
    reconcile->page = PAGE_FIRST;
    (void)snprintf(reconcile->id, sizeof reconcile->id, "%" PRId64, voucher->id);
    (void)snprintf(name, sizeof name, "seckill:lock:reconcile:{%" PRId64 "}", voucher->id);
    reconcile->lock = sk_lock_take(core->locker, 1, &key, NULL, &events, reconcile);
    if (reconcile->lock == NULL) {
        free(reconcile);
        return SK_DOWN;
    }
    voucher->reconciling = true;
    return SK_OK;
}
