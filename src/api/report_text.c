// One list of lines, in sections, which each format puts down in its own way: so all formats say the same. No value
// needs escaping or quoting: they are constants, numbers, times, words of [a-zA-Z_], and
// prices.
#include <inttypes.h>
#include <string.h>

#include "report.h"
#include "text.h"

enum kind {
    SECTION, // its name is `item`; what follows belongs to it
    WORD,    // text
    ID,      // a, which JSON shows as a string
    TIME,    // a: Unix ms
    NUMBER,  // a
    MS,      // a: ns
    UNITS,   // a
    ORDERS,  // a
    BOTH,    // a orders of b units
    PRICED,  // the same, which cost c
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
    bool empty;          // nothing stands in the section yet
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

static void put_verdict(struct paper *paper, const struct sk_report *report)
{
    static const char *const verdicts[] = {"balanced", "open", "wrong"};
    static const char *const missing[] = {"SALE_ON", "UNPAID", "JOURNAL", "PENDING", "DEAD_LETTERS", "REDIS"};
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
    put(paper, SECTION, "checks", 0, 0);
    put(paper, NUMBER, "duplicates", report->duplicates, 0);
    put(paper, NUMBER, "dead_letters", report->letters, 0);
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

// The buckets that are not empty, each with its end in ms: those of several instances can be added up.
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

// ---- putting a line down ----

static void paper_put(struct paper *paper, const struct line *line)
{
    static void (*const puts[])(struct paper *, const struct line *) = {paper_put_json, paper_put_text, paper_put_csv};
    puts[paper->format](paper, line);
}

// The value of a line that has one, as all formats write it.
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
        us = (line->a + 999) / 1000; // never less than it was
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
        sk_buf_printf(out, "\n%-20s%12s%12s%20s", line->item, counts || priced ? "orders" : "",
                      counts || priced ? "units" : "", priced ? "total_cents" : "");
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
