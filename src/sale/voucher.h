// What a reactor remembers of a voucher: its keys, its orders in each stage, and the refusals that can
// be answered from memory for a moment.
#ifndef SK_SALE_VOUCHER_H
#define SK_SALE_VOUCHER_H

#include <stdbool.h>
#include <stdint.h>

#include "audit.h"
#include "filter.h"
#include "journal.h"
#include "order.h"
#include "verdict.h"

enum { SK_KEY_SIZE = 48, SK_LABEL_SIZE = SK_JOURNAL_ID_SIZE };

// A refusal that holds for everybody who is not a buyer yet, for a short time.
struct sk_mark {
    enum sk_verdict verdict;
    uint64_t until_ms;         // monotonic; 0: no mark
    uint64_t begin_at_ms;      // monotonic; NOT_STARTED: when the sale starts
    char label[SK_LABEL_SIZE]; // the voucher's `last`: which buyers there were
};

struct sk_voucher {
    struct sk_voucher *next_in_bucket;
    int64_t id;
    uint64_t used_ms; // when it last mattered, for eviction
    unsigned pins;    // users of the pointer that nothing below shows

    char voucher_key[SK_KEY_SIZE];
    char buyers_key[SK_KEY_SIZE];
    char journal_key[SK_KEY_SIZE];

    // place.c
    struct sk_order_list asking; // wait for the next script call
    struct sk_voucher *next_asking;
    unsigned calls;               // script calls under way
    struct sk_order_list unknown; // wait to learn whether the voucher exists

    // grant.c: how far Redis was when it was asked last
    int64_t seen_epoch; // 0: never asked
    char seen_last[SK_LABEL_SIZE];

    // admit.c
    struct sk_mark mark;
    struct sk_filter *filter; // who had bought by filter_label; NULL: not known
    char filter_label[SK_LABEL_SIZE];

    // writer.c
    struct sk_order_list granted; // wait for a database batch
    struct sk_voucher *next_granted;

    // entry.c
    struct sk_entry *oldest_entry, *youngest_entry;

    // inquiry.c
    char *document; // the voucher as PostgreSQL showed it last; owned
    uint64_t document_until_ms;

    // regrant.c
    struct sk_order_list lost; // fenced off, to be granted again
    struct sk_voucher *next_lost;
    uint64_t regrant_at_ms; // not before
    int64_t stale_epoch;    // the newest epoch that PostgreSQL no longer takes orders of

    // reconcile.c
    uint64_t reconcile_at_ms; // not before

    // recover.c
    struct sk_look look;            // the last one
    unsigned differing;             // looks in a row whose books differ though nothing moves
    uint64_t differ_until_ms;       // do not act upon it again before
    char old_last[SK_LABEL_SIZE];   // entries of the journal up to this one are old by our clock; empty: none
    char aging_last[SK_LABEL_SIZE]; // will be that
    uint64_t aging_since_ms;

    // Which of the above is under way, or in a list.
    bool in_asking, looking_up; // place.c
    bool filtering;             // admit.c: the filter is being read
    bool in_granted;            // writer.c
    bool in_lost, regranting;   // regrant.c: the stores have been asked about some
    bool reconciling;           // reconcile.c, by this reactor
};

struct sk_vouchers;

// The reactor's thread.
struct sk_vouchers *sk_vouchers_new(void); // NULL: out of memory
void sk_vouchers_free(struct sk_vouchers *vouchers);

// Finds or makes the entry of a voucher, whether or not such a voucher exists. NULL: too many are busy,
// or out of memory. The pointer stays valid while the voucher has anything under way.
struct sk_voucher *sk_vouchers_get(struct sk_vouchers *vouchers, int64_t id, uint64_t now_ms);

#endif
