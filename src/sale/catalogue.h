// The catalogue: all vouchers that are not retired, found by id or by slot. Every reactor has all of it. So an id that
// is not in it does not exist, is retired, or is newer than the last update (recovery/catalogue_sync.h).
#ifndef SK_SALE_CATALOGUE_H
#define SK_SALE_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"
#include "voucher.h"

struct sk_catalogue;

// A voucher as PostgreSQL has it.
struct sk_catalogue_row {
    int64_t change, voucher_id, begin_ms, end_ms;
    enum sk_voucher_state state;
    const char *tag; // borrowed
    unsigned shard;  // where it was read
    unsigned user_limit;
    unsigned orders_per_user;
    int64_t pay_within_s;
    bool has_line;
    bool ticket;
    unsigned work_bits;
    int32_t offer;
    struct sk_price price;
};

// NULL: out of memory. `maintenance_size`: bytes of recovery's maintenance state in each voucher.
struct sk_catalogue *sk_catalogue_new(size_t maintenance_size);
void sk_catalogue_free(struct sk_catalogue *catalogue); // with all its vouchers; NULL is fine

// Adds a voucher, or updates its terms; removes a retired one. A row that is older than the known one changes nothing.
// SK_NO_MEM: nothing was changed. SK_FAIL: the row is invalid.
enum sk_status sk_catalogue_put(struct sk_catalogue *catalogue, const struct sk_catalogue_row *row) SK_MUST_CHECK;

// The pointers stay valid until the next put, or while they are pinned. NULL: not in the catalogue.
struct sk_voucher *sk_catalogue_find(const struct sk_catalogue *catalogue, int64_t id);
// The first voucher of a slot; more follow in `next_in_slot`. Nearly always there is one at most.
struct sk_voucher *sk_catalogue_at_slot(const struct sk_catalogue *catalogue, unsigned slot);

// The vouchers that have journal entries of this reactor, linked by entries.next.
struct sk_voucher *sk_catalogue_open(const struct sk_catalogue *catalogue);

// The vouchers, in no order: 0 to count - 1. When a voucher leaves, the last one takes its place.
size_t sk_catalogue_count(const struct sk_catalogue *catalogue);
struct sk_voucher *sk_catalogue_at(const struct sk_catalogue *catalogue, size_t i);

// The open and paused vouchers, the highest id first; valid until the next put. The first call after a put sorts them.
struct sk_listed {
    int64_t id;
    struct sk_voucher *voucher;
};
const struct sk_listed *sk_catalogue_listed(struct sk_catalogue *catalogue, size_t *count);

#endif
