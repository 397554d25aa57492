// A round: ask PostgreSQL which vouchers may have orders under way; for each, try to take its recovery
// lock (so that instances do not do the same work twice; if they do, no harm is done: same order ids), read
// a page of entries that are older than the grace period, give them to the writer as if they had just
// been granted, and wait until they are settled before the next page.
//
// Entries of our own that are still in the writer are old too when PostgreSQL was away. They are
// recognised by their ids: nothing younger than our oldest open entry is touched.
#include "recover.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backoff.h"
#include "log.h"

enum { ROUND_MS = 1000, PAGE = 100, VOUCHERS_MAX = 1000, LOCK_KEY_SIZE = 64 };

struct sk_recover {
    const struct sk_core *core;
    struct sk_writer *writer;
    uv_timer_t *timer;
    struct sk_backoff jitter;
    int64_t ids[VOUCHERS_MAX]; // the vouchers of this round
    size_t count, at;
    struct sk_voucher *voucher; // the one being looked at
    struct sk_lock *lock;
    size_t unsettled; // entries of this page in the writer
    bool more;        // the page was full
    char after[SK_JOURNAL_ID_SIZE];
};

static void next_voucher(struct sk_recover *recover);

static void end_round(struct sk_recover *recover);

static void end_voucher(struct sk_recover *recover)
{
    sk_lock_release(recover->lock);
    recover->lock = NULL;
    recover->voucher->pins--;
    recover->voucher = NULL;
    next_voucher(recover);
}

// ---- entries ----

int sk_recover_parse(const char *orders, size_t len, void (*each)(void *arg, const char *id, const char *user),
                     void *arg)
{
    int count = 0;
    const char *at = orders, *end = orders + len;
    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        size_t n = (size_t)((comma == NULL ? end : comma) - at);
        char id[SK_UUID_SIZE], user[SK_USER_SIZE];
        if (n <= SK_UUID_CHARS + 1 || n - SK_UUID_CHARS - 1 > SK_USER_MAX || at[SK_UUID_CHARS] != ' ')
            return -1;
        memcpy(id, at, SK_UUID_CHARS);
        id[SK_UUID_CHARS] = '\0';
        memcpy(user, at + SK_UUID_CHARS + 1, n - SK_UUID_CHARS - 1);
        user[n - SK_UUID_CHARS - 1] = '\0';
        if (!sk_uuid_valid(id) || !sk_text_user(user) || strlen(user) != n - SK_UUID_CHARS - 1)
            return -1;
        if (each != NULL)
            each(arg, id, user);
        count++;
        at += n + 1;
    }
    return count > 0 && orders[len - 1] != ',' ? count : -1;
}

// Orders a journal id by its two numbers.
static bool id_before(const char *a, const char *b)
{
    char *a_rest, *b_rest;
    uint64_t a_ms = strtoull(a, &a_rest, 10), b_ms = strtoull(b, &b_rest, 10);
    if (a_ms != b_ms)
        return a_ms < b_ms;
    return strtoull(*a_rest == '-' ? a_rest + 1 : a_rest, NULL, 10) <
           strtoull(*b_rest == '-' ? b_rest + 1 : b_rest, NULL, 10);
}

struct refill {
    struct sk_recover *recover;
    struct sk_entry *entry;
};

static void add_order(void *arg, const char *id, const char *user)
{
    struct refill *refill = arg;
    struct sk_order *order = sk_order_take(refill->recover->core->orders);
    SK_ASSERT(order != NULL); // room was checked for the whole entry
    memcpy(order->id, id, SK_UUID_SIZE);
    memcpy(order->user, user, strlen(user) + 1);
    order->patient = true;
    sk_writer_add(refill->recover->writer, refill->entry, order);
}

static const char *field(const struct sk_reply *fields, const char *name, size_t *len)
{
    for (size_t i = 0; i + 1 < sk_reply_count(fields); i += 2) {
        const char *text = sk_reply_text(sk_reply_at(fields, i), NULL);
        if (text != NULL && strcmp(text, name) == 0)
            return sk_reply_text(sk_reply_at(fields, i + 1), len);
    }
    return NULL;
}

static void refill(struct sk_recover *recover, const char *journal_id, const struct sk_reply *fields)
{
    const struct sk_core *core = recover->core;
    size_t len = 0;
    const char *orders = field(fields, "orders", &len);
    int count = orders == NULL ? -1 : sk_recover_parse(orders, len, NULL, NULL);
    if (count < 0) {
        sk_log_text(SK_ERROR, "journal entry cannot be read; it stays", "journal_id", journal_id);
        return;
    }
    if (sk_order_pool_out(core->orders) + (size_t)count > (size_t)core->config->journal_max_orders)
        return; // no room now; a later round has
    // Under epoch 0: the journal is the proof that Redis granted it, whatever has happened since.
    struct refill target = {recover, sk_writer_entry(recover->writer, recover->voucher, 0, journal_id, true)};
    if (target.entry == NULL)
        return;
    (void)sk_recover_parse(orders, len, add_order, &target);
    recover->unsettled++;
}

static void scan(struct sk_recover *recover);

static void on_scanned(void *arg, const struct sk_reply *reply)
{
    struct sk_recover *recover = arg;
    const struct sk_entry *own = recover->voucher->oldest_entry;
    size_t count = reply == NULL ? 0 : sk_reply_count(reply);
    recover->more = count == PAGE;
    for (size_t i = 0; i < count; i++) {
        const char *id = sk_reply_text(sk_reply_at(sk_reply_at(reply, i), 0), NULL);
        if (id == NULL || strlen(id) >= sizeof recover->after || (own != NULL && !id_before(id, own->journal_id))) {
            recover->more = false;
            break;
        }
        memcpy(recover->after, id, strlen(id) + 1);
        refill(recover, id, sk_reply_at(sk_reply_at(reply, i), 1));
    }
    if (recover->unsettled > 0)
        sk_log(SK_INFO, "recovering journal entries", "voucher=%" PRId64 " entries=%zu", recover->voucher->id,
               recover->unsettled);
    else if (recover->more)
        scan(recover);
    else
        end_voucher(recover);
}

static void scan(struct sk_recover *recover)
{
    char grace[24], page[8];
    const char *argv[] = {recover->voucher->journal_key, grace, recover->after, page};
    (void)snprintf(grace, sizeof grace, "%" PRId64, recover->core->config->recover_after_ms);
    (void)snprintf(page, sizeof page, "%d", (int)PAGE);
    if (sk_redis_script(recover->core->redis, SK_SCRIPT_SCAN_JOURNAL, 1, 4, argv, NULL, on_scanned, recover) != SK_OK)
        end_voucher(recover);
}

void sk_recover_settled(void *arg)
{
    struct sk_recover *recover = arg;
    if (recover->unsettled == 0 || --recover->unsettled > 0)
        return;
    if (recover->more)
        scan(recover);
    else
        end_voucher(recover);
}

// ---- vouchers ----

static void on_locked(void *arg, struct sk_lock *lock)
{
    struct sk_recover *recover = arg;
    if (sk_lock_state(lock, 0) == SK_LOCK_HELD)
        scan(recover);
    else
        end_voucher(recover); // somebody else is at it
}

static void on_length(void *arg, const struct sk_reply *reply)
{
    static const struct sk_lock_events events = {.taken = on_locked};
    struct sk_recover *recover = arg;
    int64_t length = 0;
    if (reply != NULL && sk_reply_number(reply, &length) && length > 0) {
        char name[LOCK_KEY_SIZE];
        const char *key = name;
        (void)snprintf(name, sizeof name, "seckill:lock:recover:{%" PRId64 "}", recover->voucher->id);
        recover->lock = sk_lock_take(recover->core->locker, 1, &key, 0, &events, recover);
    }
    if (recover->lock == NULL)
        end_voucher(recover);
}

static void next_voucher(struct sk_recover *recover)
{
    const struct sk_core *core = recover->core;
    while (recover->at < recover->count) {
        recover->voucher = sk_vouchers_get(core->vouchers, recover->ids[recover->at++], uv_now(core->loop));
        if (recover->voucher == NULL)
            continue;
        memcpy(recover->after, "-", 2);
        const char *argv[] = {"XLEN", recover->voucher->journal_key};
        if (sk_redis_command(core->redis, 2, argv, NULL, on_length, recover) == SK_OK) {
            recover->voucher->pins++;
            return;
        }
    }
    recover->voucher = NULL;
    end_round(recover);
}

static void on_vouchers(void *arg, const struct sk_rows *rows)
{
    struct sk_recover *recover = arg;
    recover->count = rows == NULL ? 0 : sk_rows_count(rows);
    if (recover->count > VOUCHERS_MAX)
        recover->count = VOUCHERS_MAX;
    for (size_t i = 0; i < recover->count; i++)
        recover->ids[i] = sk_rows_number(rows, i, 0);
    recover->at = 0;
    next_voucher(recover);
}

static void on_round(uv_timer_t *timer)
{
    struct sk_recover *recover = timer->data;
    if (!sk_redis_ready(recover->core->redis) ||
        sk_pg_call(recover->core->pg, SK_STATEMENT_CURRENT_VOUCHERS, 0, NULL, on_vouchers, recover) != SK_OK)
        end_round(recover);
}

static void end_round(struct sk_recover *recover)
{
    if (recover->timer != NULL)
        (void)uv_timer_start(recover->timer, on_round, ROUND_MS / 2 + sk_backoff_next(&recover->jitter), 0);
}

struct sk_recover *sk_recover_open(const struct sk_core *core)
{
    struct sk_recover *recover = calloc(1, sizeof *recover);
    if (recover == NULL)
        return NULL;
    recover->core = core;
    recover->jitter = (struct sk_backoff){.first_ms = ROUND_MS, .most_ms = ROUND_MS};
    recover->timer = calloc(1, sizeof *recover->timer);
    if (recover->timer == NULL) {
        free(recover);
        return NULL;
    }
    (void)uv_timer_init(core->loop, recover->timer);
    recover->timer->data = recover;
    end_round(recover);
    return recover;
}

void sk_recover_set_writer(struct sk_recover *recover, struct sk_writer *writer)
{
    recover->writer = writer;
}

static void free_handle(uv_handle_t *handle)
{
    free(handle);
}

void sk_recover_close(struct sk_recover *recover)
{
    if (recover == NULL)
        return;
    uv_close((uv_handle_t *)recover->timer, free_handle);
    free(recover);
}
