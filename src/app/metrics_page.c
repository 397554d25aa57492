// Routes and codes appear once they have occurred. Purchases always show every code they can have, so that the first of
// a kind is a step from 0, which rate() can see.
#include "metrics_page.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "distribution.h"
#include "histogram.h"
#include "metrics_text.h"
#include "route_table.h"
#include "verdict.h"

enum { LABELS_SIZE = 256, LINE_SIZE = 256, US_DIGITS = 6, MS_DIGITS = 3 };

// ---- requests ----

// The labels of a row. Rows count from 1; row 0 is for requests that match no route.
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
    return row > 0 && (sk_route_table[row - 1].flags & SK_ROUTE_A_PURCHASE) != 0;
}

static void page_put_routes(const struct sk_metrics_text *text, const struct sk_metrics_sum *sum)
{
    static const char requests[] = "seckill_http_requests_total", took[] = "seckill_http_request_duration_seconds";
    char of_row[LABELS_SIZE], labels[2 * LABELS_SIZE];
    sk_metrics_text_family(text, requests, SK_FAMILY_COUNTER, "Requests, by route and result");
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
    sk_metrics_text_family(text, took, SK_FAMILY_HISTOGRAM, "Time from the whole request to its answer");
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

static void page_put_vouchers(const struct sk_metrics_text *text, const char *name, const char *help,
                              const struct sk_remaining_rows *rows)
{
    char labels[LABELS_SIZE];
    sk_metrics_text_family(text, name, SK_FAMILY_GAUGE, help);
    for (size_t i = 0; i < rows->count; i++) {
        (void)snprintf(labels, sizeof labels, "voucher=\"%" PRId64 "\"", rows->rows[i].voucher_id);
        sk_metrics_text_signed(text, name, labels, rows->rows[i].units);
    }
}

static void page_put_server_labels(const struct sk_server_row *row, char labels[LABELS_SIZE + SK_SERVER_NAME_SIZE])
{
    (void)snprintf(labels, LABELS_SIZE + SK_SERVER_NAME_SIZE, "store=\"%s\",server=\"%s\"", row->store, row->name);
}

static void page_put_servers(const struct sk_metrics_text *text, const struct sk_server_rows *servers)
{
    static const char up[] = "seckill_server_up", lost[] = "seckill_server_lost_total",
                      took[] = "seckill_server_answer_seconds";
    char labels[LABELS_SIZE + SK_SERVER_NAME_SIZE];
    sk_metrics_text_family(text, up, SK_FAMILY_GAUGE, "Reactors that are connected to a server of the stores");
    for (size_t i = 0; i < servers->count; i++) {
        page_put_server_labels(&servers->rows[i], labels);
        sk_metrics_text_number(text, up, labels, servers->rows[i].up);
    }
    sk_metrics_text_family(text, lost, SK_FAMILY_COUNTER, "Connections to a server that ended");
    for (size_t i = 0; i < servers->count; i++) {
        page_put_server_labels(&servers->rows[i], labels);
        sk_metrics_text_number(text, lost, labels, servers->rows[i].lost);
    }
    sk_metrics_text_family(text, took, SK_FAMILY_SUMMARY, "Time from a write or a statement to its answer");
    for (size_t i = 0; i < servers->count; i++) {
        page_put_server_labels(&servers->rows[i], labels);
        sk_metrics_text_summary(text, took, labels, servers->rows[i].answered_ns, servers->rows[i].answers);
    }
}

// ---- the process, as the operating system reports it; what cannot be read is 0 ----

static uint64_t process_microseconds(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec;
}

static void process_read_memory(uint64_t *virtual_bytes, uint64_t *resident_bytes)
{
    char line[LINE_SIZE], *rest = line;
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL)
        return;
    if (fgets(line, sizeof line, file) != NULL) {
        *virtual_bytes = strtoull(rest, &rest, 10) * page_bytes;
        *resident_bytes = strtoull(rest, &rest, 10) * page_bytes;
    }
    (void)fclose(file);
}

// Since Linux 6.2 the folder's size is the number of its entries. Older kernels need a count.
static uint64_t process_count_descriptors(void)
{
    static const char folder[] = "/proc/self/fd";
    struct stat about;
    if (stat(folder, &about) == 0 && about.st_size > 0)
        return (uint64_t)about.st_size;
    DIR *open = opendir(folder);
    uint64_t count = 0;
    while (open != NULL && readdir(open) != NULL)
        count++;
    if (open != NULL)
        (void)closedir(open);
    return count < 3 ? 0 : count - 3; // ".", "..", and the folder itself
}

static void page_put_process(const struct sk_metrics_text *text)
{
    static const char cpu[] = "process_cpu_seconds_total", start[] = "process_start_time_seconds";
    struct rusage usage = {0};
    struct rlimit limit = {0};
    uint64_t virtual_bytes = 0, resident_bytes = 0;
    (void)getrusage(RUSAGE_SELF, &usage);
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    process_read_memory(&virtual_bytes, &resident_bytes);
    const struct {
        const char *name, *help;
        uint64_t value;
    } rows[] = {
        {"process_resident_memory_bytes", "Memory in use", resident_bytes},
        {"process_virtual_memory_bytes", "Address space", virtual_bytes},
        {"process_open_fds", "Open file descriptors", process_count_descriptors()},
        {"process_max_fds", "Limit of open file descriptors", limit.rlim_cur},
    };
    sk_metrics_text_family(text, cpu, SK_FAMILY_COUNTER, "CPU time of all threads");
    sk_metrics_text_decimal(text, cpu, "", process_microseconds(usage.ru_utime) + process_microseconds(usage.ru_stime),
                            US_DIGITS);
    sk_metrics_text_family(text, start, SK_FAMILY_GAUGE, "When it was started, as Unix time");
    sk_metrics_text_decimal(text, start, "", (uint64_t)sk_durations_since_ms(), MS_DIGITS);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sk_metrics_text_family(text, rows[i].name, SK_FAMILY_GAUGE, rows[i].help);
        sk_metrics_text_number(text, rows[i].name, "", rows[i].value);
    }
}

void sk_metrics_page(const struct sk_metrics_sum *sum, bool open_metrics, struct sk_buf *out)
{
    const struct sk_metrics_text text = {out, open_metrics};
    page_put_routes(&text, sum);
    page_put_values(&text, sum);
    page_put_distributions(&text, sum);
    page_put_vouchers(&text, "seckill_voucher_remaining", "Units that Redis can still grant, of vouchers on sale",
                      &sum->remaining);
    page_put_vouchers(&text, "seckill_voucher_differs", "1: of this voucher the stores disagree", &sum->differing);
    page_put_servers(&text, &sum->servers);
    page_put_process(&text);
    sk_metrics_text_family(&text, "seckill_build_info", SK_FAMILY_INFO, "Version of this instance");
    sk_metrics_text_number(&text, "seckill_build_info", "version=\"" SK_VERSION "\"", 1);
    sk_metrics_text_end(&text);
}
