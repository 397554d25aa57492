// Which form of an answer a client wants: Accept selects the form of /metrics, Accept-Encoding that of a page.
#ifndef SK_WIRE_ACCEPT_H
#define SK_WIRE_ACCEPT_H

#include <stdbool.h>

// Any thread. `value` may be anything; NULL: it was not sent. Whether it prefers OpenMetrics 1.0 to Prometheus's text,
// or accepts both equally. Compares the weights of the two; a range counts if it has no version, or ours. Malformed
// parts do not count.
bool sk_accept_openmetrics(const char *value);

// The same for Accept-Encoding: whether gzip may be sent. Other preferences do not matter: there are only gzip and the
// plain text.
bool sk_accept_gzip(const char *value);

#endif
