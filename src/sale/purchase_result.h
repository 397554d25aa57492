// How a purchase ended, or that it was accepted.
#ifndef SK_SALE_PURCHASE_RESULT_H
#define SK_SALE_PURCHASE_RESULT_H

#include <stdbool.h>
#include <stdint.h>

struct sk_price;

// Each has the name of the stable code under which clients see it (api/verdict.h).
#define SK_PURCHASE_CODES(X)  \
    X(PLACED)                 \
    X(ACCEPTED)               \
    X(WAITING)                \
    X(SOLD_OUT)               \
    X(WAITLIST_FULL)          \
    X(ALREADY_ORDERED)        \
    X(NOT_STARTED)            \
    X(ENDED)                  \
    X(PAUSED)                 \
    X(NOT_ENOUGH)             \
    X(OFFER_CHANGED)          \
    X(TOO_MANY_ORDERS)        \
    X(INVALID)                \
    X(TICKET_REQUIRED)        \
    X(TICKET_INVALID)         \
    X(TICKETS_OFF)            \
    X(LOADING)                \
    X(OVERLOADED)             \
    X(UNAVAILABLE)            \
    X(IDEMPOTENCY_KEY_REUSED) \
    X(INTERNAL)

enum sk_purchase_code {
#define SK_PURCHASE_ENUM(name) SK_PURCHASE_##name,
    SK_PURCHASE_CODES(SK_PURCHASE_ENUM)
#undef SK_PURCHASE_ENUM
};

// Pointers are borrowed for the call.
struct sk_purchase_result {
    enum sk_purchase_code code;
    const char *order_id;           // NULL: none
    int64_t voucher_id;             // ALREADY_ORDERED: the order's, if it is another one in the scope; 0: it is not
    uint64_t retry_after_ms;        // 0: the code's own
    int64_t left;                   // NOT_ENOUGH: units; INVALID: the voucher's limit; WAITING: how many are before it
    bool repeats;                   // ALREADY_ORDERED: under the same Idempotency-Key, so the first answer is repeated
    int64_t created_ms, expires_ms; // PLACED: Unix ms; 0: not known, or never
    const struct sk_price *price;   // PLACED: of a unit; NULL: not known
};

// Any thread. A constant.
const char *sk_purchase_code_name(enum sk_purchase_code code); // in voucher.c

#endif
