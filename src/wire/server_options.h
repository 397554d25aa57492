// How the server is set up, and which requests are traced.
#ifndef SK_WIRE_SERVER_OPTIONS_H
#define SK_WIRE_SERVER_OPTIONS_H

#include <stdint.h>

// Which requests have a trace (trace.h): those that come with one, none, or all.
enum sk_trace_mode { SK_TRACE_AUTO, SK_TRACE_OFF, SK_TRACE_ON };

struct sk_server_options {
    char *listen; // host:port
    int64_t max_connections;
    int64_t body_max_bytes;
    int64_t header_max_bytes;
    int64_t policy_bytes; // of picture origins, which each page's head carries
    int64_t idle_timeout_ms;
    int64_t request_timeout_ms;
    int64_t long_share; // percent of the connections
    int64_t trace;      // enum sk_trace_mode
    int64_t access_log; // one line for this many requests; 0: none
};

#endif
