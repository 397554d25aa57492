// A wrong sum stays wrong whatever happens later, so it is reported even while the settlement is open.
#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

enum { COLUMN_STATE, COLUMN_REFUSED, COLUMN_PRICES, COLUMN_NUMBERS }; // and then the payments

static bool report_read_refused(const char *text, struct sk_report *report);
static bool report_read_prices(const char *text, struct sk_report *report);
static bool report_read_payments(const char *text, struct sk_report *report);
static const char *report_read_word(const char *text, char word[SK_REPORT_WORD_SIZE]);
static const char *report_read_number(const char *text, char end, int64_t *number);
static void report_judge_redis(const struct sk_report *report, struct sk_judgement *judgement);

// ---- reading ----

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

// 'REASON orders units,...'; reasons above the bound are counted in refused_orders only.
static bool report_read_refused(const char *text, struct sk_report *report)
{
    for (report->reasons = 0; *text != '\0' && report->reasons < SK_REPORT_REASONS_MAX; report->reasons++) {
        text = report_read_word(text, report->refused[report->reasons].reason);
        if (text != NULL)
            text = report_read_number(text, ' ', &report->refused[report->reasons].orders);
        if (text != NULL)
            text = report_read_number(text, ',', &report->refused[report->reasons].units);
        if (text == NULL)
            return false;
    }
    return true;
}

// 'CURRENCY cents orders units paid_orders paid_units,...'
static bool report_read_prices(const char *text, struct sk_report *report)
{
    for (report->price_count = 0; *text != '\0' && report->price_count < SK_REPORT_PRICES_MAX; report->price_count++) {
        size_t of_currency = strcspn(text, " ");
        char *price = report->prices[report->price_count].price;
        int64_t numbers[5];
        if (text[of_currency] != ' ')
            return false;
        size_t len = of_currency + 1 + strcspn(text + of_currency + 1, " ");
        if (len >= SK_REPORT_WORD_SIZE)
            return false;
        memcpy(price, text, len);
        price[len] = '\0';
        text += of_currency + 1;
        for (int i = 0; text != NULL && i < 5; i++)
            text = report_read_number(text, i < 4 ? ' ' : ',', &numbers[i]);
        if (text == NULL)
            return false;
        report->prices[report->price_count].cents = numbers[0];
        report->prices[report->price_count].orders = numbers[1];
        report->prices[report->price_count].units = numbers[2];
        report->prices[report->price_count].paid_orders = numbers[3];
        report->prices[report->price_count].paid_units = numbers[4];
    }
    return true;
}

// 'STATE CURRENCY payments cents,...'
static bool report_read_payments(const char *text, struct sk_report *report)
{
    size_t *n = &report->payment_count;
    for (*n = 0; *text != '\0' && *n < SK_REPORT_PAYMENTS_MAX; (*n)++) {
        text = report_read_word(text, report->payments[*n].state);
        if (text != NULL)
            text = report_read_word(text, report->payments[*n].currency);
        if (text != NULL)
            text = report_read_number(text, ' ', &report->payments[*n].payments);
        if (text != NULL)
            text = report_read_number(text, ',', &report->payments[*n].cents);
        if (text == NULL)
            return false;
    }
    return true;
}

// Returns the text after the word and a blank. NULL: there is no blank, or the word is too long.
static const char *report_read_word(const char *text, char word[SK_REPORT_WORD_SIZE])
{
    size_t len = strcspn(text, " ");
    if (text[len] != ' ' || len >= SK_REPORT_WORD_SIZE)
        return NULL;
    memcpy(word, text, len);
    word[len] = '\0';
    return text + len + 1;
}

// Returns the text after the number and `end`, or the text's end. NULL: it is no number.
static const char *report_read_number(const char *text, char end, int64_t *number)
{
    char *after;
    *number = strtoll(text, &after, 10);
    if (after == text || (*after != end && *after != '\0'))
        return NULL;
    return *after == '\0' ? after : after + 1;
}

// ---- judging ----

void sk_report_judge(const struct sk_report *report, struct sk_judgement *judgement)
{
    *judgement = (struct sk_judgement){.verdict = SK_REPORT_BALANCED};
    int64_t *missing = judgement->missing;
    enum sk_voucher_state state = sk_voucher_state_of(report->state);
    bool may_sell = state == SK_VOUCHER_OPEN || state == SK_VOUCHER_PAUSED;
    if (may_sell && report->at_ms < report->end_ms)
        missing[SK_REPORT_SALE_ON] = (report->end_ms - report->at_ms + 999) / 1000;
    if (report->pay_within_s > 0)
        missing[SK_REPORT_UNPAID] = report->unpaid_orders;
    missing[SK_REPORT_DEAD_LETTERS] = report->letters;
    missing[SK_REPORT_TO_REFUND] = report->to_refund;

    judgement->sums[SK_REPORT_SUM_UNITS].is =
        report->unpaid_units + report->paid_units + report->stock + report->kept_units;
    judgement->sums[SK_REPORT_SUM_UNITS].should_be = report->units;
    judgement->sums[SK_REPORT_SUM_LIVE].is = report->live_counted;
    judgement->sums[SK_REPORT_SUM_LIVE].should_be = report->unpaid_orders + report->paid_orders;
    judgement->sums[SK_REPORT_SUM_DUPLICATES].is = report->duplicates;
    report_judge_redis(report, judgement);

    for (int i = 0; i < SK_REPORT_MISSING_COUNT; i++) {
        if (missing[i] != 0)
            judgement->verdict = SK_REPORT_OPEN;
    }
    for (int i = 0; i < SK_REPORT_SUM_COUNT; i++) {
        if (judgement->sums[i].is != judgement->sums[i].should_be)
            judgement->verdict = SK_REPORT_WRONG;
    }
}

// Numbers of another moment prove nothing.
static void report_judge_redis(const struct sk_report *report, struct sk_judgement *judgement)
{
    int64_t buyers = report->account_buyers;
    switch (report->books) {
    case SK_REPORT_COMPARED:
        judgement->sums[SK_REPORT_SUM_STOCK].is = report->redis_stock;
        judgement->sums[SK_REPORT_SUM_STOCK].should_be = report->account_stock;
        judgement->sums[SK_REPORT_SUM_BUYERS].is = report->redis_buyers;
        judgement->sums[SK_REPORT_SUM_BUYERS].should_be = buyers;
        break;
    case SK_REPORT_MOVING:
        judgement->missing[SK_REPORT_JOURNAL] = report->redis_journal;
        judgement->missing[SK_REPORT_PENDING] = report->redis_buyers > buyers ? report->redis_buyers - buyers : 0;
        judgement->missing[SK_REPORT_REDIS] = 1;
        break;
    case SK_REPORT_UNSURE:
    case SK_REPORT_LOADING:
    case SK_REPORT_MISSING:
    case SK_REPORT_UNKNOWN:
        judgement->missing[SK_REPORT_JOURNAL] = report->redis_journal;
        judgement->missing[SK_REPORT_REDIS] = 1;
        break;
    case SK_REPORT_RETIRED:
        break;
    }
}

// ---- the text ----
//
// One list of lines, in sections. Each format writes the same lines in its own way. No value needs escaping or quoting:
// they are constants, numbers, times, words of [a-zA-Z_], and prices.

enum kind {
    SECTION, // its name is `item`; the following lines belong to it
    WORD,    // text
    ID,      // a, which JSON shows as a string
    TIME,    // a: Unix ms
    NUMBER,  // a
    MS,      // a: ns
    UNITS,   // a
    ORDERS,  // a
    BOTH,    // a orders of b units
    PRICED,  // the same, which cost c
    PAID,    // a payments of c in all
    SUM,     // a, which should be b
    KIND_COUNT,
};

struct line {
    enum kind kind;
    const char *item, *text;
    int64_t a, b;
    uint64_t c;
};

struct paper {
    enum sk_report_format format;
    struct sk_buf *out;
    const char *section; // NULL: none has begun
    bool empty;          // the section has no line yet
};

static void paper_put(struct paper *paper, const struct line *line);
static void paper_put_json(struct paper *paper, const struct line *line);
static void paper_put_text(struct paper *paper, const struct line *line);
static void paper_put_csv(struct paper *paper, const struct line *line);
static void paper_put_value(struct paper *paper, const struct line *line);
static void report_put_buckets(const struct sk_durations *durable, struct sk_buf *out);

// ---- the lines ----

static void put(struct paper *paper, enum kind kind, const char *item, int64_t a, int64_t b)
{
    paper_put(paper, &(const struct line){.kind = kind, .item = item, .a = a, .b = b});
}

static void put_word(struct paper *paper, const char *item, const char *text)
{
    paper_put(paper, &(const struct line){.kind = WORD, .item = item, .text = text});
}

static void put_priced(struct paper *paper, const char *price, int64_t cents, int64_t orders, int64_t units)
{
    paper_put(paper,
              &(const struct line){
                  .kind = PRICED, .item = price, .a = orders, .b = units, .c = (uint64_t)cents * (uint64_t)units});
}

static void put_payments(struct paper *paper, const char *section, const char *state, const struct sk_report *report)
{
    put(paper, SECTION, section, 0, 0);
    for (size_t i = 0; i < report->payment_count; i++) {
        if (strcmp(report->payments[i].state, state) == 0)
            paper_put(paper, &(const struct line){.kind = PAID,
                                                  .item = report->payments[i].currency,
                                                  .a = report->payments[i].payments,
                                                  .c = (uint64_t)report->payments[i].cents});
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
    sk_report_judge(report, &judgement);
    put(paper, ID, "voucher_id", report->voucher_id, 0);
    put(paper, TIME, "at", report->at_ms, 0);
    put_word(paper, "state", report->state);
    put_word(paper, "verdict", verdicts[judgement.verdict]);
    put(paper, SECTION, "missing", 0, 0);
    for (int i = 0; i < SK_REPORT_MISSING_COUNT; i++) {
        if (judgement.missing[i] != 0)
            put(paper, NUMBER, missing[i], judgement.missing[i], 0);
    }
    put(paper, SECTION, "wrong", 0, 0);
    for (int i = 0; i < SK_REPORT_SUM_COUNT; i++) {
        if (judgement.sums[i].is != judgement.sums[i].should_be)
            put(paper, SUM, sums[i], judgement.sums[i].is, judgement.sums[i].should_be);
    }
}

static void put_account(struct paper *paper, const struct sk_report *report)
{
    int64_t sold = report->unpaid_units + report->paid_units;
    put(paper, SECTION, "units", 0, 0);
    put(paper, UNITS, "offered", report->units + report->taken_away, 0);
    put(paper, UNITS, "added", report->added, 0);
    put(paper, UNITS, "taken_away", report->taken_away, 0);
    put(paper, UNITS, "sold", sold, 0);
    put(paper, UNITS, "kept", report->kept_units, 0);
    put(paper, UNITS, "held", report->held_units, 0);
    put(paper, UNITS, "remaining", report->stock, 0);
    put(paper, SECTION, "orders", 0, 0);
    put(paper, BOTH, "sold", report->unpaid_orders + report->paid_orders, sold);
    put(paper, BOTH, "unpaid", report->unpaid_orders, report->unpaid_units);
    put(paper, BOTH, "paid", report->paid_orders, report->paid_units);
    put(paper, BOTH, "cancelled", report->cancelled_orders, report->cancelled_units);
    put(paper, BOTH, "expired", report->expired_orders, report->expired_units);
    put(paper, BOTH, "refunded_restocked", report->restocked_orders, report->restocked_units);
    put(paper, BOTH, "refunded_kept", report->kept_orders, report->kept_units);
    put(paper, BOTH, "refused", report->refused_orders, report->refused_units);
    put(paper, BOTH, "held", report->held_orders, report->held_units);
    put(paper, SECTION, "refused", 0, 0);
    for (size_t i = 0; i < report->reasons; i++)
        put(paper, BOTH, report->refused[i].reason, report->refused[i].orders, report->refused[i].units);
    put(paper, SECTION, "sold_at", 0, 0);
    for (size_t i = 0; i < report->price_count; i++)
        put_priced(paper, report->prices[i].price, report->prices[i].cents, report->prices[i].orders,
                   report->prices[i].units);
    put(paper, SECTION, "paid_at", 0, 0);
    for (size_t i = 0; i < report->price_count; i++) {
        if (report->prices[i].paid_orders > 0)
            put_priced(paper, report->prices[i].price, report->prices[i].cents, report->prices[i].paid_orders,
                       report->prices[i].paid_units);
    }
    put_payments(paper, "payments_accepted", "accepted", report);
    put_payments(paper, "payments_to_refund", "to_refund", report);
    put_payments(paper, "payments_refunded", "refunded", report);
    put(paper, SECTION, "checks", 0, 0);
    put(paper, NUMBER, "duplicates", report->duplicates, 0);
    put(paper, NUMBER, "dead_letters", report->letters, 0);
    put(paper, NUMBER, "archived_payments", report->archived_payments, 0);
}

static void put_redis(struct paper *paper, const struct sk_report *report)
{
    static const char *const books[] = {"compared", "moving", "unsure", "loading", "missing", "unknown", "retired"};
    put(paper, SECTION, "redis", 0, 0);
    put_word(paper, "books", books[report->books]);
    if (report->books != SK_REPORT_COMPARED && report->books != SK_REPORT_MOVING)
        return;
    put(paper, UNITS, "stock", report->redis_stock, 0);
    put(paper, ORDERS, "buyers", report->redis_buyers, 0);
    put(paper, NUMBER, "journal", report->redis_journal, 0);
}

static void put_durable(struct paper *paper, const struct sk_report *report)
{
    static const struct {
        const char *item;
        double share;
    } rows[] = {{"p50_ms", 0.5}, {"p90_ms", 0.9}, {"p99_ms", 0.99}, {"p99_9_ms", 0.999}};
    put(paper, SECTION, "time_to_durable", 0, 0);
    put_word(paper, "instance", report->instance);
    put(paper, TIME, "instance_since", report->since_ms, 0);
    put(paper, ORDERS, "count", (int64_t)report->durable.count, 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        put(paper, MS, rows[i].item, (int64_t)sk_durations_at(&report->durable, rows[i].share), 0);
    put(paper, MS, "max_ms", (int64_t)report->durable.most_ns, 0);
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

// ---- writing a line ----

static void paper_put(struct paper *paper, const struct line *line)
{
    static void (*const puts[])(struct paper *, const struct line *) = {paper_put_json, paper_put_text, paper_put_csv};
    puts[paper->format](paper, line);
}

// Writes the value of a line that has one, in the same form for all formats.
static void paper_put_value(struct paper *paper, const struct line *line)
{
    char time[SK_TIME_SIZE];
    int64_t us;
    switch (line->kind) {
    case WORD:
        sk_buf_puts(paper->out, line->text);
        break;
    case TIME:
        sk_text_put_time(line->a, time);
        sk_buf_puts(paper->out, time);
        break;
    case MS:
        us = (line->a + 999) / 1000; // rounded up to a microsecond
        sk_buf_printf(paper->out, "%" PRIi64 ".%03" PRIi64, us / 1000, us % 1000);
        break;
    default:
        sk_buf_printf(paper->out, "%" PRIi64, line->a);
    }
}

static void paper_put_json(struct paper *paper, const struct line *line)
{
    struct sk_buf *out = paper->out;
    bool quoted = line->kind == WORD || line->kind == ID || line->kind == TIME;
    if (line->kind == SECTION) {
        sk_buf_printf(out, "%s,\"%s\":{", paper->section == NULL ? "" : "}", line->item);
        paper->section = line->item;
        return;
    }
    bool first = out->len > 0 && out->data[out->len - 1] == '{';
    sk_buf_printf(out, "%s\"%s\":", first ? "" : ",", line->item);
    if (line->kind == BOTH) {
        sk_buf_printf(out, "{\"orders\":%" PRIi64 ",\"units\":%" PRIi64 "}", line->a, line->b);
    } else if (line->kind == PRICED) {
        sk_buf_printf(out, "{\"orders\":%" PRIi64 ",\"units\":%" PRIi64 ",\"total_cents\":%" PRIu64 "}", line->a,
                      line->b, line->c);
    } else if (line->kind == PAID) {
        sk_buf_printf(out, "{\"payments\":%" PRIi64 ",\"total_cents\":%" PRIu64 "}", line->a, line->c);
    } else if (line->kind == SUM) {
        sk_buf_printf(out, "{\"is\":%" PRIi64 ",\"should_be\":%" PRIi64 "}", line->a, line->b);
    } else {
        sk_buf_puts(out, quoted ? "\"" : "");
        paper_put_value(paper, line);
        sk_buf_puts(out, quoted ? "\"" : "");
    }
}

static void paper_put_text(struct paper *paper, const struct line *line)
{
    struct sk_buf *out = paper->out;
    if (line->kind == SECTION) {
        sk_buf_puts(out, paper->empty ? "  -\n" : "");
        paper->empty = true;
        bool counts =
            strcmp(line->item, "units") == 0 || strcmp(line->item, "orders") == 0 || strcmp(line->item, "refused") == 0;
        bool priced = strcmp(line->item, "sold_at") == 0 || strcmp(line->item, "paid_at") == 0;
        bool paid = strncmp(line->item, "payments_", strlen("payments_")) == 0;
        sk_buf_printf(out, "\n%-20s%12s%12s%20s", line->item,
                      counts || priced ? "orders"
                      : paid           ? "payments"
                                       : "",
                      counts || priced ? "units" : "", priced || paid ? "total_cents" : "");
        while (out->len > 0 && out->data[out->len - 1] == ' ')
            out->data[--out->len] = '\0';
        sk_buf_puts(out, "\n");
        paper->section = line->item;
        return;
    }
    paper->empty = false;
    sk_buf_printf(out, "%s%-*s", paper->section == NULL ? "" : "  ", paper->section == NULL ? 20 : 18, line->item);
    switch (line->kind) {
    case BOTH:
        sk_buf_printf(out, "%12" PRIi64 "%12" PRIi64, line->a, line->b);
        break;
    case PRICED:
        sk_buf_printf(out, "%12" PRIi64 "%12" PRIi64 "%20" PRIu64, line->a, line->b, line->c);
        break;
    case PAID:
        sk_buf_printf(out, "%12" PRIi64 "%12s%20" PRIu64, line->a, "", line->c);
        break;
    case UNITS:
        sk_buf_printf(out, "%12s%12" PRIi64, "", line->a);
        break;
    case ORDERS:
        sk_buf_printf(out, "%12" PRIi64, line->a);
        break;
    case SUM:
        sk_buf_printf(out, " %" PRIi64 ", should be %" PRIi64, line->a, line->b);
        break;
    default:
        sk_buf_puts(out, " ");
        paper_put_value(paper, line);
    }
    sk_buf_puts(out, "\n");
}

// RFC 4180.
static void paper_put_csv(struct paper *paper, const struct line *line)
{
    struct sk_buf *out = paper->out;
    if (line->kind == SECTION) {
        paper->section = line->item;
        return;
    }
    sk_buf_printf(out, "%s,%s,", paper->section == NULL ? "settlement" : paper->section, line->item);
    switch (line->kind) {
    case BOTH:
        sk_buf_printf(out, "%" PRIi64 ",%" PRIi64 ",", line->a, line->b);
        break;
    case PRICED:
        sk_buf_printf(out, "%" PRIi64 ",%" PRIi64 ",%" PRIu64, line->a, line->b, line->c);
        break;
    case PAID:
        sk_buf_printf(out, "%" PRIi64 ",,%" PRIu64, line->a, line->c);
        break;
    case UNITS:
        sk_buf_printf(out, ",%" PRIi64 ",", line->a);
        break;
    case ORDERS:
        sk_buf_printf(out, "%" PRIi64 ",,", line->a);
        break;
    case SUM:
        sk_buf_printf(out, ",,%" PRIi64 " instead of %" PRIi64, line->a, line->b);
        break;
    default:
        sk_buf_puts(out, ",,");
        paper_put_value(paper, line);
    }
    sk_buf_puts(out, "\r\n");
}
