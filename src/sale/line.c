// Paused segments stay in the line: there are few, and passing over one is a comparison.
#include "line.h"

#include <inttypes.h>

#include "log.h"

enum { LOCKED_MS = 200, FAILED_MS = 20, MOST_MS = 2000, REFUSALS_MAX = 12 };

void sk_line_add(struct sk_line *line, struct sk_segment *segment)
{
    if (segment->granted.listed)
        return;
    segment->granted.listed = true;
    segment->granted.next = NULL;
    if (line->last != NULL)
        line->last->granted.next = segment;
    else
        line->first = segment;
    line->last = segment;
}

struct sk_segment *sk_line_take(struct sk_line *line, uint64_t now_ms, bool (*may)(const struct sk_segment *segment))
{
    struct sk_segment *before = NULL, *segment = line->first;
    while (segment != NULL && (segment->granted.not_before_ms > now_ms || (may != NULL && !may(segment)))) {
        before = segment;
        segment = segment->granted.next;
    }
    if (segment == NULL)
        return NULL;
    if (before != NULL)
        before->granted.next = segment->granted.next;
    else
        line->first = segment->granted.next;
    if (line->last == segment)
        line->last = before;
    segment->granted.listed = false;
    return segment;
}

void sk_line_pause(struct sk_segment *segment, enum sk_pause why, uint64_t now_ms)
{
    struct sk_backoff *backoff = why == SK_PAUSE_LOCKED ? &segment->granted.locked : &segment->granted.failed;
    backoff->first_ms = why == SK_PAUSE_LOCKED ? LOCKED_MS : FAILED_MS; // at least half of it is waited
    backoff->most_ms = MOST_MS;
    bool grows = backoff->span_ms < MOST_MS;
    uint32_t pause_ms = sk_backoff_next(backoff);
    segment->granted.not_before_ms = now_ms + pause_ms;
    segment->granted.alone = true;
    if (why == SK_PAUSE_LOCKED && grows)
        sk_log(SK_LOG_WARN, "another transaction holds the row of a segment; its orders wait",
               "voucher=%" PRId64 " segment=%u pause_ms=%" PRIu32, segment->voucher_id, segment->number, pause_ms);
}

void sk_line_refused(struct sk_segment *segment, uint64_t now_ms)
{
    segment->granted.alone = true;
    if (++segment->granted.refusals >= REFUSALS_MAX)
        sk_line_pause(segment, SK_PAUSE_FAILED, now_ms);
}

void sk_line_part(struct sk_segment *segment)
{
    segment->granted.alone = true;
}

void sk_line_settled(struct sk_segment *segment)
{
    segment->granted.alone = false;
    sk_backoff_reset(&segment->granted.locked);
    sk_backoff_reset(&segment->granted.failed);
    segment->granted.refusals = 0;
}
