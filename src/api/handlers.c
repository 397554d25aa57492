// A request is answered in one of three ways: at once from a response made at start, at once with one made for it, or
// later, when the shop's outcome comes for its handle. That may be before a call to the shop returns.
#include "handlers.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "accept.h"
#include "commands.h"
#include "create.h"
#include "document.h"
#include "fields.h"
#include "hash.h"
#include "letters.h"
#include "order_lookup.h"
#include "purchase.h"
#include "terms.h"
#include "voucher_queries.h"

enum { KEY_MAX = 255 };

static void handle_answer_outcome(const struct sk_context *context, struct sk_request *request,
                                  const struct sk_outcome *outcome);
static bool handle_is_plain(const struct sk_outcome *outcome);
static void handle_answer_order(const struct sk_context *context, struct sk_request *request, enum sk_verdict verdict,
                                const struct sk_outcome *outcome);
static uint64_t handle_fingerprint(const char *key);
static bool handle_read_quantity(const struct sk_context *context, struct sk_request *request);
static void handle_refuse_quantity(const struct sk_context *context, struct sk_request *request, int64_t limit);

// ---- orders ----

void sk_handle_buy(const struct sk_context *context, struct sk_request *request)
{
    struct sk_call *call = sk_call_of(request);
    struct sk_outcome outcome;
    const char *key;
    call->respond_async = sk_request_header_any(request, "prefer", sk_prefer_async);
    call->quantity = 1;
    if (context->draining) {
        sk_answer_refusal(context->answers, request, SK_VERDICT_SHUTTING_DOWN);
    } else if (sk_handle_read_key(context, request, &key) &&
               (request->body.len == 0 || handle_read_quantity(context, request))) {
        struct sk_ask ask = {.voucher_id = call->voucher_id,
                             .user = call->user,
                             .quantity = call->quantity,
                             .key = key == NULL ? 0 : handle_fingerprint(key),
                             .patient = call->respond_async};
        sk_handle_read_ticket(context, request, call, &ask);
        if (!sk_purchase(context->control, &ask, request->handle, &outcome))
            handle_answer_outcome(context, request, &outcome);
    }
}

// Of a key; never 0.
static uint64_t handle_fingerprint(const char *key)
{
    uint64_t hash = sk_hash(key, strlen(key));
    return hash == 0 ? 1 : hash;
}

// False: the request was answered.
static bool handle_read_quantity(const struct sk_context *context, struct sk_request *request)
{
    static const struct sk_field members[] = {{.name = "quantity", .detail = "must be an integer from 1 to the limit"}};
    struct sk_fields read;
    const json_t *value;
    int64_t quantity = 1;
    if (!sk_request_is_json(request)) {
        sk_answer_refusal(context->answers, request, SK_VERDICT_UNSUPPORTED_MEDIA_TYPE);
        return false;
    }
    if (sk_fields_open(&read, request->body.data, request->body.len, members, 1, &value) && value != NULL &&
        !sk_fields_integer(value, 1, SK_QUANTITY_MAX, &quantity))
        sk_fields_refuse(&read, members[0].name, members[0].detail);
    enum sk_verdict verdict = sk_fields_end(&read);
    if (verdict == SK_VERDICT_OK)
        sk_call_of(request)->quantity = (uint16_t)quantity;
    else
        sk_handle_bad_body(context, request, verdict, &read);
    sk_fields_free(&read);
    return verdict == SK_VERDICT_OK;
}

// Past the voucher's limit.
static void handle_refuse_quantity(const struct sk_context *context, struct sk_request *request, int64_t limit)
{
    char detail[64];
    (void)snprintf(detail, sizeof detail, "must be an integer from 1 to %" PRId64, limit);
    json_t *errors = json_pack("[{s:s,s:s}]", "pointer", "/quantity", "detail", detail);
    if (errors != NULL)
        sk_answer_errors(context->answers, request, SK_VERDICT_INVALID, errors);
    else
        sk_answer_refusal(context->answers, request, SK_VERDICT_OVERLOADED);
    json_decref(errors);
}

void sk_handle_outcome(const struct sk_context *context, struct sk_request *request, const struct sk_outcome *outcome)
{
    struct sk_call *call = sk_call_of(request);
    if (outcome->verdict == SK_VERDICT_ACCEPTED) {
        size_t len = strnlen(outcome->order_id, SK_UUID_CHARS);
        memcpy(call->order_id, outcome->order_id, len); // not by printf: each buyer who wins comes here
        call->order_id[len] = '\0';
        call->accepted = true;
        if (!call->respond_async)
            return; // the commit answers, or the deadline
    }
    if (!sk_handle_goes_on(context, request, outcome))
        handle_answer_outcome(context, request, outcome);
}

void sk_handle_expired(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_outcome accepted = {.order_id = sk_call_of(request)->order_id};
    if (sk_handle_overtime(context, request))
        return;
    if (sk_call_of(request)->accepted)
        handle_answer_order(context, request, SK_VERDICT_ACCEPTED, &accepted);
    else
        sk_answer_refusal(context->answers, request, SK_VERDICT_UNAVAILABLE);
}

static void handle_answer_outcome(const struct sk_context *context, struct sk_request *request,
                                  const struct sk_outcome *outcome)
{
    struct sk_call *call = sk_call_of(request);
    if (outcome->verdict == SK_VERDICT_ALREADY_ORDERED && outcome->repeats) {
        // 201 again if it is committed, 202 if it is not.
        call->repeats = true;
        (void)snprintf(call->order_id, sizeof call->order_id, "%s", outcome->order_id);
        sk_order_lookup(context->control, call->order_id, call->user, request->handle);
        return;
    }
    switch (outcome->verdict) {
    case SK_VERDICT_PLACED:
    case SK_VERDICT_ACCEPTED:
        handle_answer_order(context, request, outcome->verdict, outcome);
        break;
    case SK_VERDICT_INVALID:
        if (outcome->left > 0)
            handle_refuse_quantity(context, request, outcome->left);
        else
            sk_answer_refusal(context->answers, request, outcome->verdict);
        break;
    case SK_VERDICT_FOUND:
        if (outcome->voucher != NULL)
            sk_handle_offer(context, request, outcome->voucher);
        else if (call->repeats)
            sk_answer_repeated(context->answers, request, call->order_id, outcome);
        else if (call->type != NULL)
            sk_answer_text(context->answers, request, call->type, outcome->document);
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
                                const struct sk_outcome *outcome)
{
    const struct sk_call *call = sk_call_of(request);
    const struct sk_answer_order order = {
        .order = {.id = outcome->order_id,
                  .user = call->user,
                  .voucher_id = call->voucher_id,
                  .quantity = call->quantity,
                  .status = verdict == SK_VERDICT_ACCEPTED ? "pending" : "unpaid",
                  .price = outcome->price,
                  .created_ms = outcome->created_ms,
                  .expires_ms = outcome->expires_ms},
        .respond_async = call->respond_async,
    };
    sk_answer_order(context->answers, request, verdict, &order);
}

void sk_handle_order(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_call *call = sk_call_of(request);
    if (!sk_handle_read_wait(request))
        sk_answer_refusal(context->answers, request, SK_VERDICT_BAD_PARAMETER);
    else if (call->waits == SK_CALL_AT_ONCE || sk_handle_hold(context, request))
        sk_order_lookup(context->control, call->order_id, call->user, request->handle);
}

// ---- vouchers ----

void sk_handle_voucher(const struct sk_context *context, struct sk_request *request)
{
    sk_query_voucher(context->control, sk_call_of(request)->voucher_id, request->handle);
}

void sk_handle_create(const struct sk_context *context, struct sk_request *request)
{
    struct sk_terms terms;
    struct sk_fields read;
    const char *key;
    if (!sk_handle_read_key(context, request, &key))
        return;
    enum sk_verdict verdict =
        sk_terms_read(request->body.data, request->body.len, sk_tickets_on(context->tickets), &terms, &read);
    if (verdict == SK_VERDICT_OK)
        sk_create_voucher(context->control, key, sk_call_of(request)->by, &terms, request->handle);
    else
        sk_handle_bad_body(context, request, verdict, &read);
    sk_fields_free(&read);
}

bool sk_handle_read_key(const struct sk_context *context, struct sk_request *request, const char **key)
{
    unsigned count;
    size_t n = 0;
    *key = sk_request_header(request, "idempotency-key", &count);
    if (count == 0)
        return true;
    while ((*key)[n] > ' ' && (*key)[n] <= '~' && n <= KEY_MAX)
        n++;
    bool good = count == 1 && (*key)[n] == '\0' && n >= 1 && n <= KEY_MAX;
    if (!good)
        sk_answer_refusal(context->answers, request, SK_VERDICT_BAD_IDEMPOTENCY_KEY);
    return good;
}

void sk_handle_bad_body(const struct sk_context *context, struct sk_request *request, enum sk_verdict verdict,
                        const struct sk_fields *read)
{
    if (read->errors != NULL)
        sk_answer_errors(context->answers, request, verdict, read->errors);
    else
        sk_answer_refusal(context->answers, request, verdict);
}

void sk_handle_inspect(const struct sk_context *context, struct sk_request *request)
{
    sk_query_inspect(context->control, sk_call_of(request)->voucher_id, request->handle);
}

void sk_handle_rebuild(const struct sk_context *context, struct sk_request *request)
{
    sk_command_rebuild(context->control, sk_call_of(request)->voucher_id, request->handle);
}

// ---- dead letters ----

void sk_handle_requeue(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_call *call = sk_call_of(request);
    sk_letters_requeue(context->control, call->voucher_id, call->letter_id, request->handle);
}

void sk_handle_write_off(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_call *call = sk_call_of(request);
    sk_letters_write_off(context->control, call->voucher_id, call->letter_id, request->handle);
}

// ---- operation ----

void sk_handle_health(const struct sk_context *context, struct sk_request *request)
{
    sk_answer_ok(context->answers, request);
}

void sk_handle_ready(const struct sk_context *context, struct sk_request *request)
{
    if (!context->draining && context->control->ready(context->control->arg))
        sk_answer_ok(context->answers, request);
    else
        sk_answer_refusal(context->answers, request, SK_VERDICT_UNAVAILABLE);
}

void sk_handle_openapi(const struct sk_context *context, struct sk_request *request)
{
    sk_document_answer(context->openapi, request, !context->draining && !request->last);
}

void sk_handle_not_found(const struct sk_context *context, struct sk_request *request)
{
    sk_answer_refusal(context->answers, request, SK_VERDICT_NOT_FOUND);
}
