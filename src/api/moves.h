// The moves of an order that are asked for: it is paid, cancelled by its user, or refunded. Which moves there are says
// the table order_move.
//
// The reactor's thread, as all functions. Each answers its handle once, which may be before it returns, and may be
// repeated: a move that was made is answered like the first time, and where the outcome is unknown the answer is 503.
//
//   FOUND        the order as it is now, with its events and payments
//   WRONG_STATE  its status, which is told, does not allow that: nothing is done
//   PENDING      no store has settled it yet, or it may be so
//   NOT_FOUND    where sk_order_lookup() says so
//   LOADING, UNAVAILABLE, OVERLOADED  it may be done, or not
#ifndef SK_API_MOVES_H
#define SK_API_MOVES_H

#include "call.h"
#include "fields.h"
#include "query.h"

sk_handle sk_handle_pay, sk_handle_cancel, sk_handle_refund, sk_handle_demo_pay;

enum { SK_REFERENCE_MAX = 64, SK_CURRENCY_CHARS = 3, SK_WHY_MAX = 200 };

struct sk_payment {
    const char *reference; // at most SK_REFERENCE_MAX characters; borrowed for the call, as all texts here
    int64_t amount_cents;
    const char *currency; // SK_CURRENCY_CHARS characters
};

struct sk_refund {
    bool restock;          // its units can be bought again
    const char *why;       // at most SK_WHY_MAX bytes; NULL: none
    const char *reference; // of the payment that was given back; NULL: of all before the order's first refund
};

// `by`: which admin, or what, says that it was paid. FOUND also where the order had ended: then the money is to be
// refunded. ALREADY_PAID: under another reference; REFERENCE_USED: for another order; WRONG_AMOUNT; nothing is noted
// then.
void sk_move_pay(struct sk_control *control, const char *order_id, const struct sk_payment *payment, const char *by,
                 uint64_t handle);

// The same for one who pays an order of their own, in the demo. Another user's is NOT_FOUND.
void sk_move_pay_own(struct sk_control *control, const char *order_id, const char *user,
                     const struct sk_payment *payment, uint64_t handle);

// Another user's order is NOT_FOUND.
void sk_move_cancel(struct sk_control *control, const char *order_id, const char *user, uint64_t handle);

// A paid order is refunded. Of one that had ended, what came too late is noted as given back. UNKNOWN_PAYMENT: the
// order has no payment of that reference; nothing is done.
void sk_move_refund(struct sk_control *control, const char *order_id, const struct sk_refund *refund, const char *by,
                    uint64_t handle);

// The bodies of POST /orders/{id}/pay and /refund: what each came to, as sk_fields_end() says. The texts point into
// `read`, which the caller frees in any case.
enum sk_verdict sk_payment_read(const char *body, size_t len, struct sk_payment *payment, struct sk_fields *read);
// A payment of the demo has no reference of its own: that is left as it is.
enum sk_verdict sk_demo_payment_read(const char *body, size_t len, struct sk_payment *payment, struct sk_fields *read);
enum sk_verdict sk_refund_read(const char *body, size_t len, struct sk_refund *refund, struct sk_fields *read);

#endif
