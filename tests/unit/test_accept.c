// Which form of /metrics a field Accept asks for.
#include "accept.h"
#include "stack.h"

#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

START_TEST(forms)
{
    static const struct {
        const char *value;
        bool open_metrics;
    } rows[] = {
        {NULL, false},
        {"", false},
        {"*/*", false},
        {"text/plain", false},
        {"application/openmetrics-text", true},
        {"Application/OpenMetrics-Text; Version=1.0.0", true},
        {"application/openmetrics-text;version=\"1.0.0\"", true},
        {"application/openmetrics-text;version=0.0.1", false},
        {"application/openmetrics-text; version=2.0.0, text/plain", false},
        // Prometheus 2
        {"application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
         "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
         true},
        {"application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
         "text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
         true},
        {"text/plain;version=0.0.4;q=0.5,application/openmetrics-text;q=0.4", false},
        {"text/plain;version=0.0.4;q=0.5,application/openmetrics-text;q=0.5", true},
        {"text/plain;q=0.1, text/*;q=0.9, application/openmetrics-text;q=0.5", true}, // the most specific one counts
        {"text/*;q=0.9, application/openmetrics-text;q=0.5", false},
        {"*/*;q=0.9, application/openmetrics-text;q=0.5", false},
        {"application/openmetrics-text;q=0", false},
        {"application/openmetrics-text;q=0.000", false},
        {"application/openmetrics-text;q=0.001", true},
        {"application/openmetrics-text;q=1.000", true},
        {"application/openmetrics-text;q=1.001", false}, // malformed
        {"application/openmetrics-text;q=0.5.5", false},
        {"application/openmetrics-text;q=0.0001", false},
        {"application/openmetrics-text;q=", false},
        {"application/openmetrics-text;q=-1", false},
        {"application/openmetrics-text ; q=0.4 , text/plain;q=0.3", true},
        {"text/plain;x=\"a, application/openmetrics-text\"", false},
        {"text/plain;q=0.2;x=\"\\\"\", application/openmetrics-text", true},
        {"\"application/openmetrics-text", false},
        {",,;;,", false},
        {"application/openmetrics-textual", false},
        {"application/openmetrics", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        ck_assert_msg(sk_accept_openmetrics(rows[i].value) == rows[i].open_metrics, "row %zu", i);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("accept");
    tcase_add_test(tcase, forms);
    return harness_main(tcase, CK_FORK);
}
