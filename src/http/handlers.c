// A request is answered in one of three ways: at once from a response made at start, at once with one made for it, or
// later, when the shop's outcome comes for its ticket. That may be before a call to the shop returns.
#include "handlers.h"

#include <stdio.h>

#include "commands.h"
#include "create.h"
#include "letters.h"
#include "order_lookup.h"
#include "prefer.h"
#include "terms.h"
#include "user_orders.h"
#include "voucher_queries.h"

enum { KEY_MAX = 255 };

static void handle_answer_outcome(const struct sk_context *context, struct sk_request *request,
                                  const struct sk_outcome *outcome);
static bool handle_is_plain(const struct sk_outcome *outcome);
static void handle_answer_order(const struct sk_context *context, struct sk_request *request, enum sk_verdict verdict,
                                const char *order_id);
static bool handle_key_is_good(const char *key, unsigned count);

// ---- orders ----

void sk_handle_buy(const struct sk_context *context, struct sk_request *request)
{
    struct sk_call *call = sk_call_of(request);
    struct sk_outcome outcome;
    call->respond_async = sk_request_header_any(request, "prefer", sk_prefer_async);
    if (context->draining)
        sk_answer_refusal(context->answers, request, SK_VERDICT_SHUTTING_DOWN);
    else if (!sk_shop_buy(context->shop, call->voucher_id, call->user, request->ticket, call->respond_async, &outcome))
        handle_answer_outcome(context, request, &outcome);
}

void sk_handle_outcome(const struct sk_context *context, struct sk_request *request, const struct sk_outcome *outcome)
{
    struct sk_call *call = sk_call_of(request);
    if (outcome->verdict == SK_VERDICT_ACCEPTED) {
        (void)snprintf(call->order_id, sizeof call->order_id, "%s", outcome->order_id);
        call->accepted = true;
        if (!call->respond_async)
            return; // the commit answers, or the deadline
    }
    handle_answer_outcome(context, request, outcome);
}

void sk_handle_expired(const struct sk_context *context, struct sk_request *request)
{
    if (sk_call_of(request)->accepted)
        handle_answer_order(context, request, SK_VERDICT_ACCEPTED, sk_call_of(request)->order_id);
    else
        sk_answer_refusal(context->answers, request, SK_VERDICT_UNAVAILABLE);
}

static void handle_answer_outcome(const struct sk_context *context, struct sk_request *request,
                                  const struct sk_outcome *outcome)
{
    switch (outcome->verdict) {
    case SK_VERDICT_PLACED:
    case SK_VERDICT_ACCEPTED:
        handle_answer_order(context, request, outcome->verdict, outcome->order_id);
        break;
    case SK_VERDICT_FOUND:
        if (sk_call_of(request)->type != NULL)
            sk_answer_text(context->answers, request, sk_call_of(request)->type, outcome->document);
        else
            sk_answer_document(context->answers, request, outcome);
        break;
    case SK_VERDICT_CREATED:
        sk_answer_voucher(context->answers, request, outcome);
        break;
    default:
        if (handle_is_plain(outcome))
            sk_answer_refusal(context->answers, request, outcome->verdict);
        else
            sk_answer_problem(context->answers, request, outcome);
    }
}

// Whether the refusal is as it is most often.
static bool handle_is_plain(const struct sk_outcome *outcome)
{
    return outcome->order_id == NULL && outcome->retry_after_ms == 0 && outcome->status == NULL &&
           outcome->verdict != SK_VERDICT_NOT_ENOUGH && outcome->verdict != SK_VERDICT_BELOW_SOLD;
}

static void handle_answer_order(const struct sk_context *context, struct sk_request *request, enum sk_verdict verdict,
                                const char *order_id)
{
    const struct sk_call *call = sk_call_of(request);
    struct sk_answer_order order = {order_id, call->user, call->voucher_id, call->respond_async};
    sk_answer_order(context->answers, request, verdict, &order);
}

void sk_handle_order(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_call *call = sk_call_of(request);
    sk_order_lookup(sk_shop_control(context->shop), call->order_id, call->user, request->ticket);
}

void sk_handle_orders(const struct sk_context *context, struct sk_request *request)
{
    sk_user_orders(sk_shop_control(context->shop), sk_call_of(request)->user, request->ticket);
}

// ---- vouchers ----

void sk_handle_voucher(const struct sk_context *context, struct sk_request *request)
{
    sk_query_voucher(sk_shop_control(context->shop), sk_call_of(request)->voucher_id, request->ticket);
}

void sk_handle_vouchers(const struct sk_context *context, struct sk_request *request)
{
    sk_query_vouchers(sk_shop_control(context->shop), request->ticket);
}

void sk_handle_create(const struct sk_context *context, struct sk_request *request)
{
    struct sk_terms terms;
    struct sk_terms_body read;
    unsigned keys;
    const char *key = sk_request_header(request, "idempotency-key", &keys);
    if (!handle_key_is_good(key, keys)) {
        sk_answer_refusal(context->answers, request, SK_VERDICT_BAD_IDEMPOTENCY_KEY);
        return;
    }
    enum sk_verdict verdict = sk_terms_read(request->body.data, request->body.len, &terms, &read);
    if (verdict == SK_VERDICT_FOUND)
        sk_create_voucher(sk_shop_control(context->shop), key, &terms, request->ticket);
    else if (read.errors != NULL)
        sk_answer_errors(context->answers, request, verdict, read.errors);
    else
        sk_answer_refusal(context->answers, request, verdict);
    sk_terms_body_free(&read);
}

// Idempotency-Key: none, or one of 1 to 255 visible ASCII characters.
static bool handle_key_is_good(const char *key, unsigned count)
{
    size_t n = 0;
    if (count == 0)
        return true;
    while (key[n] > ' ' && key[n] <= '~' && n <= KEY_MAX)
        n++;
    return count == 1 && key[n] == '\0' && n >= 1 && n <= KEY_MAX;
}

void sk_handle_inspect(const struct sk_context *context, struct sk_request *request)
{
    sk_query_inspect(sk_shop_control(context->shop), sk_call_of(request)->voucher_id, request->ticket);
}

void sk_handle_rebuild(const struct sk_context *context, struct sk_request *request)
{
    sk_command_rebuild(sk_shop_control(context->shop), sk_call_of(request)->voucher_id, request->ticket);
}

// ---- dead letters ----

void sk_handle_letters(const struct sk_context *context, struct sk_request *request)
{
    sk_letters_list(sk_shop_control(context->shop), sk_call_of(request)->voucher_id, request->ticket);
}

void sk_handle_requeue(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_call *call = sk_call_of(request);
    sk_letters_requeue(sk_shop_control(context->shop), call->voucher_id, call->letter_id, request->ticket);
}

void sk_handle_write_off(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_call *call = sk_call_of(request);
    sk_letters_write_off(sk_shop_control(context->shop), call->voucher_id, call->letter_id, request->ticket);
}

// ---- operation ----

void sk_handle_health(const struct sk_context *context, struct sk_request *request)
{
    sk_answer_ok(context->answers, request);
}

void sk_handle_ready(const struct sk_context *context, struct sk_request *request)
{
    if (!context->draining && sk_shop_ready(context->shop))
        sk_answer_ok(context->answers, request);
    else
        sk_answer_refusal(context->answers, request, SK_VERDICT_UNAVAILABLE);
}

void sk_handle_not_found(const struct sk_context *context, struct sk_request *request)
{
    sk_answer_refusal(context->answers, request, SK_VERDICT_NOT_FOUND);
}
