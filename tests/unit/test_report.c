// A settlement report computed from numbers: its verdict and reasons, the same in each format.
#include <jansson.h>
#include <string.h>

#include "report.h"
#include "stack.h"
#include "test.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])
#define MS           UINT64_C(1000000)

enum { COLUMNS = 35, PAYMENTS = COLUMNS - 1, TEXT_SIZE = 32 };

// ---- rows in PostgreSQL's form ----

struct sk_rows {
    const char *columns[COLUMNS];
};

const char *sk_rows_text(const struct sk_rows *rows, size_t row, int column)
{
    ck_assert_uint_eq(row, 0);
    ck_assert_int_lt(column, COLUMNS);
    return rows->columns[column];
}

int64_t sk_rows_number(const struct sk_rows *rows, size_t row, int column)
{
    const char *text = sk_rows_text(rows, row, column);
    return text == NULL ? 0 : strtoll(text, NULL, 10);
}

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
    sk_buf_clear(&out);
}

static void teardown(void)
{
    sk_buf_free(&out);
}

// Check limits its messages, and these texts are longer: shows where they differ.
static void must_be_written(const char *text)
{
    size_t same = 0;
    while (text[same] != '\0' && text[same] == out.data[same])
        same++;
    ck_assert_msg(strcmp(text, out.data) == 0, "'%.60s' instead of '%.60s'", out.data + same, text + same);
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

// Only this sum is wrong.
static void must_be_wrong(enum sk_report_sum sum, int64_t is, int64_t should_be)
{
    must_be(SK_REPORT_WRONG);
    for (int i = 0; i < SK_REPORT_SUM_COUNT; i++)
        ck_assert_int_eq(judgement.sums[i].is != judgement.sums[i].should_be, i == (int)sum);
    ck_assert_int_eq(judgement.sums[sum].is, is);
    ck_assert_int_eq(judgement.sums[sum].should_be, should_be);
}

// ---- reading ----

TEST(a_row_is_read)
{
    char numbers[COLUMNS][TEXT_SIZE];
    struct sk_rows rows = {.columns = {"open", "GRANT_LOST 1 2,SOLD_OUT 30 40", "CNY 990 5 6 3 4,EUR 100 1 1 0 0"}};
    for (int i = 3; i < PAYMENTS; i++) {
        (void)snprintf(numbers[i], TEXT_SIZE, "%d", 99 + i);
        rows.columns[i] = numbers[i];
    }
    rows.columns[8] = NULL; // the sum over no rows
    rows.columns[PAYMENTS] = "to_refund CNY 1 990,accepted CNY 2 1980";
    ck_assert(sk_report_read(&rows, &report));
    ck_assert_str_eq(report.state, "open");
    ck_assert_int_eq(report.at_ms, 102);
    ck_assert_int_eq(report.units, 106);
    ck_assert_int_eq(report.added, 0);
    ck_assert_int_eq(report.unpaid_orders, 111);
    ck_assert_int_eq(report.duplicates, 128);
    ck_assert_int_eq(report.account_stock, 129);
    ck_assert_int_eq(report.account_buyers, 130);
    ck_assert_int_eq(report.to_refund, 131);
    ck_assert_int_eq(report.archived_payments, 132);
    ck_assert_uint_eq(report.payment_count, 2);
    ck_assert_str_eq(report.payments[0].state, "to_refund");
    ck_assert_str_eq(report.payments[0].currency, "CNY");
    ck_assert_int_eq(report.payments[0].payments, 1);
    ck_assert_int_eq(report.payments[0].cents, 990);
    ck_assert_str_eq(report.payments[1].state, "accepted");
    ck_assert_int_eq(report.payments[1].cents, 1980);
    ck_assert_int_eq(report.voucher_id, 7); // unchanged
    ck_assert_uint_eq(report.reasons, 2);
    ck_assert_str_eq(report.refused[0].reason, "GRANT_LOST");
    ck_assert_int_eq(report.refused[0].orders, 1);
    ck_assert_int_eq(report.refused[0].units, 2);
    ck_assert_str_eq(report.refused[1].reason, "SOLD_OUT");
    ck_assert_int_eq(report.refused[1].orders, 30);
    ck_assert_int_eq(report.refused[1].units, 40);
    ck_assert_uint_eq(report.price_count, 2);
    ck_assert_str_eq(report.prices[0].currency, "CNY");
    ck_assert_int_eq(report.prices[0].cents, 990);
    ck_assert_int_eq(report.prices[0].orders, 5);
    ck_assert_int_eq(report.prices[0].units, 6);
    ck_assert_int_eq(report.prices[0].paid_orders, 3);
    ck_assert_int_eq(report.prices[0].paid_units, 4);
    ck_assert_str_eq(report.prices[1].currency, "EUR");
    rows.columns[1] = rows.columns[2] = rows.columns[PAYMENTS] = NULL;
    ck_assert(sk_report_read(&rows, &report));
    rows.columns[0] = NULL;
    ck_assert(!sk_report_read(&rows, &report));
}

TEST(reasons_that_cannot_be_read_are_refused)
{
    static const struct {
        const char *text;
        bool good;
        size_t reasons;
    } rows[] = {
        {"", true, 0},
        {"A 1 2", true, 1},
        {"A 1 2,", true, 1},
        {"A", false, 0},
        {"A 1", false, 0},
        {"A 1 ", false, 0},
        {"A x 2", false, 0},
        {"A 1 x", false, 0},
        {"A 1,B 2", false, 0},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMN 1 2", true, 1},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNO 1 2", false, 0},
        {"A 1 2,A 1 2,A 1 2,A 1 2,A 1 2,A 1 2,A 1 2,A 1 2,A 1 2,A 1 2,A 1 2,A 1 2,A 1 2,A 1 2,A 1 2,A 1 2,A 1 2", true,
         SK_REPORT_REASONS_MAX},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct sk_rows row = {.columns = {"open", rows[i].text}};
        ck_assert_msg(sk_report_read(&row, &report) == rows[i].good, "%s", rows[i].text);
        if (rows[i].good)
            ck_assert_uint_eq(report.reasons, rows[i].reasons);
    }
}

TEST(prices_that_cannot_be_read_are_refused)
{
    static const struct {
        const char *text;
        bool good;
        size_t prices;
    } rows[] = {
        {"", true, 0},
        {"CNY 1 2 3 4 5", true, 1},
        {"CNY 1 2 3 4 5,EUR 1 2 3 4 5", true, 2},
        {"CNY", false, 0},
        {"CNY 1 2 3 4", false, 0},
        {"CNY x 2 3 4 5", false, 0},
        {"CNY 1 2 3,EUR 4 5", false, 0},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNO 1 2 3 4 5", false, 0},
        {"A 1 1 1 1 1,A 1 1 1 1 1,A 1 1 1 1 1,A 1 1 1 1 1,A 1 1 1 1 1,A 1 1 1 1 1,A 1 1 1 1 1,A 1 1 1 1 1,"
         "A 1 1 1 1 1,A 1 1 1 1 1,A 1 1 1 1 1,A 1 1 1 1 1,A 1 1 1 1 1,A 1 1 1 1 1,A 1 1 1 1 1,A 1 1 1 1 1,A 1 1 1 1 1",
         true, SK_REPORT_PRICES_MAX},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct sk_rows row = {.columns = {"open", NULL, rows[i].text}};
        ck_assert_msg(sk_report_read(&row, &report) == rows[i].good, "%s", rows[i].text);
        if (rows[i].good)
            ck_assert_uint_eq(report.price_count, rows[i].prices);
    }
}

TEST(payments_that_cannot_be_read_are_refused)
{
    static const struct {
        const char *text;
        bool good;
        size_t payments;
    } rows[] = {
        {"", true, 0},
        {"paid CNY 1 2", true, 1},
        {"paid CNY 1 9223372036854775807,paid EUR 1 2", true, 2},
        {"paid", false, 0},
        {"paid CNY", false, 0},
        {"paid CNY 1", false, 0},
        {"paid CNY x 2", false, 0},
        {"paid CNY 1,paid EUR 1 2", false, 0},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNO CNY 1 2", false, 0},
        {"paid ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNO 1 2", false, 0},
        {"a A 1 1,a A 1 1,a A 1 1,a A 1 1,a A 1 1,a A 1 1,a A 1 1,a A 1 1,a A 1 1,a A 1 1,a A 1 1,a A 1 1,a A 1 1,"
         "a A 1 1,a A 1 1,a A 1 1,a A 1 1",
         true, SK_REPORT_PAYMENTS_MAX},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct sk_rows row = {.columns = {"open", [PAYMENTS] = rows[i].text}};
        ck_assert_msg(sk_report_read(&row, &report) == rows[i].good, "%s", rows[i].text);
        if (rows[i].good)
            ck_assert_uint_eq(report.payment_count, rows[i].payments);
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
    report.pay_within_s = 0;
    report.letters = 1;
    report.held_orders = 2;
    report.held_units = 3;
    report.redis_stock = report.account_stock -= 3;
    report.redis_buyers = report.account_buyers += 2;
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
    static const enum sk_report_books all[] = {SK_REPORT_MOVING, SK_REPORT_UNSURE, SK_REPORT_LOADING, SK_REPORT_MISSING,
                                               SK_REPORT_UNKNOWN};
    for (size_t i = 0; i < COUNT(all); i++) {
        setup();
        report.books = all[i];
        must_miss(SK_REPORT_REDIS, 1);
        report.redis_stock = 99; // read at another moment
        must_miss(SK_REPORT_REDIS, 1);
    }
    report.books = SK_REPORT_MOVING;
    report.redis_journal = 3;
    report.redis_buyers = 57;
    must_be(SK_REPORT_OPEN);
    ck_assert_int_eq(judgement.missing[SK_REPORT_JOURNAL], 3);
    ck_assert_int_eq(judgement.missing[SK_REPORT_PENDING], 7);
}

TEST(each_sum_is_seen_by_itself)
{
    report.stock++;
    must_be_wrong(SK_REPORT_SUM_UNITS, 102, 101);
    setup();
    report.kept_units = 0;
    must_be_wrong(SK_REPORT_SUM_UNITS, 100, 101);
    setup();
    report.live_counted--;
    must_be_wrong(SK_REPORT_SUM_LIVE, 49, 50);
    setup();
    report.duplicates = 1;
    must_be_wrong(SK_REPORT_SUM_DUPLICATES, 1, 0);
    setup();
    report.redis_stock--;
    must_be_wrong(SK_REPORT_SUM_STOCK, 39, 40);
    setup();
    report.account_stock = 39; // a letter holds one, and Redis still sells it
    must_be_wrong(SK_REPORT_SUM_STOCK, 40, 39);
    setup();
    report.redis_buyers++;
    must_be_wrong(SK_REPORT_SUM_BUYERS, 51, 50);
    setup();
    report.account_buyers = 51;
    must_be_wrong(SK_REPORT_SUM_BUYERS, 50, 51);
}

TEST(what_is_wrong_is_told_while_it_is_open)
{
    strcpy(report.state, "open");
    report.end_ms = 9000;
    report.duplicates = 2;
    must_be(SK_REPORT_WRONG);
    ck_assert_int_eq(judgement.missing[SK_REPORT_SALE_ON], 7);
    setup();
    report.books = SK_REPORT_RETIRED; // PostgreSQL's numbers are judged without Redis, too
    report.stock--;
    must_be(SK_REPORT_WRONG);
}

// ---- writing ----

// Fills every section.
static void fill(void)
{
    strcpy(report.state, "open");
    report.end_ms = 5000;
    report.live_counted = 51;
    report.reasons = 1;
    strcpy(report.refused[0].reason, "SOLD_OUT");
    report.refused[0].orders = report.refused_orders = 8;
    report.refused[0].units = report.refused_units = 9;
    report.price_count = 2;
    strcpy(report.prices[0].currency, "CNY");
    report.prices[0].cents = 990;
    report.prices[0].orders = 49;
    report.prices[0].units = 59;
    report.prices[0].paid_orders = 30;
    report.prices[0].paid_units = 36;
    strcpy(report.prices[1].currency, "EUR");
    report.prices[1].cents = INT64_C(100000000000);
    report.prices[1].orders = 1;
    report.prices[1].units = 100000000;
    report.payment_count = 3;
    strcpy(report.payments[0].state, "to_refund");
    strcpy(report.payments[0].currency, "CNY");
    report.payments[0].payments = report.to_refund = 2;
    report.payments[0].cents = 1980;
    strcpy(report.payments[1].state, "to_refund");
    strcpy(report.payments[1].currency, "USD");
    report.payments[1].payments = 1;
    report.payments[1].cents = INT64_MAX; // the most
    strcpy(report.payments[2].state, "accepted");
    strcpy(report.payments[2].currency, "CNY");
    report.payments[2].payments = 30;
    report.payments[2].cents = 35640;
    report.archived_payments = 6;
    (void)snprintf(report.instance, sizeof report.instance, "shop-1:8080");
    report.since_ms = INT64_C(1767225600000);
    report.durable.count = 4;
    report.durable.counts[0] = 2;
    report.durable.counts[8] = 1;
    report.durable.counts[SK_HISTOGRAM_LAST] = 1;
    report.durable.most_ns = 200000 * MS;
}

TEST(the_json_has_it_all)
{
    fill();
    sk_report_put(&report, SK_REPORT_JSON, &out);
    must_be_written(
        "{\"voucher_id\":\"7\",\"at\":\"1970-01-01T00:00:02.000Z\",\"state\":\"open\",\"verdict\":\"wrong\","
        "\"missing\":{\"SALE_ON\":3,\"TO_REFUND\":2},\"wrong\":{\"LIVE_ORDERS\":{\"is\":51,\"should_be\":50}},"
        "\"units\":{\"offered\":103,\"added\":5,\"taken_away\":2,\"sold\":60,\"kept\":1,\"held\":0,\"remaining\":40},"
        "\"orders\":{\"sold\":{\"orders\":50,\"units\":60},\"unpaid\":{\"orders\":20,\"units\":24},"
        "\"paid\":{\"orders\":30,\"units\":36},\"cancelled\":{\"orders\":0,\"units\":0},"
        "\"expired\":{\"orders\":0,\"units\":0},\"refunded_restocked\":{\"orders\":0,\"units\":0},"
        "\"refunded_kept\":{\"orders\":1,\"units\":1},\"refused\":{\"orders\":8,\"units\":9},"
        "\"held\":{\"orders\":0,\"units\":0}},\"refused\":{\"SOLD_OUT\":{\"orders\":8,\"units\":9}},"
        "\"sold_at\":{\"CNY 990\":{\"orders\":49,\"units\":59,\"total_cents\":58410},"
        "\"EUR 100000000000\":{\"orders\":1,\"units\":100000000,\"total_cents\":10000000000000000000}},"
        "\"paid_at\":{\"CNY 990\":{\"orders\":30,\"units\":36,\"total_cents\":35640}},"
        "\"payments_accepted\":{\"CNY\":{\"payments\":30,\"total_cents\":35640}},"
        "\"payments_to_refund\":{\"CNY\":{\"payments\":2,\"total_cents\":1980},"
        "\"USD\":{\"payments\":1,\"total_cents\":9223372036854775807}},\"payments_refunded\":{},"
        "\"checks\":{\"duplicates\":0,\"dead_letters\":0,\"archived_payments\":6},"
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

TEST(the_text_is_aligned)
{
    fill();
    sk_report_put(&report, SK_REPORT_TEXT, &out);
    must_be_written("voucher_id           7\n"
                    "at                   1970-01-01T00:00:02.000Z\n"
                    "state                open\n"
                    "verdict              wrong\n"
                    "\nmissing\n"
                    "  SALE_ON            3\n"
                    "  TO_REFUND          2\n"
                    "\nwrong\n"
                    "  LIVE_ORDERS        51, should be 50\n"
                    "\nunits                     orders       units\n"
                    "  offered                                103\n"
                    "  added                                    5\n"
                    "  taken_away                               2\n"
                    "  sold                                    60\n"
                    "  kept                                     1\n"
                    "  held                                     0\n"
                    "  remaining                               40\n"
                    "\norders                    orders       units\n"
                    "  sold                        50          60\n"
                    "  unpaid                      20          24\n"
                    "  paid                        30          36\n"
                    "  cancelled                    0           0\n"
                    "  expired                      0           0\n"
                    "  refunded_restocked           0           0\n"
                    "  refunded_kept                1           1\n"
                    "  refused                      8           9\n"
                    "  held                         0           0\n"
                    "\nrefused                   orders       units\n"
                    "  SOLD_OUT                     8           9\n"
                    "\nsold_at                   orders       units         total_cents\n"
                    "  CNY 990                     49          59               58410\n"
                    "  EUR 100000000000             1   10000000010000000000000000000\n"
                    "\npaid_at                   orders       units         total_cents\n"
                    "  CNY 990                     30          36               35640\n"
                    "\npayments_accepted       payments                     total_cents\n"
                    "  CNY                         30                           35640\n"
                    "\npayments_to_refund      payments                     total_cents\n"
                    "  CNY                          2                            1980\n"
                    "  USD                          1             9223372036854775807\n"
                    "\npayments_refunded       payments                     total_cents\n"
                    "  -\n"
                    "\nchecks\n"
                    "  duplicates         0\n"
                    "  dead_letters       0\n"
                    "  archived_payments  6\n"
                    "\nredis\n"
                    "  books              compared\n"
                    "  stock                                   40\n"
                    "  buyers                      50\n"
                    "  journal            0\n"
                    "\ntime_to_durable\n"
                    "  instance           shop-1:8080\n"
                    "  instance_since     2026-01-01T00:00:00.000Z\n"
                    "  count                        4\n"
                    "  p50_ms             0.013\n"
                    "  p90_ms             200000.000\n"
                    "  p99_ms             200000.000\n"
                    "  p99_9_ms           200000.000\n"
                    "  max_ms             200000.000\n");
}

// Each record has five fields, none of which needs quotes, and ends as in RFC 4180.
TEST(a_section_without_lines_is_seen_to_be_empty)
{
    sk_report_put(&report, SK_REPORT_TEXT, &out);
    ck_assert_ptr_nonnull(strstr(out.data, "\nmissing\n  -\n\nwrong\n  -\n\nunits"));
    ck_assert_ptr_nonnull(strstr(out.data, "\nrefused                   orders       units\n  -\n\nsold_at "));
    ck_assert_ptr_nonnull(
        strstr(out.data, "\npaid_at                   orders       units         total_cents\n  -\n\npayments_"));
    ck_assert_ptr_nonnull(strstr(out.data, "\nchecks\n  duplicates         0\n"));
}

TEST(the_csv_is_a_table)
{
    fill();
    sk_report_put(&report, SK_REPORT_CSV, &out);
    ck_assert_ptr_nonnull(strstr(out.data, "section,item,orders,units,value\r\nsettlement,voucher_id,,,7\r\n"));
    ck_assert_ptr_nonnull(strstr(out.data, "\r\nmissing,SALE_ON,,,3\r\n"));
    ck_assert_ptr_nonnull(strstr(out.data, "\r\nwrong,LIVE_ORDERS,,,51 instead of 50\r\n"));
    ck_assert_ptr_nonnull(strstr(out.data, "\r\nunits,offered,,103,\r\n"));
    ck_assert_ptr_nonnull(strstr(out.data, "\r\norders,paid,30,36,\r\n"));
    ck_assert_ptr_nonnull(strstr(out.data, "\r\nrefused,SOLD_OUT,8,9,\r\n"));
    ck_assert_ptr_nonnull(strstr(out.data, "\r\npaid_at,CNY 990,30,36,35640\r\n"));
    ck_assert_ptr_nonnull(strstr(out.data, "\r\npayments_to_refund,CNY,2,,1980\r\n"));
    ck_assert_ptr_nonnull(strstr(out.data, "\r\nredis,buyers,50,,\r\n"));
    ck_assert_ptr_nonnull(strstr(out.data, "\r\ntime_to_durable,p50_ms,,,0.013\r\n"));
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
