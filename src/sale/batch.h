// The batch that PostgreSQL is writing: granted orders of one voucher, one epoch and one offer. Where many vouchers
// have a few orders each, it has parts of several. It is one transaction, since a commit costs the same for one order
// as for all.
//
// A failure of one voucher would fail all. So after a failure a voucher goes alone until a batch of it succeeds.
#ifndef SK_SALE_BATCH_H
#define SK_SALE_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "entry.h"
#include "pg_link.h"
#include "voucher.h"

// Each part is a subtransaction in PostgreSQL, which caches up to 64 of them.
enum { SK_BATCH_PARTS_MAX = 64 };

struct sk_batch_part {
    struct sk_voucher *voucher;
    int64_t epoch;
    int32_t offer;
    struct sk_order_list orders; // WRITING
    size_t first, count;         // of the batch's rows
};

struct sk_batch {
    struct sk_batch_part parts[SK_BATCH_PARTS_MAX];
    size_t part_count;        // 0: there is no batch
    struct sk_order **rows;   // owned: all orders, in the order of the call's parameters; NULL: settled
    size_t n, most;           // rows
    bool plain;               // all orders are of one unit and without an Idempotency-Key
    struct sk_buf arrays[10]; // the parameters of the call being made
};

// The reactor's thread, as all functions. At most `most` orders. SK_NO_MEM.
enum sk_status sk_batch_open(struct sk_batch *batch, size_t most) SK_MUST_CHECK;
void sk_batch_close(struct sk_batch *batch); // give back its orders first

// Whether granted orders of the voucher may be written together with those of others.
bool sk_batch_may_share(const struct sk_voucher *voucher);

// Moves granted orders of the voucher into the batch, which must have room, as a new part: those of its first epoch
// that may go together. Returns how many of them a request waits for.
size_t sk_batch_add(struct sk_batch *batch, struct sk_order_pool *pool, struct sk_voucher *voucher);

bool sk_batch_has_room(const struct sk_batch *batch);

// Sends the batch to PostgreSQL. Anything but SK_OK: `done` does not run.
enum sk_status sk_batch_send(struct sk_batch *batch, struct sk_pg *pg, sk_pg_cb *done, void *arg) SK_MUST_CHECK;

// Whether the rows answer all orders.
bool sk_batch_is_answered(const struct sk_batch *batch, const struct sk_rows *rows);

// Which part a row is about.
struct sk_batch_part *sk_batch_part_of(struct sk_batch *batch, const struct sk_rows *rows, size_t row);

// ---- write queue ----

// The write queue: vouchers with granted orders take turns. A voucher that cannot be written now is skipped until its
// pause is over, so it delays no other.

// Starts zeroed. Times are uv_now's. A voucher in the queue has orders, and their entries pin it.
struct sk_write_queue {
    struct sk_voucher *first, *last;
};

void sk_write_queue_add(struct sk_write_queue *queue,
                        struct sk_voucher *voucher); // at the end, unless it is already queued

// Removes and returns the first voucher that is not paused and that `may` accepts; `may` NULL: any. NULL: there is
// none.
struct sk_voucher *sk_write_queue_take(struct sk_write_queue *queue, uint64_t now_ms,
                                       bool (*may)(const struct sk_voucher *voucher));

enum sk_pause {
    SK_PAUSE_LOCKED, // another transaction holds its row
    SK_PAUSE_FAILED, // any other failure of a statement
};

// Pauses the voucher, longer each time until a batch of it is settled: up to 2 s. Logs that its row is locked, unless
// the pauses have stopped growing.
void sk_write_queue_pause(struct sk_voucher *voucher, enum sk_pause why, uint64_t now_ms);

// A batch of it was refused permanently. Pauses it after too many refusals in a row: more than it takes to find one bad
// order among good ones.
void sk_write_queue_refused(struct sk_voucher *voucher, uint64_t now_ms);

// A batch that it shared has failed, perhaps because of another voucher: the next batch has this voucher alone.
void sk_write_queue_part(struct sk_voucher *voucher);

void sk_write_queue_settled(struct sk_voucher *voucher);

// ---- bisecting ----

// Chooses which granted orders may share a batch after PostgreSQL has refused some, so that one bad order does not fail
// others. It bisects what was refused: first entry by entry, then in halves of an entry, down to single orders. Each
// part that is placed doubles the size of the next one.

// PostgreSQL has refused this batch of several orders: makes the next ones smaller.
void sk_bisect_refused(const struct sk_order_list *batch);

// PostgreSQL has settled a batch that began with this order.
void sk_bisect_settled(const struct sk_order *first);

// ---- settlement ----

// PostgreSQL's answer for an order: the outcomes of place_orders() and refuse_orders().

enum sk_settlement {
    SK_SETTLEMENT_PLACED,         // inserted now, its units taken
    SK_SETTLEMENT_ALREADY_PLACED, // already a live order
    SK_SETTLEMENT_ENDED,          // it ended before: the units that Redis took for it return
    SK_SETTLEMENT_DUPLICATE,      // refused: the user has another live order; its units return
    SK_SETTLEMENT_REPEATED,       // refused: its Idempotency-Key belongs to another order; its units return
    SK_SETTLEMENT_REUSED,         // the same, and that order has another quantity
    SK_SETTLEMENT_GONE,           // a refund kept its units; units granted after the refund return
    SK_SETTLEMENT_SOLD_OUT,       // refused: PostgreSQL has no units for it; none return
    SK_SETTLEMENT_STALE,          // its epoch is not the current one: nothing was done
    SK_SETTLEMENT_CLASH,          // another order has its id
};

// For *n: the row stands for all orders of the call.
#define SK_SETTLEMENT_OF_ALL SIZE_MAX

// The other columns of a row. Texts: NULL: none; borrowed from the rows.
struct sk_settlement_more {
    const char *live_id;  // the user's live order, if it is another one
    const char *first_id; // the order of the same Idempotency-Key
    int64_t created_ms;   // Unix ms
    const char *gone_by;  // GONE: the name of the refund's journal entry; NULL: it is not known
    const char *live;     // the live order as Redis stores it: id, quantity, key
    unsigned ended_nth;   // ENDED, GONE: how many of the user's orders had ended with this one; 0: it was refused
};

// Reads a row (n, outcome, live_id, first_id, created_ms, gone_by, batch, live, nth). *n: which order of the call, from 0.
// `more` NULL: the rows do not have those columns. An unknown word counts as a clash, so that such an order is never
// taken for placed.
enum sk_settlement sk_settlement_read(const struct sk_rows *rows, size_t row, size_t *n,
                                      struct sk_settlement_more *more);

#endif
