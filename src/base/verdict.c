// The tables behind enum sk_verdict, made from its one list.
#include "verdict.h"

#include "status.h"

static const struct {
    const char *code;
    const char *title;
    unsigned http_status;
} verdicts[SK_VERDICT_COUNT] = {
#define SK_VERDICT_ROW(name, status, title) {#name, title, status},
    SK_VERDICTS(SK_VERDICT_ROW)
#undef SK_VERDICT_ROW
};

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
