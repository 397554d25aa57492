// The page /metrics: everything the reactors count and measure, figures of the process, and the build.
#ifndef SK_APP_METRICS_PAGE_H
#define SK_APP_METRICS_PAGE_H

#include <stdint.h>

#include "buf.h"
#include "metrics.h"

// Any thread. Appends the page; sk_metrics_sum() has filled in `sum`.
void sk_metrics_page(const struct sk_metrics_sum *sum, bool open_metrics, struct sk_buf *out);

#endif
