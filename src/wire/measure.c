// Answers of one route to requests that came in one turn took the same time, so they are kept as one entry until the
// turn ends. The time of all requests of a turn counts from its first one, so a reported time is too long rather than
// too short.
#include "measure.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "clock.h"
#include "distribution.h"
#include "metrics.h"
#include "request.h"

enum { KEPT_MAX = 32 };

struct kept {
    uint64_t began_ns, n;
    unsigned row;
    char trace_id[SK_EXEMPLAR_CHARS]; // of the last request that has one; "": none has
};

struct sk_measure {
    struct sk_metrics *metrics;
    uint64_t turn_ns; // when its first request was complete; 0: there was none yet
    struct kept kept[KEPT_MAX];
    size_t count;
};

struct sk_measure *sk_measure_open(struct sk_metrics *metrics)
{
    struct sk_measure *measure = calloc(1, sizeof *measure);
    if (measure != NULL)
        measure->metrics = metrics;
    return measure;
}

void sk_measure_close(struct sk_measure *measure)
{
    free(measure);
}

void sk_measure_began(struct sk_measure *measure, struct sk_request *request)
{
    if (measure == NULL)
        return;
    if (measure->turn_ns == 0)
        measure->turn_ns = uv_hrtime();
    request->measure = measure;
    request->began_ns = measure->turn_ns;
}

static void measure_flush(struct sk_measure *measure)
{
    uint64_t now_ns = uv_hrtime();
    for (size_t i = 0; i < measure->count; i++) {
        const struct kept *kept = &measure->kept[i];
        uint64_t took_ns = now_ns - kept->began_ns;
        sk_metrics_took(measure->metrics, kept->row, took_ns, kept->n);
        if (kept->trace_id[0] != '\0')
            sk_distribution_mark(&measure->metrics->durations[kept->row], SK_SCALE_SECONDS, took_ns, kept->trace_id,
                                 sk_wall_ms());
    }
    measure->count = 0;
}

void sk_measure_answered(const struct sk_request *request, unsigned code, const char *trace_id)
{
    struct sk_measure *measure = request->measure;
    if (measure == NULL)
        return;
    sk_metrics_answered(measure->metrics, request->row, code);
    struct kept *last = measure->count == 0 ? NULL : &measure->kept[measure->count - 1];
    if (last == NULL || last->row != request->row || last->began_ns != request->began_ns) {
        if (measure->count == KEPT_MAX)
            measure_flush(measure);
        last = &measure->kept[measure->count++];
        *last = (struct kept){.began_ns = request->began_ns, .row = request->row};
    }
    last->n++;
    if (trace_id != NULL)
        memcpy(last->trace_id, trace_id, sizeof last->trace_id);
}

void sk_measure_turn(struct sk_measure *measure)
{
    if (measure == NULL)
        return;
    if (measure->count > 0)
        measure_flush(measure);
    measure->turn_ns = 0;
}
