// Issues tickets, and checks them before a purchase. The catalogue has the work that a ticket takes.
#include "tickets.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "fields.h"
#include "params.h"
#include "purchase.h"
#include "text.h"
#include "ticket.h"

enum { CHALLENGE_TTL_S = 300, NONCE_MAX = 64, BODY_SIZE = 256 };

static void ticket_on_offer(const struct sk_context *context, struct sk_request *request,
                            const struct sk_answer *answer);
static enum sk_verdict ticket_check_work(const struct sk_context *context, struct sk_request *request,
                                         const struct sk_voucher *voucher);
static enum sk_verdict ticket_check_solution(const struct sk_context *context, struct sk_request *request,
                                             const struct sk_voucher *voucher, const json_t *challenge,
                                             const json_t *nonce);
static void ticket_give_ticket(const struct sk_context *context, struct sk_request *request,
                               const struct sk_voucher *voucher);
static void ticket_give_challenge(const struct sk_context *context, struct sk_request *request,
                                  const struct sk_voucher *voucher);

static uint32_t ticket_now_s(void)
{
    return (uint32_t)(sk_wall_ms() / 1000);
}

// ---- sent with a purchase ----

// Two tickets count as a bad one.
void sk_ticket_read(const struct sk_context *context, const struct sk_request *request, const struct sk_call *call,
                    struct sk_ask *ask)
{
    struct sk_ticket ticket = {.kind = SK_TICKET_PURCHASE, .voucher_id = call->voucher_id, .user = call->user};
    unsigned count;
    if (!sk_tickets_on(context->tickets))
        return;
    const char *text = sk_request_header(request, "x-seckill-ticket", &count);
    ask->ticket = count == 0 ? SK_ASK_NO_TICKET : SK_ASK_BAD_TICKET;
    if (count != 1)
        return;
    uint32_t now_s = ticket_now_s();
    if (sk_tickets_check(context->tickets, text, now_s, &ticket)) {
        ask->ticket = SK_ASK_GOOD_TICKET;
        ask->offer = ticket.offer;
    } else if (ticket.expires_s > 0 && ticket.expires_s <= now_s) {
        ask->ticket = SK_ASK_EXPIRED_TICKET;
    }
}

// ---- issuing tickets ----

void sk_handle_ticket(const struct sk_context *context, struct sk_request *request)
{
    struct sk_call *call = sk_call_of(request);
    if (!sk_tickets_on(context->tickets)) {
        sk_answer_refusal(context->answers, request, SK_VERDICT_TICKETS_OFF);
        return;
    }
    call->on_answer = ticket_on_offer;
    sk_check_offer(context->control, call->voucher_id, request->handle);
}

static void ticket_on_offer(const struct sk_context *context, struct sk_request *request,
                            const struct sk_answer *answer)
{
    const struct sk_voucher *voucher =
        answer->verdict == SK_VERDICT_FOUND
            ? sk_catalogue_find(context->control->sale->catalogue, sk_call_of(request)->voucher_id)
            : NULL;
    if (voucher == NULL)
        sk_answer_send(context->answers, request, answer);
    else if (request->method == SK_METHOD_GET)
        ticket_give_challenge(context, request, voucher);
    else if (ticket_check_work(context, request, voucher) == SK_VERDICT_OK)
        ticket_give_ticket(context, request, voucher);
}

static void ticket_make(const struct sk_context *context, struct sk_request *request, enum sk_ticket_kind kind,
                        const struct sk_voucher *voucher, uint32_t expires_s, char out[SK_TICKET_SIZE])
{
    const struct sk_ticket ticket = {.kind = kind,
                                     .voucher_id = voucher->id,
                                     .user = sk_call_of(request)->user,
                                     .offer = voucher->offer,
                                     .expires_s = expires_s};
    (void)sk_tickets_make(context->tickets, &ticket, out); // there is a secret
}

static void ticket_give_ticket(const struct sk_context *context, struct sk_request *request,
                               const struct sk_voucher *voucher)
{
    char text[SK_TICKET_SIZE], expires_at[SK_TIME_SIZE], body[BODY_SIZE];
    uint32_t expires_s = ticket_now_s() + (uint32_t)context->options->identity->ticket_ttl_s;
    ticket_make(context, request, SK_TICKET_PURCHASE, voucher, expires_s, text);
    sk_text_put_time(expires_s * INT64_C(1000), expires_at);
    (void)snprintf(body, sizeof body, "{\"ticket\":\"%s\",\"expires_at\":\"%s\"}\n", text, expires_at);
    sk_answer_send(context->answers, request, &(struct sk_answer){.verdict = SK_VERDICT_FOUND, .body = body});
}

static void ticket_give_challenge(const struct sk_context *context, struct sk_request *request,
                                  const struct sk_voucher *voucher)
{
    char text[SK_TICKET_SIZE], expires_at[SK_TIME_SIZE], body[BODY_SIZE] = "{\"work_bits\":0}\n";
    uint32_t expires_s = ticket_now_s() + CHALLENGE_TTL_S;
    if (voucher->work_bits > 0) {
        ticket_make(context, request, SK_TICKET_CHALLENGE, voucher, expires_s, text);
        sk_text_put_time(expires_s * INT64_C(1000), expires_at);
        (void)snprintf(body, sizeof body, "{\"work_bits\":%u,\"challenge\":\"%s\",\"expires_at\":\"%s\"}\n",
                       voucher->work_bits, text, expires_at);
    }
    sk_answer_send(context->answers, request, &(struct sk_answer){.verdict = SK_VERDICT_FOUND, .body = body});
}

// ---- the work ----

// OK: the work is done, or none is needed. Else the request was refused.
static enum sk_verdict ticket_check_work(const struct sk_context *context, struct sk_request *request,
                                         const struct sk_voucher *voucher)
{
    enum { CHALLENGE, NONCE, MEMBERS };
    static const struct sk_field members[MEMBERS] = {
        [CHALLENGE] = {.name = "challenge", .detail = "must be a string"},
        [NONCE] = {.name = "nonce", .detail = "must be a string of 1 to 64 bytes"},
    };
    struct sk_fields read = {0};
    const json_t *values[MEMBERS];
    enum sk_verdict verdict = voucher->work_bits == 0 ? SK_VERDICT_OK : SK_VERDICT_WORK_REQUIRED;
    if (request->body.len > 0 && !sk_request_is_json(request)) {
        verdict = SK_VERDICT_UNSUPPORTED_MEDIA_TYPE;
    } else if (request->body.len > 0) {
        const char *text;
        if (sk_fields_open(&read, request->body.data, request->body.len, members, MEMBERS, values)) {
            if (values[CHALLENGE] != NULL && !sk_fields_text(values[CHALLENGE], 0, SIZE_MAX, &text))
                sk_fields_refuse(&read, members[CHALLENGE].name, members[CHALLENGE].detail);
            if (values[NONCE] != NULL && !sk_fields_text(values[NONCE], 1, NONCE_MAX, &text))
                sk_fields_refuse(&read, members[NONCE].name, members[NONCE].detail);
        }
        verdict = sk_fields_end(&read);
        if (verdict == SK_VERDICT_OK && voucher->work_bits > 0)
            verdict = ticket_check_solution(context, request, voucher, values[CHALLENGE], values[NONCE]);
    }
    if (verdict != SK_VERDICT_OK)
        sk_call_refuse_body(context, request, verdict, &read);
    sk_fields_free(&read);
    return verdict;
}

static enum sk_verdict ticket_check_solution(const struct sk_context *context, struct sk_request *request,
                                             const struct sk_voucher *voucher, const json_t *challenge,
                                             const json_t *nonce)
{
    struct sk_ticket ticket = {
        .kind = SK_TICKET_CHALLENGE, .voucher_id = voucher->id, .user = sk_call_of(request)->user};
    bool good = sk_tickets_check(context->tickets, json_string_value(challenge), ticket_now_s(), &ticket) &&
                ticket.offer == voucher->offer &&
                sk_work_done(json_string_value(challenge), json_string_value(nonce), voucher->work_bits);
    return good ? SK_VERDICT_OK : SK_VERDICT_WORK_INVALID;
}

// ---- whether the voucher is on offer ----
//
// The catalogue answers at once. A voucher that it does not have is searched for, as for a purchase.

struct offer_read {
    struct sk_query query;
    int64_t id;
};

static void offer_start(struct sk_query *query);
static void offer_on_found(struct sk_query *query, enum sk_found found);
static void offer_on_retired(void *arg, const struct sk_result *result);

void sk_check_offer(struct sk_control *control, int64_t voucher_id, uint64_t handle)
{
    char key[SK_QUERY_KEY_SIZE];
    if (sk_catalogue_find(control->sale->catalogue, voucher_id) != NULL) {
        sk_control_answer(control, handle, &(struct sk_answer){.verdict = SK_VERDICT_FOUND});
        return;
    }
    (void)snprintf(key, sizeof key, "offer:%" PRId64, voucher_id);
    struct offer_read *read = sk_query_new(control, SK_PG_QUERIES, handle, key, sizeof *read, offer_start);
    if (read == NULL)
        return;
    read->id = voucher_id;
    sk_query_start(&read->query);
}

static void offer_start(struct sk_query *query)
{
    sk_query_find(query, ((struct offer_read *)query)->id, offer_on_found);
}

static void offer_on_found(struct sk_query *query, enum sk_found found)
{
    char id[SK_PARAM_NUMBER_SIZE];
    const char *params[] = {sk_params_number(id, query->finding.id)};
    if (found == SK_FOUND_LISTED)
        sk_query_end(query, SK_VERDICT_FOUND, NULL);
    else if (found == SK_FOUND_OLD)
        sk_query_ask_pg(query, SK_STATEMENT_FIND_VOUCHER, 1, params, offer_on_retired);
    else
        sk_query_end(query, SK_VERDICT_UNKNOWN_VOUCHER, NULL);
}

static void offer_on_retired(void *arg, const struct sk_result *result)
{
    struct sk_query *query = arg;
    if (result->rows == NULL)
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
    else
        sk_query_end(query, sk_rows_count(result->rows) == 0 ? SK_VERDICT_UNKNOWN_VOUCHER : SK_VERDICT_ENDED, NULL);
}
