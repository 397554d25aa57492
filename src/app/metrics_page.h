// The page /metrics: all that the reactors count and measure, what is known of the process, and how it was built.
#ifndef SK_APP_METRICS_PAGE_H
#define SK_APP_METRICS_PAGE_H

#include "buf.h"
#include "metrics.h"

// Any thread. Appends the page; `sum` as sk_metrics_sum() has filled it in.
void sk_metrics_page(const struct sk_metrics_sum *sum, bool open_metrics, struct sk_buf *out);

#endif
