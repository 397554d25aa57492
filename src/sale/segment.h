// A segment (分段): a part of a voucher that has its own stock, buyers, journal and epoch, all in one slot. A voucher
// has one, unless it is too hot for one store; a user belongs to one segment of a voucher, always the same.
#ifndef SK_SALE_SEGMENT_H
#define SK_SALE_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "filter.h"
#include "journal.h"
#include "keys.h"
#include "order.h"
#include "status.h"
#include "verdict.h"

enum { SK_LABEL_SIZE = SK_JOURNAL_ID_SIZE };

// A refusal that holds for everybody who is not a buyer yet, for a short time.
struct sk_mark {
    enum sk_verdict verdict;
    uint64_t until_ms;         // monotonic; 0: no mark
    uint64_t begin_at_ms;      // monotonic; NOT_STARTED: when the sale starts
    char label[SK_LABEL_SIZE]; // the voucher's `last`: which buyers there were
};

// Requests on their way to Redis. Touched by batcher.c alone.
struct sk_asking {
    struct sk_order_list orders; // wait for the next script call
    struct sk_segment *next;
    bool listed;
    struct sk_order_list unknown; // wait to learn whether the voucher exists
    bool looking_up;
};

// How far Redis was when it was asked last. Touched by grant.c alone.
struct sk_seen {
    int64_t epoch; // 0: never asked
    char last[SK_LABEL_SIZE];
};

// What is refused from memory. Touched by admit.c alone.
struct sk_gate {
    struct sk_mark mark;
    struct sk_filter *filter; // owned: who had bought by filter_label; NULL: not known
    char filter_label[SK_LABEL_SIZE];
    bool filtering; // the filter is being read
};

// Orders that wait for a database batch. Touched by writer.c alone.
struct sk_granted {
    struct sk_order_list orders;
    struct sk_segment *next;
    bool listed;
};

// The journal entries of this reactor's own calls. Touched by entry.c alone.
struct sk_entries {
    struct sk_entry *oldest, *youngest;
};

struct sk_care; // recovery's part, in recovery/care.h

struct sk_segment {
    struct sk_segment *next_in_bucket;
    int64_t voucher_id;
    uint64_t used_ms; // when it last mattered, for eviction
    unsigned pins;    // kept pointers: the only reason to stay

    int number; // of the voucher's segments
    uint16_t slot;
    char tag[SK_TAG_SIZE];
    struct sk_segment_keys keys;

    struct sk_asking asking;
    struct sk_seen seen;
    struct sk_gate gate;
    struct sk_granted granted;
    struct sk_entries entries;
    struct sk_care *care; // a block of the size that the table was given, zeroed with the voucher

    // inquiry.c
    char *document; // the voucher as PostgreSQL showed it last; owned
    uint64_t document_until_ms;
};

struct sk_segments;

// The reactor's thread.
// `care_size`: of struct sk_care, which this floor does not know. NULL: out of memory.
struct sk_segments *sk_segments_new(size_t care_size);
void sk_segments_free(struct sk_segments *segments);

// Finds or makes the entry of a voucher, whether or not such a voucher exists. NULL: too many are busy,
// or out of memory. The pointer stays valid while the voucher is pinned, and until the next call.
struct sk_segment *sk_segments_get(struct sk_segments *segments, int64_t id, uint64_t now_ms);

// A kept pointer needs a pin.
static inline void sk_segment_pin(struct sk_segment *segment)
{
    segment->pins++;
}

static inline void sk_segment_unpin(struct sk_segment *segment)
{
    SK_ASSERT(segment->pins > 0);
    segment->pins--;
}

#endif
