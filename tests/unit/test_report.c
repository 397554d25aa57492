// A settlement report computed from numbers: its verdict and reasons, the same in each format.
#include <jansson.h>
#include <string.h>

#include "fake_stores.h"
#include "report.h"
#include "test.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define MS           UINT64_C(1000000)

enum { REFUSED = 1, PRICES, PAYMENTS = 34 }; // columns

static struct sk_report report;
static struct sk_judgement judgement;
static struct sk_buf out;

// A finished sale of 100 units (5 added and 2 removed before): 60 are in 50 orders and 40 are left, of which a letter
// holds 3.
static void setup(void)
{
    report = (struct sk_report){.voucher_id = 7,
                                .state = "closed",
                                .at_ms = 2000,
                                .end_ms = 1000,
                                .units = 101,
                                .added = 5,
                                .taken_away = 2,
                                .stock = 40,
                                .live_counted = 50,
                                .unpaid_orders = 20,
                                .unpaid_units = 24,
                                .paid_orders = 30,
                                .paid_units = 36,
                                .kept_orders = 1,
                                .kept_units = 1,
                                .account_stock = 40,
                                .account_buyers = 50,
                                .redis_stock = 40,
                                .redis_buyers = 50};
}

static void teardown(void)
{
    sk_buf_free(&out);
    fake_stores_forget();
}

static void must_be(enum sk_report_verdict verdict)
{
    sk_report_judge(&report, &judgement);
    ck_assert_int_eq(judgement.verdict, verdict);
}

// Only this information is missing.
static void must_miss(enum sk_report_missing what, int64_t number)
{
    must_be(SK_REPORT_OPEN);
    for (int i = 0; i < SK_REPORT_MISSING_COUNT; i++)
        ck_assert_msg(judgement.missing[i] == (i == (int)what ? number : 0), "%d: %d", i, (int)judgement.missing[i]);
}

// ---- reading ----

#define TIMES_4(text)  text text text text
#define TIMES_17(text) TIMES_4(TIMES_4(text)) text
#define LONGEST        "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMN"

TEST(lists_that_cannot_be_read_are_refused)
{
    static const struct {
        int column;
        const char *text;
        int count; // -1: it is refused
    } rows[] = {
        {REFUSED, "", 0},
        {REFUSED, "A 1 2", 1},
        {REFUSED, "A 1 2,", 1},
        {REFUSED, "A", -1},
        {REFUSED, "A 1", -1},
        {REFUSED, "A 1 ", -1},
        {REFUSED, "A x 2", -1},
        {REFUSED, "A 1 x", -1},
        {REFUSED, "A 1 2 ", -1},
        {REFUSED, "A 1,B 2", -1},
        {REFUSED, LONGEST " 1 2", 1},
        {REFUSED, LONGEST "O 1 2", -1},
        {REFUSED, TIMES_17("A 1 2,"), SK_REPORT_REASONS_MAX},
        {PRICES, "", 0},
        {PRICES, "CNY 1 2 3 4 5,EUR 1 2 3 4 5", 2},
        {PRICES, "CNY 1 2 3 4", -1},
        {PRICES, "CNY x 2 3 4 5", -1},
        {PRICES, TIMES_17("A 1 1 1 1 1,"), SK_REPORT_PRICES_MAX},
        {PAYMENTS, "", 0},
        {PAYMENTS, "paid CNY 1 9223372036854775807,paid EUR 1 2", 2},
        {PAYMENTS, "paid CNY", -1},
        {PAYMENTS, "paid CNY 1", -1},
        {PAYMENTS, "paid " LONGEST "O 1 2", -1},
        {PAYMENTS, TIMES_17("a A 1 1,"), SK_REPORT_PAYMENTS_MAX},
        {0, LONGEST "O", -1},
        {0, NULL, -1},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *columns[1][ROW_COLUMNS] = {{"open"}};
        columns[0][rows[i].column] = rows[i].text;
        const struct sk_rows row = {1, (const char *const(*)[ROW_COLUMNS])columns};
        ck_assert_msg(sk_report_read(&row, &report) == (rows[i].count >= 0), "%s", rows[i].text);
        size_t count = rows[i].column == REFUSED  ? report.reasons
                       : rows[i].column == PRICES ? report.price_count
                                                  : report.payment_count;
        if (rows[i].count >= 0)
            ck_assert_uint_eq(count, (size_t)rows[i].count);
    }
}

// ---- judging ----

TEST(what_is_over_and_agrees_is_balanced)
{
    must_be(SK_REPORT_BALANCED);
    strcpy(report.state, "open"); // its end has passed
    must_be(SK_REPORT_BALANCED);
    strcpy(report.state, "closed"); // closed before its end
    report.end_ms = 9000;
    must_be(SK_REPORT_BALANCED);
    report.pay_within_s = 900; // and all are paid
    report.paid_orders += report.unpaid_orders;
    report.paid_units += report.unpaid_units;
    report.unpaid_orders = report.unpaid_units = 0;
    must_be(SK_REPORT_BALANCED);
    report.books = SK_REPORT_RETIRED;
    report.redis_stock = report.redis_buyers = 0;
    must_be(SK_REPORT_BALANCED);
}

TEST(what_may_still_change_keeps_it_open)
{
    report.pay_within_s = 900;
    must_miss(SK_REPORT_UNPAID, 20);
    setup();
    report.letters = 1;
    must_miss(SK_REPORT_DEAD_LETTERS, 1);
    setup();
    report.to_refund = 2;
    must_miss(SK_REPORT_TO_REFUND, 2);
    setup();
    strcpy(report.state, "open");
    report.end_ms = 12001;
    must_miss(SK_REPORT_SALE_ON, 11);
    strcpy(report.state, "paused");
    must_miss(SK_REPORT_SALE_ON, 11);
}

TEST(redis_that_cannot_be_compared_keeps_it_open)
{
    for (int books = SK_REPORT_MOVING; books < SK_REPORT_RETIRED; books++) {
        setup();
        report.books = (enum sk_report_books)books;
        must_miss(SK_REPORT_REDIS, 1);
        report.redis_stock = 99; // read at another moment
        must_miss(SK_REPORT_REDIS, 1);
        report.redis_journal = 3;
        report.redis_buyers = 57;
        must_be(SK_REPORT_OPEN);
        ck_assert_int_eq(judgement.missing[SK_REPORT_JOURNAL], 3);
        ck_assert_int_eq(judgement.missing[SK_REPORT_PENDING], books == SK_REPORT_MOVING ? 7 : 0);
    }
}

// A wrong sum is told whatever else is missing, without Redis, too.
TEST(each_sum_is_seen_by_itself)
{
    static const struct {
        int64_t *number, is_now;
        enum sk_report_sum sum;
        int64_t is, should_be;
    } rows[] = {
        {&report.stock, 41, SK_REPORT_SUM_UNITS, 102, 101},
        {&report.kept_units, 0, SK_REPORT_SUM_UNITS, 100, 101},
        {&report.live_counted, 49, SK_REPORT_SUM_LIVE, 49, 50},
        {&report.duplicates, 1, SK_REPORT_SUM_DUPLICATES, 1, 0},
        {&report.redis_stock, 39, SK_REPORT_SUM_STOCK, 39, 40},
        {&report.account_stock, 39, SK_REPORT_SUM_STOCK, 40, 39}, // a letter holds one, and Redis still sells it
        {&report.redis_buyers, 51, SK_REPORT_SUM_BUYERS, 51, 50},
        {&report.account_buyers, 51, SK_REPORT_SUM_BUYERS, 50, 51},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        setup();
        *rows[i].number = rows[i].is_now;
        must_be(SK_REPORT_WRONG);
        for (int sum = 0; sum < SK_REPORT_SUM_COUNT; sum++)
            ck_assert_int_eq(judgement.sums[sum].is != judgement.sums[sum].should_be, sum == (int)rows[i].sum);
        ck_assert_int_eq(judgement.sums[rows[i].sum].is, rows[i].is);
        ck_assert_int_eq(judgement.sums[rows[i].sum].should_be, rows[i].should_be);
        strcpy(report.state, "open");
        report.end_ms = 9000;
        must_be(SK_REPORT_WRONG);
        ck_assert_int_eq(judgement.missing[SK_REPORT_SALE_ON], 7);
        report.books = SK_REPORT_RETIRED;
        must_be(rows[i].sum < SK_REPORT_SUM_STOCK ? SK_REPORT_WRONG : SK_REPORT_OPEN);
    }
}

// ---- writing ----

// A row with other numbers in each column, read and written.
static void put(enum sk_report_format format)
{
    static const char *const columns[][ROW_COLUMNS] = {
        {"open",
         "SOLD_OUT 8 9,GRANT_LOST 1 2",
         "CNY 990 49 59 30 36,EUR 100000000000 1 100000000 0 0", // the highest
         "2000",
         "1000",
         "5000",
         "900",
         "101",
         "5",
         "2",
         "40",
         "51",
         "20",
         "24",
         "30",
         "36",
         "11",
         "12",
         "13",
         "14",
         "15",
         "16",
         NULL /* a sum over no rows */,
         "1",
         "8",
         "9",
         "7",
         "18",
         "19",
         "21",
         "22",
         "23",
         "3",
         "6",
         "to_refund CNY 2 1980,to_refund USD 1 9223372036854775807,accepted CNY 30 35640"}};
    ck_assert(sk_report_read(&(const struct sk_rows){1, columns}, &report));
    (void)snprintf(report.instance, sizeof report.instance, "shop-1:8080");
    report.since_ms = INT64_C(1767225600000);
    report.durable.count = 4;
    report.durable.counts[0] = 2;
    report.durable.counts[8] = 1;
    report.durable.counts[SK_HISTOGRAM_LAST] = 1;
    report.durable.most_ns = 200000 * MS;
    sk_report_put(&report, format, &out);
}

// Check limits its messages, and this text is longer: shows where they differ.
static void must_be_written(const char *text)
{
    size_t same = 0;
    while (text[same] != '\0' && text[same] == out.data[same])
        same++;
    ck_assert_msg(strcmp(text, out.data) == 0, "'%.60s' instead of '%.60s'", out.data + same, text + same);
}

static void must_have(const char *const *parts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(strstr(out.data, parts[i]) != NULL, "%s", parts[i]);
}

TEST(the_json_has_it_all)
{
    put(SK_REPORT_JSON);
    must_be_written(
        "{\"voucher_id\":\"7\",\"at\":\"1970-01-01T00:00:02.000Z\",\"state\":\"open\",\"verdict\":\"wrong\","
        "\"missing\":{\"SALE_ON\":3,\"UNPAID\":20,\"DEAD_LETTERS\":7,\"TO_REFUND\":3},"
        "\"wrong\":{\"LIVE_ORDERS\":{\"is\":51,\"should_be\":50},\"DUPLICATES\":{\"is\":21,\"should_be\":0},"
        "\"REDIS_STOCK\":{\"is\":40,\"should_be\":22},\"REDIS_BUYERS\":{\"is\":50,\"should_be\":23}},"
        "\"units\":{\"offered\":103,\"added\":5,\"taken_away\":2,\"sold\":60,\"kept\":1,\"held\":19,\"remaining\":40},"
        "\"orders\":{\"sold\":{\"orders\":50,\"units\":60},\"unpaid\":{\"orders\":20,\"units\":24},"
        "\"paid\":{\"orders\":30,\"units\":36},\"cancelled\":{\"orders\":11,\"units\":12},"
        "\"expired\":{\"orders\":13,\"units\":14},\"refunded_restocked\":{\"orders\":15,\"units\":16},"
        "\"refunded_kept\":{\"orders\":0,\"units\":1},\"refused\":{\"orders\":8,\"units\":9},"
        "\"held\":{\"orders\":18,\"units\":19}},"
        "\"refused\":{\"SOLD_OUT\":{\"orders\":8,\"units\":9},\"GRANT_LOST\":{\"orders\":1,\"units\":2}},"
        "\"sold_at\":{\"CNY 990\":{\"orders\":49,\"units\":59,\"total_cents\":58410},"
        "\"EUR 100000000000\":{\"orders\":1,\"units\":100000000,\"total_cents\":10000000000000000000}},"
        "\"paid_at\":{\"CNY 990\":{\"orders\":30,\"units\":36,\"total_cents\":35640}},"
        "\"payments_accepted\":{\"CNY\":{\"payments\":30,\"total_cents\":35640}},"
        "\"payments_to_refund\":{\"CNY\":{\"payments\":2,\"total_cents\":1980},"
        "\"USD\":{\"payments\":1,\"total_cents\":9223372036854775807}},\"payments_refunded\":{},"
        "\"checks\":{\"duplicates\":21,\"dead_letters\":7,\"archived_payments\":6},"
        "\"redis\":{\"books\":\"compared\",\"stock\":40,\"buyers\":50,\"journal\":0},"
        "\"time_to_durable\":{\"instance\":\"shop-1:8080\",\"instance_since\":\"2026-01-01T00:00:00.000Z\",\"count\":4,"
        "\"p50_ms\":0.013,"
        "\"p90_ms\":200000.000,\"p99_ms\":200000.000,\"p99_9_ms\":200000.000,\"max_ms\":200000.000,"
        "\"buckets\":[[0.0125,2],[0.1125,1],[200000.0000,1]]}}");
}

// Each state of Redis, and an empty report, is valid JSON without duplicate members.
TEST(the_json_is_valid)
{
    for (int i = 0; i < 8; i++) {
        json_error_t error;
        report = i == 7 ? (struct sk_report){.state = "open"} : report;
        report.books = (enum sk_report_books)(i % 7);
        sk_buf_clear(&out);
        sk_report_put(&report, SK_REPORT_JSON, &out);
        json_t *json = json_loads(out.data, JSON_REJECT_DUPLICATES, &error);
        ck_assert_msg(json != NULL, "not JSON (%s): %s", error.text, out.data);
        json_decref(json);
    }
}

// The same lines in columns: an empty section has a dash.
TEST(the_text_is_aligned)
{
    static const char *const parts[] = {
        "state                open\nverdict              wrong\n\nmissing\n  SALE_ON            3\n",
        "\nwrong\n  LIVE_ORDERS        51, should be 50\n",
        "\nunits                     orders       units\n  offered                                103\n",
        "  remaining                               40\n\norders                    orders       units\n",
        "  paid                        30          36\n",
        "\nsold_at                   orders       units         total_cents\n",
        "  EUR 100000000000             1   10000000010000000000000000000\n\npaid_at  ",
        "\npayments_to_refund      payments                     total_cents\n"
        "  CNY                          2                            1980\n",
        "\npayments_refunded       payments                     total_cents\n  -\n\nchecks\n",
        "\nredis\n  books              compared\n  stock                                   40\n"
        "  buyers                      50\n  journal            0\n\ntime_to_durable\n",
    };
    static const char *const empty[] = {"\nmissing\n  -\n\nwrong\n  -\n\nunits", "units\n  -\n\nsold_at "};
    static const char begin[] = "voucher_id           7\nat                   1970-01-01T00:00:02.000Z\n";
    static const char end[] = "\n  max_ms             200000.000\n";
    sk_report_put(&report, SK_REPORT_TEXT, &out);
    must_have(empty, COUNT(empty));
    sk_buf_clear(&out);
    put(SK_REPORT_TEXT);
    ck_assert_int_eq(strncmp(out.data, begin, strlen(begin)), 0);
    must_have(parts, COUNT(parts));
    ck_assert_str_eq(out.data + out.len - strlen(end), end);
}

// Each record has five fields, none of which needs quotes, and ends as in RFC 4180.
TEST(the_csv_is_a_table)
{
    static const char *const parts[] = {
        "section,item,orders,units,value\r\nsettlement,voucher_id,,,7\r\n",
        "\r\nmissing,SALE_ON,,,3\r\n",
        "\r\nwrong,LIVE_ORDERS,,,51 instead of 50\r\n",
        "\r\nunits,offered,,103,\r\n",
        "\r\norders,paid,30,36,\r\n",
        "\r\npaid_at,CNY 990,30,36,35640\r\n",
        "\r\npayments_to_refund,CNY,2,,1980\r\n",
        "\r\nredis,buyers,50,,\r\n",
        "\r\ntime_to_durable,p50_ms,,,0.013\r\n",
    };
    put(SK_REPORT_CSV);
    must_have(parts, COUNT(parts));
    ck_assert_str_eq(out.data + out.len - 2, "\r\n");
    ck_assert_ptr_null(strchr(out.data, '"'));
    int commas = 0;
    for (const char *at = out.data; *at != '\0'; at++) {
        commas += *at == ',';
        if (*at == '\n') {
            ck_assert_int_eq(at[-1], '\r');
            ck_assert_int_eq(commas, 4);
            commas = 0;
        }
    }
}

SUITE(.setup = setup, .teardown = teardown);
