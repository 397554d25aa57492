// The possible outcomes of a request: one list with the stable code, the HTTP status, Retry-After in ms and the title
// of each. A 503 has a Retry-After, unless only another configuration helps. Codes are part of the interface: they are
// added, never renamed.
#ifndef SK_API_VERDICT_H
#define SK_API_VERDICT_H

#include "purchase_result.h"

#define SK_VERDICTS(X)                                                                    \
    /* orders */                                                                          \
    X(PLACED, 201, 0, "The order is committed")                                           \
    X(ACCEPTED, 202, 0, "The order is accepted and will be confirmed or refused")         \
    X(WAITING, 202, 0, "You wait in the line")                                            \
    X(SOLD_OUT, 409, 0, "Sold out")                                                       \
    X(WAITLIST_FULL, 409, 0, "Sold out, and as many wait as may")                         \
    X(ALREADY_ORDERED, 409, 0, "You already have an order for this voucher or its scope") \
    X(NOT_STARTED, 409, 0, "The sale has not started")                                    \
    X(ENDED, 409, 0, "The sale has ended")                                                \
    X(PAUSED, 409, 0, "The sale is paused")                                               \
    X(NOT_ENOUGH, 409, 0, "Fewer units are left than were asked for")                     \
    X(OFFER_CHANGED, 409, 0, "The price has changed since the request was checked")       \
    X(TOO_MANY_ORDERS, 409, 0, "You have reached the order limit of this voucher")        \
    X(PENDING, 409, 1000, "The order is not settled yet")                                 \
    X(WRONG_STATE, 409, 0, "The current state does not allow that")                       \
    X(ALREADY_PAID, 409, 0, "The order is already paid: refund this payment")             \
    X(REFERENCE_USED, 409, 0, "This payment reference belongs to another order")          \
    X(ALREADY_EXTENDED, 409, 0, "The order has been extended for another payment")        \
    X(EXTENSION_OFF, 409, 0, "Orders of this voucher cannot be extended")                 \
    X(UNKNOWN_PAYMENT, 409, 0, "The order has no payment with this reference")            \
    X(WRONG_AMOUNT, 422, 0, "The amount or the currency differs from the order")          \
    X(ARCHIVED, 410, 0, "The sale is over, and its orders have been archived")            \
    X(UNKNOWN_VOUCHER, 404, 0, "No such voucher")                                         \
    X(TICKET_REQUIRED, 403, 0, "This voucher requires a purchase ticket")                 \
    X(TICKET_INVALID, 403, 0, "The ticket is not valid for this purchase")                \
    X(WORK_REQUIRED, 403, 0, "A ticket for this voucher requires a proof of work")        \
    X(WORK_INVALID, 403, 0, "The proof of work is not valid")                             \
    X(SCOPES_OFF, 503, 1000, "An instance of an older version is running")                \
    X(TICKETS_OFF, 503, 0, "Tickets are off: no ticket secret is configured here")        \
    X(RATE_LIMITED, 429, 1000, "Too many requests")                                       \
    X(LOADING, 503, 1000, "The voucher is being loaded")                                  \
    X(OVERLOADED, 503, 1000, "Too many requests are waiting")                             \
    X(UNAVAILABLE, 503, 1000, "A store is not available; the outcome may be unknown")     \
    X(SHUTTING_DOWN, 503, 1000, "This instance is shutting down")                         \
    /* documents */                                                                       \
    X(FOUND, 200, 0, "Found")                                                             \
    X(CREATED, 201, 0, "Created")                                                         \
    /* requests */                                                                        \
    X(BAD_VOUCHER_ID, 400, 0, "A voucher id is a decimal number from 1 to 2^63-1")        \
    X(BAD_ORDER_ID, 400, 0, "An order id is a UUID")                                      \
    X(BAD_REQUEST, 400, 0, "The request is malformed")                                    \
    X(BAD_JSON, 400, 0, "The body is not valid JSON of the expected form")                \
    X(UNAUTHENTICATED, 401, 0, "The caller is not identified")                            \
    X(ADMIN_OFF, 403, 0, "Admin calls are off: no admin token is configured")             \
    X(NOT_FOUND, 404, 0, "No such resource")                                              \
    X(STARTED, 409, 0, "The sale has started or has orders: terms are fixed")             \
    X(BELOW_SOLD, 409, 0, "More units are sold than would be left")                       \
    X(VERSION_CHANGED, 412, 0, "The voucher has changed since that version")              \
    X(CROSS_SITE, 403, 0, "A page of another site may not do that")                       \
    X(FORBIDDEN, 403, 0, "The token's role does not allow that")                          \
    X(BAD_SIGNATURE, 401, 0, "The signature is missing, wrong or too old")                \
    X(BAD_PARAMETER, 422, 0, "A query parameter is malformed or out of range")            \
    X(UNREADABLE, 409, 0, "The dead letter cannot be read, only written off")             \
    X(METHOD_NOT_ALLOWED, 405, 0, "The method is not allowed here")                       \
    X(BODY_TOO_LARGE, 413, 0, "The body is too large")                                    \
    X(UNSUPPORTED_MEDIA_TYPE, 415, 0, "The body must be application/json")                \
    X(UNSUPPORTED_ENCODING, 415, 0, "The body must not be compressed or encoded")         \
    X(INVALID, 422, 0, "A value is out of range")                                         \
    X(BAD_IDEMPOTENCY_KEY, 422, 0, "The Idempotency-Key is malformed or sent twice")      \
    X(IDEMPOTENCY_KEY_REUSED, 422, 0, "This key was used for another request")            \
    X(INTERNAL, 500, 0, "Internal error")                                                 \
    X(NOT_IMPLEMENTED, 501, 0, "The method is not known")

enum sk_verdict {
#define SK_VERDICT_ENUM(name, status, retry_after_ms, title) SK_VERDICT_##name,
    SK_VERDICTS(SK_VERDICT_ENUM)
#undef SK_VERDICT_ENUM
        SK_VERDICT_COUNT,
    SK_VERDICT_OK = SK_VERDICT_COUNT // no error so far: not an answer, and not in the list
};

// Any thread. The four after the first return constants.
enum sk_verdict sk_verdict_of_purchase(enum sk_purchase_code code); // the one of the same name
const char *sk_verdict_code(enum sk_verdict verdict);
const char *sk_verdict_title(enum sk_verdict verdict);
unsigned sk_verdict_http_status(enum sk_verdict verdict);
// When to retry if nothing better is known; 0: a retry does not help.
unsigned sk_verdict_retry_after_ms(enum sk_verdict verdict);

#endif
