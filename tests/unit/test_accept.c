// Which format of /metrics an Accept field selects, and whether Accept-Encoding allows gzip.
#include <stddef.h>

#include "accept.h"
#include "test.h"

static void must_be(bool (*wants)(const char *value), bool expected, const char *const *values)
{
    for (; *values != NULL; values++)
        ck_assert_msg(wants(*values) == expected, "%s", *values);
}

TEST(openmetrics_is_sent_to_those_who_name_it_and_do_not_prefer_text)
{
#define OPEN "application/openmetrics-text"
    static const char *const open_metrics[] = {
        OPEN,
        "Application/OpenMetrics-Text; Version=1.0.0",
        OPEN ";version=\"1.0.0\"",
        // Prometheus 2
        OPEN ";version=1.0.0," OPEN ";version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
        OPEN ";version=1.0.0;q=0.5," OPEN ";version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
        "text/plain;version=0.0.4;q=0.5," OPEN ";q=0.5",
        "text/plain;q=0.1, text/*;q=0.9, " OPEN ";q=0.5", // the most specific range decides
        OPEN ";q=0.001",
        OPEN ";q=1.000",
        OPEN " ; q=0.4 , text/plain;q=0.3",
        "text/plain;q=0.2;x=\"\\\"\", " OPEN,
        NULL,
    };
    static const char *const text[] = {// not named, or another version
                                       "", "*/*", "text/plain", OPEN ";version=0.0.1",
                                       OPEN "; version=2.0.0, text/plain", OPEN "ual", "application/openmetrics",
                                       // of less weight
                                       "text/plain;version=0.0.4;q=0.5," OPEN ";q=0.4", "text/*;q=0.9, " OPEN ";q=0.5",
                                       "*/*;q=0.9, " OPEN ";q=0.5", OPEN ";q=0", OPEN ";q=0.000",
                                       // malformed
                                       OPEN ";q=1.001", OPEN ";q=0.5.5", OPEN ";q=0.0001", OPEN ";q=", OPEN ";q=-1",
                                       "text/plain;x=\"a, " OPEN "\"", "\"" OPEN, ",,;;,", NULL};
    must_be(sk_accept_openmetrics, true, open_metrics);
    must_be(sk_accept_openmetrics, false, text);
    ck_assert(!sk_accept_openmetrics(NULL));
}

TEST(gzip_is_sent_to_those_who_take_it)
{
    static const char *const gzip[] = {"gzip", "GZip", "x-gzip", "gzip, deflate, br, zstd",
                                       "br;q=1.0, gzip;q=0.8, *;q=0.1",
                                       // a small weight, and any coding
                                       "deflate,gzip ; q=0.001", "*", "*;q=0, gzip", " \tgzip\t ", NULL};
    static const char *const plain[] = {"",
                                        "gzip;q=0",
                                        "*;q=0",
                                        "identity",
                                        "identity;q=0",
                                        "br",
                                        "gzipped",
                                        "gz ip",
                                        "gzip;q=0.000, *", // a name takes precedence over *
                                        "gzip;q=2",
                                        "gzip;q=",
                                        "\"gzip\"",
                                        "br, \"gzip",
                                        ",,;;,",
                                        NULL};
    must_be(sk_accept_gzip, true, gzip);
    must_be(sk_accept_gzip, false, plain);
    ck_assert(!sk_accept_gzip(NULL));
}
