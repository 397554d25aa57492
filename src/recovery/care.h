// What upkeep remembers of a voucher. The block belongs to the voucher and goes with it.
#ifndef SK_RECOVERY_CARE_H
#define SK_RECOVERY_CARE_H

#include "audit.h"
#include "follow.h"
#include "rebuilds.h"
#include "share.h"
#include "voucher.h"

// Orders that were fenced off, to be granted again. Touched by regrant.c alone.
enum sk_lost_state {
    SK_LOST_IDLE,
    SK_LOST_ASKING,           // Redis is asked about some
    SK_LOST_REFUSING,         // those that it does not grant are written as refused
    SK_LOST_REFUSING_UNASKED, // some are written so without asking: Redis may still have them
    SK_LOST_STATES
};

struct sk_lost {
    enum sk_lost_state state;
    struct sk_order_list orders;
    struct sk_voucher *next;
    bool listed;
    uint64_t not_before_ms;
    int64_t stale_epoch; // the newest epoch that PostgreSQL no longer takes orders of
};

// Whether it is to be rebuilt, or is being. Touched by rebuilds.c alone.
enum sk_rebuilding_state {
    SK_REBUILDING_NOT,
    SK_REBUILDING_QUEUED, // in the line of those without a callback
    SK_REBUILDING_URGENT, // in the other one
    SK_REBUILDING_ACTIVE,
    SK_REBUILDING_STATES
};

struct sk_rebuilding {
    enum sk_rebuilding_state state;
    enum sk_rebuild_why why;
    struct sk_voucher *next; // in its line
    struct sk_rebuilds *rebuilds;
    sk_rebuild_cb *done; // NULL: none
    void *arg;
    uint64_t not_before_ms, pause_ms; // after failures
};

// What is known of the voucher's journal. Touched by sweep.c alone.
struct sk_swept {
    struct sweep *sweep;       // under way; NULL: none
    struct sk_voucher *next;   // of those that may hold orphans
    bool listed;               // among them; keeps a pin
    uint64_t orphans_until_ms; // so long they are looked for
    // All entries up to this one were held by living sessions ...; empty: to be read from the start.
    char after[SK_JOURNAL_ID_SIZE];
    uint64_t deaths, run_number; // ... after so many deaths, in this Redis process
};

// What was seen of it. Touched by watch.c; a rebuild resets the look. overview.c and expiry.c read it.
struct sk_watched {
    struct sk_look look;    // the last one
    uint64_t looked_at_ms;  // 0: never
    uint64_t empty_at_ms;   // when PostgreSQL was asked, and had no live order of it; 0: it had some, or was not asked
    int64_t letters;        // dead letters that wait for a decision
    int64_t journal_age_ms; // of its oldest entry
    int64_t change;         // the newest change number that Redis was seen to have; 0: the voucher was never due by it
    unsigned differing;     // looks in a row whose books differ though nothing moves
    uint64_t differ_until_ms; // do not act upon it again before
};

// When it is worth looking for orders that are due. Touched by expiry.c alone.
struct sk_expiring {
    uint64_t next_ms; // not before
    int64_t change;   // of the voucher, under whose terms that was said
    bool active;      // a run is under way
};

// The catalogue and Redis have been found with different offers. Touched by offers.c alone.
struct sk_agreeing {
    struct sk_follow_waiter waiter; // first: the voucher is found by it
    struct sk_voucher *voucher;     // pinned; NULL: nothing is under way
    uint64_t followed_at_ms;
};

struct sk_care {
    struct sk_agreeing agreeing;
    struct sk_lost lost;
    struct sk_swept swept;
    struct sk_rebuilding rebuilding;
    struct sk_watched watched;
    struct sk_share share;
    struct sk_expiring expiring;
    uint64_t retire_at_ms; // not before, after an attempt: set by rebuilds.c, read by watch.c
};

#endif
