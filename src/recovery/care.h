// What upkeep remembers of a voucher. The block belongs to the voucher and goes with it.
#ifndef SK_RECOVERY_CARE_H
#define SK_RECOVERY_CARE_H

#include "audit.h"
#include "segment.h"

// Orders that were fenced off, to be granted again. Touched by regrant.c alone.
struct sk_lost {
    struct sk_order_list orders;
    struct sk_segment *next;
    bool listed;
    bool asking; // the stores have been asked about some
    uint64_t not_before_ms;
    int64_t stale_epoch; // the newest epoch that PostgreSQL no longer takes orders of
};

struct sk_care {
    struct sk_lost lost;

    // rebuild.c
    bool rebuilding;        // by this reactor
    uint64_t rebuild_at_ms; // not before

    // watch.c
    struct sk_look look;            // the last one
    unsigned differing;             // looks in a row whose books differ though nothing moves
    uint64_t differ_until_ms;       // do not act upon it again before
    char old_last[SK_LABEL_SIZE];   // entries of the journal up to this one are old by our clock; empty: none
    char aging_last[SK_LABEL_SIZE]; // will be that
    uint64_t aging_since_ms;
};

#endif
