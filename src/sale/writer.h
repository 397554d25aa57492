// The order writer: writes the orders that Redis has granted to PostgreSQL, in batches. Each shard has its own, so a
// shard that is away delays no other.
//
// While one batch is in progress the next one gathers: group commit without a timer. An order leaves the writer when
// PostgreSQL has decided it. Its journal entry ends when all its orders have left. The writer takes no lock: the grant
// has taken it, and the entry's end releases it (lock.h).
#ifndef SK_SALE_WRITER_H
#define SK_SALE_WRITER_H

#include <stdbool.h>

#include "entry.h"

struct sk_writer;

struct sk_writer_events {
    void (*recovered)(void *arg, struct sk_voucher *voucher); // a recovered entry is settled
    void (*stale)(void *arg, struct sk_order *order); // rejected for its old epoch; takes the order over, and moves it
    void *recovered_arg, *stale_arg;
};

// The reactor's thread. NULL: out of memory.
struct sk_writer *sk_writer_open(const struct sk_sale *sale, const struct sk_shard *shard,
                                 const struct sk_writer_events *events);
// Drops the orders in progress, which are in the journal. After the links were closed.
void sk_writer_close(struct sk_writer *writer);

// Gives the writer of the voucher's shard the order, whose epoch is set, as part of `entry`; removes it from its former
// entry.
void sk_writer_add(struct sk_entry *entry, struct sk_order *order);

// Gives back an order that was stale and has a new epoch.
void sk_writer_resume(struct sk_order *order);

// Ends an order of an entry without writing it; frees it.
void sk_writer_leave(struct sk_order *order);

// The same without a call to the stores: for the end of the process.
void sk_writer_forget(struct sk_order *order);

// Starts what can be started: at the end of a loop turn. `rush`: requests are being placed right now, so low-priority
// orders wait.
void sk_writer_pump(struct sk_writer *writer, bool rush);

// Orders that an ending process leaves behind.
struct sk_left {
    size_t in_journal; // other instances settle them
    size_t in_letters; // they wait for a decision
    size_t nowhere;    // accepted, and kept by no store
};

// Adds what is in the writer.
void sk_writer_count(const struct sk_writer *writer, struct sk_left *left);

// Whether nothing is left to write.
bool sk_writer_idle(const struct sk_writer *writer);

#endif
