// Both text formats, byte by byte.
#include <stdio.h>
#include <string.h>

#include "metrics_text.h"
#include "test.h"

static struct sk_buf out;
static struct sk_distributed values;

static void setup(void)
{
    memset(&values, 0, sizeof values);
}

static void teardown(void)
{
    sk_buf_free(&out);
}

static void write_all(const struct sk_metrics_text *text)
{
    sk_metrics_text_family(text, "a_total", SK_FAMILY_COUNTER, "What is counted");
    sk_metrics_text_number(text, "a_total", "", 5);
    sk_metrics_text_family(text, "b_seconds_total", SK_FAMILY_COUNTER, "Time");
    sk_metrics_text_decimal(text, "b_seconds_total", "c=\"d\"", 1000002, 6);
    sk_metrics_text_family(text, "e", SK_FAMILY_GAUGE, "A gauge");
    sk_metrics_text_signed(text, "e", "f=\"1\"", -3);
    sk_metrics_text_signed(text, "e", "f=\"2\"", 3);
    sk_metrics_text_family(text, "g_bytes", SK_FAMILY_GAUGE, "Bytes");
    sk_metrics_text_number(text, "g_bytes", "", UINT64_MAX);
    sk_metrics_text_family(text, "s", SK_FAMILY_SUMMARY, "A summary");
    sk_metrics_text_summary(text, "s", "t=\"1\"", 1500000000, 2);
    sk_metrics_text_family(text, "h_info", SK_FAMILY_INFO, "Info");
    sk_metrics_text_number(text, "h_info", "v=\"1\"", 1);
    sk_metrics_text_end(text);
}

TEST(prometheus)
{
    write_all(&(const struct sk_metrics_text){&out, false});
    ck_assert_str_eq(out.data, "# HELP a_total What is counted\n# TYPE a_total counter\na_total 5\n"
                               "# HELP b_seconds_total Time\n# TYPE b_seconds_total counter\n"
                               "b_seconds_total{c=\"d\"} 1.000002\n"
                               "# HELP e A gauge\n# TYPE e gauge\ne{f=\"1\"} -3\ne{f=\"2\"} 3\n"
                               "# HELP g_bytes Bytes\n# TYPE g_bytes gauge\ng_bytes 18446744073709551615\n"
                               "# HELP s A summary\n# TYPE s summary\ns_sum{t=\"1\"} 1.500000000\ns_count{t=\"1\"} 2\n"
                               "# HELP h_info Info\n# TYPE h_info gauge\nh_info{v=\"1\"} 1\n");
}

TEST(open_metrics)
{
    write_all(&(const struct sk_metrics_text){&out, true});
    ck_assert_str_eq(out.data, "# HELP a What is counted\n# TYPE a counter\na_total 5\n"
                               "# HELP b_seconds Time\n# TYPE b_seconds counter\n# UNIT b_seconds seconds\n"
                               "b_seconds_total{c=\"d\"} 1.000002\n"
                               "# HELP e A gauge\n# TYPE e gauge\ne{f=\"1\"} -3\ne{f=\"2\"} 3\n"
                               "# HELP g_bytes Bytes\n# TYPE g_bytes gauge\n# UNIT g_bytes bytes\n"
                               "g_bytes 18446744073709551615\n"
                               "# HELP s A summary\n# TYPE s summary\ns_sum{t=\"1\"} 1.500000000\ns_count{t=\"1\"} 2\n"
                               "# HELP h Info\n# TYPE h info\nh_info{v=\"1\"} 1\n"
                               "# EOF\n");
}

static const char sizes[] = "n_bucket{l=\"1\",le=\"1.0\"} 2\nn_bucket{l=\"1\",le=\"2.0\"} 2\n"
                            "n_bucket{l=\"1\",le=\"4.0\"} 5%s\nn_bucket{l=\"1\",le=\"8.0\"} 5\n"
                            "n_bucket{l=\"1\",le=\"16.0\"} 5\nn_bucket{l=\"1\",le=\"32.0\"} 5\n"
                            "n_bucket{l=\"1\",le=\"64.0\"} 5\nn_bucket{l=\"1\",le=\"128.0\"} 5\n"
                            "n_bucket{l=\"1\",le=\"256.0\"} 5\nn_bucket{l=\"1\",le=\"512.0\"} 5\n"
                            "n_bucket{l=\"1\",le=\"1024.0\"} 5\nn_bucket{l=\"1\",le=\"2048.0\"} 5\n"
                            "n_bucket{l=\"1\",le=\"+Inf\"} 6\nn_sum{l=\"1\"} 4000\nn_count{l=\"1\"} 6\n";

// Exemplars are for OpenMetrics.
TEST_EACH(a_histogram_is_cumulative, 2)
{
    char expected[2048];
    values.counts[0] = 2;
    values.counts[2] = 3;
    values.counts[12] = 1;
    values.sum = 4000;
    values.exemplars[2] =
        (struct sk_exemplar){.value = 3, .at_ms = 1700000000123, .trace_id = "01ab0000000000000000000000000000"};
    sk_metrics_text_histogram(&(const struct sk_metrics_text){&out, _i == 1}, "n", "l=\"1\"", SK_SCALE_ORDERS, &values);
    (void)snprintf(expected, sizeof expected, sizes,
                   _i == 1 ? " # {trace_id=\"01ab0000000000000000000000000000\"} 3.0 1700000000.123" : "");
    ck_assert_str_eq(out.data, expected);
}

TEST(times_are_seconds)
{
    values.counts[18] = 1;
    values.sum = UINT64_C(20000000001);
    values.exemplars[18] = (struct sk_exemplar){
        .value = UINT64_C(20000000001), .at_ms = 1, .trace_id = "00000000000000000000000000000000"};
    sk_metrics_text_histogram(&(const struct sk_metrics_text){&out, true}, "n", "", SK_SCALE_SECONDS, &values);
    ck_assert_ptr_nonnull(strstr(out.data, "n_bucket{le=\"0.0001\"} 0\n"));
    ck_assert_ptr_nonnull(strstr(out.data, "n_bucket{le=\"13.1072\"} 0\n"));
    ck_assert_ptr_nonnull(strstr(out.data, "n_bucket{le=\"+Inf\"} 1 # {trace_id=\"00000000000000000000000000000000\"} "
                                           "20.000000001 0.001\n"
                                           "n_sum 20.000000001\nn_count 1\n"));
}

SUITE(.setup = setup, .teardown = teardown);
