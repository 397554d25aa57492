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

#include "entry.h"
#include "order_calls.h"
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
    size_t part_count;      // 0: there is no batch
    struct sk_order **rows; // owned: all orders, in the order of the call's parameters; NULL: settled
    size_t n, most;         // rows
    struct sk_place_call call;
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

#endif
