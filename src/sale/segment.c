#include "segment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "histogram.h"
#include "voucher.h"

struct sk_segment *sk_segment_new(struct sk_voucher *voucher, int64_t voucher_id, unsigned number, const char *tag,
                                  size_t care_size)
{
    struct sk_segment *segment = calloc(1, sizeof *segment);
    struct sk_care *care = calloc(1, care_size);
    if (segment == NULL || care == NULL) {
        free(care);
        free(segment);
        return NULL;
    }
    segment->voucher = voucher;
    segment->voucher_id = voucher_id;
    segment->number = number;
    segment->care = care;
    (void)snprintf(segment->tag, sizeof segment->tag, "%s", tag);
    segment->slot = sk_slot(tag, strlen(tag));
    sk_keys_of_segment(segment->tag, &segment->keys);
    return segment;
}

void sk_segment_free(struct sk_segment *segment)
{
    if (segment == NULL)
        return;
    sk_filter_free(segment->gate.filter);
    sk_histogram_close(segment->durable);
    free(segment->care);
    free(segment);
}

void sk_segment_pin(struct sk_segment *segment)
{
    sk_voucher_pin(segment->voucher);
}

void sk_segment_unpin(struct sk_segment *segment)
{
    sk_voucher_unpin(segment->voucher);
}
