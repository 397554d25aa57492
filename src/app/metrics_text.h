// Writes metrics as text: Prometheus format 0.0.4, or OpenMetrics 1.0. Begin a family, then write all of its samples.
//
// Any thread. Errors stick to the buffer (buf.h).
#ifndef SK_APP_METRICS_TEXT_H
#define SK_APP_METRICS_TEXT_H

#include <stdint.h>

#include "buf.h"
#include "distribution.h"

enum sk_family_kind { SK_FAMILY_COUNTER, SK_FAMILY_GAUGE, SK_FAMILY_HISTOGRAM, SK_FAMILY_SUMMARY, SK_FAMILY_INFO };

struct sk_metrics_text {
    struct sk_buf *out;
    bool open_metrics; // else Prometheus
};

// `name` is the name of the samples: a counter has `_total`, an info has `_info`.
void sk_metrics_text_family(const struct sk_metrics_text *text, const char *name, enum sk_family_kind kind,
                            const char *help);

// `labels`: the text between the braces, or "".
void sk_metrics_text_number(const struct sk_metrics_text *text, const char *name, const char *labels, uint64_t value);
void sk_metrics_text_signed(const struct sk_metrics_text *text, const char *name, const char *labels, int64_t value);
// value / 10^digits
void sk_metrics_text_decimal(const struct sk_metrics_text *text, const char *name, const char *labels, uint64_t value,
                             unsigned digits);
void sk_metrics_text_histogram(const struct sk_metrics_text *text, const char *name, const char *labels,
                               enum sk_scale scale, const struct sk_distributed *values);

// Without quantiles.
void sk_metrics_text_summary(const struct sk_metrics_text *text, const char *name, const char *labels, uint64_t sum_ns,
                             uint64_t count);

void sk_metrics_text_end(const struct sk_metrics_text *text);

#endif
