// A segment (分段): a part of a voucher that has its own stock, buyers, journal and epoch, all in one slot. A voucher
// has one, unless it is too hot for one store; a user belongs to one segment of a voucher, always the same.
#ifndef SK_SALE_SEGMENT_H
#define SK_SALE_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "backoff.h"
#include "filter.h"
#include "journal.h"
#include "keys.h"
#include "order.h"
#include "status.h"
#include "verdict.h"

enum { SK_VERSION_SIZE = SK_JOURNAL_ID_SIZE };

// A refusal of all users that are no buyers yet, for a short time.
struct sk_mark {
    enum sk_verdict verdict;
    uint64_t asked_at_ms;          // monotonic, as all three: before Redis gave the refusal
    uint64_t until_ms;             // by this instance's setting; 0: no mark
    uint64_t begin_at_ms;          // NOT_STARTED: when the sale starts, or a moment before
    char version[SK_VERSION_SIZE]; // the voucher's `last`: which buyers there were
};

// Requests on their way to Redis. Touched by batcher.c alone.
struct sk_asking {
    struct sk_order_list orders; // wait for the next script call
    struct sk_segment *next;
    bool listed;
    uint64_t held_until_ms; // no call before that, while the catalogue and Redis come to the same offer
};

// How far Redis was when it was asked last. Touched by grant.c alone.
struct sk_seen {
    int64_t epoch; // 0: never asked
    char last[SK_VERSION_SIZE];
};

// What is refused from memory. Touched by admit.c alone.
struct sk_gate {
    struct sk_mark mark;
    struct sk_filter *filter; // owned: who had bought by filter_version; NULL: not known
    char filter_version[SK_VERSION_SIZE];
    uint64_t cache_ms;      // for how long a refusal of that version may be cached by any instance
    bool filtering;         // the filter is being read
    uint64_t read_after_ms; // the next reading begins no sooner
};

// Orders that wait for a batch of PostgreSQL. Touched by writer.c, line.c and batch.c.
struct sk_granted {
    struct sk_order_list orders;
    struct sk_segment *next;
    bool listed;
    bool alone;               // the last batch with its orders failed: the next one is of it alone
    uint64_t not_before_ms;   // PostgreSQL is not asked before that; other segments go on
    struct sk_backoff locked; // of that pause, while another transaction holds the segment's row
    struct sk_backoff failed; // of that pause, after any other failure
    unsigned refusals;        // of batches in a row
};

// The journal entries of this reactor's own calls, by journal id, and the list of all segments that have some. Touched
// by entry.c alone.
struct sk_entries {
    struct sk_entry *oldest, *youngest;
    struct sk_segment **open; // the list's head, in the catalogue; NULL: not listed anywhere
    struct sk_segment *previous, *next;
};

struct sk_histogram;
struct sk_care; // recovery's part, in recovery/care.h

struct sk_voucher;

struct sk_segment {
    struct sk_voucher *voucher;
    struct sk_segment *next_in_slot; // of the catalogue
    int64_t voucher_id;
    unsigned number; // of the voucher's segments
    uint16_t slot;
    char tag[SK_TAG_SIZE];
    struct sk_segment_keys keys;

    struct sk_asking asking;
    struct sk_seen seen;
    struct sk_gate gate;
    struct sk_granted granted;
    struct sk_entries entries;
    struct sk_histogram *durable; // owned; times to durable, of durable.c alone; NULL: none yet
    struct sk_care *care;         // owned: a block of the size that the catalogue was given, zeroed at first
};

// The reactor's thread. `tag` is shorter than SK_TAG_SIZE. NULL: out of memory.
struct sk_segment *sk_segment_new(struct sk_voucher *voucher, int64_t voucher_id, unsigned number, const char *tag,
                                  size_t care_size);
void sk_segment_free(struct sk_segment *segment); // NULL is fine

// A kept pointer needs a pin, which keeps the whole voucher.
void sk_segment_pin(struct sk_segment *segment);
void sk_segment_unpin(struct sk_segment *segment); // the segment may be gone after it

#endif
