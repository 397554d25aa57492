// A voucher in a reactor: its terms, where its stock is (all its keys in one slot), and the state that each step of the
// order path keeps of it. The catalogue (catalogue.h) has all vouchers.
#ifndef SK_SALE_VOUCHER_H
#define SK_SALE_VOUCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backoff.h"
#include "journal.h"
#include "keys.h"
#include "list.h"
#include "order.h"
#include "purchase_result.h"
#include "status.h"

enum sk_voucher_state { SK_VOUCHER_OPEN, SK_VOUCHER_PAUSED, SK_VOUCHER_CLOSED, SK_VOUCHER_RETIRED };

// By its name. An unknown name counts as retired: it is not sold.
enum sk_voucher_state sk_voucher_state_of(const char *name);
const char *sk_voucher_state_name(enum sk_voucher_state state);
// Whether it is the name of one of these states.
bool sk_voucher_state_known(const char *name);

enum { SK_VERSION_SIZE = SK_JOURNAL_ID_SIZE };

// A cached refusal of all users who are no buyers yet, valid for a short time.
struct sk_refusal {
    enum sk_purchase_code code;
    uint64_t asked_at_ms;          // monotonic, as all three: before Redis was asked
    uint64_t until_ms;             // by this instance's setting; 0: none
    uint64_t begin_at_ms;          // NOT_STARTED: when the sale starts, or a moment before
    int64_t epoch;                 // this and the next one say which buyers there were
    char version[SK_VERSION_SIZE]; // the voucher's `last`
};

// Requests that wait for Redis. Touched by batcher.c alone.
struct sk_asking {
    struct sk_order_list orders; // wait for the next script call
    struct sk_voucher *next;
    bool listed;
    uint64_t held_until_ms; // no call before then, while the catalogue and Redis are brought to one offer
};

// The newest state that Redis has reported. Touched by grant.c alone.
struct sk_seen {
    int64_t epoch; // 0: never asked
    char last[SK_VERSION_SIZE];
};

struct sk_filter;

// The refusal cache. Touched by admit.c alone.
struct sk_refusal_cache {
    struct sk_refusal newest;
    struct sk_filter *filter; // owned: the buyers as of the next two; NULL: not known
    int64_t filter_epoch;
    char filter_version[SK_VERSION_SIZE];
    uint64_t cache_ms;      // how long any instance may cache a refusal of that version
    bool filtering;         // the filter is being read
    uint64_t read_after_ms; // the next reading begins no sooner
};

// That the line is full. Touched by full_line.c alone.
struct sk_full_line {
    uint64_t until_ms;        // users are refused until then; 0: it is not known to be full
    int64_t joined;           // so many had ever joined then
    struct sk_filter *filter; // owned: who waited when `filter_joined` had joined; NULL: not known
    int64_t filter_joined;
    bool reading;
    uint64_t read_after_ms; // the next reading begins no sooner
};

// Requests that wait for PostgreSQL, to join the line. Touched by line.c alone.
struct sk_joining {
    struct sk_order_list orders;
    struct sk_voucher *next;
    bool listed;
};

// Orders that wait for a batch of PostgreSQL. Touched by writer.c, write_queue.c and batch.c.
struct sk_granted {
    struct sk_order_list orders;
    struct sk_voucher *next;
    bool listed;
    bool alone;               // the last batch with its orders failed: it shares the next one with no other
    uint64_t not_before_ms;   // no batch of it before then; other vouchers go on
    struct sk_backoff locked; // of that pause, while another transaction locks the voucher's row
    struct sk_backoff failed; // of that pause, after any other failure
    unsigned refusals;        // refused batches in a row
};

// The journal entries of this reactor's own calls, by journal id, and the list of all vouchers that have some. Touched
// by entry.c alone.
struct sk_entries {
    struct sk_list own;       // oldest first
    struct sk_voucher **open; // the list's head, in the catalogue
    struct sk_voucher *next;
    struct sk_voucher **link; // the pointer to this one in that list
};

struct sk_histogram;
struct sk_maintenance; // recovery's maintenance state, in recovery/maintenance.h

struct sk_voucher {
    struct sk_voucher *next_in_bucket, *next_in_slot; // of the catalogue
    size_t at;                                        // its place in the catalogue
    int64_t id;
    int64_t change; // the number of its newest change
    int64_t begin_ms, end_ms;
    unsigned user_limit;      // most units in a user's order
    unsigned orders_per_user; // those that ended included
    int64_t pay_within_s;     // then an unpaid order expires; 0: never
    bool ticket;              // a purchase needs a ticket
    unsigned work_bits;       // work that a ticket takes; 0: none
    bool has_line;            // users may wait for a unit
    int32_t offer;            // version of price, limit, pay_within_s, ticket and work: an order agrees to one
    struct sk_price price;
    enum sk_voucher_state state;
    char *document; // owned: PostgreSQL's JSON of it, as of a moment ago; NULL: not read yet
    bool left;      // it has left the catalogue: the last pin frees it
    unsigned pins;  // kept pointers to it
    uint16_t slot;
    uint16_t shard; // of PostgreSQL: the one that has it
    char tag[SK_TAG_SIZE];
    struct sk_voucher_keys keys;

    struct sk_asking asking;
    struct sk_seen seen;
    struct sk_refusal_cache refusals;
    struct sk_full_line full_line;
    struct sk_joining joining;
    struct sk_granted granted;
    struct sk_entries entries;
    struct sk_histogram *durable;       // owned; times to durable, of durable.c alone; NULL: none yet
    struct sk_maintenance *maintenance; // owned: a block of the size that the catalogue was given, zeroed at first
};

// The reactor's thread, as all functions. For the catalogue. `tag` is shorter than SK_TAG_SIZE. NULL: out of memory.
struct sk_voucher *sk_voucher_new(int64_t id, const char *tag, size_t maintenance_size);
void sk_voucher_free(struct sk_voucher *voucher); // no pin may be left

// A kept pointer needs a pin. The last pin of a voucher that has left the catalogue frees it.
void sk_voucher_pin(struct sk_voucher *voucher);
void sk_voucher_unpin(struct sk_voucher *voucher);

// Keeps a copy. SK_NO_MEM: the document is as before.
enum sk_status sk_voucher_keep_document(struct sk_voucher *voucher, const char *document) SK_MUST_CHECK;

#endif
