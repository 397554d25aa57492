// The two formats differ only in family headers, exemplars and the last line:
// prometheus.io/docs/instrumenting/exposition_formats, and OpenMetrics 1.0 (github.com/OpenObservability/OpenMetrics).
// Both write bounds as OpenMetrics requires ("1.0"), so that a series has one name.
#include "metrics_text.h"

#include <inttypes.h>
#include <stdint.h>
#include <string.h>

#include "buf.h"
#include "distribution.h"

enum { NS_DIGITS = 9 };

static bool text_ends(const char *name, size_t len, const char *end)
{
    size_t n = strlen(end);
    return len > n && memcmp(name + len - n, end, n) == 0;
}

// OpenMetrics names a family without the suffix of its samples.
static size_t text_family_len(const char *name, enum sk_family_kind kind)
{
    static const char *const ends[] = {[SK_FAMILY_COUNTER] = "_total", [SK_FAMILY_INFO] = "_info"};
    const char *end = kind == SK_FAMILY_COUNTER || kind == SK_FAMILY_INFO ? ends[kind] : "";
    size_t len = strlen(name);
    return text_ends(name, len, end) ? len - strlen(end) : len;
}

void sk_metrics_text_family(const struct sk_metrics_text *text, const char *name, enum sk_family_kind kind,
                            const char *help)
{
    static const char *const kinds[] = {[SK_FAMILY_COUNTER] = "counter",
                                        [SK_FAMILY_GAUGE] = "gauge",
                                        [SK_FAMILY_HISTOGRAM] = "histogram",
                                        [SK_FAMILY_SUMMARY] = "summary",
                                        [SK_FAMILY_INFO] = "info"};
    bool plain_info = !text->open_metrics && kind == SK_FAMILY_INFO;
    int len = (int)(text->open_metrics ? text_family_len(name, kind) : strlen(name));
    sk_buf_printf(text->out, "# HELP %.*s %s\n# TYPE %.*s %s\n", len, name, help, len, name,
                  plain_info ? "gauge" : kinds[kind]);
    for (size_t i = 0; text->open_metrics && i < 2; i++) {
        const char *unit = i == 0 ? "_seconds" : "_bytes";
        if (text_ends(name, (size_t)len, unit))
            sk_buf_printf(text->out, "# UNIT %.*s %s\n", len, name, unit + 1);
    }
}

static void text_name(const struct sk_metrics_text *text, const char *name, const char *end, const char *labels)
{
    bool any = labels[0] != '\0';
    sk_buf_printf(text->out, "%s%s%s%s%s ", name, end, any ? "{" : "", labels, any ? "}" : "");
}

void sk_metrics_text_number(const struct sk_metrics_text *text, const char *name, const char *labels, uint64_t value)
{
    text_name(text, name, "", labels);
    sk_buf_printf(text->out, "%" PRIu64 "\n", value);
}

void sk_metrics_text_signed(const struct sk_metrics_text *text, const char *name, const char *labels, int64_t value)
{
    text_name(text, name, "", labels);
    sk_buf_printf(text->out, "%" PRId64 "\n", value);
}

static void text_put_decimal(struct sk_buf *out, uint64_t value, unsigned digits)
{
    uint64_t unit = 1;
    for (unsigned i = 0; i < digits; i++)
        unit *= 10;
    sk_buf_printf(out, "%" PRIu64 ".%0*" PRIu64, value / unit, (int)digits, value % unit);
}

void sk_metrics_text_decimal(const struct sk_metrics_text *text, const char *name, const char *labels, uint64_t value,
                             unsigned digits)
{
    text_name(text, name, "", labels);
    text_put_decimal(text->out, value, digits);
    sk_buf_puts(text->out, "\n");
}

static void text_put_exemplar(struct sk_buf *out, enum sk_scale scale, const struct sk_exemplar *exemplar)
{
    sk_buf_printf(out, " # {trace_id=\"%s\"} ", exemplar->trace_id);
    text_put_decimal(out, exemplar->value, scale == SK_SCALE_SECONDS ? NS_DIGITS : 0);
    sk_buf_puts(out, " ");
    text_put_decimal(out, exemplar->at_ms, 3);
}

static void text_put_sum_and_count(const struct sk_metrics_text *text, const char *name, const char *labels,
                                   enum sk_scale scale, uint64_t sum, uint64_t count)
{
    text_name(text, name, "_sum", labels);
    if (scale == SK_SCALE_SECONDS)
        text_put_decimal(text->out, sum, NS_DIGITS);
    else
        sk_buf_printf(text->out, "%" PRIu64, sum);
    sk_buf_puts(text->out, "\n");
    text_name(text, name, "_count", labels);
    sk_buf_printf(text->out, "%" PRIu64 "\n", count);
}

void sk_metrics_text_histogram(const struct sk_metrics_text *text, const char *name, const char *labels,
                               enum sk_scale scale, const struct sk_distributed *values)
{
    size_t bounds = sk_scale_bounds(scale);
    uint64_t count = 0;
    for (size_t i = 0; i <= bounds; i++) {
        count += values->counts[i];
        sk_buf_printf(text->out, "%s_bucket{%s%sle=\"%s\"} %" PRIu64, name, labels, labels[0] == '\0' ? "" : ",",
                      i < bounds ? sk_scale_bound(scale, i) : "+Inf", count);
        if (text->open_metrics && values->exemplars[i].at_ms != 0)
            text_put_exemplar(text->out, scale, &values->exemplars[i]);
        sk_buf_puts(text->out, "\n");
    }
    text_put_sum_and_count(text, name, labels, scale, values->sum, count);
}

void sk_metrics_text_summary(const struct sk_metrics_text *text, const char *name, const char *labels, uint64_t sum_ns,
                             uint64_t count)
{
    text_put_sum_and_count(text, name, labels, SK_SCALE_SECONDS, sum_ns, count);
}

void sk_metrics_text_end(const struct sk_metrics_text *text)
{
    if (text->open_metrics)
        sk_buf_puts(text->out, "# EOF\n");
}
