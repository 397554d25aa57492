// The tables behind enum sk_verdict, made from its one list.
#include "verdict.h"

#include "status.h"

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
    _Static_assert((status) != 503 || (retry_after_ms) > 0 || SK_VERDICT_##name == SK_VERDICT_TICKETS_OFF, \
                   "503 says when to try again");
SK_VERDICTS(SK_VERDICT_CHECK)
#undef SK_VERDICT_CHECK

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
