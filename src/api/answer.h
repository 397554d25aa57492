// Makes and sends all answers: refusals as RFC 9457 problem details, documents, orders. Each call answers its request,
// and each answer has a verdict.
#ifndef SK_API_ANSWER_H
#define SK_API_ANSWER_H

#include <stddef.h>
#include <stdint.h>

#include "order.h"
#include "order_json.h"
#include "purchase_result.h"
#include "request.h"
#include "verdict.h"

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
    int64_t voucher_id;      // that order's, likewise; 0: none
    const char *status;      // of an order or a voucher, if known; a problem's member `state`
    bool no_rows;            // of a list: its page is empty
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

// The answer to a purchase: PLACED or ACCEPTED. `respond_async`: the client asked for it.
void sk_answer_order(const struct sk_answers *answers, struct sk_request *request, enum sk_verdict verdict,
                     const struct sk_order_shown *order, bool respond_async);

// Repeats the first answer of an order; `answer` has its document. 202 if its status is known, and
// "pending" or "waiting", else 201.
void sk_answer_repeated(const struct sk_answers *answers, struct sk_request *request, const char *order_id,
                        const struct sk_answer *answer);

// FOUND with this text, or OVERLOADED if memory for it was short. Frees it.
void sk_answer_text(const struct sk_answers *answers, struct sk_request *request, struct sk_buf *text);

#endif
