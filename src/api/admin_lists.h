// The admin's lists, apart from vouchers: orders, payments, the audit log of operators, the feed of order events, dead
// letters, with what is decided about one, what needs an operator, and the receivers of webhooks.
//
// The reactor's thread, as all functions. Each answers its handle once: FOUND and a page; BAD_PARAMETER; UNAVAILABLE;
// OVERLOADED.
#ifndef SK_API_ADMIN_LISTS_H
#define SK_API_ADMIN_LISTS_H

#include "call.h"
#include "page.h"

sk_handle sk_handle_find_orders, sk_handle_find_payment, sk_handle_troubles, sk_handle_webhooks;
sk_handle sk_handle_admin_orders, sk_handle_admin_payments, sk_handle_admin_events, sk_handle_order_events;
sk_handle sk_handle_dead_letters, sk_handle_requeue, sk_handle_write_off;

struct sk_order_filter {
    int64_t voucher_id;
    const char *status;       // NULL: any; else a value of order_status
    const int64_t *from, *to; // Unix ms: written at or after `from`, and before `to`; NULL: any time
};

void sk_list_all_orders(struct sk_control *control, const struct sk_order_filter *filter,
                        const struct sk_page_asked *ask, uint64_t handle);

// The payments of a voucher, by order, the newest order first. `limit` counts orders: all payments of an order are on
// one page.
void sk_list_payments(struct sk_control *control, int64_t voucher_id, const struct sk_page_asked *ask, uint64_t handle);

// The payments that are to be given back, of a voucher or of all (0), in the same pages. With several shards it has the
// rows of all.
void sk_list_to_refund(struct sk_control *control, int64_t voucher_id, const struct sk_page_asked *ask,
                       uint64_t handle);

// The payment of this reference, in the form of a list: 1 to 64 visible ASCII characters.
void sk_find_payment(struct sk_control *control, const char *reference, uint64_t handle);

// Vouchers for which an operator has something to do, SK_PAGE_MOST of a kind and shard at most.
void sk_list_troubles(struct sk_control *control, uint64_t handle);

// How far each receiver of `seckill webhooks` is, in each shard. With several shards each row has its `shard`.
void sk_list_webhooks(struct sk_control *control, uint64_t handle);

void sk_list_admin_events(struct sk_control *control, int64_t voucher_id, const struct sk_page_asked *ask,
                          uint64_t handle);

// The cursor is the position of the last event that the reader has. `last`: without a cursor, the feed begins this many
// events before its end; 0: at its beginning. `only`: "placed", "moves" or "sales"; NULL: all events. `next` is always
// present: it is where the reader continues.
void sk_list_order_events(struct sk_control *control, const struct sk_page_asked *ask, unsigned last, const char *only,
                          uint64_t handle);

// The dead letters of a voucher that wait for a decision, oldest first. A page may be shorter than asked for if they
// are large.
void sk_list_dead_letters(struct sk_control *control, int64_t voucher_id, const struct sk_page_asked *ask,
                          uint64_t handle);

// Decides about one. Written off: its orders are refused permanently, and their units return. Else its orders are
// settled again: FOUND when they are queued; UNREADABLE. NOT_FOUND: no such letter waits.
void sk_decide_dead_letter(struct sk_control *control, int64_t voucher_id, int64_t letter, bool write_off,
                           uint64_t handle);

#endif
