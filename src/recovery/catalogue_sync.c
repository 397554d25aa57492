// A read of the catalogue has one or more pages. Callers that wait when it begins are answered at its end. Later ones
// wait for the next read, because a change that is committed while a page is read may not be in it.
//
//   DUE -> READING -> WAITING (for its time) -> READING ...
//             | a notification comes
//             v
//          READING_AGAIN -> DUE
//
// A page that fails ends the read. The next one continues after the last change that was applied.
//
// After a read, one page of documents is read, in the same order, with the priority of users' queries. A document costs
// PostgreSQL ten times as much as the terms, and no purchase needs it.
//
// The newest change of a database never gets lower. If it does, the database lacks commits, and the catalogue has
// vouchers and terms that do not exist. New changes would have numbers that are already behind. Nothing more is read
// then: only a new process gets a right catalogue.
#include "catalogue_sync.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "catalogue.h"
#include "log.h"
#include "params.h"
#include "timer.h"

enum {
    POLL_MS = 1000,
    SHARED_READ_MS = 100, // between two reads that callers wait for
    PAGE_VOUCHERS = 500,
    PAGE_DOCUMENTS = 100,
};

// The columns of catalogue_changes.sql.
enum {
    COLUMN_NEWEST_CHANGE,
    COLUMN_NEWEST_ID,
    COLUMN_CHANGE, // NULL: nothing has changed, and the columns from here on are empty
    COLUMN_VOUCHER,
    COLUMN_STATE,
    COLUMN_BEGIN_MS,
    COLUMN_END_MS,
    COLUMN_TAG,
    COLUMN_SLOT, // it follows from the tag
    COLUMN_USER_LIMIT,
    COLUMN_PAY_WITHIN_S,
    COLUMN_TICKET,
    COLUMN_WORK_BITS,
    COLUMN_OFFER,
    COLUMN_PRICE_CENTS,
    COLUMN_CURRENCY,
    COLUMN_ORDERS_PER_USER,
    COLUMN_WAITLIST, // NULL: there never was a line
};

// The columns of catalogue_documents.sql.
enum { DOCUMENT_CHANGE, DOCUMENT_VOUCHER, DOCUMENT_TEXT };

enum sync_state {
    SYNC_DUE,     // the next read begins at once
    SYNC_WAITING, // for the time of the next read
    SYNC_READING,
    SYNC_READING_AGAIN, // the same, and something has changed meanwhile: another read follows
    SYNC_STATES
};

struct sk_catalogue_sync {
    enum sync_state state;
    const struct sk_sale *sale;
    unsigned shard;
    struct sk_timer *timer; // owned
    bool complete;
    bool went_back;
    uint64_t read_at_ms;  // when the last read began
    int64_t change;       // up to this number all changes are known
    int64_t first_newest; // the newest change at the first page of the initial read
    int64_t newest_id;
    int64_t documented;  // up to this change all documents are known
    int64_t documenting; // a page of them is being read, and `change` was this; 0: none is
    sk_catalogue_sync_changed *changed;
    void *arg;
    struct sk_catalogue_sync_waiter *waiting;  // for the next read
    struct sk_catalogue_sync_waiter *answered; // when this read ends
};

static void sync_on_page(void *arg, const struct sk_result *result);

static void sync_move(struct sk_catalogue_sync *sync, enum sync_state state)
{
#define TO(name) (1U << SYNC_##name)
    static const unsigned allowed[SYNC_STATES] = {
        [SYNC_DUE] = TO(READING),
        [SYNC_WAITING] = TO(READING),
        [SYNC_READING] = TO(READING_AGAIN) | TO(WAITING),
        [SYNC_READING_AGAIN] = TO(DUE) | TO(WAITING),
    };
#undef TO
    SK_ASSERT((allowed[sync->state] & 1U << state) != 0);
    sync->state = state;
}

static bool sync_is_reading(const struct sk_catalogue_sync *sync)
{
    return sync->state == SYNC_READING || sync->state == SYNC_READING_AGAIN;
}

// ---- when to read ----

// Sets the time of the next read.
static void sync_plan(struct sk_catalogue_sync *sync)
{
    uint64_t now = uv_now(sync->sale->loop);
    uint64_t pause_ms = sync->waiting != NULL ? SHARED_READ_MS : POLL_MS, due = sync->read_at_ms + pause_ms;
    if (sync->state == SYNC_DUE)
        due = now;
    sk_timer_once(sync->timer, due > now ? (uint32_t)(due - now) : 0);
}

static void sync_end_waiters(struct sk_catalogue_sync_waiter **list, bool ok)
{
    struct sk_catalogue_sync_waiter *waiter = *list;
    *list = NULL;
    while (waiter != NULL) {
        struct sk_catalogue_sync_waiter *next = waiter->next;
        waiter->done(waiter, ok);
        waiter = next;
    }
}

// ---- documents ----

// What was not taken is asked for after the next read.
static void sync_on_documents(void *arg, const struct sk_result *result)
{
    struct sk_catalogue_sync *sync = arg;
    const struct sk_rows *rows = result->rows;
    int64_t known = sync->documenting;
    sync->documenting = 0;
    if (rows == NULL)
        return;
    for (size_t i = 0; i < sk_rows_count(rows); i++) {
        int64_t change = sk_rows_number(rows, i, DOCUMENT_CHANGE);
        struct sk_voucher *voucher =
            sk_catalogue_find(sync->sale->catalogue, sk_rows_number(rows, i, DOCUMENT_VOUCHER));
        const char *document = sk_rows_text(rows, i, DOCUMENT_TEXT);
        if (change > sync->change) // the voucher may not be in the catalogue yet
            return;
        if (voucher != NULL && document != NULL && sk_voucher_keep_document(voucher, document) != SK_OK)
            return;
        sync->documented = change;
    }
    if (sk_rows_count(rows) < PAGE_DOCUMENTS && sync->documented < known)
        sync->documented = known;
}

static void sync_ask_documents(struct sk_catalogue_sync *sync)
{
    char after[SK_PARAM_NUMBER_SIZE], most[SK_PARAM_NUMBER_SIZE], first[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(after, sync->documented), sk_params_number(most, PAGE_DOCUMENTS),
                            sk_params_number(first, sync->first_newest)};
    if (sync->documenting != 0 || sync->documented == sync->change)
        return;
    if (sk_pg_call_as(sync->sale->shards[sync->shard].queries, SK_PG_QUERIES, SK_STATEMENT_CATALOGUE_DOCUMENTS, 3,
                      params, sync_on_documents, sync) == SK_OK)
        sync->documenting = sync->change;
}

// ---- a read ----

static void sync_end_read(struct sk_catalogue_sync *sync, bool ok)
{
    struct sk_catalogue_sync_waiter *answered = sync->answered;
    sync->answered = NULL;
    if (ok && !sync->complete)
        sk_log(SK_LOG_INFO, "catalogue read", "vouchers=%zu change=%" PRId64, sk_catalogue_count(sync->sale->catalogue),
               sync->change);
    sync->complete = sync->complete || ok;
    // After a failure the next read, or PostgreSQL's return, retries.
    sync_move(sync, ok && sync->state == SYNC_READING_AGAIN ? SYNC_DUE : SYNC_WAITING);
    sync_plan(sync);
    sync_end_waiters(&answered, ok);
    if (ok)
        sync_ask_documents(sync);
}

// Applies a row, and reports a changed voucher once: with the first row of a change.
static enum sk_status sync_put(struct sk_catalogue_sync *sync, const struct sk_catalogue_row *row)
{
    struct sk_catalogue *catalogue = sync->sale->catalogue;
    struct sk_voucher *voucher = sk_catalogue_find(catalogue, row->voucher_id);
    bool changes = voucher != NULL && row->change > voucher->change && row->state != SK_VOUCHER_RETIRED;
    enum sk_status status = sk_catalogue_put(catalogue, row);
    if (changes && status == SK_OK)
        sync->changed(sync->arg, voucher);
    return status;
}

static bool sync_goes_back(struct sk_catalogue_sync *sync, const struct sk_rows *rows)
{
    int64_t newest = sk_rows_count(rows) == 0 ? sync->change : sk_rows_number(rows, 0, COLUMN_NEWEST_CHANGE);
    if (newest >= sync->change)
        return sync->went_back;
    if (!sync->went_back)
        sk_log(SK_LOG_ERROR, "the database lacks changes of vouchers that this instance has read; it must start again",
               "shard=%u newest=%" PRId64 " known=%" PRId64, sync->shard, newest, sync->change);
    return sync->went_back = true;
}

// Applies the rows of a page. False: they do not continue what is known; or memory is short, and the rest comes with
// the next read.
static bool sync_take_page(struct sk_catalogue_sync *sync, const struct sk_rows *rows, size_t *vouchers)
{
    if (sync_goes_back(sync, rows))
        return false;
    if (sync->change == 0 && sk_rows_count(rows) > 0)
        sync->first_newest = sk_rows_number(rows, 0, COLUMN_NEWEST_CHANGE);
    for (size_t i = 0; i < sk_rows_count(rows); i++) {
        int64_t newest = sk_rows_number(rows, i, COLUMN_NEWEST_ID);
        if (newest > sync->newest_id)
            sync->newest_id = newest;
        if (sk_rows_text(rows, i, COLUMN_CHANGE) == NULL)
            continue;
        struct sk_catalogue_row row = {
            .change = sk_rows_number(rows, i, COLUMN_CHANGE),
            .voucher_id = sk_rows_number(rows, i, COLUMN_VOUCHER),
            .begin_ms = sk_rows_number(rows, i, COLUMN_BEGIN_MS),
            .end_ms = sk_rows_number(rows, i, COLUMN_END_MS),
            .state = sk_voucher_state_of(sk_rows_text(rows, i, COLUMN_STATE)),
            .tag = sk_rows_text(rows, i, COLUMN_TAG),
            .shard = sync->shard,
            .user_limit = (unsigned)sk_rows_number(rows, i, COLUMN_USER_LIMIT),
            .orders_per_user = (unsigned)sk_rows_number(rows, i, COLUMN_ORDERS_PER_USER),
            .pay_within_s = sk_rows_number(rows, i, COLUMN_PAY_WITHIN_S),
            .has_line = sk_rows_number(rows, i, COLUMN_WAITLIST) > 0,
            .ticket = sk_rows_number(rows, i, COLUMN_TICKET) != 0,
            .work_bits = (unsigned)sk_rows_number(rows, i, COLUMN_WORK_BITS),
            .offer = (int32_t)sk_rows_number(rows, i, COLUMN_OFFER),
            .price = {.cents = sk_rows_number(rows, i, COLUMN_PRICE_CENTS)},
        };
        (void)snprintf(row.price.currency, sizeof row.price.currency, "%s", sk_rows_text(rows, i, COLUMN_CURRENCY));
        enum sk_status status = sync_put(sync, &row);
        if (status == SK_NO_MEM)
            return false;
        if (status != SK_OK)
            sk_log(SK_LOG_ERROR, "a voucher cannot be", "voucher=%" PRId64, row.voucher_id);
        ++*vouchers;
        sync->change = row.change;
    }
    return true;
}

static void sync_ask_page(struct sk_catalogue_sync *sync)
{
    char after[SK_PARAM_NUMBER_SIZE], most[SK_PARAM_NUMBER_SIZE], first[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(after, sync->change), sk_params_number(most, PAGE_VOUCHERS),
                            sk_params_number(first, sync->first_newest)};
    if (sk_pg_call(sync->sale->shards[sync->shard].queries, SK_STATEMENT_CATALOGUE_CHANGES, 3, params, sync_on_page,
                   sync) != SK_OK)
        sync_end_read(sync, false);
}

static void sync_on_page(void *arg, const struct sk_result *result)
{
    struct sk_catalogue_sync *sync = arg;
    size_t vouchers = 0;
    if (result->rows == NULL || !sync_take_page(sync, result->rows, &vouchers))
        sync_end_read(sync, false);
    else if (vouchers == PAGE_VOUCHERS)
        sync_ask_page(sync);
    else
        sync_end_read(sync, true);
}

static void sync_read(struct sk_catalogue_sync *sync)
{
    sync_move(sync, SYNC_READING);
    sync->read_at_ms = uv_now(sync->sale->loop);
    sync->answered = sync->waiting;
    sync->waiting = NULL;
    sync_ask_page(sync);
}

static void sync_on_time(void *arg)
{
    struct sk_catalogue_sync *sync = arg;
    if (!sync_is_reading(sync))
        sync_read(sync);
}

void sk_catalogue_sync_hurry(struct sk_catalogue_sync *sync)
{
    if (!sync_is_reading(sync))
        sync_read(sync);
    else if (sync->state == SYNC_READING)
        sync_move(sync, SYNC_READING_AGAIN);
}

void sk_catalogue_sync_wait(struct sk_catalogue_sync *sync, struct sk_catalogue_sync_waiter *waiter)
{
    bool first = sync->waiting == NULL;
    waiter->next = sync->waiting;
    sync->waiting = waiter;
    if (first && !sync_is_reading(sync))
        sync_plan(sync);
}

struct sk_catalogue_sync *sk_catalogue_sync_open(const struct sk_sale *sale, unsigned shard,
                                                 sk_catalogue_sync_changed *changed, void *arg)
{
    struct sk_catalogue_sync *sync = calloc(1, sizeof *sync);
    if (sync == NULL)
        return NULL;
    *sync = (struct sk_catalogue_sync){.sale = sale, .shard = shard, .changed = changed, .arg = arg};
    sync->timer = sk_timer_open(sale->loop, 0, sync_on_time, sync);
    if (sync->timer == NULL) {
        free(sync);
        return NULL;
    }
    sync_plan(sync);
    return sync;
}

void sk_catalogue_sync_close(struct sk_catalogue_sync *sync)
{
    if (sync == NULL)
        return;
    sync_end_waiters(&sync->answered, false);
    sync_end_waiters(&sync->waiting, false);
    sk_timer_close(sync->timer);
    free(sync);
}

// ---- what is known ----

bool sk_catalogue_sync_complete(const struct sk_catalogue_sync *sync)
{
    return sync->complete;
}

bool sk_catalogue_sync_went_back(const struct sk_catalogue_sync *sync)
{
    return sync->went_back;
}

int64_t sk_catalogue_sync_newest_id(const struct sk_catalogue_sync *sync)
{
    return sync->newest_id;
}
