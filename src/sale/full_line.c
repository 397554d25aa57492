// A filter is complete if the last page says that the line is still full and that nobody has joined since: then nobody
// has left it either, since a free place would show. Reading takes a tenth of the time at most, however often users
// join.
#include "full_line.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "filter.h"
#include "params.h"

enum { PAGE = 5000, MAYBE_MORE = 1000, PAUSES = 9 }; // PAUSES: ms of pause for each ms that a reading took
enum { COLUMN_ID, COLUMN_USER, COLUMN_WAITING, COLUMN_FULL, COLUMN_JOINED }; // of line_users.sql

struct full_line_reading {
    const struct sk_sale *sale;
    struct sk_voucher *voucher; // pinned
    struct sk_filter *filter;   // owned; NULL: the first page is not here
    int64_t joined, pages_left; // bounds it: users may join all the time
    uint64_t since_ms;
    char after[SK_UUID_SIZE];
};

static void full_line_on_page(void *arg, const struct sk_result *result);

static void full_line_end(struct full_line_reading *reading, bool complete)
{
    struct sk_full_line *full = &reading->voucher->full_line;
    uint64_t now = uv_now(reading->sale->loop);
    full->reading = false;
    full->read_after_ms = now + PAUSES * (now - reading->since_ms);
    if (complete) {
        sk_filter_free(full->filter);
        full->filter = reading->filter;
        full->filter_joined = reading->joined;
    } else {
        sk_filter_free(reading->filter);
    }
    sk_voucher_unpin(reading->voucher);
    free(reading);
}

static void full_line_ask(struct full_line_reading *reading)
{
    const struct sk_voucher *voucher = reading->voucher;
    char slot[SK_PARAM_NUMBER_SIZE], id[SK_PARAM_NUMBER_SIZE], most[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(slot, voucher->slot), sk_params_number(id, voucher->id),
                            reading->after[0] == '\0' ? NULL : reading->after, sk_params_number(most, PAGE)};
    if (sk_pg_call_as(sk_sale_shard(reading->sale, voucher)->queries, SK_PG_QUERIES, SK_STATEMENT_LINE_USERS, 4, params,
                      full_line_on_page, reading) != SK_OK)
        full_line_end(reading, false);
}

static bool full_line_begin(struct full_line_reading *reading, int64_t waiting)
{
    if (reading->filter == NULL) {
        reading->filter = sk_filter_new((size_t)(waiting > 0 ? waiting : 0) + MAYBE_MORE);
        reading->pages_left = 2 * (waiting / PAGE + 1);
    }
    return reading->filter != NULL && reading->pages_left-- > 0;
}

static void full_line_on_page(void *arg, const struct sk_result *result)
{
    struct full_line_reading *reading = arg;
    const struct sk_rows *rows = result->rows;
    size_t count = rows == NULL ? 0 : sk_rows_count(rows);
    if (count == 0 || !full_line_begin(reading, sk_rows_number(rows, 0, COLUMN_WAITING))) {
        full_line_end(reading, false);
        return;
    }
    for (size_t row = 0; row < count; row++) {
        const char *id = sk_rows_text(rows, row, COLUMN_ID), *user = sk_rows_text(rows, row, COLUMN_USER);
        if (id == NULL || user == NULL || strlen(id) >= sizeof reading->after)
            continue; // the row of an empty page
        memcpy(reading->after, id, strlen(id) + 1);
        sk_filter_add(reading->filter, user, strlen(user));
    }
    const char *full = sk_rows_text(rows, 0, COLUMN_FULL);
    if (count == PAGE)
        full_line_ask(reading);
    else
        full_line_end(reading, full != NULL && strcmp(full, "t") == 0 &&
                                   sk_rows_number(rows, 0, COLUMN_JOINED) == reading->joined);
}

static void full_line_read(const struct sk_sale *sale, struct sk_voucher *voucher)
{
    struct full_line_reading *reading = calloc(1, sizeof *reading);
    if (reading == NULL)
        return;
    *reading = (struct full_line_reading){
        .sale = sale, .voucher = voucher, .joined = voucher->full_line.joined, .since_ms = uv_now(sale->loop)};
    voucher->full_line.reading = true;
    sk_voucher_pin(voucher);
    full_line_ask(reading);
}

static bool full_line_has_filter(const struct sk_full_line *full)
{
    return full->filter != NULL && full->filter_joined == full->joined;
}

void sk_full_line_note(const struct sk_sale *sale, struct sk_voucher *voucher, uint64_t asked_at_ms, int64_t joined)
{
    struct sk_full_line *full = &voucher->full_line;
    uint64_t now = uv_now(sale->loop), mark_ms = (uint64_t)sale->options->sold_out_mark_ms;
    // PostgreSQL waits as long as any instance may cache a refusal, which Redis knows.
    full->until_ms = asked_at_ms + (mark_ms < voucher->refusals.cache_ms ? mark_ms : voucher->refusals.cache_ms);
    full->joined = joined;
    if (full->until_ms > now && !full_line_has_filter(full) && !full->reading && now >= full->read_after_ms)
        full_line_read(sale, voucher);
}

bool sk_full_line_refuses(const struct sk_voucher *voucher, const char *user)
{
    const struct sk_full_line *full = &voucher->full_line;
    return full->until_ms > sk_monotonic_ms() && full_line_has_filter(full) &&
           !sk_filter_maybe(full->filter, user, strlen(user));
}
