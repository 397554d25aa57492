// The calls that move an order: it is paid, given more time, cancelled by its user, or refunded. The table order_move
// lists the moves.
//
// The reactor's thread, as all functions. Each answers its handle once, perhaps before it returns. Each may be
// repeated: a move that was made gets the same answer again. If the outcome is unknown, the answer is 503.
//
//   FOUND        the order as it is now, with its events and payments
//   WRONG_STATE  its status, which the answer has, does not allow the move: nothing is done
//   PENDING      no store has settled it yet, or it may be so
//   NOT_FOUND    as for sk_order_lookup()
//   LOADING, UNAVAILABLE, OVERLOADED  it may be done, or not
#ifndef SK_API_MOVES_H
#define SK_API_MOVES_H

#include "call.h"
#include "query.h"
#include "verdict.h"

sk_handle sk_handle_pay, sk_handle_extend, sk_handle_cancel, sk_handle_refund, sk_handle_demo_pay;

enum { SK_REFERENCE_MAX = 64, SK_CURRENCY_CHARS = 3, SK_WHY_MAX = 200 };

struct sk_payment {
    const char *reference; // at most SK_REFERENCE_MAX characters; borrowed for the call, as all texts here
    int64_t amount_cents;
    const char *currency; // SK_CURRENCY_CHARS characters
    const char *order_id; // that of the path, if the body may name it
    bool names_order;     // it must
};

struct sk_extension {
    const char *reference; // of the payment to come, as above
    int64_t extend_s;      // 0: as much as the voucher allows
    const char *order_id;  // as above
    bool names_order;
};

struct sk_refund {
    bool restock;          // its units can be bought again
    const char *why;       // at most SK_WHY_MAX bytes; NULL: none
    const char *reference; // the refunded payment; NULL: what paid the order, or all that came before its first refund
};

// `user`: who pays an order of their own, in the demo; another user's order is NOT_FOUND. "": any order. `by`: the
// admin or system that reports the payment. FOUND also if the order had ended: the money must then be refunded. So must
// it for ALREADY_PAID: another payment has paid the order. These record nothing: REFERENCE_USED: for another order;
// WRONG_AMOUNT.
void sk_move_pay(struct sk_control *control, const char *order_id, const char *user, const struct sk_payment *payment,
                 const char *by, uint64_t handle);

// Lets an unpaid order expire later: once, by what its voucher allows at most. FOUND also for each repetition with this
// reference, whatever has become of the order. These do nothing: ALREADY_EXTENDED; REFERENCE_USED; EXTENSION_OFF: the
// voucher does not allow it, or the order never expires.
void sk_move_extend(struct sk_control *control, const char *order_id, const struct sk_extension *extension,
                    const char *by, uint64_t handle);

// Another user's order is NOT_FOUND.
void sk_move_cancel(struct sk_control *control, const char *order_id, const char *user, uint64_t handle);

// Refunds a paid order. For an order that had ended, records late payments as refunded; for a paid one, the second
// payment that is named. UNKNOWN_PAYMENT: the order has no payment of that reference; nothing is done.
void sk_move_refund(struct sk_control *control, const char *order_id, const struct sk_refund *refund, const char *by,
                    uint64_t handle);

// Read the bodies of POST /orders/{id}/pay, /extend and /refund; results as of sk_fields_end(). The texts point into
// `read`, which the caller frees in any case. If payment->reference is set, it is the payment's, and the body has none;
// order_id and names_order are set as they are to be.
enum sk_verdict sk_payment_read(const char *body, size_t len, struct sk_payment *payment, struct sk_fields *read);
enum sk_verdict sk_extension_read(const char *body, size_t len, struct sk_extension *extension, struct sk_fields *read);
enum sk_verdict sk_refund_read(const char *body, size_t len, struct sk_refund *refund, struct sk_fields *read);

#endif
