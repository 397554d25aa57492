// The order writer: takes orders that Redis has granted to PostgreSQL, in batches.
//
// While one database batch is in flight the next one collects and takes its users' locks: group commit
// without a timer. An order leaves the writer when PostgreSQL has said what it is; its journal entry goes
// when all its orders have left.
#ifndef SK_SALE_WRITER_H
#define SK_SALE_WRITER_H

#include <stdbool.h>

#include "core.h"

struct sk_writer;

// The reactor's thread. NULL: out of memory. `on_recovered` runs for each recovered entry that is settled.
struct sk_writer *sk_writer_open(const struct sk_core *core, void (*on_recovered)(void *arg), void *arg);
// Forgets what is under way: the journal has it. After the links were closed.
void sk_writer_close(struct sk_writer *writer);

// Makes the record of a journal entry, to which sk_writer_add attaches orders. NULL: out of memory.
struct sk_entry *sk_writer_entry(struct sk_writer *writer, struct sk_voucher *voucher, int64_t epoch,
                                 const char *journal_id, bool recovered);

// Gives the order to the writer, as part of `entry`.
void sk_writer_add(struct sk_writer *writer, struct sk_entry *entry, struct sk_order *order);

// Starts what can be started: at the end of a loop turn. `rush`: requests are being placed right now, so
// orders that nobody waits for give way to them.
void sk_writer_pump(struct sk_writer *writer, bool rush);

// Whether nothing is left to write.
bool sk_writer_idle(const struct sk_writer *writer);

#endif
