// A hash table of bounded size. Ids come from clients, made-up ones included, so when it is full the
// voucher that has been idle longest in the bucket makes room; one with anything under way never goes.
#include "segment.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slot.h"

enum { BUCKETS = 1024, PER_BUCKET = 8 };

struct sk_segments {
    size_t care_size;
    struct sk_segment *buckets[BUCKETS];
};

struct sk_segments *sk_segments_new(size_t care_size)
{
    struct sk_segments *segments = calloc(1, sizeof *segments);
    if (segments != NULL)
        segments->care_size = care_size;
    return segments;
}

static void free_voucher(struct sk_segment *segment)
{
    sk_filter_free(segment->gate.filter);
    free(segment->care);
    free(segment->document);
    free(segment);
}

void sk_segments_free(struct sk_segments *segments)
{
    for (int i = 0; segments != NULL && i < BUCKETS; i++) {
        struct sk_segment *segment = segments->buckets[i];
        while (segment != NULL) {
            struct sk_segment *next = segment->next_in_bucket;
            free_voucher(segment);
            segment = next;
        }
    }
    free(segments);
}

// Unlinks the idle voucher that was used least recently. Returns false if none is idle.
static bool evict(struct sk_segment **bucket)
{
    struct sk_segment **victim = NULL;
    for (struct sk_segment **at = bucket; *at != NULL; at = &(*at)->next_in_bucket) {
        if ((*at)->pins == 0 && (victim == NULL || (*at)->used_ms < (*victim)->used_ms))
            victim = at;
    }
    if (victim == NULL)
        return false;
    struct sk_segment *gone = *victim;
    *victim = gone->next_in_bucket;
    free_voucher(gone);
    return true;
}

struct sk_segment *sk_segments_get(struct sk_segments *segments, int64_t id, uint64_t now_ms)
{
    struct sk_segment **bucket = &segments->buckets[sk_hash((const char *)&id, sizeof id) % BUCKETS];
    int count = 0;
    for (struct sk_segment *v = *bucket; v != NULL; v = v->next_in_bucket, count++) {
        if (v->voucher_id == id) {
            v->used_ms = now_ms;
            return v;
        }
    }
    if (count >= PER_BUCKET && !evict(bucket))
        return NULL;
    struct sk_segment *segment = calloc(1, sizeof *segment);
    if (segment == NULL)
        return NULL;
    segment->care = calloc(1, segments->care_size);
    if (segment->care == NULL) {
        free(segment);
        return NULL;
    }
    segment->voucher_id = id;
    segment->used_ms = now_ms;
    (void)snprintf(segment->tag, sizeof segment->tag, "%" PRId64, id);
    segment->slot = sk_slot(segment->tag, strlen(segment->tag));
    sk_keys_of_segment(segment->tag, &segment->keys);
    segment->next_in_bucket = *bucket;
    *bucket = segment;
    return segment;
}
