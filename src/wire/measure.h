// Measures the outcomes and durations of requests, by route, for the reactor's metrics (metrics.h). The clock is read
// twice in a turn of the loop: at its first request, and at its end, when the answers are out.
//
// `measure` NULL: nothing is counted.
#ifndef SK_WIRE_MEASURE_H
#define SK_WIRE_MEASURE_H

struct sk_measure;
struct sk_request;
struct sk_metrics;

// Borrows the metrics. NULL: out of memory.
struct sk_measure *sk_measure_open(struct sk_metrics *metrics);
void sk_measure_close(struct sk_measure *measure); // NULL is fine

// A request is complete, or will never be: then its row is 0.
void sk_measure_began(struct sk_measure *measure, struct sk_request *request);

// The request is answered with this code (metrics.h). `trace_id`: for an exemplar, SK_EXEMPLAR_CHARS hexadecimal
// digits; NULL: it has none. A request that did not begin here is not counted.
void sk_measure_answered(const struct sk_request *request, unsigned code, const char *trace_id);

// The end of a turn.
void sk_measure_turn(struct sk_measure *measure);

#endif
