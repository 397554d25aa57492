// Which format of /metrics an Accept field selects, and whether Accept-Encoding allows gzip.
#include "accept.h"
#include "test.h"

#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

TEST(forms)
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
        {"text/plain;q=0.1, text/*;q=0.9, application/openmetrics-text;q=0.5", true}, // the most specific range decides
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

TEST(packing)
{
    static const struct {
        const char *value;
        bool gzip;
    } rows[] = {
        {NULL, false},
        {"", false},
        {"gzip", true},
        {"GZip", true},
        {"x-gzip", true},
        {"gzip, deflate, br, zstd", true},
        {"br;q=1.0, gzip;q=0.8, *;q=0.1", true},
        {"deflate,gzip ; q=0.001", true},
        {"gzip;q=0", false},
        {"gzip;q=0.000, *", false}, // a name takes precedence over *
        {"*", true},
        {"*;q=0", false},
        {"*;q=0, gzip", true},
        {"identity", false},
        {"identity;q=0", false},
        {"br", false},
        {"gzipped", false},
        {"gz ip", false},
        {"gzip;q=2", false}, // malformed
        {"gzip;q=", false},
        {"\"gzip\"", false},
        {"br, \"gzip", false},
        {",,;;,", false},
        {" \tgzip\t ", true},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        ck_assert_msg(sk_accept_gzip(rows[i].value) == rows[i].gzip, "row %zu", i);
}
