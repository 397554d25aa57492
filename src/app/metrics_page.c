// Of routes and codes those are shown that were met; of purchases all codes that they can come to, so that the first
// one of a kind is a step from 0, which rate() can see.
#include "metrics_page.h"

#include <inttypes.h>
#include <stdio.h>

#include "histogram.h"
#include "metrics_text.h"
#include "process.h"
#include "route_table.h"

enum { LABELS_SIZE = 256, US_DIGITS = 6, MS_DIGITS = 3 };

static void page_put_routes(const struct sk_metrics_text *text, const struct sk_metrics_sum *sum);
static void page_put_values(const struct sk_metrics_text *text, const struct sk_metrics_sum *sum);
static void page_put_distributions(const struct sk_metrics_text *text, const struct sk_metrics_sum *sum);
static void page_put_remaining(const struct sk_metrics_text *text, const struct sk_remaining_rows *remaining);
static void page_put_process(const struct sk_metrics_text *text);

void sk_metrics_page(const struct sk_metrics_sum *sum, bool open_metrics, struct sk_buf *out)
{
    const struct sk_metrics_text text = {out, open_metrics};
    page_put_routes(&text, sum);
    page_put_values(&text, sum);
    page_put_distributions(&text, sum);
    page_put_remaining(&text, &sum->remaining);
    page_put_process(&text);
    sk_metrics_text_family(&text, "seckill_build_info", SK_FAMILY_INFO, "How this instance was built");
    sk_metrics_text_number(&text, "seckill_build_info", "version=\"" SK_VERSION "\"", 1);
    sk_metrics_text_end(&text);
}

// ---- requests ----

// The labels of a row, which is counted from 1: 0 is that of requests that fit none.
static void page_put_row(unsigned row, char labels[LABELS_SIZE])
{
    static const char *const methods[] = {
        [SK_ROUTE_GET] = "GET", [SK_ROUTE_POST] = "POST", [SK_ROUTE_PATCH] = "PATCH", [SK_ROUTE_ANY] = "any"};
    const struct sk_route *route = row == 0 ? NULL : &sk_route_table[row - 1];
    (void)snprintf(labels, LABELS_SIZE, "method=\"%s\",route=\"%s\"", route == NULL ? "other" : methods[route->method],
                   route == NULL ? "none" : route->pattern);
}

static bool page_is_purchase(unsigned row)
{
    return row > 0 && sk_route_table[row - 1].handle == sk_handle_buy;
}

static void page_put_routes(const struct sk_metrics_text *text, const struct sk_metrics_sum *sum)
{
    static const char requests[] = "seckill_http_requests_total", took[] = "seckill_http_request_duration_seconds";
    char of_row[LABELS_SIZE], labels[2 * LABELS_SIZE];
    sk_metrics_text_family(text, requests, SK_FAMILY_COUNTER, "Requests, by route and by what they came to");
    for (unsigned row = 0; row <= sk_route_count; row++) {
        uint64_t always = page_is_purchase(row) ? sk_route_verdicts(&sk_route_table[row - 1]) : 0;
        page_put_row(row, of_row);
        for (int i = 0; i < SK_VERDICT_COUNT; i++) {
            enum sk_verdict verdict = (enum sk_verdict)i;
            if ((always & SK_VERDICT_BIT(verdict)) == 0 && sum->answers[row][i] == 0)
                continue;
            (void)snprintf(labels, sizeof labels, "%s,status=\"%u\",code=\"%s\"", of_row,
                           sk_verdict_http_status(verdict), sk_verdict_code(verdict));
            sk_metrics_text_number(text, requests, labels, sum->answers[row][i]);
        }
    }
    sk_metrics_text_family(text, took, SK_FAMILY_HISTOGRAM, "From a whole request to its answer");
    for (unsigned row = 0; row <= sk_route_count; row++) {
        uint64_t count = 0;
        for (size_t i = 0; i <= SK_DISTRIBUTION_BOUNDS; i++)
            count += sum->durations[row].counts[i];
        page_put_row(row, of_row);
        if (count > 0 || page_is_purchase(row))
            sk_metrics_text_histogram(text, took, of_row, SK_SCALE_SECONDS, &sum->durations[row]);
    }
}

// ---- what reactors count ----

static void page_put_values(const struct sk_metrics_text *text, const struct sk_metrics_sum *sum)
{
    for (int i = 0; i < SK_METRIC_COUNT; i++) {
        const struct sk_metric_row *row = sk_metric_row((enum sk_metric)i);
        if (row->help[0] != '\0')
            sk_metrics_text_family(text, row->name, row->counter ? SK_FAMILY_COUNTER : SK_FAMILY_GAUGE, row->help);
        if (row->merge == SK_MERGE_AGE)
            sk_metrics_text_decimal(text, row->name, row->labels, sum->values[i], MS_DIGITS);
        else
            sk_metrics_text_number(text, row->name, row->labels, sum->values[i]);
    }
}

static void page_put_distributions(const struct sk_metrics_text *text, const struct sk_metrics_sum *sum)
{
    for (int i = 0; i < SK_DISTRIBUTION_COUNT; i++) {
        const struct sk_metric_row *row = sk_distribution_row((enum sk_distribution_id)i);
        if (row->help[0] != '\0')
            sk_metrics_text_family(text, row->name, SK_FAMILY_HISTOGRAM, row->help);
        sk_metrics_text_histogram(text, row->name, row->labels, row->scale, &sum->distributions[i]);
    }
}

static void page_put_remaining(const struct sk_metrics_text *text, const struct sk_remaining_rows *remaining)
{
    static const char name[] = "seckill_voucher_remaining";
    char labels[LABELS_SIZE];
    sk_metrics_text_family(text, name, SK_FAMILY_GAUGE, "Units that Redis can still give out, of vouchers on sale");
    for (size_t i = 0; i < remaining->count; i++) {
        (void)snprintf(labels, sizeof labels, "voucher=\"%" PRId64 "\"", remaining->rows[i].voucher_id);
        sk_metrics_text_signed(text, name, labels, remaining->rows[i].units);
    }
}

// ---- the process ----

static void page_put_process(const struct sk_metrics_text *text)
{
    static const char cpu[] = "process_cpu_seconds_total", start[] = "process_start_time_seconds";
    struct sk_process process;
    sk_process_read(&process);
    const struct {
        const char *name, *help;
        uint64_t value;
    } rows[] = {
        {"process_resident_memory_bytes", "Memory in use", process.resident_bytes},
        {"process_virtual_memory_bytes", "Address space", process.virtual_bytes},
        {"process_open_fds", "Open file descriptors", process.open_fds},
        {"process_max_fds", "Most file descriptors", process.max_fds},
    };
    sk_metrics_text_family(text, cpu, SK_FAMILY_COUNTER, "CPU time of all threads");
    sk_metrics_text_decimal(text, cpu, "", process.cpu_us, US_DIGITS);
    sk_metrics_text_family(text, start, SK_FAMILY_GAUGE, "When it was started, as Unix time");
    sk_metrics_text_decimal(text, start, "", (uint64_t)sk_durations_since_ms(), MS_DIGITS);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sk_metrics_text_family(text, rows[i].name, SK_FAMILY_GAUGE, rows[i].help);
        sk_metrics_text_number(text, rows[i].name, "", rows[i].value);
    }
}
