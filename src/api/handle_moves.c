// The moves of an order: pay, cancel, refund.
#include "handlers.h"
#include "move_bodies.h"

void sk_handle_cancel(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_call *call = sk_call_of(request);
    sk_move_cancel(context->control, call->order_id, call->user, request->handle);
}

void sk_handle_pay(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_call *call = sk_call_of(request);
    struct sk_payment payment;
    struct sk_fields read;
    enum sk_verdict verdict = sk_payment_read(request->body.data, request->body.len, &payment, &read);
    if (verdict == SK_VERDICT_OK)
        sk_move_pay(context->control, call->order_id, &payment, call->by, request->handle);
    else
        sk_handle_bad_body(context, request, verdict, &read);
    sk_fields_free(&read);
}

void sk_handle_refund(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_call *call = sk_call_of(request);
    struct sk_refund refund;
    struct sk_fields read;
    enum sk_verdict verdict = sk_refund_read(request->body.data, request->body.len, &refund, &read);
    if (verdict == SK_VERDICT_OK)
        sk_move_refund(context->control, call->order_id, &refund, call->by, request->handle);
    else
        sk_handle_bad_body(context, request, verdict, &read);
    sk_fields_free(&read);
}
