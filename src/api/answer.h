// Everything that is answered: refusals as RFC 9457 problem details, documents, orders. Each call answers its request.
#ifndef SK_API_ANSWER_H
#define SK_API_ANSWER_H

#include "order_json.h"
#include "request.h"
#include "sale.h"
#include "verdict.h"

struct json_t;
struct sk_cors;
struct sk_answers;
struct sk_outcome;

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

// A refusal with more to say: order_id, left (where the verdict has one) and status, which is the member `state` since
// a problem's `status` is HTTP's. Retry-After is rounded up to seconds.
void sk_answer_problem(const struct sk_answers *answers, struct sk_request *request, const struct sk_outcome *outcome);
// One with the member `errors`: a list, borrowed.
void sk_answer_errors(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict,
                      struct json_t *errors);
// One with Allow.
void sk_answer_allow(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict,
                     const char *allow);

// 200: there is nothing to say beyond that.
void sk_answer_ok(const struct sk_answers *answers, struct sk_request *request);

// An outcome's document; with its version as ETag, and a Link to the list's next page: the request's target with
// another cursor, unless that would be too long.
void sk_answer_document(const struct sk_answers *answers, struct sk_request *request, const struct sk_outcome *outcome);

// A stream, whose head this is: taken.
void sk_answer_stream(const struct sk_answers *answers, struct sk_request *request, struct sk_response *head);

// 204 to a browser that asks what a page of one of the origins may send. False: it does not ask, or is of none of them.
bool sk_answer_preflight(const struct sk_answers *answers, struct sk_request *request);

// A text of another media type. `type` is a constant.
void sk_answer_text(const struct sk_answers *answers, struct sk_request *request, const char *type, const char *text);

// A voucher that was created: the same, with its place.
void sk_answer_voucher(const struct sk_answers *answers, struct sk_request *request, const struct sk_outcome *outcome);

struct sk_answer_order {
    struct sk_order_shown order;
    bool respond_async; // as the client asked for it
};

// An order that was placed or accepted just now: PLACED or ACCEPTED.
void sk_answer_order(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict,
                     const struct sk_answer_order *order);

// The first answer of an order again: 202 if its status is told and is "pending", else 201.
void sk_answer_repeated(const struct sk_answers *answers, struct sk_request *request, const char *order_id,
                        const struct sk_outcome *outcome);

// A refusal that ends its connection.
void sk_answer_last(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict);

#endif
