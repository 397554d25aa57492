// Issues tickets, and checks them before a purchase. The catalogue has the work that a ticket takes.
#include "ticket_calls.h"

#include <jansson.h>
#include <stdio.h>

#include "call.h"
#include "catalogue.h"
#include "clock.h"
#include "text.h"
#include "ticket.h"
#include "verdict.h"
#include "vouchers.h"

enum { CHALLENGE_TTL_S = 300, NONCE_MAX = 64, BODY_SIZE = 256 };

static uint32_t ticket_now_s(void)
{
    return (uint32_t)(sk_wall_ms() / 1000);
}

// ---- sent with a purchase ----

// Two tickets count as a bad one.
void sk_ticket_read(const struct sk_context *context, const struct sk_request *request, const struct sk_call *call,
                    struct sk_wish *wish)
{
    unsigned count;
    if (!sk_tickets_on(context->tickets))
        return;
    const char *text = sk_request_header(request, "x-seckill-ticket", &count);
    wish->ticket = count == 0 ? SK_ASK_NO_TICKET : SK_ASK_BAD_TICKET;
    if (count != 1)
        return;
    uint32_t now_s = ticket_now_s();
    struct sk_ticket ticket = {.kind = SK_TICKET_PURCHASE, .voucher_id = call->voucher_id, .user = call->user};
    if (sk_tickets_check(context->tickets, text, now_s, &ticket)) {
        wish->ticket = SK_ASK_GOOD_TICKET;
        wish->offer = ticket.offer;
    } else if (ticket.expires_s > 0 && ticket.expires_s <= now_s) {
        wish->ticket = SK_ASK_EXPIRED_TICKET;
    }
}

// ---- issuing tickets ----

// A challenge is given only where there is work.
static void ticket_give(const struct sk_context *context, struct sk_request *request, enum sk_ticket_kind kind,
                        const struct sk_voucher *voucher)
{
    char text[SK_TICKET_SIZE], expires_at[SK_TIME_SIZE], body[BODY_SIZE] = "{\"work_bits\":0}\n";
    int64_t ttl_s = kind == SK_TICKET_PURCHASE ? context->options->identity->ticket_ttl_s : CHALLENGE_TTL_S;
    const struct sk_ticket ticket = {.kind = kind,
                                     .voucher_id = voucher->id,
                                     .user = sk_call_of(request)->user,
                                     .offer = voucher->offer,
                                     .expires_s = ticket_now_s() + (uint32_t)ttl_s};
    (void)sk_tickets_make(context->tickets, &ticket, text); // there is a secret
    sk_text_put_time(ticket.expires_s * INT64_C(1000), expires_at);
    if (kind == SK_TICKET_PURCHASE)
        (void)snprintf(body, sizeof body, "{\"ticket\":\"%s\",\"expires_at\":\"%s\"}\n", text, expires_at);
    else if (voucher->work_bits > 0)
        (void)snprintf(body, sizeof body, "{\"work_bits\":%u,\"challenge\":\"%s\",\"expires_at\":\"%s\"}\n",
                       voucher->work_bits, text, expires_at);
    sk_answer_send(context->answers, request, &(struct sk_answer){.verdict = SK_VERDICT_FOUND, .body = body});
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
    enum sk_verdict type = request->body.len == 0 ? SK_VERDICT_OK : sk_call_body_type(request);
    if (type != SK_VERDICT_OK) {
        verdict = type;
    } else if (request->body.len > 0) {
        const char *text;
        bool object = sk_fields_open(&read, request->body.data, request->body.len, members, MEMBERS, values);
        if (object) {
            sk_fields_check(&read, &members[CHALLENGE], values[CHALLENGE],
                            sk_fields_text(values[CHALLENGE], 0, SIZE_MAX, &text));
            sk_fields_check(&read, &members[NONCE], values[NONCE], sk_fields_text(values[NONCE], 1, NONCE_MAX, &text));
        }
        if (object && json_object_size(read.document) == 0) {
            sk_fields_free(&read); // as no body
        } else {
            verdict = sk_fields_end(&read);
            if (verdict == SK_VERDICT_OK && voucher->work_bits > 0)
                verdict = ticket_check_solution(context, request, voucher, values[CHALLENGE], values[NONCE]);
        }
    }
    (void)sk_call_body_good(context, request, verdict, &read);
    sk_fields_free(&read);
    return verdict;
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
    else if (!sk_tickets_on(context->tickets)) // the secret was taken away meanwhile
        sk_answer_refusal(context->answers, request, SK_VERDICT_TICKETS_OFF);
    else if (request->method == SK_METHOD_GET)
        ticket_give(context, request, SK_TICKET_CHALLENGE, voucher);
    else if (ticket_check_work(context, request, voucher) == SK_VERDICT_OK)
        ticket_give(context, request, SK_TICKET_PURCHASE, voucher);
}

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
