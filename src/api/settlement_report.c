// Redis is looked at before and after PostgreSQL counts: if it is the same both times, and its journal is empty, then
// it was so at PostgreSQL's moment, too, and can be compared. Without Redis the report says so and tells the rest.
#include "settlement_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit.h"
#include "beside.h"
#include "params.h"

struct report_talk {
    struct sk_talk talk;
    struct sk_report report;
    enum sk_report_format format;
    bool counts;           // it is the one that control->settling is about
    bool counted;          // PostgreSQL has answered: the looks are the second ones
    struct sk_look before; // the first look
};

static void report_start(struct sk_talk *talk);
static void report_release(struct sk_talk *talk);
static void report_on_found(struct sk_talk *talk, enum sk_beside beside);
static void report_count(struct report_talk *report);
static void report_on_counted(void *arg, const struct sk_result *result);
static void report_look(struct report_talk *report);
static void report_on_look(void *arg, const struct sk_reply *reply);
static void report_take_look(struct report_talk *report, const struct sk_look *look);
static void report_find(struct report_talk *report, enum sk_report_books books);
static void report_end(struct report_talk *report);

void sk_settlement_report(struct sk_control *control, int64_t voucher_id, enum sk_report_format format, uint64_t handle)
{
    char key[SK_TALK_KEY_SIZE];
    (void)snprintf(key, sizeof key, "settlement:%" PRId64 ":%d", voucher_id, (int)format);
    struct report_talk *report = sk_talk_new(control, SK_PG_COMMANDS, handle, key, sizeof *report, report_start);
    if (report == NULL)
        return;
    report->report.voucher_id = voucher_id;
    report->format = format;
    report->talk.release = report_release;
    sk_talk_start(&report->talk);
}

static void report_start(struct sk_talk *talk)
{
    struct report_talk *report = (struct report_talk *)talk;
    report->report = (struct sk_report){.voucher_id = report->report.voucher_id, .since_ms = sk_durations_since_ms()};
    report->counted = false;
    if (talk->control->settling) {
        sk_talk_end(talk, SK_VERDICT_OVERLOADED, NULL);
        return;
    }
    talk->control->settling = report->counts = true;
    sk_beside_find(talk, report->report.voucher_id, report_on_found);
}

static void report_release(struct sk_talk *talk)
{
    struct report_talk *report = (struct report_talk *)talk;
    if (report->counts)
        talk->control->settling = report->counts = false;
}

static void report_on_found(struct sk_talk *talk, enum sk_beside beside)
{
    struct report_talk *report = (struct report_talk *)talk;
    if (beside == SK_BESIDE_UNKNOWN) {
        sk_talk_end(talk, SK_VERDICT_UNKNOWN_VOUCHER, NULL);
        return;
    }
    if (beside == SK_BESIDE_OLD) {
        report_find(report, SK_REPORT_UNKNOWN);
        report_count(report);
        return;
    }
    report_look(report);
}

// ---- PostgreSQL ----

static void report_count(struct report_talk *report)
{
    char id[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(id, report->report.voucher_id)};
    struct sk_pg *pg = report->talk.control->report_pg;
    if (sk_pg_call(pg, SK_STATEMENT_SETTLEMENT, 1, params, report_on_counted, report) != SK_OK)
        sk_talk_end(&report->talk, SK_VERDICT_UNAVAILABLE, NULL);
}

static void report_on_counted(void *arg, const struct sk_result *result)
{
    struct report_talk *report = arg;
    const struct sk_rows *rows = result->rows;
    if (rows == NULL || sk_rows_count(rows) == 0) {
        sk_talk_end(&report->talk, rows == NULL ? SK_VERDICT_UNAVAILABLE : SK_VERDICT_UNKNOWN_VOUCHER, NULL);
        return;
    }
    if (!sk_report_read(rows, &report->report)) {
        sk_talk_end(&report->talk, SK_VERDICT_INTERNAL, NULL);
        return;
    }
    report->counted = true;
    if (strcmp(report->report.state, "retired") == 0)
        report->report.books = SK_REPORT_RETIRED;
    if (report->report.books == SK_REPORT_RETIRED || report->report.books == SK_REPORT_UNKNOWN)
        report_end(report);
    else
        report_look(report);
}

// ---- Redis ----

static void report_look(struct report_talk *report)
{
    const struct sk_talk *talk = &report->talk;
    const struct sk_voucher *voucher = talk->voucher;
    const char *keys[] = {voucher->keys.voucher, voucher->keys.buyers, voucher->keys.journal};
    if (sk_redis_script(talk->control->sale->ask_redis, SK_SCRIPT_LOOK_AT_VOUCHER, 3, 3, keys, NULL, report_on_look,
                        report) != SK_OK)
        report_on_look(report, NULL);
}

static void report_on_look(void *arg, const struct sk_reply *reply)
{
    struct report_talk *report = arg;
    const struct sk_talk *talk = &report->talk;
    struct sk_look look;
    if (reply == NULL || !sk_look_read(reply, sk_redis_run(talk->control->sale->ask_redis), &look))
        report_find(report, SK_REPORT_UNKNOWN);
    else
        report_take_look(report, &look);
    if (report->counted)
        report_end(report);
    else
        report_count(report);
}

static void report_take_look(struct report_talk *report, const struct sk_look *look)
{
    if (!report->counted) {
        report->before = *look;
        return;
    }
    report->report.redis_stock = look->stock;
    report->report.redis_buyers = look->buyers;
    report->report.redis_journal = look->journal;
    if (!look->present)
        report_find(report, SK_REPORT_MISSING);
    else if (look->loading)
        report_find(report, SK_REPORT_LOADING);
    else if (!look->same_run)
        report_find(report, SK_REPORT_UNSURE);
    else if (!sk_look_is_at_rest(&report->before, look))
        report_find(report, SK_REPORT_MOVING);
}

// Of several findings the one that says least of Redis counts.
static void report_find(struct report_talk *report, enum sk_report_books books)
{
    if (books > report->report.books)
        report->report.books = books;
}

// ---- the answer ----

static void report_end(struct report_talk *report)
{
    struct sk_talk *talk = &report->talk;
    sk_durations_read(report->report.voucher_id, &report->report.durable);
    sk_report_put(&report->report, report->format, &talk->body);
    sk_talk_end(talk, SK_VERDICT_FOUND, talk->body.data);
}
