// Requests that take their time: `GET /orders/{id}?wait=N`, which is parked while the order is as its client has it,
// and `GET /vouchers/{id}/events`, which becomes a stream.
#include <string.h>

#include "client_limits.h"
#include "handlers.h"
#include "live.h"
#include "stream.h"
#include "talk.h"
#include "waiting.h"

enum { WAIT_MAX_S = 60 };

static bool handle_park(const struct sk_context *context, struct sk_request *request, const char *status);

// Before a store is asked: a refusal is cheap. It ends the connection, so that those who are refused hold none either.
bool sk_handle_hold(const struct sk_context *context, struct sk_request *request)
{
    static const enum sk_metric refused[] = {
        [SK_LONG_OF_USER] = SK_METRIC_LONG_OF_USER, [SK_LONG_OF_ADDRESS] = SK_METRIC_LONG_OF_ADDRESS};
    bool place = sk_request_hold(request);
    enum sk_long held = SK_LONG_MAY;
    if (place && context->limits != NULL)
        held = sk_limits_hold(context->limits, request, sk_call_of(request)->user);
    if (place && held == SK_LONG_MAY)
        return true;
    sk_metrics_add(context->metrics, place ? refused[held] : SK_METRIC_LONG_OF_SHARE, 1);
    sk_answer_last(context->answers, request, SK_VERDICT_OVERLOADED);
    return false;
}

// ---- an order's next change ----

bool sk_handle_read_wait(struct sk_request *request)
{
    struct sk_call *call = sk_call_of(request);
    unsigned waits, whiles;
    const char *text = sk_request_query(request, "wait", &waits);
    uint64_t seconds = 0;
    call->only_while = sk_request_query(request, "while", &whiles);
    if (waits > 1 || whiles > 1 || (text != NULL && !sk_text_number(text, WAIT_MAX_S, &seconds)))
        return false;
    if (call->only_while != NULL && (text == NULL || !sk_waiting_may_change(call->only_while)))
        return false;
    call->wait_s = (unsigned)seconds;
    call->waits = seconds > 0 ? SK_CALL_ASKS : SK_CALL_AT_ONCE;
    return true;
}

bool sk_handle_goes_on(const struct sk_context *context, struct sk_request *request, const struct sk_outcome *outcome)
{
    struct sk_call *call = sk_call_of(request);
    if (outcome->verdict != SK_VERDICT_FOUND)
        return false;
    if (call->waits == SK_CALL_ASKS)
        return outcome->status != NULL && handle_park(context, request, outcome->status);
    if (call->waits != SK_CALL_FINDS)
        return false;
    call->waits = SK_CALL_STREAMS;
    sk_answer_stream(context->answers, request, sk_stream_new(request));
    return true;
}

// False: there is nothing to wait for, or no memory to do so.
static bool handle_park(const struct sk_context *context, struct sk_request *request, const char *status)
{
    struct sk_call *call = sk_call_of(request);
    bool as_asked = call->only_while == NULL ? sk_waiting_may_change(status) : strcmp(status, call->only_while) == 0;
    if (!as_asked || context->draining ||
        !sk_waiting_add(context->control->waiting, call->order_id, call->user, status, request->handle))
        return false;
    call->waits = SK_CALL_PARKED;
    sk_request_park(request, call->wait_s * UINT64_C(1000));
    return true;
}

bool sk_handle_overtime(const struct sk_context *context, struct sk_request *request)
{
    struct sk_call *call = sk_call_of(request);
    if (context->control == NULL || call->waits != SK_CALL_PARKED)
        return false;
    call->waits = SK_CALL_OVER;
    sk_waiting_over(context->control->waiting, request->handle);
    sk_request_extend(request, context->stores_ms);
    return true;
}

// ---- a voucher's events ----

void sk_handle_events(const struct sk_context *context, struct sk_request *request)
{
    struct sk_call *call = sk_call_of(request);
    if (context->draining) {
        sk_answer_refusal(context->answers, request, SK_VERDICT_SHUTTING_DOWN);
        return;
    }
    if (!sk_handle_hold(context, request))
        return;
    call->waits = SK_CALL_FINDS;
    sk_live_find(context->control, call->voucher_id, request->handle);
}

// Last-Event-ID may be anything: what is no id of ours was not heard here.
void sk_handle_streams(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_call *call = sk_call_of(request);
    const char *text = sk_request_header(request, "last-event-id", NULL);
    uint64_t last_id = 0;
    if (text != NULL && !sk_text_number(text, INT64_MAX, &last_id))
        last_id = 0;
    if (context->control == NULL || !sk_live_listen(context->control->live, call->voucher_id, last_id, request->handle))
        sk_stream_end(request);
}

// ---- who has left ----

void sk_handle_gone(const struct sk_context *context, struct sk_request *request)
{
    const struct sk_call *call = sk_call_of(request);
    if (context->control == NULL)
        return; // it has forgotten all
    if (call->waits == SK_CALL_STREAMS)
        sk_live_leave(context->control->live, request->handle);
    else if (call->waits == SK_CALL_PARKED || call->waits == SK_CALL_OVER)
        sk_waiting_leave(context->control->waiting, request->handle);
}
