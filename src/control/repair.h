// What an admin does when something went wrong: rebuild a voucher, look at its dead letters, and decide about
// them. Each call answers its ticket once, through the core's on_outcome.
#ifndef SK_SALE_REPAIR_H
#define SK_SALE_REPAIR_H

#include "core.h"
#include "regrant.h"

struct sk_repairs;

// The reactor's thread, as all calls. NULL: out of memory.
struct sk_repairs *sk_repairs_open(const struct sk_core *core, struct sk_regrant *regrant);
void sk_repairs_close(struct sk_repairs *repairs); // after the links were closed

// Rebuilds the voucher in Redis from PostgreSQL, which closes it for a moment. LOADING: another is at it.
void sk_repair_reconcile(struct sk_repairs *repairs, int64_t voucher_id, uint64_t ticket);

void sk_repair_list(struct sk_repairs *repairs, int64_t voucher_id, uint64_t ticket);

// Tries to settle the letter's orders again. Answers when they are on their way, not when they are settled.
void sk_repair_requeue(struct sk_repairs *repairs, int64_t voucher_id, int64_t letter, uint64_t ticket);

// Refuses the letter's orders for good; their units return.
void sk_repair_write_off(struct sk_repairs *repairs, int64_t voucher_id, int64_t letter, uint64_t ticket);

#endif
