// Looks after every current voucher, again and again: has Redis lost anything, has an instance died with
// orders on their way? The first leads to a reconcile, the second to settling its journal entries.
#ifndef SK_SALE_RECOVER_H
#define SK_SALE_RECOVER_H

#include "care.h"
#include "core.h"
#include "writer.h"

struct sk_watch;

// The reactor's thread. NULL: out of memory. The writer is set once it exists.
struct sk_watch *sk_watch_open(const struct sk_core *core);
void sk_watch_set_writer(struct sk_watch *watch, struct sk_writer *writer);
void sk_watch_close(struct sk_watch *watch); // after the links were closed

// A store has come (back): starts the next round now.
void sk_watch_hurry(struct sk_watch *watch);

// The writer says: one recovered entry is settled. arg is the sk_recover.
void sk_watch_settled(void *arg);

#endif
