// Looks after every current voucher, again and again: has Redis lost anything, has an instance died with
// orders on their way? The first leads to a reconcile, the second to settling its journal entries.
#ifndef SK_SALE_RECOVER_H
#define SK_SALE_RECOVER_H

#include "core.h"
#include "writer.h"

struct sk_recover;

// The reactor's thread. NULL: out of memory. The writer is set once it exists.
struct sk_recover *sk_recover_open(const struct sk_core *core);
void sk_recover_set_writer(struct sk_recover *recover, struct sk_writer *writer);
void sk_recover_close(struct sk_recover *recover); // after the links were closed

// A store has come (back): starts the next round now.
void sk_recover_hurry(struct sk_recover *recover);

// The writer says: one recovered entry is settled. arg is the sk_recover.
void sk_recover_settled(void *arg);

#endif
