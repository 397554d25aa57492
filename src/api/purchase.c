// A voucher that is not in the catalogue is newer than it, retired, or made up. If it is retired, PostgreSQL knows its
// winners: a winner who repeats gets the same answer (P6), all others get ENDED. Once its orders are archived, the
// answer is ARCHIVED for all.
#include "purchase.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "accept.h"
#include "call.h"
#include "clock.h"
#include "hash.h"
#include "orders.h"
#include "params.h"
#include "probe.h"
#include "text.h"
#include "ticket.h"
#include "vouchers.h"

enum { COLUMN_STATE = 0, COLUMN_ORDER = 1 };

struct late_purchase {
    struct sk_query query;
    struct sk_ask ask;
    char user[SK_USER_SIZE]; // ask.user
};

static bool purchase_from(struct sk_control *control, struct sk_voucher *voucher, const struct sk_ask *ask,
                          uint64_t handle, struct sk_purchase_result *result);
static bool purchase_later(struct sk_control *control, const struct sk_ask *ask, uint64_t handle);
static void purchase_start(struct sk_query *query);
static void purchase_on_found(struct sk_query *query, enum sk_found found);
static void purchase_on_retired(void *arg, const struct sk_result *result);
static uint64_t purchase_fingerprint(const char *key);
static bool purchase_read_quantity(const struct sk_context *context, struct sk_request *request);
static void purchase_refuse_quantity(const struct sk_context *context, struct sk_request *request, int64_t limit);
static void purchase_on_expired(const struct sk_context *context, struct sk_request *request);
static void purchase_answer(const struct sk_context *context, struct sk_request *request,
                            const struct sk_purchase_result *result);
static void purchase_refuse(const struct sk_context *context, struct sk_request *request,
                            const struct sk_purchase_result *result);
static void purchase_answer_order(const struct sk_context *context, struct sk_request *request,
                                  const struct sk_purchase_result *result);
static void purchase_answer_again(const struct sk_context *context, struct sk_request *request, const char *order_id);
static void purchase_on_first_order(const struct sk_context *context, struct sk_request *request,
                                    const struct sk_answer *answer);

// ---- the call ----

void sk_handle_buy(const struct sk_context *context, struct sk_request *request)
{
    struct sk_call *call = sk_call_of(request);
    struct sk_purchase_result result;
    const char *key;
    call->respond_async =
        SK_REQUEST_MAY_HAVE(request, "prefer") && sk_request_header_any(request, "prefer", sk_prefer_async);
    call->quantity = 1;
    if (context->draining) {
        sk_answer_refusal(context->answers, request, SK_VERDICT_SHUTTING_DOWN);
    } else if (sk_call_read_key(context, request, &key) &&
               (request->body.len == 0 || purchase_read_quantity(context, request))) {
        struct sk_ask ask = {.voucher_id = call->voucher_id,
                             .user = call->user,
                             .quantity = call->quantity,
                             .key = key == NULL ? 0 : purchase_fingerprint(key),
                             .low_priority = call->respond_async};
        sk_ticket_read(context, request, call, &ask);
        if (!sk_purchase(context->control, &ask, request->handle, &result))
            purchase_answer(context, request, &result);
    }
}

// The fingerprint of a key; never 0.
static uint64_t purchase_fingerprint(const char *key)
{
    uint64_t hash = sk_hash(key, strlen(key));
    return hash == 0 ? 1 : hash;
}

// False: the request was answered.
static bool purchase_read_quantity(const struct sk_context *context, struct sk_request *request)
{
    static const struct sk_field members[] = {
        {.name = "quantity", .detail = "must be an integer from 1 to the limit", .optional = true}};
    struct sk_fields read;
    const json_t *value;
    int64_t quantity = 1;
    enum sk_verdict verdict = sk_call_body_type(request);
    if (verdict != SK_VERDICT_OK) {
        sk_answer_refusal(context->answers, request, verdict);
        return false;
    }
    if (sk_fields_open(&read, request->body.data, request->body.len, members, 1, &value) && value != NULL)
        sk_fields_check(&read, &members[0], value, sk_fields_integer(value, 1, SK_QUANTITY_MAX, &quantity));
    verdict = sk_fields_end(&read);
    bool good = sk_call_body_good(context, request, verdict, &read);
    if (good)
        sk_call_of(request)->quantity = (uint16_t)quantity;
    sk_fields_free(&read);
    return good;
}

// The quantity is above the voucher's limit.
static void purchase_refuse_quantity(const struct sk_context *context, struct sk_request *request, int64_t limit)
{
    char detail[64];
    (void)snprintf(detail, sizeof detail, "must be an integer from 1 to %" PRId64, limit);
    sk_answer_send(context->answers, request,
                   &(struct sk_answer){.verdict = SK_VERDICT_INVALID, .member = "quantity", .detail = detail});
}

// ---- the answer ----

void sk_purchase_on_result(const struct sk_context *context, struct sk_request *request,
                           const struct sk_purchase_result *result)
{
    struct sk_call *call = sk_call_of(request);
    if (result->code == SK_PURCHASE_ACCEPTED) {
        size_t len = strnlen(result->order_id, SK_UUID_CHARS);
        memcpy(call->order_id, result->order_id, len); // without printf: every winner comes here
        call->order_id[len] = '\0';
        call->on_expired = purchase_on_expired;
        if (!call->respond_async)
            return; // the commit or the deadline answers
    }
    purchase_answer(context, request, result);
}

static void purchase_on_expired(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_purchase_result accepted = {.code = SK_PURCHASE_ACCEPTED,
                                                .order_id = sk_call_of(request)->order_id};
    purchase_answer_order(context, request, &accepted);
}

static void purchase_answer(const struct sk_context *context, struct sk_request *request,
                            const struct sk_purchase_result *result)
{
    switch (result->code) {
    case SK_PURCHASE_PLACED:
    case SK_PURCHASE_ACCEPTED:
        purchase_answer_order(context, request, result);
        break;
    case SK_PURCHASE_INVALID:
        purchase_refuse_quantity(context, request, result->left);
        break;
    default:
        if (result->repeats)
            purchase_answer_again(context, request, result->order_id);
        else
            purchase_refuse(context, request, result);
    }
}

// Nearly all are as SOLD_OUT: without a word of their own.
static void purchase_refuse(const struct sk_context *context, struct sk_request *request,
                            const struct sk_purchase_result *result)
{
    enum sk_verdict verdict = sk_verdict_of_purchase(result->code);
    if (result->order_id == NULL && result->retry_after_ms == 0 && result->code != SK_PURCHASE_NOT_ENOUGH)
        sk_answer_refusal(context->answers, request, verdict);
    else
        sk_answer_send(context->answers, request,
                       &(struct sk_answer){.verdict = verdict,
                                           .order_id = result->order_id,
                                           .left = result->left,
                                           .retry_after_ms = result->retry_after_ms});
}

static void purchase_answer_order(const struct sk_context *context, struct sk_request *request,
                                  const struct sk_purchase_result *result)
{
    const struct sk_call *call = sk_call_of(request);
    const struct sk_answer_order order = {
        .order = {.id = result->order_id,
                  .user = call->user,
                  .voucher_id = call->voucher_id,
                  .quantity = call->quantity,
                  .status = result->code == SK_PURCHASE_ACCEPTED ? "pending" : "unpaid",
                  .price = result->price,
                  .created_ms = result->created_ms,
                  .expires_ms = result->expires_ms},
        .respond_async = call->respond_async,
    };
    sk_answer_order(context->answers, request, sk_verdict_of_purchase(result->code), &order);
}

// 201 again if the order is committed, and replicated as each commit must be; else 202.
static void purchase_answer_again(const struct sk_context *context, struct sk_request *request, const char *order_id)
{
    struct sk_call *call = sk_call_of(request);
    (void)snprintf(call->order_id, sizeof call->order_id, "%s", order_id);
    call->on_answer = purchase_on_first_order;
    sk_order_lookup_repeated(context->control, call->order_id, call->user, request->handle);
}

static void purchase_on_first_order(const struct sk_context *context, struct sk_request *request,
                                    const struct sk_answer *answer)
{
    if (answer->verdict == SK_VERDICT_FOUND)
        sk_answer_repeated(context->answers, request, sk_call_of(request)->order_id, answer);
    else
        sk_answer_send(context->answers, request, answer);
}

// ---- into the sale ----

bool sk_purchase(struct sk_control *control, const struct sk_ask *ask, uint64_t handle,
                 struct sk_purchase_result *result)
{
    const struct sk_sale *sale = control->sale;
    struct sk_voucher *voucher = sk_catalogue_find(sale->catalogue, ask->voucher_id);
    // Without Redis nothing is certain, not even a cached refusal.
    *result = (struct sk_purchase_result){.code = SK_PURCHASE_UNAVAILABLE};
    if (voucher == NULL ? sk_nodes_state(sale->nodes).orders == 0 : !sk_redis_ready(sk_sale_redis(sale, voucher)))
        return false;
    if (voucher != NULL)
        return purchase_from(control, voucher, ask, handle, result);
    result->code = SK_PURCHASE_OVERLOADED;
    return purchase_later(control, ask, handle);
}

static bool purchase_from(struct sk_control *control, struct sk_voucher *voucher, const struct sk_ask *ask,
                          uint64_t handle, struct sk_purchase_result *result)
{
    const struct sk_sale *sale = control->sale;
    const struct sk_sent_ticket sent = {.kind = ask->ticket, .offer = (int32_t)ask->offer};
    if (sk_offered_refuses(sale, voucher, &sent, ask->quantity, result))
        return false;
    if (sk_admit_refuses(sale, voucher, ask->user, result)) {
        SK_PROBE3(refused, handle, sk_purchase_code_name(result->code), "memory");
        return false;
    }
    struct sk_order *order = sk_order_take(sale->orders, voucher->shard);
    if (order == NULL) {
        *result = (struct sk_purchase_result){.code = SK_PURCHASE_OVERLOADED};
        return false;
    }
    sk_order_name(sale->orders, order, voucher->slot, voucher->seen.epoch);
    order->handle = handle;
    order->low_priority = ask->low_priority;
    order->quantity = (uint16_t)ask->quantity;
    order->key = ask->key;
    order->sent = sent;
    sk_offered_agree(voucher, order);
    size_t len = strlen(ask->user);
    SK_ASSERT(len < sizeof order->user);
    memcpy(order->user, ask->user, len + 1);
    SK_PROBE3(admitted, handle, order->id, ask->voucher_id);
    sk_batcher_add(control->batcher, voucher, order);
    return true;
}

// ---- a voucher that is not in the catalogue ----

static bool purchase_later(struct sk_control *control, const struct sk_ask *ask, uint64_t handle)
{
    struct late_purchase *late = sk_query_try_new(control, handle, sizeof *late, purchase_start);
    if (late == NULL)
        return false;
    late->ask = *ask;
    (void)snprintf(late->user, sizeof late->user, "%s", ask->user);
    late->ask.user = late->user;
    sk_query_start(&late->query);
    return true;
}

static void purchase_start(struct sk_query *query)
{
    sk_query_find_later(query, ((struct late_purchase *)query)->ask.voucher_id, purchase_on_found);
}

static void purchase_on_found(struct sk_query *query, enum sk_found found)
{
    struct late_purchase *late = (struct late_purchase *)query;
    struct sk_purchase_result result;
    if (found == SK_FOUND_OLD) {
        char id[SK_PARAM_NUMBER_SIZE];
        const char *params[] = {sk_params_number(id, late->ask.voucher_id), late->user};
        sk_query_ask_pg(query, SK_STATEMENT_FIND_RETIRED, 2, params, purchase_on_retired);
        return;
    }
    if (found == SK_FOUND_LISTED) {
        struct sk_control *control = query->control;
        struct sk_voucher *voucher = query->voucher;
        uint64_t handle = sk_query_take_handle(query);
        bool refused = !purchase_from(control, voucher, &late->ask, handle, &result);
        const struct sk_sale *sale = control->sale;
        sk_query_end(query, SK_VERDICT_FOUND, NULL);
        if (refused)
            sale->on_result(sale->arg, handle, &result);
        return;
    }
    sk_query_end(query, SK_VERDICT_UNKNOWN_VOUCHER, NULL);
}

static void purchase_on_retired(void *arg, const struct sk_result *result)
{
    struct sk_query *query = arg;
    struct sk_answer answer = {.verdict = SK_VERDICT_ENDED};
    const char *state = NULL;
    if (result->rows == NULL) {
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    if (sk_rows_count(result->rows) == 1) {
        state = sk_rows_text(result->rows, 0, COLUMN_STATE);
        answer.order_id = sk_rows_text(result->rows, 0, COLUMN_ORDER);
    }
    bool archived = state != NULL && strcmp(state, "archived") == 0;
    if (state == NULL)
        answer.verdict = SK_VERDICT_UNKNOWN_VOUCHER;
    else if (!archived && strcmp(state, "retired") != 0)
        answer.verdict = SK_VERDICT_LOADING; // reloaded a moment ago
    else if (answer.order_id != NULL)
        answer.verdict = SK_VERDICT_ALREADY_ORDERED;
    else if (archived)
        answer.verdict = SK_VERDICT_ARCHIVED;
    sk_query_end_with(query, &answer);
}

// ---- tickets ----
//
// Issues tickets, and checks them before a purchase. The catalogue has the work that a ticket takes.

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
    unsigned count;
    if (!sk_tickets_on(context->tickets))
        return;
    const char *text = sk_request_header(request, "x-seckill-ticket", &count);
    ask->ticket = count == 0 ? SK_ASK_NO_TICKET : SK_ASK_BAD_TICKET;
    if (count != 1)
        return;
    uint32_t now_s = ticket_now_s();
    struct sk_ticket ticket = {.kind = SK_TICKET_PURCHASE, .voucher_id = call->voucher_id, .user = call->user};
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
    else if (!sk_tickets_on(context->tickets)) // the secret was taken away meanwhile
        sk_answer_refusal(context->answers, request, SK_VERDICT_TICKETS_OFF);
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
