// A round: ask PostgreSQL for the vouchers that may have orders under way and what it knows of them; look at each
// in Redis and let audit.c judge. If Redis cannot be relied on: reconcile. Else, if its journal is not empty,
// try to take the voucher's recovery lock (so that instances do not do the same work twice; if they do, no harm
// is done: same order ids), read a page of entries that are older than the grace period, give them to the
// writer as if they had just been granted, and wait until they are settled before the next page. Now and then dead
// letters are ended all of whose orders have been settled since.
//
// Entries of our own that are still in the writer are old too when PostgreSQL was away. They are
// recognised by their ids: nothing younger than our oldest open entry is touched.
#include "watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backoff.h"
#include "dead_letter.h"
#include "log.h"
#include "rebuild.h"
#include "trust.h"

enum {
    ROUND_MS = 1000,
    PAGE_FIRST = 8, // entries of the first page of a journal; the next ones follow their size
    PAGE_MOST = 128,
    PAGE_BYTES = 128 * 1024, // of orders or unreadable bytes in a page: little enough for one turn of the loop
    SWEEP_ROUNDS = 5,        // settled dead letters are ended in every fifth round
    VOUCHERS_MAX = 1000,
    DIFFERING_MAX = 2,         // looks in a row before a difference is believed
    DIFFERING_HOLD_MS = 60000, // what a reconcile did not mend is not mended by the next one
};

struct sk_watch {
    const struct sk_core *core;
    struct sk_writer *writer;
    uv_timer_t *timer;
    struct sk_backoff jitter;
    bool in_round, hurry;
    int64_t ids[VOUCHERS_MAX]; // the vouchers of this round
    struct sk_account accounts[VOUCHERS_MAX];
    size_t count, at;
    struct sk_segment *segment; // the one being looked at
    struct sk_lock *lock;
    size_t unsettled; // entries of this page in the writer
    bool more;        // the page was full
    int page;         // entries to read at once
    unsigned rounds;
    char after[SK_JOURNAL_ID_SIZE];
};

static void next_voucher(struct sk_watch *watch);

static void end_round(struct sk_watch *watch);

static void end_voucher(struct sk_watch *watch)
{
    sk_lock_release(watch->lock);
    watch->lock = NULL;
    sk_segment_unpin(watch->segment);
    watch->segment = NULL;
    next_voucher(watch);
}

// ---- entries ----

// An entry of an instance with larger batches than we ever have room for. A rebuild settles it, as any other.
static void settle_by_rebuild(const struct sk_watch *watch, const struct sk_journal_entry *found)
{
    enum sk_status status = sk_rebuild(watch->core, watch->segment, NULL, NULL);
    sk_log(SK_WARN, "journal entry is larger than SECKILL_JOURNAL_MAX_ORDERS; its voucher is rebuilt",
           "voucher=%" PRId64 " journal_id=%s orders=%d begun=%d", watch->segment->voucher_id, found->id, found->count,
           status == SK_OK);
}

static bool leave_for_later(const struct sk_watch *watch, const struct sk_journal_entry *found)
{
    sk_log(SK_INFO, "no room for a journal entry now", "voucher=%" PRId64 " journal_id=%s orders=%d",
           watch->segment->voucher_id, found->id, found->count);
    return false;
}

// False: not settled by the writer, now.
static bool refill(struct sk_watch *watch, const struct sk_journal_entry *found)
{
    const struct sk_core *core = watch->core;
    struct sk_order_list orders = {0};
    struct sk_order *order;
    if (found->count > core->config->journal_max_orders) {
        settle_by_rebuild(watch, found);
        return false;
    }
    if (!sk_entry_read_orders(core, found->orders, found->orders_len, &orders))
        return leave_for_later(watch, found);
    struct sk_entry *entry = sk_entry_new(core, watch->segment, SK_ENTRY_RECOVERED, found->id);
    while ((order = sk_order_pop(&orders)) != NULL) {
        order->epoch = found->epoch;
        if (entry != NULL)
            sk_writer_add(watch->writer, entry, order);
        else
            sk_order_give(core->orders, order);
    }
    if (entry == NULL)
        return leave_for_later(watch, found);
    watch->unsettled++;
    return true;
}

// ---- entries that cannot be read ----

struct bad_entry {
    const struct sk_core *core;
    char journal_key[SK_KEY_SIZE];
    char id[SK_JOURNAL_ID_SIZE];
};

static void on_dropped(void *arg, const struct sk_reply *reply)
{
    (void)arg;
    (void)reply; // if it is still there, it is found again, and kept only once
}

static void on_kept(void *arg, bool kept)
{
    struct bad_entry *bad = arg;
    const char *argv[] = {"XDEL", bad->journal_key, bad->id};
    if (kept && sk_redis_command(bad->core->redis, 3, argv, NULL, on_dropped, NULL) != SK_OK)
        sk_log(SK_WARN, "dead letter still in the journal", "journal_id=%s", bad->id);
    free(bad);
}

static void set_aside(struct sk_watch *watch, const char *id, const struct sk_reply *element)
{
    struct bad_entry *bad = calloc(1, sizeof *bad);
    enum sk_status status = SK_NO_MEM;
    if (bad != NULL) {
        bad->core = watch->core;
        (void)snprintf(bad->journal_key, sizeof bad->journal_key, "%s", watch->segment->keys.journal);
        (void)snprintf(bad->id, sizeof bad->id, "%s", id);
        status = sk_dead_letter_put_unreadable(watch->core, watch->segment, id, element, on_kept, bad);
    }
    if (status != SK_OK)
        free(bad); // a later round finds it again
}

// ---- the journal ----

static void scan(struct sk_watch *watch);

static size_t bytes_of(const struct sk_reply *element, const struct sk_journal_entry *found)
{
    struct sk_buf none = {0};
    size_t bytes = found->orders != NULL ? found->orders_len : sk_journal_raw(element, 0, &none);
    sk_buf_free(&none);
    return bytes;
}

// Entries differ in size by a factor of thousands, and Redis counts entries.
static void fit_page(struct sk_watch *watch, size_t bytes)
{
    if (bytes > PAGE_BYTES && watch->page > 1)
        watch->page /= 2;
    else if (bytes < PAGE_BYTES / 2 && watch->page < PAGE_MOST)
        watch->page *= 2;
}

static void on_scanned(void *arg, const struct sk_reply *reply)
{
    struct sk_watch *watch = arg;
    const struct sk_entry *own = watch->segment->entries.oldest;
    size_t count = sk_reply_count(reply), bytes = 0;
    watch->more = count == (size_t)watch->page;
    for (size_t i = 0; i < count; i++) {
        const struct sk_reply *element = sk_reply_at(reply, i);
        struct sk_journal_entry found;
        if (!sk_journal_read(element, &found) || (own != NULL && sk_journal_compare(found.id, own->journal_id) >= 0)) {
            watch->more = false;
            break;
        }
        memcpy(watch->after, found.id, strlen(found.id) + 1);
        bytes += bytes_of(element, &found);
        if (found.orders == NULL) {
            set_aside(watch, found.id, element);
        } else if (!refill(watch, &found)) {
            watch->more = false;
            break;
        }
    }
    fit_page(watch, bytes);
    if (watch->unsettled > 0)
        sk_log(SK_INFO, "recovering journal entries", "voucher=%" PRId64 " entries=%zu", watch->segment->voucher_id,
               watch->unsettled);
    else if (watch->more)
        scan(watch);
    else
        end_voucher(watch);
}

static void scan(struct sk_watch *watch)
{
    char grace[24], page[8];
    const char *argv[] = {watch->segment->keys.journal, grace, watch->after, page, watch->segment->care->old_last};
    (void)snprintf(grace, sizeof grace, "%" PRId64, watch->core->config->recover_after_ms);
    (void)snprintf(page, sizeof page, "%d", watch->page);
    if (sk_redis_script(watch->core->redis, SK_SCRIPT_SCAN_JOURNAL, 1, 5, argv, NULL, on_scanned, watch) != SK_OK)
        end_voucher(watch);
}

void sk_watch_settled(void *arg)
{
    struct sk_watch *watch = arg;
    if (watch->unsettled == 0 || --watch->unsettled > 0)
        return;
    if (watch->more)
        scan(watch);
    else
        end_voucher(watch);
}

static void on_locked(void *arg, struct sk_lock *lock)
{
    struct sk_watch *watch = arg;
    if (sk_lock_state(lock, 0) == SK_LOCK_HELD)
        scan(watch);
    else
        end_voucher(watch); // somebody else is at it
}

static void settle_journal(struct sk_watch *watch)
{
    static const struct sk_lock_events events = {.taken = on_locked};
    char name[SK_KEY_SIZE];
    const char *key = name;
    memcpy(watch->after, "-", 2);
    watch->page = PAGE_FIRST;
    sk_key_of_lock("recover", watch->segment->tag, name);
    watch->lock = sk_lock_take(watch->core->locker, 1, &key, &events, watch);
    if (watch->lock == NULL)
        end_voucher(watch);
}

// ---- the audit ----

// Whether a difference is to be believed: it was there in several looks, and has not just been acted upon.
static bool believe(const struct sk_core *core, struct sk_segment *segment)
{
    uint64_t now = uv_now(core->loop);
    if (++segment->care->differing < DIFFERING_MAX || now < segment->care->differ_until_ms)
        return false;
    segment->care->differ_until_ms = now + DIFFERING_HOLD_MS;
    return true;
}

// Returns whether the voucher has to be rebuilt.
static bool must_rebuild(const struct sk_core *core, struct sk_segment *segment, const struct sk_account *account,
                         const struct sk_look *look)
{
    enum sk_finding finding = sk_audit(account, &segment->care->look, look);
    bool differs = finding == SK_BOOKS_DIFFER;
    segment->care->look = *look;
    if (!differs)
        segment->care->differing = 0;
    if (finding == SK_BOOKS_AGREE || (differs && !believe(core, segment)))
        return false;
    if (finding != SK_BOOKS_LOADING)
        sk_log(SK_WARN, differs ? "books differ" : "Redis cannot be relied on",
               "voucher=%" PRId64 " finding=%s epoch=%" PRId64 "/%" PRId64 " stock=%" PRId64 "/%" PRId64
               " buyers=%" PRId64 "/%" PRId64 " newest=%s/%s",
               segment->voucher_id, sk_finding_name(finding), look->epoch, account->epoch, look->stock, account->stock,
               look->buyers, account->buyers, look->last, account->newest);
    return true;
}

// By Redis's clock, which stamps them, entries look too young once it has gone back. So it counts as well how long they
// have been there by our own clock: all up to what was the newest one a grace period ago are old.
static void note_age(const struct sk_core *core, struct sk_segment *segment, const struct sk_look *look)
{
    uint64_t now = uv_now(core->loop);
    if (look->journal == 0 || !sk_trust_is_journal_id(look->last)) {
        segment->care->old_last[0] = segment->care->aging_last[0] = '\0';
        return;
    }
    if (segment->care->aging_last[0] != '\0' &&
        now < segment->care->aging_since_ms + (uint64_t)core->config->recover_after_ms)
        return;
    memcpy(segment->care->old_last, segment->care->aging_last, sizeof segment->care->old_last);
    memcpy(segment->care->aging_last, look->last, sizeof segment->care->aging_last);
    segment->care->aging_since_ms = now;
}

static void on_look(void *arg, const struct sk_reply *reply)
{
    struct sk_watch *watch = arg;
    const struct sk_core *core = watch->core;
    struct sk_segment *segment = watch->segment;
    struct sk_look look;
    if (reply == NULL || !sk_look_read(reply, sk_redis_run(core->redis), &look)) {
        end_voucher(watch);
        return;
    }
    note_age(core, segment, &look);
    if (must_rebuild(core, segment, &watch->accounts[watch->at - 1], &look)) {
        if (sk_rebuild(core, segment, NULL, NULL) != SK_OK)
            sk_log(SK_DEBUG, "not reconciled now", "voucher=%" PRId64, segment->voucher_id);
        end_voucher(watch);
    } else if (look.journal > 0 && look.same_run && !look.loading) {
        settle_journal(watch);
    } else {
        end_voucher(watch);
    }
}

static void next_voucher(struct sk_watch *watch)
{
    const struct sk_core *core = watch->core;
    while (watch->at < watch->count) {
        struct sk_segment *segment = sk_segments_get(core->segments, watch->ids[watch->at++], uv_now(core->loop));
        if (segment == NULL)
            continue;
        const char *argv[] = {segment->keys.voucher, segment->keys.buyers, segment->keys.journal};
        if (sk_redis_script(core->redis, SK_SCRIPT_LOOK_AT_VOUCHER, 3, 3, argv, NULL, on_look, watch) == SK_OK) {
            watch->segment = segment;
            sk_segment_pin(segment);
            return;
        }
    }
    end_round(watch);
}

static void on_vouchers(void *arg, const struct sk_result *result)
{
    const struct sk_rows *rows = result->rows;
    struct sk_watch *watch = arg;
    watch->count = rows == NULL ? 0 : sk_rows_count(rows);
    if (watch->count > VOUCHERS_MAX)
        watch->count = VOUCHERS_MAX;
    for (size_t i = 0; i < watch->count; i++) {
        struct sk_account *account = &watch->accounts[i];
        watch->ids[i] = sk_rows_number(rows, i, 0);
        account->epoch = sk_rows_number(rows, i, 1);
        (void)snprintf(account->newest, sizeof account->newest, "%s-%s", sk_rows_text(rows, i, 2),
                       sk_rows_text(rows, i, 3));
        account->stock = sk_rows_number(rows, i, 4);
        account->buyers = sk_rows_number(rows, i, 5);
    }
    watch->at = 0;
    next_voucher(watch);
}

static void on_swept(void *arg, const struct sk_result *result)
{
    (void)arg;
    (void)result; // what was not done is done by a later round
}

// Letters end when all their orders are known. Their requeueing ends here, not where it began, because that
// instance may be gone.
static void sweep_letters(struct sk_watch *watch)
{
    if (watch->rounds++ % SWEEP_ROUNDS == 0 &&
        sk_pg_call(watch->core->pg, SK_STATEMENT_END_SETTLED_LETTERS, 0, NULL, on_swept, NULL) != SK_OK)
        watch->rounds--; // the next round
}

static void on_round(uv_timer_t *timer)
{
    struct sk_watch *watch = timer->data;
    sweep_letters(watch);
    watch->in_round = true;
    watch->hurry = false;
    if (!sk_redis_ready(watch->core->redis) ||
        sk_pg_call(watch->core->pg, SK_STATEMENT_CURRENT_VOUCHERS, 0, NULL, on_vouchers, watch) != SK_OK)
        end_round(watch);
}

static void end_round(struct sk_watch *watch)
{
    uint64_t pause_ms = watch->hurry ? 0 : ROUND_MS / 2 + sk_backoff_next(&watch->jitter);
    watch->in_round = false;
    (void)uv_timer_start(watch->timer, on_round, pause_ms, 0);
}

void sk_watch_hurry(struct sk_watch *watch)
{
    watch->hurry = true;
    if (!watch->in_round)
        (void)uv_timer_start(watch->timer, on_round, 0, 0);
}

struct sk_watch *sk_watch_open(const struct sk_core *core)
{
    struct sk_watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL)
        return NULL;
    watch->core = core;
    watch->jitter = (struct sk_backoff){.first_ms = ROUND_MS, .most_ms = ROUND_MS};
    watch->timer = calloc(1, sizeof *watch->timer);
    if (watch->timer == NULL) {
        free(watch);
        return NULL;
    }
    (void)uv_timer_init(core->loop, watch->timer);
    watch->timer->data = watch;
    end_round(watch);
    return watch;
}

void sk_watch_set_writer(struct sk_watch *watch, struct sk_writer *writer)
{
    watch->writer = writer;
}

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

void sk_watch_close(struct sk_watch *watch)
{
    if (watch == NULL)
        return;
    uv_close((uv_handle_t *)watch->timer, free_handle);
    free(watch);
}
