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
#include "follow.h"

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
};

// The columns of catalogue_documents.sql.
enum { DOCUMENT_CHANGE, DOCUMENT_VOUCHER, DOCUMENT_TEXT };

enum follow_state {
    FOLLOW_DUE,     // the next read begins at once
    FOLLOW_WAITING, // for the time of the next read
    FOLLOW_READING,
    FOLLOW_READING_AGAIN, // the same, and something has changed meanwhile: another read follows
    FOLLOW_STATES
};

struct sk_follow {
    enum follow_state state;
    const struct sk_sale *sale;
    unsigned shard;
    struct sk_timer *timer; // owned
    bool complete;
    bool went_back;
    uint64_t read_at_ms;  // when the last read began
    int64_t change;       // up to this number all changes are known
    int64_t first_newest; // the newest change at the first page of the initial read
    int64_t newest_id;
    int64_t documented;         // up to this change all documents are known
    int64_t documenting;        // a page of them is being read, and `change` was this; 0: none is
    sk_follow_changed *changed; // NULL: no hook
    void *arg;
    struct sk_follow_waiter *waiting;  // for the next read
    struct sk_follow_waiter *answered; // when this read ends
};

static void follow_on_time(void *arg);
static void follow_read(struct sk_follow *follow);
static void follow_ask_page(struct sk_follow *follow);
static void follow_on_page(void *arg, const struct sk_result *result);
static bool follow_take_page(struct sk_follow *follow, const struct sk_rows *rows, size_t *vouchers);
static void follow_end_read(struct sk_follow *follow, bool ok);
static void follow_ask_documents(struct sk_follow *follow);
static void follow_on_documents(void *arg, const struct sk_result *result);
static void follow_plan(struct sk_follow *follow);

static void follow_move(struct sk_follow *follow, enum follow_state state)
{
#define TO(name) (1U << FOLLOW_##name)
    static const unsigned allowed[FOLLOW_STATES] = {
        [FOLLOW_DUE] = TO(READING),
        [FOLLOW_WAITING] = TO(READING),
        [FOLLOW_READING] = TO(READING_AGAIN) | TO(WAITING),
        [FOLLOW_READING_AGAIN] = TO(DUE) | TO(WAITING),
    };
#undef TO
    SK_ASSERT((allowed[follow->state] & 1U << state) != 0);
    follow->state = state;
}

static bool follow_is_reading(const struct sk_follow *follow)
{
    return follow->state == FOLLOW_READING || follow->state == FOLLOW_READING_AGAIN;
}

// ---- opening and closing ----

struct sk_follow *sk_follow_open(const struct sk_sale *sale, unsigned shard)
{
    struct sk_follow *follow = calloc(1, sizeof *follow);
    if (follow == NULL)
        return NULL;
    follow->sale = sale;
    follow->shard = shard;
    follow->timer = sk_timer_open(sale->loop, 0, follow_on_time, follow);
    if (follow->timer == NULL) {
        free(follow);
        return NULL;
    }
    follow_plan(follow);
    return follow;
}

void sk_follow_on_change(struct sk_follow *follow, sk_follow_changed *changed, void *arg)
{
    follow->changed = changed;
    follow->arg = arg;
}

static void follow_end_waiters(struct sk_follow_waiter **list, bool ok)
{
    struct sk_follow_waiter *waiter = *list;
    *list = NULL;
    while (waiter != NULL) {
        struct sk_follow_waiter *next = waiter->next;
        waiter->done(waiter, ok);
        waiter = next;
    }
}

void sk_follow_close(struct sk_follow *follow)
{
    if (follow == NULL)
        return;
    follow_end_waiters(&follow->answered, false);
    follow_end_waiters(&follow->waiting, false);
    sk_timer_close(follow->timer);
    free(follow);
}

// ---- when to read ----

void sk_follow_hurry(struct sk_follow *follow)
{
    if (!follow_is_reading(follow))
        follow_read(follow);
    else if (follow->state == FOLLOW_READING)
        follow_move(follow, FOLLOW_READING_AGAIN);
}

void sk_follow_wait(struct sk_follow *follow, struct sk_follow_waiter *waiter)
{
    bool first = follow->waiting == NULL;
    waiter->next = follow->waiting;
    follow->waiting = waiter;
    if (first && !follow_is_reading(follow))
        follow_plan(follow);
}

// Sets the time of the next read.
static void follow_plan(struct sk_follow *follow)
{
    uint64_t now = uv_now(follow->sale->loop);
    uint64_t pause_ms = follow->waiting != NULL ? SHARED_READ_MS : POLL_MS, due = follow->read_at_ms + pause_ms;
    if (follow->state == FOLLOW_DUE)
        due = now;
    sk_timer_once(follow->timer, due > now ? (uint32_t)(due - now) : 0);
}

static void follow_on_time(void *arg)
{
    struct sk_follow *follow = arg;
    if (!follow_is_reading(follow))
        follow_read(follow);
}

// ---- a read ----

static void follow_read(struct sk_follow *follow)
{
    follow_move(follow, FOLLOW_READING);
    follow->read_at_ms = uv_now(follow->sale->loop);
    follow->answered = follow->waiting;
    follow->waiting = NULL;
    follow_ask_page(follow);
}

static void follow_ask_page(struct sk_follow *follow)
{
    char after[SK_PARAM_NUMBER_SIZE], most[SK_PARAM_NUMBER_SIZE], first[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(after, follow->change), sk_params_number(most, PAGE_VOUCHERS),
                            sk_params_number(first, follow->first_newest)};
    if (sk_pg_call(follow->sale->shards[follow->shard].queries, SK_STATEMENT_CATALOGUE_CHANGES, 3, params,
                   follow_on_page, follow) != SK_OK)
        follow_end_read(follow, false);
}

static void follow_on_page(void *arg, const struct sk_result *result)
{
    struct sk_follow *follow = arg;
    size_t vouchers = 0;
    if (result->rows == NULL || !follow_take_page(follow, result->rows, &vouchers))
        follow_end_read(follow, false);
    else if (vouchers == PAGE_VOUCHERS)
        follow_ask_page(follow);
    else
        follow_end_read(follow, true);
}

// Applies a row, and reports a changed voucher once: with the first row of a change.
static enum sk_status follow_put(struct sk_follow *follow, const struct sk_catalogue_row *row)
{
    struct sk_catalogue *catalogue = follow->sale->catalogue;
    struct sk_voucher *voucher = sk_catalogue_find(catalogue, row->voucher_id);
    bool changes = voucher != NULL && row->change > voucher->change && row->state != SK_VOUCHER_RETIRED;
    enum sk_status status = sk_catalogue_put(catalogue, row);
    if (changes && status == SK_OK && follow->changed != NULL)
        follow->changed(follow->arg, voucher);
    return status;
}

static bool follow_goes_back(struct sk_follow *follow, const struct sk_rows *rows)
{
    int64_t newest = sk_rows_count(rows) == 0 ? follow->change : sk_rows_number(rows, 0, COLUMN_NEWEST_CHANGE);
    if (newest >= follow->change)
        return follow->went_back;
    if (!follow->went_back)
        sk_log(SK_LOG_ERROR, "the database lacks changes of vouchers that this instance has read; it must start again",
               "shard=%u newest=%" PRId64 " known=%" PRId64, follow->shard, newest, follow->change);
    return follow->went_back = true;
}

// Applies the rows of a page. False: they do not follow what is known; or memory is short, and the rest comes with the
// next read.
static bool follow_take_page(struct sk_follow *follow, const struct sk_rows *rows, size_t *vouchers)
{
    if (follow_goes_back(follow, rows))
        return false;
    if (follow->change == 0 && sk_rows_count(rows) > 0)
        follow->first_newest = sk_rows_number(rows, 0, COLUMN_NEWEST_CHANGE);
    for (size_t i = 0; i < sk_rows_count(rows); i++) {
        int64_t newest = sk_rows_number(rows, i, COLUMN_NEWEST_ID);
        if (newest > follow->newest_id)
            follow->newest_id = newest;
        if (sk_rows_text(rows, i, COLUMN_CHANGE) == NULL)
            continue;
        struct sk_catalogue_row row = {
            .change = sk_rows_number(rows, i, COLUMN_CHANGE),
            .voucher_id = sk_rows_number(rows, i, COLUMN_VOUCHER),
            .begin_ms = sk_rows_number(rows, i, COLUMN_BEGIN_MS),
            .end_ms = sk_rows_number(rows, i, COLUMN_END_MS),
            .state = sk_voucher_state_of(sk_rows_text(rows, i, COLUMN_STATE)),
            .tag = sk_rows_text(rows, i, COLUMN_TAG),
            .shard = follow->shard,
            .user_limit = (unsigned)sk_rows_number(rows, i, COLUMN_USER_LIMIT),
            .pay_within_s = sk_rows_number(rows, i, COLUMN_PAY_WITHIN_S),
            .ticket = sk_rows_number(rows, i, COLUMN_TICKET) != 0,
            .work_bits = (unsigned)sk_rows_number(rows, i, COLUMN_WORK_BITS),
            .offer = (int32_t)sk_rows_number(rows, i, COLUMN_OFFER),
            .price = {.cents = sk_rows_number(rows, i, COLUMN_PRICE_CENTS)},
        };
        (void)snprintf(row.price.currency, sizeof row.price.currency, "%s", sk_rows_text(rows, i, COLUMN_CURRENCY));
        enum sk_status status = follow_put(follow, &row);
        if (status == SK_NO_MEM)
            return false;
        if (status != SK_OK)
            sk_log(SK_LOG_ERROR, "a voucher cannot be", "voucher=%" PRId64, row.voucher_id);
        ++*vouchers;
        follow->change = row.change;
    }
    return true;
}

static void follow_end_read(struct sk_follow *follow, bool ok)
{
    struct sk_follow_waiter *answered = follow->answered;
    follow->answered = NULL;
    if (ok && !follow->complete)
        sk_log(SK_LOG_INFO, "catalogue read", "vouchers=%zu change=%" PRId64,
               sk_catalogue_count(follow->sale->catalogue), follow->change);
    follow->complete = follow->complete || ok;
    // After a failure the next read, or PostgreSQL's return, retries.
    follow_move(follow, ok && follow->state == FOLLOW_READING_AGAIN ? FOLLOW_DUE : FOLLOW_WAITING);
    follow_plan(follow);
    follow_end_waiters(&answered, ok);
    if (ok)
        follow_ask_documents(follow);
}

// ---- documents ----

static void follow_ask_documents(struct sk_follow *follow)
{
    char after[SK_PARAM_NUMBER_SIZE], most[SK_PARAM_NUMBER_SIZE], first[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(after, follow->documented), sk_params_number(most, PAGE_DOCUMENTS),
                            sk_params_number(first, follow->first_newest)};
    if (follow->documenting != 0 || follow->documented == follow->change)
        return;
    if (sk_pg_call_as(follow->sale->shards[follow->shard].queries, SK_PG_QUERIES, SK_STATEMENT_CATALOGUE_DOCUMENTS, 3,
                      params, follow_on_documents, follow) == SK_OK)
        follow->documenting = follow->change;
}

// What was not taken is asked for after the next read.
static void follow_on_documents(void *arg, const struct sk_result *result)
{
    struct sk_follow *follow = arg;
    const struct sk_rows *rows = result->rows;
    int64_t known = follow->documenting;
    follow->documenting = 0;
    if (rows == NULL)
        return;
    for (size_t i = 0; i < sk_rows_count(rows); i++) {
        int64_t change = sk_rows_number(rows, i, DOCUMENT_CHANGE);
        struct sk_voucher *voucher =
            sk_catalogue_find(follow->sale->catalogue, sk_rows_number(rows, i, DOCUMENT_VOUCHER));
        const char *document = sk_rows_text(rows, i, DOCUMENT_TEXT);
        if (change > follow->change) // the voucher may not be in the catalogue yet
            return;
        if (voucher != NULL && document != NULL && sk_voucher_keep_document(voucher, document) != SK_OK)
            return;
        follow->documented = change;
    }
    if (sk_rows_count(rows) < PAGE_DOCUMENTS && follow->documented < known)
        follow->documented = known;
}

// ---- what is known ----

bool sk_follow_complete(const struct sk_follow *follow)
{
    return follow->complete;
}

bool sk_follow_went_back(const struct sk_follow *follow)
{
    return follow->went_back;
}

int64_t sk_follow_newest_id(const struct sk_follow *follow)
{
    return follow->newest_id;
}
