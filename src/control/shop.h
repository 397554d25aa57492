// The sale of one reactor: everything between a request that has been understood and the verdict on it.
// The road of an order through it: admit -> place (Redis) -> writer (locks, PostgreSQL) -> verdict.
// Beside the road: recover looks after the vouchers (audit) and settles what others left, reconcile rebuilds
// a voucher whose data Redis may have lost, regrant takes up the orders that were fenced off by that, and what
// cannot be settled becomes a dead letter.
#ifndef SK_SALE_SALE_H
#define SK_SALE_SALE_H

#include "core.h"
#include "create.h"
#include "inquiry.h"
#include "repair.h"
#include "writer.h"

struct sk_shop;

struct sk_shop_options {
    uv_loop_t *loop;                // borrowed
    const struct sk_config *config; // borrowed
    // As core.h says. Never runs inside sk_shop_place; inquiries may answer at once.
    void (*on_outcome)(void *arg, uint64_t ticket, const struct sk_outcome *outcome);
    void *arg;
};

// The reactor's thread, as all functions. Starts connecting to both stores. NULL: bad URL or out of
// memory; the reason is logged.
struct sk_shop *sk_shop_open(const struct sk_shop_options *options);

// Ends at once: tickets still waiting are answered with UNAVAILABLE, the journal keeps what was granted.
// The loop must run until its handles are closed. NULL is fine.
void sk_shop_close(struct sk_shop *shop);

// Tries to place an order. True: the outcome will come for `ticket`. False: *outcome is the last word.
// `patient`: the client will not wait for the commit.
bool sk_shop_place(struct sk_shop *shop, int64_t voucher_id, const char *user, uint64_t ticket, bool patient,
                   struct sk_outcome *outcome);

struct sk_inquiries *sk_shop_inquiries(struct sk_shop *shop);
struct sk_repairs *sk_shop_repairs(struct sk_shop *shop);
struct sk_creations *sk_shop_creations(struct sk_shop *shop);

// The end of a loop turn: sends what has gathered.
void sk_shop_turn(struct sk_shop *shop);

// Both stores are connected.
bool sk_shop_ready(const struct sk_shop *shop);

// Nothing is on its way to a store.
bool sk_shop_idle(const struct sk_shop *shop);

// For the end of the process, when its time is nearly over; may be repeated. Orders that wait to be granted again are
// written as refused. True: some still wait for that.
bool sk_shop_give_up(struct sk_shop *shop);

// What would be left behind now.
struct sk_left sk_shop_left(const struct sk_shop *shop);

#endif
