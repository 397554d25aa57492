// The shop of one reactor: everything between a parsed request and its outcome. It connects the floors below: the order
// path (sale: admit -> batcher -> grant -> writer -> entry), background jobs (recovery), and queries and commands
// (control).
#ifndef SK_APP_SHOP_H
#define SK_APP_SHOP_H

#include "live.h"
#include "sale.h"
#include "writer.h"

struct sk_shop;

struct sk_shop_options {
    uv_loop_t *loop;                // borrowed
    const struct sk_config *config; // borrowed
    struct sk_rate *purchases;      // borrowed: shared by all reactors; NULL: no limit
    // As in sale.h and query.h. A result never comes inside the call that asks for it; an answer may.
    void (*on_result)(void *routes, uint64_t handle, const struct sk_purchase_result *result);
    void (*on_answer)(void *routes, uint64_t handle, const struct sk_answer *answer);
    void *routes;
    struct sk_live_wire wire;   // to the event streams
    struct sk_metrics *metrics; // borrowed; NULL: nothing is counted
};

// The reactor's thread, as all functions. Starts connecting to both stores. NULL: bad URL or out of memory; the reason
// is logged.
struct sk_shop *sk_shop_open(const struct sk_shop_options *options);

// Ends at once: waiting purchases are answered with UNAVAILABLE, and the journal keeps the granted orders. The loop
// must run until its handles are closed. NULL is fine.
void sk_shop_close(struct sk_shop *shop);

// The control, through which calls are executed.
struct sk_control *sk_shop_control(struct sk_shop *shop);

// The end of a loop turn: sends the collected requests.
void sk_shop_turn(struct sk_shop *shop);

// Both stores are connected, Redis has acknowledged the session, and the catalogue has been read.
bool sk_shop_ready(const struct sk_shop *shop);

// The process is ending: starts no more expiry.
void sk_shop_drain(struct sk_shop *shop);

// Nothing is on its way to a store.
bool sk_shop_idle(const struct sk_shop *shop);

// For the end of the process, when its time is nearly over; may be repeated. Writes as refused the orders that still
// retry the reservation. True: some of them are not written yet.
bool sk_shop_give_up(struct sk_shop *shop);

// The last step of a clean end: the shop is idle and no more purchases arrive. Repeat it until it returns true. Ends
// the session, so that others need not wait for its TTL.
bool sk_shop_leave(struct sk_shop *shop);

// What would be left unfinished now.
struct sk_left sk_shop_left(const struct sk_shop *shop);

#endif
