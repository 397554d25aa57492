// Takes a snapshot from Redis before and after PostgreSQL counts. If both are equal, and the journal is empty, they are
// also valid for the moment of the count, and can be compared. Without Redis the report shows that, and the rest.
#include "settlement_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "params.h"
#include "voucher_books.h"

enum { FORMATS = SK_REPORT_CSV + 1 };

// For programs, for people, and for spreadsheets. `type` NULL: JSON.
static const struct {
    const char *name, *type;
} formats[FORMATS] = {
    [SK_REPORT_JSON] = {"json", NULL},
    [SK_REPORT_TEXT] = {"text", "text/plain; charset=utf-8"},
    [SK_REPORT_CSV] = {"csv", "text/csv; charset=utf-8; header=present"},
};

struct sk_settlements {
    bool counts[SK_SHARDS_MAX];
};

struct report_query {
    struct sk_query query;
    struct sk_report report;
    enum sk_report_format format;
    bool counts;               // it is the one of its shard
    bool counted;              // PostgreSQL has answered: the next snapshot is the second
    struct sk_snapshot before; // the first snapshot
};

struct sk_settlements *sk_settlements_open(void)
{
    return calloc(1, sizeof(struct sk_settlements));
}

void sk_settlements_close(struct sk_settlements *settlements)
{
    for (size_t i = 0; settlements != NULL && i < SK_SHARDS_MAX; i++)
        SK_ASSERT(!settlements->counts[i]);
    free(settlements);
}

static void report_release(struct sk_query *query)
{
    struct report_query *report = (struct report_query *)query;
    if (report->counts)
        query->control->settlements->counts[query->shard] = report->counts = false;
}

// Keeps the finding that says least about Redis.
static void report_find(struct report_query *report, enum sk_report_books books)
{
    if (books > report->report.books)
        report->report.books = books;
}

static void report_end(struct report_query *report)
{
    struct sk_query *query = &report->query;
    sk_durations_read(report->report.voucher_id, &report->report.durable);
    sk_report_put(&report->report, report->format, &query->body);
    sk_query_end_with(query, &(struct sk_answer){.verdict = SK_VERDICT_FOUND,
                                                 .body = query->body.data,
                                                 .type = formats[report->format].type});
}

// ---- Redis, PostgreSQL, Redis ----

static void report_count(struct report_query *report);

// The second snapshot.
static void report_compare(struct report_query *report, const struct sk_snapshot *snapshot)
{
    report->report.redis_stock = snapshot->stock;
    report->report.redis_buyers = snapshot->buyers;
    report->report.redis_journal = snapshot->journal;
    if (!snapshot->present)
        report_find(report, SK_REPORT_MISSING);
    else if (snapshot->loading)
        report_find(report, SK_REPORT_LOADING);
    else if (!snapshot->same_run)
        report_find(report, SK_REPORT_UNSURE);
    else if (!sk_snapshot_is_at_rest(&report->before, snapshot))
        report_find(report, SK_REPORT_MOVING);
}

static void report_on_snapshot(void *arg, const struct sk_reply *reply)
{
    struct report_query *report = arg;
    struct sk_snapshot snapshot;
    if (reply == NULL || !sk_snapshot_read(reply, &snapshot))
        report_find(report, SK_REPORT_UNKNOWN);
    else if (report->counted)
        report_compare(report, &snapshot);
    else
        report->before = snapshot;
    if (report->counted)
        report_end(report);
    else
        report_count(report);
}

static void report_ask_redis(struct report_query *report)
{
    const struct sk_query *query = &report->query;
    if (sk_snapshot_ask(sk_sale_ask_redis(query->control->sale, query->voucher), &query->voucher->keys, NULL,
                        report_on_snapshot, report) != SK_OK)
        report_on_snapshot(report, NULL);
}

static void report_on_counted(void *arg, const struct sk_result *result)
{
    struct report_query *report = arg;
    const struct sk_rows *rows = result->rows;
    if (rows == NULL || sk_rows_count(rows) == 0) {
        sk_query_end(&report->query, rows == NULL ? SK_VERDICT_UNAVAILABLE : SK_VERDICT_UNKNOWN_VOUCHER, NULL);
        return;
    }
    if (!sk_report_read(rows, &report->report)) {
        sk_query_end(&report->query, SK_VERDICT_INTERNAL, NULL);
        return;
    }
    report->counted = true;
    if (strcmp(report->report.state, "retired") == 0)
        report_find(report, SK_REPORT_RETIRED);
    if (report->report.books == SK_REPORT_RETIRED || report->report.books == SK_REPORT_UNKNOWN)
        report_end(report);
    else
        report_ask_redis(report);
}

static void report_count(struct report_query *report)
{
    char id[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(id, report->report.voucher_id)};
    const struct sk_sale *sale = report->query.control->sale;
    const struct sk_shard *shard = &sale->shards[report->query.shard];
    if (shard->closed ||
        sk_pg_call(shard->reports, SK_STATEMENT_SETTLEMENT, 1, params, report_on_counted, report) != SK_OK)
        sk_query_end(&report->query, SK_VERDICT_UNAVAILABLE, NULL);
}

static void report_on_found(struct sk_query *query, enum sk_found found)
{
    struct report_query *report = (struct report_query *)query;
    if (found == SK_FOUND_NONE) {
        sk_query_end(query, SK_VERDICT_UNKNOWN_VOUCHER, NULL);
        return;
    }
    if (query->control->settlements->counts[query->shard]) {
        sk_query_end(query, SK_VERDICT_OVERLOADED, NULL);
        return;
    }
    query->control->settlements->counts[query->shard] = report->counts = true;
    if (found == SK_FOUND_OLD) {
        report_find(report, SK_REPORT_UNKNOWN);
        report_count(report);
    } else {
        report_ask_redis(report);
    }
}

static void report_start(struct sk_query *query)
{
    struct report_query *report = (struct report_query *)query;
    report->report = (struct sk_report){.voucher_id = report->report.voucher_id, .since_ms = sk_durations_since_ms()};
    sk_instances_name(query->control->sale->instance, report->report.instance);
    report->counted = false;
    sk_query_find(query, report->report.voucher_id, report_on_found);
}

void sk_settlement_report(struct sk_control *control, int64_t voucher_id, enum sk_report_format format, uint64_t handle)
{
    char key[SK_QUERY_KEY_SIZE];
    (void)snprintf(key, sizeof key, "settlement:%" PRId64 ":%d", voucher_id, (int)format);
    struct report_query *report = sk_query_new(control, SK_PG_COMMANDS, handle, key, sizeof *report, report_start);
    if (report == NULL)
        return;
    report->report.voucher_id = voucher_id;
    report->format = format;
    report->query.release = report_release;
    sk_query_start(&report->query);
}

void sk_handle_settlement(const struct sk_context *context, struct sk_request *request)
{
    size_t i = 0;
    const char *name = sk_request_query(request, "format", NULL);
    while (name != NULL && i < FORMATS && strcmp(name, formats[i].name) != 0)
        i++;
    if (i == FORMATS)
        (void)sk_answer_parameter(context->answers, request, "format", "must be json, text or csv");
    else
        sk_settlement_report(context->control, sk_call_of(request)->voucher_id, (enum sk_report_format)i,
                             request->handle);
}
