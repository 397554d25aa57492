// The orders of a reactor that are on their way: from the request, through Redis, to PostgreSQL.
#ifndef SK_SALE_ORDER_H
#define SK_SALE_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "text.h"
#include "uuid.h"

struct sk_entry;

struct sk_order {
    struct sk_order *next;
    struct sk_entry *entry; // NULL until Redis has granted it
    int64_t epoch;          // under which Redis granted it
    uint64_t ticket;        // who waits for it; 0: nobody
    uint64_t not_before_ms; // while it waits for its user's lock
    bool patient;           // nobody waits for its commit
    uint8_t refusals;       // how often PostgreSQL has refused it when it went alone
    char id[SK_UUID_SIZE];
    char user[SK_USER_SIZE];
};

struct sk_order_list {
    struct sk_order *head, *tail;
    size_t count;
};

void sk_order_push(struct sk_order_list *list, struct sk_order *order);
struct sk_order *sk_order_pop(struct sk_order_list *list); // NULL: empty

// Where orders come from and go back to: blocks that are kept, so that a busy sale does not allocate.
struct sk_order_pool;

// The reactor's thread. At most `most` orders are out at a time. NULL: out of memory.
struct sk_order_pool *sk_order_pool_new(size_t most);
void sk_order_pool_free(struct sk_order_pool *pool);
// Gives an order with a new id, in no list, of no entry, with nobody waiting. `epoch` and `user` still hold an older
// order's values: the caller sets them. NULL: the bound is reached, or memory is short.
struct sk_order *sk_order_take(struct sk_order_pool *pool);
void sk_order_give(struct sk_order_pool *pool, struct sk_order *order);
size_t sk_order_pool_out(const struct sk_order_pool *pool);

#endif
