// Which form of an answer a client wants: of /metrics by its field Accept, of a page by Accept-Encoding.
#ifndef SK_WIRE_ACCEPT_H
#define SK_WIRE_ACCEPT_H

#include <stdbool.h>

// Any thread. `value` may be anything; NULL: it was not sent. Whether it prefers OpenMetrics 1.0 to Prometheus's text,
// or takes it as well: by the weights of the two, of which a range without a version, or with ours, speaks. What is
// malformed counts for nothing.
bool sk_accept_openmetrics(const char *value);

// The same of Accept-Encoding: whether what is packed by gzip may be sent. Not whether something else would be nicer:
// there is only that, and the text as it is.
bool sk_accept_gzip(const char *value);

// ---- prefer ----

// The field Prefer of a request (RFC 7240).

// Any thread. Whether the list asks for respond-async. One field's value; of several fields each is read by itself.
bool sk_prefer_async(const char *value);

#endif
