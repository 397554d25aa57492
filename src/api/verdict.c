#include "verdict.h"

#include "metrics.h"
#include "purchase_result.h"
#include "status.h"
#include "trace.h"

static const struct {
    const char *code;
    const char *title;
    unsigned http_status, retry_after_ms;
} verdicts[SK_VERDICT_COUNT] = {
#define SK_VERDICT_ROW(name, status, retry_after_ms, title) {#name, title, status, retry_after_ms},
    SK_VERDICTS(SK_VERDICT_ROW)
#undef SK_VERDICT_ROW
};

#define SK_VERDICT_CHECK(name, status, retry_after_ms, title)                                              \
    _Static_assert(sizeof #name - 1 <= SK_TRACE_CODE_MAX, "it fits the access log");                       \
    _Static_assert((status) != 503 || (retry_after_ms) > 0 || SK_VERDICT_##name == SK_VERDICT_TICKETS_OFF, \
                   "503 says when to try again");
SK_VERDICTS(SK_VERDICT_CHECK)
#undef SK_VERDICT_CHECK
_Static_assert((int)SK_VERDICT_COUNT <= (int)SK_METRICS_CODES, "each verdict has its counter");

enum sk_verdict sk_verdict_of_purchase(enum sk_purchase_code code)
{
    static const enum sk_verdict same[] = {
#define SK_VERDICT_SAME(name) [SK_PURCHASE_##name] = SK_VERDICT_##name,
        SK_PURCHASE_CODES(SK_VERDICT_SAME)
#undef SK_VERDICT_SAME
    };
    return same[code];
}

const char *sk_verdict_code(enum sk_verdict verdict)
{
    SK_ASSERT(verdict < SK_VERDICT_COUNT);
    return verdicts[verdict].code;
}

const char *sk_verdict_title(enum sk_verdict verdict)
{
    SK_ASSERT(verdict < SK_VERDICT_COUNT);
    return verdicts[verdict].title;
}

unsigned sk_verdict_http_status(enum sk_verdict verdict)
{
    SK_ASSERT(verdict < SK_VERDICT_COUNT);
    return verdicts[verdict].http_status;
}

unsigned sk_verdict_retry_after_ms(enum sk_verdict verdict)
{
    SK_ASSERT(verdict < SK_VERDICT_COUNT);
    return verdicts[verdict].retry_after_ms;
}
