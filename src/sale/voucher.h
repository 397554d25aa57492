// A voucher as a reactor knows it: its terms, and the segments that its orders go through.
#ifndef SK_SALE_VOUCHER_H
#define SK_SALE_VOUCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "segment.h"

enum sk_voucher_state { SK_VOUCHER_OPEN, SK_VOUCHER_PAUSED, SK_VOUCHER_CLOSED, SK_VOUCHER_RETIRED };

// By its name. What is no state counts as retired: it is not sold.
enum sk_voucher_state sk_voucher_state_of(const char *name);
const char *sk_voucher_state_name(enum sk_voucher_state state);

enum { SK_SEGMENTS_MAX = 64 };

// The last document that was shown of it. Touched by voucher_queries.c alone.
struct sk_shown {
    char *document; // owned
    int64_t version;
    uint64_t until_ms;
};

struct sk_voucher {
    struct sk_voucher *next_in_bucket;
    int64_t id;
    int64_t change; // the number of the change that made it what it is
    int64_t begin_ms, end_ms;
    unsigned user_limit;  // units in a user's one order
    int64_t pay_within_s; // an unpaid order expires then; 0: never
    bool ticket;          // a purchase needs a ticket
    unsigned work_bits;   // a ticket takes so much work; 0: none
    int32_t offer;        // counts price, limit and what tickets take: what a ticket is for, and an order agrees to
    struct sk_price price;
    enum sk_voucher_state state;
    unsigned pins; // kept pointers to it and to its segments
    bool left;     // the catalogue: the last pin frees it
    size_t at;     // its place in the catalogue
    struct sk_shown shown;
    unsigned segment_count;
    struct sk_segment *segments[]; // owned
};

// The reactor's thread, as all functions. Gives a voucher whose segments are all NULL; `care_size` is that of struct
// sk_care, which this floor does not know. NULL: out of memory.
struct sk_voucher *sk_voucher_new(int64_t id, unsigned segment_count);
// NULL is fine. No pin may be left.
void sk_voucher_free(struct sk_voucher *voucher);

// Adds the segment `number`. `tag` is shorter than SK_TAG_SIZE.
enum sk_status sk_voucher_add_segment(struct sk_voucher *voucher, unsigned number, const char *tag,
                                      size_t care_size) SK_MUST_CHECK;

// The segment that a user belongs to, always the same.
struct sk_segment *sk_voucher_segment_of(struct sk_voucher *voucher, const char *user);

// A kept pointer needs a pin. The last pin of a voucher that has left the catalogue frees it.
void sk_voucher_pin(struct sk_voucher *voucher);
void sk_voucher_unpin(struct sk_voucher *voucher);

#endif
