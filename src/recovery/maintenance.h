// The maintenance state of a voucher. The voucher owns the block.
#ifndef SK_RECOVERY_MAINTENANCE_H
#define SK_RECOVERY_MAINTENANCE_H

#include "assignment.h"
#include "catalogue_sync.h"
#include "list.h"
#include "rebuilds.h"
#include "voucher.h"
#include "voucher_books.h"

// Orders rejected because they were granted before the last rebuild, to be granted again. Touched by regrant.c; a
// rebuild resets `stale_epoch`, and audit.c reads how many wait.
enum sk_lost_state {
    SK_LOST_IDLE,
    SK_LOST_ASKING,           // Redis is asked about some
    SK_LOST_REFUSING,         // those that it does not grant are being written as refused
    SK_LOST_REFUSING_UNASKED, // some are written as refused without asking: Redis may still have them
    SK_LOST_STATES
};

struct sk_lost {
    enum sk_lost_state state;
    struct sk_order_list orders;
    struct sk_voucher *next;
    bool listed;
    uint64_t not_before_ms;
    int64_t stale_epoch; // the newest epoch whose orders PostgreSQL rejects
};

// Whether a rebuild of it is queued, or in progress. Touched by rebuilds.c alone.
enum sk_rebuilding_state {
    SK_REBUILDING_NOT,
    SK_REBUILDING_QUEUED, // in the queue of those without a callback
    SK_REBUILDING_URGENT, // in the other queue
    SK_REBUILDING_ACTIVE,
    SK_REBUILDING_STATES
};

struct sk_rebuilding {
    struct sk_list list; // of its queue; must be first
    struct sk_voucher *voucher;
    enum sk_rebuilding_state state;
    enum sk_rebuild_why why;
    struct sk_rebuilds *rebuilds;
    sk_rebuild_cb *done; // NULL: none
    void *arg;
    uint64_t not_before_ms, pause_ms; // after failures
};

// What is known of the voucher's journal. Touched by journal_sweep.c alone.
struct sk_swept {
    struct sk_list list; // of those that may have orphans; must be first
    struct sk_voucher *voucher;
    bool listed;               // in that list; keeps a pin
    struct sweep *sweep;       // in progress; NULL: none
    uint64_t orphans_until_ms; // the sweep searches for orphans until then
    // All entries up to this one were held by living sessions ...; empty: to be read from the start.
    char after[SK_JOURNAL_ID_SIZE];
    uint64_t deaths, run_number; // ... after so many deaths, in this Redis process ...
    int64_t epoch;               // ... and under the newest epoch that was known
};

// The last check of it. Touched by audit.c; a rebuild resets `snapshot`, and notes when it ended. audit.c and expiry.c
// read it.
struct sk_audited {
    struct sk_snapshot snapshot; // the last one
    uint64_t checked_at_ms;      // 0: never
    uint64_t empty_at_ms; // when PostgreSQL was asked, and had no order of it that is live or waits; 0: it had some, or
                          // was not asked
    int64_t waiting;      // orders in its line
    int64_t letters;      // dead letters that wait for a decision
    int64_t journal_age_ms; // of its oldest entry
    int64_t change;         // the newest change number seen in Redis; 0: it was not checked yet
    unsigned differing;     // checks in a row in which the stores differ though nothing moves
    uint64_t rebuilt_at_ms; // when an ordered rebuild ended well; 0: the stores agreed since then
};

// When to scan for due orders. Touched by expiry.c alone.
struct sk_expiring {
    uint64_t next_ms; // not before
    int64_t change;   // the voucher's change number for which `next_ms` holds
    bool active;      // a run is in progress
};

// The catalogue and Redis have different offers. Touched by recovery.c alone.
struct sk_agreeing {
    struct sk_catalogue_sync_waiter waiter; // first: it is cast back to this struct
    struct sk_voucher *voucher;             // pinned; NULL: nothing is in progress
    uint64_t followed_at_ms;
};

struct sk_maintenance {
    struct sk_agreeing agreeing;
    struct sk_lost lost;
    struct sk_swept swept;
    struct sk_rebuilding rebuilding;
    struct sk_audited audited;
    struct sk_assignment assignment;
    struct sk_expiring expiring;
    bool line_moves;       // a batch of its line is refused or promoted: of line_upkeep.c alone
    uint64_t retire_at_ms; // no attempt to retire it before then: set by rebuilds.c, read by audit.c
};

#endif
