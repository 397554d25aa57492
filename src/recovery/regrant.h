// Orders that Redis granted and PostgreSQL then rejected, because the voucher has been rebuilt since: Redis may have
// lost the grant with its data. They are granted again, under the new epoch, or end as refused if the units are gone.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_REGRANT_H
#define SK_RECOVERY_REGRANT_H

#include "entry.h"
#include "rebuilds.h"
#include "writer.h"

struct sk_regrant;

// NULL: out of memory.
struct sk_regrant *sk_regrant_open(const struct sk_sale *sale, struct sk_rebuilds *rebuilds);
// After the links were closed, before the writer is; NULL is fine.
void sk_regrant_close(struct sk_regrant *regrant);

// Takes over an order that the writer found stale. `arg` is the sk_regrant.
void sk_regrant_add(void *arg, struct sk_order *order);

// The same for an order of a dead letter, as part of `entry`.
void sk_regrant_requeue(struct sk_regrant *regrant, struct sk_entry *entry, struct sk_order *order);

// For the end of the process; may be repeated. From now on Redis is not asked again. Orders that wait, or come back
// from a call in progress, are written as refused, GRANT_LOST. Orders of dead letters just leave: their letter keeps
// them.
void sk_regrant_give_up(struct sk_regrant *regrant);

// Adds the orders that wait here: those in no letter are kept nowhere else.
void sk_regrant_count(const struct sk_regrant *regrant, struct sk_left *left);

// Whether nothing waits to be granted again.
bool sk_regrant_idle(const struct sk_regrant *regrant);

#endif
