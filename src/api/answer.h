// Makes and sends all answers: refusals as RFC 9457 problem details, documents, orders. Each call answers its request,
// and each answer has a verdict.
#ifndef SK_API_ANSWER_H
#define SK_API_ANSWER_H

#include <stddef.h>
#include <stdint.h>

#include "order.h"
#include "purchase_result.h"
#include "request.h"

// ---- verdicts ----
//
// The possible outcomes of a request: one list with the stable code, the HTTP status, Retry-After in ms and the title
// of each. A 503 has a Retry-After, unless only another configuration helps. Codes are part of the interface: they are
// added, never renamed.

#define SK_VERDICTS(X)                                                                \
    /* orders */                                                                      \
    X(PLACED, 201, 0, "The order is committed")                                       \
    X(ACCEPTED, 202, 0, "The order is accepted and will be confirmed or refused")     \
    X(SOLD_OUT, 409, 0, "Sold out")                                                   \
    X(ALREADY_ORDERED, 409, 0, "You already have an order for this voucher")          \
    X(NOT_STARTED, 409, 0, "The sale has not started")                                \
    X(ENDED, 409, 0, "The sale has ended")                                            \
    X(PAUSED, 409, 0, "The sale is paused")                                           \
    X(NOT_ENOUGH, 409, 0, "Fewer units are left than were asked for")                 \
    X(OFFER_CHANGED, 409, 0, "The price has changed since the request was checked")   \
    X(TOO_MANY_ORDERS, 409, 0, "You have reached the order limit of this voucher")    \
    X(PENDING, 409, 1000, "The order is not settled yet")                             \
    X(WRONG_STATE, 409, 0, "The current state does not allow that")                   \
    X(ALREADY_PAID, 409, 0, "The order is already paid: refund this payment")         \
    X(REFERENCE_USED, 409, 0, "This payment reference belongs to another order")      \
    X(UNKNOWN_PAYMENT, 409, 0, "The order has no payment with this reference")        \
    X(WRONG_AMOUNT, 422, 0, "The amount or the currency differs from the order")      \
    X(ARCHIVED, 410, 0, "The sale is over, and its orders have been archived")        \
    X(UNKNOWN_VOUCHER, 404, 0, "No such voucher")                                     \
    X(TICKET_REQUIRED, 403, 0, "This voucher requires a purchase ticket")             \
    X(TICKET_INVALID, 403, 0, "The ticket is not valid for this purchase")            \
    X(WORK_REQUIRED, 403, 0, "A ticket for this voucher requires a proof of work")    \
    X(WORK_INVALID, 403, 0, "The proof of work is not valid")                         \
    X(TICKETS_OFF, 503, 0, "Tickets are off: no ticket secret is configured here")    \
    X(RATE_LIMITED, 429, 1000, "Too many requests")                                   \
    X(LOADING, 503, 1000, "The voucher is being loaded")                              \
    X(OVERLOADED, 503, 1000, "Too many requests are waiting")                         \
    X(UNAVAILABLE, 503, 1000, "A store is not available; the outcome may be unknown") \
    X(SHUTTING_DOWN, 503, 1000, "This instance is shutting down")                     \
    /* documents */                                                                   \
    X(FOUND, 200, 0, "Found")                                                         \
    X(CREATED, 201, 0, "Created")                                                     \
    /* requests */                                                                    \
    X(BAD_VOUCHER_ID, 400, 0, "A voucher id is a decimal number from 1 to 2^63-1")    \
    X(BAD_ORDER_ID, 400, 0, "An order id is a UUID")                                  \
    X(BAD_REQUEST, 400, 0, "The request is malformed")                                \
    X(BAD_JSON, 400, 0, "The body is not valid JSON of the expected form")            \
    X(UNAUTHENTICATED, 401, 0, "The caller is not identified")                        \
    X(ADMIN_OFF, 403, 0, "Admin calls are off: no admin token is configured")         \
    X(NOT_FOUND, 404, 0, "No such resource")                                          \
    X(STARTED, 409, 0, "The sale has started or has orders: terms are fixed")         \
    X(BELOW_SOLD, 409, 0, "More units are sold than would be left")                   \
    X(VERSION_CHANGED, 412, 0, "The voucher has changed since that version")          \
    X(CROSS_SITE, 403, 0, "A page of another site may not do that")                   \
    X(FORBIDDEN, 403, 0, "The token's role does not allow that")                      \
    X(BAD_SIGNATURE, 401, 0, "The signature is missing, wrong or too old")            \
    X(BAD_PARAMETER, 422, 0, "A query parameter is malformed or out of range")        \
    X(UNREADABLE, 409, 0, "The dead letter cannot be read, only written off")         \
    X(METHOD_NOT_ALLOWED, 405, 0, "The method is not allowed here")                   \
    X(BODY_TOO_LARGE, 413, 0, "The body is too large")                                \
    X(UNSUPPORTED_MEDIA_TYPE, 415, 0, "The body must be application/json")            \
    X(UNSUPPORTED_ENCODING, 415, 0, "The body must not be compressed or encoded")     \
    X(INVALID, 422, 0, "A value is out of range")                                     \
    X(BAD_IDEMPOTENCY_KEY, 422, 0, "The Idempotency-Key is malformed or sent twice")  \
    X(IDEMPOTENCY_KEY_REUSED, 422, 0, "This key was used for another request")        \
    X(INTERNAL, 500, 0, "Internal error")                                             \
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

// ---- an order in JSON ----
//
// While only its request or Redis knows it. PostgreSQL writes its own orders in the same form
// (order_json() in sql/).

struct sk_order_shown {
    const char *id, *user; // borrowed
    int64_t voucher_id;
    unsigned quantity;
    const struct sk_price *price; // per unit; borrowed; NULL: not committed yet, or not known
    const char *status;           // at most SK_STATUS_MAX
    int64_t created_ms;           // Unix ms, by PostgreSQL's clock; 0: not known yet
    int64_t expires_ms;           // 0: never, or not known yet
};

// Room for the longest order and one more character.
enum { SK_ORDER_JSON_SIZE = 480, SK_STATUS_MAX = 16 };

// Any thread. Writes the JSON text and NUL, and returns its length. The texts need no escaping: a UUID, a user
// (text.h), and a constant.
size_t sk_order_json(char out[SK_ORDER_JSON_SIZE], const struct sk_order_shown *order);

// ---- answers ----

// The type of a problem is this prefix and its code.
#define SK_PROBLEM_TYPE "urn:seckill:problem:"

struct json_t;
struct sk_cors;
struct sk_answers;

// The answer in which a call ends. Its pointers are borrowed for the call that gets it.
struct sk_answer {
    enum sk_verdict verdict;
    const char *body;        // NULL: a problem, made of the verdict and the members below
    const char *type;        // media type of the body, a constant; NULL: JSON
    const char *location;    // NULL: none
    const char *next;        // cursor of the list's next page; NULL: there is none
    int64_t version;         // for ETag; 0: none
    const char *order_id;    // a problem's member; NULL: none
    const char *status;      // of an order or a voucher, if known; a problem's member `state`
    int64_t left;            // units, a problem's member; only NOT_ENOUGH and BELOW_SOLD
    const char *limit;       // the setting whose limit was reached, a constant; a problem's member; NULL: none
    const char *parameter;   // of the query, which is wrong: a problem's member `errors`; needs no escaping; NULL: none
    const char *member;      // the same of the body
    const char *detail;      // what is wrong with either, or, without both, with the request; needs no escaping
    const char *challenge;   // WWW-Authenticate of a 401; NULL: Bearer
    uint64_t retry_after_ms; // 0: the verdict's own
};

// The loop's thread, as all functions. NULL: out of memory. Until sk_answers_keep_alive() every answer closes its
// connection. Borrows cors: if it has origins, each answer carries the CORS headers for them.
struct sk_answers *sk_answers_open(const struct sk_cors *cors);
void sk_answers_close(struct sk_answers *answers); // NULL is fine

// Adds RateLimit and RateLimit-Policy to answers of requests with a limit (request.h). `policy` is the value of
// RateLimit-Policy; borrowed.
void sk_answers_limit(struct sk_answers *answers, const char *policy);

// Whether connections stay open after their answers.
void sk_answers_keep_alive(struct sk_answers *answers, bool keep_alive);

// The usual refusal, without further members. Retry-After is the verdict's own.
void sk_answer_refusal(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict);

// Sends the answer. With `next` it carries a Link to the list's next page: the request's target with that cursor. A
// Link that would be too long is left out. Retry-After is rounded up to seconds.
void sk_answer_send(const struct sk_answers *answers, struct sk_request *request, const struct sk_answer *answer);

// A refusal for a parameter of the query, as in struct sk_answer. False, so that a reader can return it.
bool sk_answer_parameter(const struct sk_answers *answers, struct sk_request *request, const char *parameter,
                         const char *detail);
// A refusal with the member `errors`: a list, borrowed.
void sk_answer_errors(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict,
                      struct json_t *errors);
// A refusal with the field Allow.
void sk_answer_allow(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict,
                     const char *allow);

// 200 with the status "ok".
void sk_answer_ok(const struct sk_answers *answers, struct sk_request *request);

// 204: nothing is to come.
void sk_answer_nothing(const struct sk_answers *answers, struct sk_request *request);

// Begins a stream with this head. Takes the head.
void sk_answer_stream(const struct sk_answers *answers, struct sk_request *request, struct sk_response *head);

// Answers 204 to a CORS preflight from one of the origins. False: it is no preflight, or of no such origin; not
// answered.
bool sk_answer_preflight(const struct sk_answers *answers, struct sk_request *request);

struct sk_answer_order {
    struct sk_order_shown order;
    bool respond_async; // the client asked for it
};

// The answer to a purchase: PLACED or ACCEPTED.
void sk_answer_order(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict,
                     const struct sk_answer_order *order);

// Repeats the first answer of an order; `answer` has its document. 202 if its status is known and "pending", else 201.
void sk_answer_repeated(const struct sk_answers *answers, struct sk_request *request, const char *order_id,
                        const struct sk_answer *answer);

// FOUND with this text, or OVERLOADED if memory for it was short. Frees it.
void sk_answer_text(const struct sk_answers *answers, struct sk_request *request, struct sk_buf *text);

// A refusal that closes its connection.
void sk_answer_last(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict);

#endif
