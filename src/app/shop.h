// The shop of one reactor: everything between a request that has been understood and the outcome of it. It puts the
// floors below together: the road of an order (sale: admit -> batcher -> grant -> writer -> entry), its upkeep
// (recovery) and what is asked and commanded (control).
#ifndef SK_APP_SHOP_H
#define SK_APP_SHOP_H

#include "live.h"
#include "sale.h"
#include "writer.h"

struct sk_shop;

struct sk_shop_options {
    uv_loop_t *loop;                // borrowed
    const struct sk_config *config; // borrowed
    struct sk_rate *purchases;      // borrowed: of all reactors together; NULL: no limit
    // As sale.h and talk.h say. Results never come inside the call that asks for them; answers may.
    void (*on_result)(void *routes, uint64_t handle, const struct sk_purchase_result *result);
    void (*on_answer)(void *routes, uint64_t handle, const struct sk_answer *answer);
    void *routes;
    struct sk_live_wire wire;   // to those who listen
    struct sk_metrics *metrics; // borrowed; NULL: nothing is counted
};

// The reactor's thread, as all functions. Starts connecting to both stores. NULL: bad URL or out of
// memory; the reason is logged.
struct sk_shop *sk_shop_open(const struct sk_shop_options *options);

// Ends at once: tickets still waiting are answered with UNAVAILABLE, the journal keeps what was granted.
// The loop must run until its handles are closed. NULL is fine.
void sk_shop_close(struct sk_shop *shop);

// What calls are carried out with.
struct sk_control *sk_shop_control(struct sk_shop *shop);

// The end of a loop turn: sends what has gathered.
void sk_shop_turn(struct sk_shop *shop);

// Both stores are connected, Redis has acknowledged the session, and the catalogue has been read.
bool sk_shop_ready(const struct sk_shop *shop);

// The process is to end: nothing begins by itself any more.
void sk_shop_drain(struct sk_shop *shop);

// Nothing is on its way to a store.
bool sk_shop_idle(const struct sk_shop *shop);

// For the end of the process, when its time is nearly over; may be repeated. Orders that wait to be granted again are
// written as refused. True: some still wait for that.
bool sk_shop_give_up(struct sk_shop *shop);

// The last step of a clean end, when the shop is idle and no purchase comes any more; to be repeated until it returns
// true. Ends the session, so that others need not wait for its TTL.
bool sk_shop_leave(struct sk_shop *shop);

// What would be left behind now.
struct sk_left sk_shop_left(const struct sk_shop *shop);

#endif
