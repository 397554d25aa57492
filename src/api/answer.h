// Everything that is answered: refusals as RFC 9457 problem details, documents, orders. Each call answers its request.
#ifndef SK_API_ANSWER_H
#define SK_API_ANSWER_H

#include "order_json.h"
#include "request.h"
#include "verdict.h"

// A problem's type is this and its code.
#define SK_PROBLEM_TYPE "urn:seckill:problem:"

struct json_t;
struct sk_cors;
struct sk_answers;

// In which a call ends. Pointers are borrowed for the call that gets it.
struct sk_answer {
    enum sk_verdict verdict;
    const char *body;        // NULL: a problem, made of the verdict and of the members below
    const char *type;        // of the body, a constant; NULL: JSON
    const char *location;    // NULL: none
    const char *next;        // the cursor of the list's next page; NULL: there is none
    int64_t version;         // for ETag; 0: none
    const char *order_id;    // member of a problem; NULL: none
    const char *status;      // of an order or a voucher, if it is known; a problem's member `state`
    int64_t left;            // NOT_ENOUGH, BELOW_SOLD: units, a problem's member
    uint64_t retry_after_ms; // 0: the verdict's own
};

// The loop's thread, as all functions. NULL: out of memory. At first every answer ends its connection. Borrows cors:
// where it has origins, each answer says what their pages may do with it.
struct sk_answers *sk_answers_open(const struct sk_cors *cors);
void sk_answers_close(struct sk_answers *answers); // NULL is fine

// Answers to requests with a limit (request.h) say what it leaves, and `policy`, which is borrowed, in RateLimit and
// RateLimit-Policy.
void sk_answers_limit(struct sk_answers *answers, const char *policy);

// Whether connections stay open after their answers.
void sk_answers_keep_alive(struct sk_answers *answers, bool keep_alive);

// A refusal as it is most often: Retry-After is the verdict's own, so every 503 has one.
void sk_answer_refusal(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict);

// The answer as it stands. With `next` comes a Link to the list's next page: the request's target with another cursor,
// unless that would be too long. Retry-After is rounded up to seconds.
void sk_answer_send(const struct sk_answers *answers, struct sk_request *request, const struct sk_answer *answer);

// A refusal with the member `errors`: a list, borrowed.
void sk_answer_errors(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict,
                      struct json_t *errors);
// One with Allow.
void sk_answer_allow(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict,
                     const char *allow);

// 200: there is nothing to say beyond that.
void sk_answer_ok(const struct sk_answers *answers, struct sk_request *request);

// A stream, whose head this is: taken.
void sk_answer_stream(const struct sk_answers *answers, struct sk_request *request, struct sk_response *head);

// 204 to a browser that asks what a page of one of the origins may send. False: it does not ask, or is of none of them.
bool sk_answer_preflight(const struct sk_answers *answers, struct sk_request *request);

struct sk_answer_order {
    struct sk_order_shown order;
    bool respond_async; // as the client asked for it
};

// An order that was placed or accepted just now: PLACED or ACCEPTED.
void sk_answer_order(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict,
                     const struct sk_answer_order *order);

// The first answer of an order again, whose document this is: 202 if its status is told and is "pending", else 201.
void sk_answer_repeated(const struct sk_answers *answers, struct sk_request *request, const char *order_id,
                        const struct sk_answer *answer);

// A refusal that ends its connection.
void sk_answer_last(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict);

#endif
