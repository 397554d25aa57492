// Tickets: given out here, and looked at before a purchase. What one takes is asked of the catalogue (api/offer.h)
// and checked when that is known.
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "fields.h"
#include "handlers.h"
#include "offer.h"
#include "purchase.h"
#include "text.h"
#include "ticket.h"

enum { CHALLENGE_TTL_S = 300, NONCE_MAX = 64, BODY_SIZE = 256 };

static enum sk_verdict handle_check_work(const struct sk_context *context, struct sk_request *request,
                                         const struct sk_voucher *voucher);
static enum sk_verdict handle_check_solution(const struct sk_context *context, struct sk_request *request,
                                             const struct sk_voucher *voucher, const json_t *challenge,
                                             const json_t *nonce);
static void handle_give_ticket(const struct sk_context *context, struct sk_request *request,
                               const struct sk_voucher *voucher);
static void handle_give_challenge(const struct sk_context *context, struct sk_request *request,
                                  const struct sk_voucher *voucher);

static uint32_t handle_now_s(void)
{
    return (uint32_t)(sk_wall_ms() / 1000);
}

// ---- sent with a purchase ----

// One that is sent twice is none that counts.
void sk_handle_read_ticket(const struct sk_context *context, const struct sk_request *request,
                           const struct sk_call *call, struct sk_ask *ask)
{
    struct sk_ticket ticket = {.kind = SK_TICKET_PURCHASE, .voucher_id = call->voucher_id, .user = call->user};
    unsigned count;
    if (!sk_tickets_on(context->tickets))
        return;
    const char *text = sk_request_header(request, "x-seckill-ticket", &count);
    ask->ticket = count == 0 ? SK_ASK_NO_TICKET : SK_ASK_BAD_TICKET;
    if (count != 1)
        return;
    uint32_t now_s = handle_now_s();
    if (sk_tickets_check(context->tickets, text, now_s, &ticket)) {
        ask->ticket = SK_ASK_GOOD_TICKET;
        ask->offer = ticket.offer;
    } else if (ticket.expires_s > 0 && ticket.expires_s <= now_s) {
        ask->ticket = SK_ASK_EXPIRED_TICKET;
    }
}

// ---- given out ----

void sk_handle_ticket(const struct sk_context *context, struct sk_request *request)
{
    if (sk_tickets_on(context->tickets))
        sk_query_offer(context->control, sk_call_of(request)->voucher_id, request->handle);
    else
        sk_answer_refusal(context->answers, request, SK_VERDICT_TICKETS_OFF);
}

void sk_handle_offer(const struct sk_context *context, struct sk_request *request, const struct sk_voucher *voucher)
{
    if (request->method == SK_METHOD_GET)
        handle_give_challenge(context, request, voucher);
    else if (handle_check_work(context, request, voucher) == SK_VERDICT_OK)
        handle_give_ticket(context, request, voucher);
}

static void handle_make(const struct sk_context *context, struct sk_request *request, enum sk_ticket_kind kind,
                        const struct sk_voucher *voucher, uint32_t expires_s, char out[SK_TICKET_SIZE])
{
    const struct sk_ticket ticket = {.kind = kind,
                                     .voucher_id = voucher->id,
                                     .user = sk_call_of(request)->user,
                                     .offer = voucher->offer,
                                     .expires_s = expires_s};
    (void)sk_tickets_make(context->tickets, &ticket, out); // there is a secret
}

static void handle_give_ticket(const struct sk_context *context, struct sk_request *request,
                               const struct sk_voucher *voucher)
{
    char text[SK_TICKET_SIZE], expires_at[SK_TIME_SIZE], body[BODY_SIZE];
    uint32_t expires_s = handle_now_s() + (uint32_t)context->options->identity->ticket_ttl_s;
    handle_make(context, request, SK_TICKET_PURCHASE, voucher, expires_s, text);
    sk_text_put_time(expires_s * INT64_C(1000), expires_at);
    (void)snprintf(body, sizeof body, "{\"ticket\":\"%s\",\"expires_at\":\"%s\"}\n", text, expires_at);
    sk_answer_text(context->answers, request, "application/json", body);
}

static void handle_give_challenge(const struct sk_context *context, struct sk_request *request,
                                  const struct sk_voucher *voucher)
{
    char text[SK_TICKET_SIZE], expires_at[SK_TIME_SIZE], body[BODY_SIZE] = "{\"work_bits\":0}\n";
    uint32_t expires_s = handle_now_s() + CHALLENGE_TTL_S;
    if (voucher->work_bits > 0) {
        handle_make(context, request, SK_TICKET_CHALLENGE, voucher, expires_s, text);
        sk_text_put_time(expires_s * INT64_C(1000), expires_at);
        (void)snprintf(body, sizeof body, "{\"work_bits\":%u,\"challenge\":\"%s\",\"expires_at\":\"%s\"}\n",
                       voucher->work_bits, text, expires_at);
    }
    sk_answer_text(context->answers, request, "application/json", body);
}

// ---- the work ----

// FOUND: it is done, or there is none. Else the request was refused.
static enum sk_verdict handle_check_work(const struct sk_context *context, struct sk_request *request,
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
            verdict = handle_check_solution(context, request, voucher, values[CHALLENGE], values[NONCE]);
    }
    if (verdict != SK_VERDICT_OK)
        sk_handle_bad_body(context, request, verdict, &read);
    sk_fields_free(&read);
    return verdict;
}

static enum sk_verdict handle_check_solution(const struct sk_context *context, struct sk_request *request,
                                             const struct sk_voucher *voucher, const json_t *challenge,
                                             const json_t *nonce)
{
    struct sk_ticket ticket = {
        .kind = SK_TICKET_CHALLENGE, .voucher_id = voucher->id, .user = sk_call_of(request)->user};
    bool good = sk_tickets_check(context->tickets, json_string_value(challenge), handle_now_s(), &ticket) &&
                ticket.offer == voucher->offer &&
                sk_work_done(json_string_value(challenge), json_string_value(nonce), voucher->work_bits);
    return good ? SK_VERDICT_OK : SK_VERDICT_WORK_INVALID;
}
