// The orders of a reactor that are in progress: from the request, through Redis, to PostgreSQL. Each is in one state
// and in one list of that state; sk_order_move changes both, and nothing else does.
#ifndef SK_SALE_ORDER_H
#define SK_SALE_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "metrics.h"
#include "shards.h"
#include "text.h"
#include "uuid.h"

// The most units of one order, and the highest limit of a voucher.
enum { SK_QUANTITY_MAX = 1000 };

enum { SK_CURRENCY_SIZE = 4 };

// The price of one unit.
struct sk_price {
    int64_t cents;
    char currency[SK_CURRENCY_SIZE]; // empty: the price is not known
};

// The check of a purchase's ticket, if the client sent one.
enum sk_ask_ticket {
    SK_ASK_TICKETS_OFF, // none can be checked here
    SK_ASK_NO_TICKET,
    SK_ASK_BAD_TICKET,
    SK_ASK_EXPIRED_TICKET, // has expired, or claims to
    SK_ASK_GOOD_TICKET,    // it is for this user and this voucher; `offer` has its offer
};

// A purchase ticket as it was sent.
struct sk_sent_ticket {
    enum sk_ask_ticket kind;
    int32_t offer;
};

struct sk_entry;
struct sk_order_list;

enum sk_order_state {
    SK_ORDER_FREE,          // in the pool
    SK_ORDER_NEW,           // taken from the pool, being filled in
    SK_ORDER_ASKING,        // waits for the next call of place_orders.lua (batcher)
    SK_ORDER_ASKED,         // in such a call (batcher)
    SK_ORDER_JOINING,       // waits to join the line, or PostgreSQL is doing it (line)
    SK_ORDER_GRANTED,       // has a unit in Redis and waits for a batch (writer)
    SK_ORDER_DELAYED,       // PostgreSQL has refused it alone: waits for a retry (writer)
    SK_ORDER_WRITING,       // in the batch that PostgreSQL is writing (writer)
    SK_ORDER_SETTING_ASIDE, // becomes a dead letter (writer)
    SK_ORDER_LOST,       // rejected by PostgreSQL, because granted before the last rebuild: waits to be granted again
                         // (regrant)
    SK_ORDER_REGRANTING, // Redis has been asked to grant it again (regrant)
    SK_ORDER_REFUSING,   // is being written as refused (regrant)
    SK_ORDER_STATES,
};

struct sk_order {
    struct sk_order *prev, *next;
    struct sk_order_list *list; // the list it is in; NULL: none
    struct sk_entry *entry;     // NULL until Redis has granted it
    int64_t epoch;              // under which Redis granted it
    uint64_t handle;            // of the request that waits for it; 0: none does
    uint64_t not_before_ms;     // DELAYED: until then
    uint64_t began_ns;          // when it was handed to the batcher, by uv_hrtime(); 0: it was read back
    uint64_t granted_ns;        // when Redis had granted it; 0: it was read back, or has been in a batch since
    uint64_t key;               // fingerprint of its Idempotency-Key; 0: none
    struct sk_price price;      // of its offer, as its buyer saw it; unknown if it was read back
    struct sk_sent_ticket sent; // with its request
    int32_t offer;              // the voucher's offer, under which it is placed; 0: read back, and older than offers
    enum sk_order_state state;
    uint16_t quantity; // units
    bool low_priority; // no request waits for its commit
    bool waits;        // if it is sold out, it joins the line
    uint8_t refusals;  // how often PostgreSQL has refused it alone
    uint8_t rounds;    // how often its call was sent back: another offer, or another node
    uint8_t shard;     // of its voucher
    char id[SK_UUID_SIZE];
    char user[SK_USER_SIZE];
};

// First in, first out; starts zeroed. All orders in a list are in the same state.
struct sk_order_list {
    struct sk_order *head, *tail;
    size_t count;
};

// The source of orders. It keeps its memory blocks, so a busy sale does not allocate.
struct sk_order_pool;

// The reactor's thread, as all functions. At most `most` orders are out at a time. NULL: out of memory.
struct sk_order_pool *sk_order_pool_new(size_t most, size_t shards);
void sk_order_pool_free(struct sk_order_pool *pool);

// Whether one more order of this shard may be out, if at most `most` of all may be. With several shards, the orders of
// one take no more room than is left free: one shard gets half of the room at most, two get a third each. So a shard
// that is away, or slower than its buyers, leaves room for the others.
bool sk_order_pool_has_room(const struct sk_order_pool *pool, size_t most, unsigned shard);

// The most orders of one shard that can be out at a time, when no other shard has any.
size_t sk_order_pool_most(const struct sk_order_pool *pool);

// Gives a NEW order of one unit, without an entry or a waiting request, for a voucher of this shard. `id`, `epoch` and
// `user` still hold an older order's values: the caller sets them. NULL: a bound is reached, or memory is short.
struct sk_order *sk_order_take(struct sk_order_pool *pool, unsigned shard);
// Gives it a new id, for a voucher of this slot and, as far as it is known, this epoch.
void sk_order_name(struct sk_order_pool *pool, struct sk_order *order, unsigned slot, int64_t epoch);

// Takes it out of its list and gives it back, from any state.
void sk_order_give(struct sk_order_pool *pool, struct sk_order *order);

// Moves an order from its list to the end of `to`. Aborts if its state does not allow the new one.
void sk_order_move(struct sk_order_pool *pool, struct sk_order *order, enum sk_order_state state,
                   struct sk_order_list *to);

// The same, to the front.
void sk_order_move_first(struct sk_order_pool *pool, struct sk_order *order, enum sk_order_state state,
                         struct sk_order_list *to);

size_t sk_order_pool_out(const struct sk_order_pool *pool); // all but the free ones

// Sets the gauge of each state from ASKING on: orders are in the others for a moment only.
void sk_order_pool_measure(const struct sk_order_pool *pool, struct sk_metrics *metrics);

#endif
