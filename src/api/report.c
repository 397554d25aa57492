// A wrong sum stays wrong whatever happens later, so it is reported even while the settlement is open.
#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "params.h"
#include "text.h"

enum { COLUMN_STATE, COLUMN_REFUSED, COLUMN_PRICES, COLUMN_NUMBERS }; // and then the payments

// ---- reading ----

// Reads a row of a list, 'WORD... number...,'. Both arrays end with NULL; *text is behind the row then. False: it has
// another form.
static bool report_read_row(const char **text, char *const *words, int64_t *const *numbers)
{
    for (; *words != NULL; words++) {
        size_t len = strcspn(*text, " ");
        if ((*text)[len] != ' ' || len >= SK_REPORT_WORD_SIZE)
            return false;
        memcpy(*words, *text, len);
        (*words)[len] = '\0';
        *text += len + 1;
    }
    for (; *numbers != NULL; numbers++) {
        char *end;
        **numbers = strtoll(*text, &end, 10);
        if (end == *text || (*end != (numbers[1] == NULL ? ',' : ' ') && *end != '\0'))
            return false;
        *text = *end == '\0' ? end : end + 1;
    }
    return true;
}

// 'REASON orders units,...'; reasons above the bound are counted in refused_orders only.
static bool report_read_refused(const char *text, struct sk_report *report)
{
    bool good = true;
    for (report->reasons = 0; good && *text != '\0' && report->reasons < SK_REPORT_REASONS_MAX; report->reasons++) {
        struct sk_report_refused *one = &report->refused[report->reasons];
        good = report_read_row(&text, (char *const[]){one->reason, NULL},
                               (int64_t *const[]){&one->orders, &one->units, NULL});
    }
    return good;
}

// 'CURRENCY cents orders units paid_orders paid_units,...'
static bool report_read_prices(const char *text, struct sk_report *report)
{
    bool good = true;
    size_t *n = &report->price_count;
    for (*n = 0; good && *text != '\0' && *n < SK_REPORT_PRICES_MAX; (*n)++) {
        struct sk_report_price *one = &report->prices[*n];
        good = report_read_row(
            &text, (char *const[]){one->currency, NULL},
            (int64_t *const[]){&one->cents, &one->orders, &one->units, &one->paid_orders, &one->paid_units, NULL});
    }
    return good;
}

// 'STATE CURRENCY payments cents,...'
static bool report_read_payments(const char *text, struct sk_report *report)
{
    bool good = true;
    size_t *n = &report->payment_count;
    for (*n = 0; good && *text != '\0' && *n < SK_REPORT_PAYMENTS_MAX; (*n)++) {
        struct sk_report_payments *one = &report->payments[*n];
        good = report_read_row(&text, (char *const[]){one->state, one->currency, NULL},
                               (int64_t *const[]){&one->payments, &one->cents, NULL});
    }
    return good;
}

bool sk_report_read(const struct sk_rows *rows, struct sk_report *report)
{
    const char *state = sk_rows_text(rows, 0, COLUMN_STATE), *refused = sk_rows_text(rows, 0, COLUMN_REFUSED);
    const char *prices = sk_rows_text(rows, 0, COLUMN_PRICES);
    int column = COLUMN_NUMBERS;
    if (state == NULL || strlen(state) >= sizeof report->state)
        return false;
    memcpy(report->state, state, strlen(state) + 1);
#define REPORT_READ(name) report->name = sk_rows_number(rows, 0, column++);
    SK_REPORT_NUMBERS(REPORT_READ)
#undef REPORT_READ
    const char *payments = sk_rows_text(rows, 0, column);
    return (refused == NULL || report_read_refused(refused, report)) &&
           (prices == NULL || report_read_prices(prices, report)) &&
           (payments == NULL || report_read_payments(payments, report));
}

// ---- judging ----

void sk_report_judge(const struct sk_report *report, struct sk_judgement *judgement)
{
    *judgement = (struct sk_judgement){.verdict = SK_REPORT_BALANCED};
    int64_t *missing = judgement->missing;
    struct sk_report_equation *sums = judgement->sums;
    enum sk_voucher_state state = sk_voucher_state_of(report->state);
    bool may_sell = state == SK_VOUCHER_OPEN || state == SK_VOUCHER_PAUSED;
    if (may_sell && report->at_ms < report->end_ms)
        missing[SK_REPORT_SALE_ON] = (report->end_ms - report->at_ms + 999) / 1000;
    if (report->pay_within_s > 0)
        missing[SK_REPORT_UNPAID] = report->unpaid_orders;
    missing[SK_REPORT_DEAD_LETTERS] = report->letters;
    missing[SK_REPORT_TO_REFUND] = report->to_refund;

    sums[SK_REPORT_SUM_UNITS].is = report->unpaid_units + report->paid_units + report->stock + report->kept_units;
    sums[SK_REPORT_SUM_UNITS].should_be = report->units;
    sums[SK_REPORT_SUM_LIVE].is = report->live_counted;
    sums[SK_REPORT_SUM_LIVE].should_be = report->unpaid_orders + report->paid_orders;
    sums[SK_REPORT_SUM_DUPLICATES].is = report->duplicates;

    if (report->books == SK_REPORT_COMPARED) {
        sums[SK_REPORT_SUM_STOCK] = (struct sk_report_equation){report->redis_stock, report->account_stock};
        sums[SK_REPORT_SUM_BUYERS] = (struct sk_report_equation){report->redis_buyers, report->account_buyers};
    } else if (report->books != SK_REPORT_RETIRED) { // numbers of another moment prove nothing
        missing[SK_REPORT_JOURNAL] = report->redis_journal;
        missing[SK_REPORT_REDIS] = 1;
    }
    if (report->books == SK_REPORT_MOVING && report->redis_buyers > report->account_buyers)
        missing[SK_REPORT_PENDING] = report->redis_buyers - report->account_buyers;

    for (int i = 0; i < SK_REPORT_MISSING_COUNT; i++) {
        if (missing[i] != 0)
            judgement->verdict = SK_REPORT_OPEN;
    }
    for (int i = 0; i < SK_REPORT_SUM_COUNT; i++) {
        if (sums[i].is != sums[i].should_be)
            judgement->verdict = SK_REPORT_WRONG;
    }
}

// ---- writing a line ----
//
// One list of lines, in sections, which each format writes in its own way. A line has one value, or cells below the
// headings of its section. No text needs escaping or quoting: they are constants, numbers, times, words of [a-zA-Z_],
// and prices.

enum { ORDERS, UNITS, LAST, CELLS }; // ORDERS: or payments; LAST: what they cost, or the line's one value

#define NONE INT64_MIN // no such cell

struct paper {
    enum sk_report_format format;
    struct sk_buf *out;
    const char *section;         // NULL: none has begun
    const char *const *headings; // of its cells; empty: it has no such cell
    bool empty;                  // it has no line yet
};

// A row of the text's table, without blanks at its end.
static void put_row(struct sk_buf *out, const char *const cells[CELLS])
{
    sk_buf_printf(out, "%12s%12s%20s", cells[ORDERS], cells[UNITS], cells[LAST]);
    while (out->len > 0 && out->data[out->len - 1] == ' ')
        out->data[--out->len] = '\0';
    sk_buf_puts(out, "\n");
}

static void put_section(struct paper *paper, const char *name, const char *const headings[CELLS])
{
    if (paper->format == SK_REPORT_JSON) {
        sk_buf_printf(paper->out, "%s,\"%s\":{", paper->section == NULL ? "" : "}", name);
    } else if (paper->format == SK_REPORT_TEXT) {
        sk_buf_printf(paper->out, "%s\n%-20s", paper->empty ? "  -\n" : "", name);
        put_row(paper->out, headings);
    }
    paper->section = name;
    paper->headings = headings;
    paper->empty = true;
}

// One cell is the value itself; several are an object, by their headings.
static void put_json(struct paper *paper, const char *item, const char *const cells[CELLS], bool quoted)
{
    struct sk_buf *out = paper->out;
    const char *quote = quoted ? "\"" : "", *comma = "{";
    int count = 0;
    for (int i = 0; i < CELLS; i++)
        count += cells[i][0] != '\0';
    sk_buf_printf(out, "%s\"%s\":", out->len > 0 && out->data[out->len - 1] == '{' ? "" : ",", item);
    if (count <= 1) { // the others are empty
        sk_buf_printf(out, "%s%s%s%s%s", quote, cells[ORDERS], cells[UNITS], cells[LAST], quote);
        return;
    }
    for (int i = 0; i < CELLS; i++) {
        if (cells[i][0] != '\0') {
            sk_buf_printf(out, "%s\"%s\":%s", comma, paper->headings[i], cells[i]);
            comma = ",";
        }
    }
    sk_buf_puts(out, "}");
}

// Empty cells are not there. `quoted`: as JSON the value is a string.
static void put_line(struct paper *paper, const char *item, const char *const cells[CELLS], bool quoted)
{
    struct sk_buf *out = paper->out;
    const char *section = paper->section;
    paper->empty = false;
    switch (paper->format) {
    case SK_REPORT_JSON:
        put_json(paper, item, cells, quoted);
        break;
    case SK_REPORT_TEXT:
        sk_buf_printf(out, "%s%-*s", section == NULL ? "" : "  ", section == NULL ? 20 : 18, item);
        if (cells[ORDERS][0] == '\0' && cells[UNITS][0] == '\0')
            sk_buf_printf(out, " %s\n", cells[LAST]);
        else
            put_row(out, cells);
        break;
    case SK_REPORT_CSV: // RFC 4180
        sk_buf_printf(out, "%s,%s,%s,%s,%s\r\n", section == NULL ? "settlement" : section, item, cells[ORDERS],
                      cells[UNITS], cells[LAST]);
        break;
    }
}

static void put_value(struct paper *paper, const char *item, const char *value, bool quoted)
{
    put_line(paper, item, (const char *const[]){"", "", value}, quoted);
}

static void put_number(struct paper *paper, const char *item, int64_t number)
{
    char text[SK_PARAM_NUMBER_SIZE];
    put_value(paper, item, sk_params_number(text, number), false);
}

static void put_time(struct paper *paper, const char *item, int64_t unix_ms)
{
    char text[SK_TIME_SIZE];
    sk_text_put_time(unix_ms, text);
    put_value(paper, item, text, true);
}

// In ms, rounded up to a microsecond.
static void put_duration(struct paper *paper, const char *item, uint64_t ns)
{
    char text[2 * SK_PARAM_NUMBER_SIZE];
    uint64_t us = (ns + 999) / 1000;
    (void)snprintf(text, sizeof text, "%" PRIu64 ".%03" PRIu64, us / 1000, us % 1000);
    put_value(paper, item, text, false);
}

// `cents`: empty: there are none.
static void put_cells(struct paper *paper, const char *item, int64_t orders, int64_t units, const char *cents)
{
    char first[SK_PARAM_NUMBER_SIZE] = "", second[SK_PARAM_NUMBER_SIZE] = "";
    if (orders != NONE)
        (void)sk_params_number(first, orders);
    if (units != NONE)
        (void)sk_params_number(second, units);
    put_line(paper, item, (const char *const[]){first, second, cents}, false);
}

static void put_counts(struct paper *paper, const char *item, int64_t orders, int64_t units)
{
    put_cells(paper, item, orders, units, "");
}

static void put_costs(struct paper *paper, const char *item, int64_t orders, int64_t units, uint64_t cents)
{
    char text[SK_PARAM_NUMBER_SIZE];
    (void)snprintf(text, sizeof text, "%" PRIu64, cents);
    put_cells(paper, item, orders, units, text);
}

static void put_sum(struct paper *paper, const char *item, const struct sk_report_equation *sum)
{
    static const char *const words[][3] = {[SK_REPORT_JSON] = {"{\"is\":", ",\"should_be\":", "}"},
                                           [SK_REPORT_TEXT] = {"", ", should be ", ""},
                                           [SK_REPORT_CSV] = {"", " instead of ", ""}};
    const char *const *around = words[paper->format];
    char text[4 * SK_PARAM_NUMBER_SIZE];
    (void)snprintf(text, sizeof text, "%s%" PRId64 "%s%" PRId64 "%s", around[0], sum->is, around[1], sum->should_be,
                   around[2]);
    put_value(paper, item, text, false);
}

// ---- the lines ----

static const char *const values[CELLS] = {"", "", ""};
static const char *const counts[CELLS] = {"orders", "units", ""};
static const char *const costs[CELLS] = {"orders", "units", "total_cents"};
static const char *const payments[CELLS] = {"payments", "", "total_cents"};

static void put_payments(struct paper *paper, const char *section, const char *state, const struct sk_report *report)
{
    put_section(paper, section, payments);
    for (size_t i = 0; i < report->payment_count; i++) {
        const struct sk_report_payments *one = &report->payments[i];
        if (strcmp(one->state, state) == 0)
            put_costs(paper, one->currency, one->payments, NONE, (uint64_t)one->cents);
    }
}

// The prices of all live orders, or of those that are paid.
static void put_prices(struct paper *paper, const char *section, bool paid, const struct sk_report *report)
{
    char price[SK_REPORT_WORD_SIZE + SK_PARAM_NUMBER_SIZE];
    put_section(paper, section, costs);
    for (size_t i = 0; i < report->price_count; i++) {
        const struct sk_report_price *one = &report->prices[i];
        int64_t orders = paid ? one->paid_orders : one->orders, units = paid ? one->paid_units : one->units;
        (void)snprintf(price, sizeof price, "%s %" PRId64, one->currency, one->cents);
        if (!paid || orders > 0)
            put_costs(paper, price, orders, units, (uint64_t)one->cents * (uint64_t)units);
    }
}

static void put_verdict(struct paper *paper, const struct sk_report *report)
{
    static const char *const verdicts[] = {"balanced", "open", "wrong"};
    static const char *const missing[] = {"SALE_ON",      "UNPAID",    "JOURNAL", "PENDING",
                                          "DEAD_LETTERS", "TO_REFUND", "REDIS"};
    static const char *const sums[] = {"UNITS", "LIVE_ORDERS", "DUPLICATES", "REDIS_STOCK", "REDIS_BUYERS"};
    _Static_assert(sizeof missing / sizeof missing[0] == SK_REPORT_MISSING_COUNT, "what is missing has a name");
    _Static_assert(sizeof sums / sizeof sums[0] == SK_REPORT_SUM_COUNT, "each sum has a name");
    struct sk_judgement judgement;
    char id[SK_PARAM_NUMBER_SIZE];
    sk_report_judge(report, &judgement);
    put_value(paper, "voucher_id", sk_params_number(id, report->voucher_id), true);
    put_time(paper, "at", report->at_ms);
    put_value(paper, "state", report->state, true);
    put_value(paper, "verdict", verdicts[judgement.verdict], true);
    put_section(paper, "missing", values);
    for (int i = 0; i < SK_REPORT_MISSING_COUNT; i++) {
        if (judgement.missing[i] != 0)
            put_number(paper, missing[i], judgement.missing[i]);
    }
    put_section(paper, "wrong", values);
    for (int i = 0; i < SK_REPORT_SUM_COUNT; i++) {
        if (judgement.sums[i].is != judgement.sums[i].should_be)
            put_sum(paper, sums[i], &judgement.sums[i]);
    }
}

static void put_account(struct paper *paper, const struct sk_report *report)
{
    int64_t sold = report->unpaid_units + report->paid_units;
    put_section(paper, "units", counts);
    put_counts(paper, "offered", NONE, report->units + report->taken_away);
    put_counts(paper, "added", NONE, report->added);
    put_counts(paper, "taken_away", NONE, report->taken_away);
    put_counts(paper, "sold", NONE, sold);
    put_counts(paper, "kept", NONE, report->kept_units);
    put_counts(paper, "held", NONE, report->held_units);
    put_counts(paper, "remaining", NONE, report->stock);
    put_section(paper, "orders", counts);
    put_counts(paper, "sold", report->unpaid_orders + report->paid_orders, sold);
    put_counts(paper, "unpaid", report->unpaid_orders, report->unpaid_units);
    put_counts(paper, "paid", report->paid_orders, report->paid_units);
    put_counts(paper, "cancelled", report->cancelled_orders, report->cancelled_units);
    put_counts(paper, "expired", report->expired_orders, report->expired_units);
    put_counts(paper, "refunded_restocked", report->restocked_orders, report->restocked_units);
    put_counts(paper, "refunded_kept", report->kept_orders, report->kept_units);
    put_counts(paper, "refused", report->refused_orders, report->refused_units);
    put_counts(paper, "held", report->held_orders, report->held_units);
    put_section(paper, "refused", counts);
    for (size_t i = 0; i < report->reasons; i++)
        put_counts(paper, report->refused[i].reason, report->refused[i].orders, report->refused[i].units);
    put_prices(paper, "sold_at", false, report);
    put_prices(paper, "paid_at", true, report);
    put_payments(paper, "payments_accepted", "accepted", report);
    put_payments(paper, "payments_to_refund", "to_refund", report);
    put_payments(paper, "payments_refunded", "refunded", report);
    put_section(paper, "checks", values);
    put_number(paper, "duplicates", report->duplicates);
    put_number(paper, "dead_letters", report->letters);
    put_number(paper, "archived_payments", report->archived_payments);
}

static void put_redis(struct paper *paper, const struct sk_report *report)
{
    static const char *const books[] = {"compared", "moving", "unsure", "loading", "missing", "unknown", "retired"};
    put_section(paper, "redis", values);
    put_value(paper, "books", books[report->books], true);
    if (report->books != SK_REPORT_COMPARED && report->books != SK_REPORT_MOVING)
        return;
    put_counts(paper, "stock", NONE, report->redis_stock);
    put_counts(paper, "buyers", report->redis_buyers, NONE);
    put_number(paper, "journal", report->redis_journal);
}

static void put_durable(struct paper *paper, const struct sk_report *report)
{
    static const struct {
        const char *item;
        double share;
    } rows[] = {{"p50_ms", 0.5}, {"p90_ms", 0.9}, {"p99_ms", 0.99}, {"p99_9_ms", 0.999}};
    put_section(paper, "time_to_durable", values);
    put_value(paper, "instance", report->instance, true);
    put_time(paper, "instance_since", report->since_ms);
    put_counts(paper, "count", (int64_t)report->durable.count, NONE);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        put_duration(paper, rows[i].item, sk_durations_at(&report->durable, rows[i].share));
    put_duration(paper, "max_ms", report->durable.most_ns);
}

// The non-empty buckets, each with its upper bound in ms. Buckets of several instances can be added.
static void report_put_buckets(const struct sk_durations *durable, struct sk_buf *out)
{
    const char *comma = "";
    sk_buf_puts(out, ",\"buckets\":[");
    for (size_t i = 0; i < SK_HISTOGRAM_BUCKETS; i++) {
        uint64_t end_ns = i < SK_HISTOGRAM_LAST ? sk_durations_end_ns(i) + 1 : durable->most_ns;
        if (durable->counts[i] == 0)
            continue;
        sk_buf_printf(out, "%s[%" PRIu64 ".%04" PRIu64 ",%" PRIu64 "]", comma, end_ns / 1000000, end_ns % 1000000 / 100,
                      durable->counts[i]);
        comma = ",";
    }
    sk_buf_puts(out, "]");
}

void sk_report_put(const struct sk_report *report, enum sk_report_format format, struct sk_buf *out)
{
    struct paper paper = {.format = format, .out = out};
    if (format != SK_REPORT_TEXT)
        sk_buf_puts(out, format == SK_REPORT_JSON ? "{" : "section,item,orders,units,value\r\n");
    put_verdict(&paper, report);
    put_account(&paper, report);
    put_redis(&paper, report);
    put_durable(&paper, report);
    if (format == SK_REPORT_JSON) {
        report_put_buckets(&report->durable, out);
        sk_buf_puts(out, "}}");
    }
}
