// The pages, and what only the demo has: it pays an order as the shop's payment side would, but for its own buyer.
#include <stdio.h>

#include "handlers.h"
#include "move_bodies.h"
#include "pages.h"

void sk_handle_page(const struct sk_context *context, struct sk_request *request)
{
    if (!sk_pages_answer(context->pages, request, !context->draining && !request->last))
        sk_answer_refusal(context->answers, request, SK_VERDICT_NOT_FOUND);
}

void sk_handle_demo_page(const struct sk_context *context, struct sk_request *request)
{
    sk_handle_page(context, request);
}

void sk_handle_demo_pay(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_call *call = sk_call_of(request);
    char reference[SK_REFERENCE_MAX + 1];
    struct sk_payment payment = {.reference = reference};
    struct sk_fields read;
    (void)snprintf(reference, sizeof reference, "demo-%s", call->order_id);
    enum sk_verdict verdict = sk_demo_payment_read(request->body.data, request->body.len, &payment, &read);
    if (verdict == SK_VERDICT_OK)
        sk_move_pay_own(context->control, call->order_id, call->user, &payment, request->handle);
    else
        sk_handle_bad_body(context, request, verdict, &read);
    sk_fields_free(&read);
}
