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

// ---- prefer ----

// The field Prefer of a request (RFC 7240).

// Any thread. Whether the list asks for respond-async. `value` is one field's value; check several fields one by one.
bool sk_prefer_async(const char *value);

#endif
