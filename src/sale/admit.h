// The first check of a purchase: refuses from memory what cannot win, without asking Redis.
#ifndef SK_SALE_ADMIT_H
#define SK_SALE_ADMIT_H

#include <stdbool.h>
#include <stddef.h>

#include "sale.h"

// The reactor's thread, as all functions.

// Returns whether to refuse the request at once; *result then has the reason.
bool sk_admit_refuses(const struct sk_sale *sale, struct sk_voucher *voucher, const char *user,
                      struct sk_purchase_result *result);

// Caches what Redis answered for the whole voucher, for a short time from `asked_at_ms` on: SOLD_OUT, ENDED, PAUSED or
// NOT_STARTED (with `begin_at_ms`), each with the `version` of its buyers.
void sk_admit_remember(const struct sk_sale *sale, struct sk_voucher *voucher, const struct sk_refusal *refusal);

// Drops the cached refusal: as far as we know the voucher sells again.
void sk_admit_forget(struct sk_voucher *voucher);

// ---- offer ----

// Checks in memory what a buyer agrees to (ticket, limit and price) against the voucher's offer in the catalogue. Redis
// grants only under the voucher's offer (place_orders.lua); if it has another one, the order is checked again.

// Whether the terms of the voucher forbid the purchase. If so *result has the reason: a code about its ticket, or
// INVALID, with the limit in `left`.
bool sk_offered_refuses(const struct sk_sale *sale, struct sk_voucher *voucher, const struct sk_sent_ticket *ticket,
                        unsigned quantity, struct sk_purchase_result *result);

// The order agrees to the offer that the catalogue has now.
void sk_offered_agree(const struct sk_voucher *voucher, struct sk_order *order);

// Checks an order that agreed to another offer against the present one, and makes it agree unless it is refused: as
// above, or with OFFER_CHANGED, since its buyer has seen another price.
bool sk_offered_refuses_again(const struct sk_sale *sale, struct sk_voucher *voucher, struct sk_order *order,
                              struct sk_purchase_result *result);

// ---- filter ----

// A Bloom filter of buyers (B. H. Bloom, "Space/time trade-offs in hash coding with allowable errors", 1970): "surely
// not a buyer" or "perhaps one". So a sold-out sale refuses the crowd from memory and still answers each winner with
// the order id (P6): only "perhaps" asks Redis.

struct sk_filter;

// The reactor's thread. Gives a filter sized for `expected` names: 12 bits each, about 0.3 % false positives. NULL: out
// of memory, or an impossible number. The owner frees it; NULL is fine.
struct sk_filter *sk_filter_new(size_t expected);
void sk_filter_free(struct sk_filter *filter);

void sk_filter_add(struct sk_filter *filter, const char *name, size_t len);
bool sk_filter_maybe(const struct sk_filter *filter, const char *name, size_t len);

#endif
