// The shop: everything between a parsed request and its outcome. It connects the floors below: the order path (sale:
// admit -> batcher -> grant -> writer -> entry), background jobs (recovery), and queries and commands (control). It
// knows no HTTP: results and answers go to its options.
//
// The loop's thread, as all functions.
#ifndef SK_APP_SHOP_H
#define SK_APP_SHOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "query.h"
#include "recovery.h"
#include "sale.h"
#include "store_options.h"

struct sk_shop;

// All are borrowed.
struct sk_shop_options {
    uv_loop_t *loop;
    const struct sk_sale_options *sale;
    const struct sk_store_options *stores;
    const char *instance;      // the address by which operators know it
    struct sk_rate *purchases; // limits the purchases a second that ask the stores; NULL: no limit
    struct sk_metrics *metrics;
    uint64_t process; // a random number, the same for all shops of a process
    int64_t reactors; // of the process
    // What became of a purchase, as of struct sk_sale; the answer to a query or command, as of struct sk_control; and
    // the text of a stream, as of struct sk_live_wire.
    void (*on_result)(void *arg, uint64_t handle, const struct sk_purchase_result *result);
    void (*on_answer)(void *arg, uint64_t handle, const struct sk_answer *answer);
    bool (*send)(void *arg, uint64_t handle, const char *text, size_t len);
    void (*end_stream)(void *arg, uint64_t handle);
    void *arg;
};

// Starts connecting to both stores. NULL: bad URL or out of memory; the reason is logged.
struct sk_shop *sk_shop_open(const struct sk_shop_options *options);

// Ends at once: waiting purchases are answered with UNAVAILABLE, and the journal keeps the granted orders. The loop
// must run until its handles are closed. NULL is fine.
void sk_shop_close(struct sk_shop *shop);

// For queries and commands; its `sale` is for purchases.
struct sk_control *sk_shop_control(struct sk_shop *shop);

// The end of a loop turn: sends the collected requests.
void sk_shop_turn(struct sk_shop *shop);

// Shows the state of the links to the stores in its metrics.
void sk_shop_measure(const struct sk_shop *shop);

// Whether it can take orders: Redis is connected, or at least one node of a cluster, it has acknowledged the session,
// and the catalogue of a shard has been read. PostgreSQL may have gone away since then: purchases get 202 meanwhile,
// which a gateway that asks for readiness must not withhold from buyers, unless another instance has PostgreSQL.
bool sk_shop_ready(const struct sk_shop *shop);

// Whether the process must end: a database is another shard than it should be, or lacks changes that were read.
bool sk_shop_is_unfit(const struct sk_shop *shop);

// It is to end within time_ms: it starts no background jobs and writes the granted orders. No purchase may come after
// it. Then call sk_shop_stopped() every few ms until it is true; `answered`: no request waits. It logs what is left.
void sk_shop_stop(struct sk_shop *shop, uint64_t time_ms);
bool sk_shop_stopped(struct sk_shop *shop, bool answered);

#endif
