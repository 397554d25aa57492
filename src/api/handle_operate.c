// What operators do to a voucher: the requests are read here, and answered by handlers.c when the outcome comes.
#include "handlers.h"
#include "operate.h"
#include "terms.h"
#include "ticket.h"

static bool operate_read(const struct sk_context *context, struct sk_request *request, struct sk_operation *operation)
{
    const struct sk_call *call = sk_call_of(request);
    *operation = (struct sk_operation){.voucher_id = call->voucher_id, .by = call->by, .if_match = call->if_match};
    return sk_handle_read_key(context, request, &operation->key);
}

void sk_handle_change(const struct sk_context *context, struct sk_request *request)
{
    struct sk_operation operation;
    struct sk_terms terms;
    struct sk_fields read;
    if (!operate_read(context, request, &operation))
        return;
    enum sk_verdict verdict =
        sk_terms_read_change(request->body.data, request->body.len, sk_tickets_on(context->tickets), &terms, &read);
    if (verdict == SK_VERDICT_OK)
        sk_operate_change(context->control, &operation, &terms, request->handle);
    else
        sk_handle_bad_body(context, request, verdict, &read);
    sk_fields_free(&read);
}

void sk_handle_stock(const struct sk_context *context, struct sk_request *request)
{
    struct sk_operation operation;
    struct sk_fields read;
    int64_t units;
    if (!operate_read(context, request, &operation))
        return;
    enum sk_verdict verdict = sk_terms_read_stock(request->body.data, request->body.len, &units, &read);
    if (verdict == SK_VERDICT_OK)
        sk_operate_stock(context->control, &operation, units, request->handle);
    else
        sk_handle_bad_body(context, request, verdict, &read);
    sk_fields_free(&read);
}

static void operate_state(const struct sk_context *context, struct sk_request *request, enum sk_voucher_state state)
{
    struct sk_operation operation;
    if (operate_read(context, request, &operation))
        sk_operate_state(context->control, &operation, state, request->handle);
}

void sk_handle_pause(const struct sk_context *context, struct sk_request *request)
{
    operate_state(context, request, SK_VOUCHER_PAUSED);
}

void sk_handle_resume(const struct sk_context *context, struct sk_request *request)
{
    operate_state(context, request, SK_VOUCHER_OPEN);
}

void sk_handle_close(const struct sk_context *context, struct sk_request *request)
{
    operate_state(context, request, SK_VOUCHER_CLOSED);
}
