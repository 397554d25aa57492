// GET /admin/vouchers/{voucher}/settlement: for programs, for people, and for spreadsheets.
#include <string.h>

#include "handlers.h"
#include "settlement_report.h"

void sk_handle_settlement(const struct sk_context *context, struct sk_request *request)
{
    static const struct {
        const char *name;
        enum sk_report_format format;
        const char *type;
    } formats[] = {
        {"json", SK_REPORT_JSON, NULL},
        {"text", SK_REPORT_TEXT, "text/plain; charset=utf-8"},
        {"csv", SK_REPORT_CSV, "text/csv; charset=utf-8; header=present"},
    };
    struct sk_call *call = sk_call_of(request);
    unsigned count;
    size_t i = 0;
    const char *name = sk_request_query(request, "format", &count);
    while (count > 0 && i < sizeof formats / sizeof formats[0] && strcmp(name, formats[i].name) != 0)
        i++;
    if (count > 1 || i == sizeof formats / sizeof formats[0]) {
        sk_answer_refusal(context->answers, request, SK_VERDICT_BAD_PARAMETER);
        return;
    }
    call->type = formats[i].type;
    sk_settlement_report(context->control, call->voucher_id, formats[i].format, request->handle);
}
