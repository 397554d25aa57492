// The query of a settlement report: its calls in order, when Redis counts as compared, and the limit of
// concurrent counts.
#include "fake_control.h"

#include "histogram.h"
#include "settlement_report.h"
#include "test.h"

enum { VOUCHER = 7, OTHER = 6, OLD = 5, NEW = 9, NEWEST = 8 };

typedef const char *const rows_t[ROW_COLUMNS];

// 10 units, 8 left and 2 paid orders; the audit agrees. The other columns are NULL, which means 0.
#define ROW(state)                                                                                                     \
    {                                                                                                                  \
        state, NULL, NULL, "5000", "0", "4000", "0", "10", NULL, NULL, "8", "2", NULL, NULL, "2", "2", [30] = "8", "2" \
    }

static const rows_t open_rows[] = {ROW("open")}, retired_rows[] = {ROW("retired")}, bad_rows[] = {{NULL}};
static const struct sk_rows counted = {1, open_rows}, counted_retired = {1, retired_rows}, unreadable = {1, bad_rows};

static void setup(void)
{
    control_setup();
    (void)a_voucher(sale.catalogue, VOUCHER);
    (void)a_voucher(sale.catalogue, OTHER);
    fake_catalogue_sync.newest_id = NEWEST;
}

static void ask(int64_t voucher, uint64_t handle)
{
    sk_settlement_report(&control, voucher, SK_REPORT_JSON, handle);
}

#define SNAPSHOT(state, last, stock, run, buyers, journal)                                                     \
    redis_answers(&(const struct sk_reply)LIST_OF(((const struct sk_reply[]){                                  \
        TEXT(state), TEXT("3"), TEXT(last), TEXT(stock), TEXT(run), NUMBER(buyers), NUMBER(journal), TEXT(""), \
        TEXT("1"), TEXT("4000"), TEXT("5000"), NUMBER(0), TEXT("1")})))

static void give_snapshot(void)
{
    SNAPSHOT("open", "10-1", "8", "run-1", 2, 0);
}

static void ask_and_count(const struct sk_rows *rows)
{
    ask(VOUCHER, 1);
    give_snapshot();
    pg_answers(rows);
}

static void must_say(uint64_t handle, const char *what)
{
    must_be_told(handle, SK_VERDICT_FOUND);
    ck_assert_msg(strstr(told_document, what) != NULL, "%s: %s", what, told_document);
}

// ---- the course ----

TEST(redis_is_read_before_and_after_the_count)
{
    char name[SK_INSTANCE_WORD_MAX + 1], since[SK_TIME_SIZE], expected[64 + sizeof name + sizeof since];
    struct sk_histogram *durable = sk_histogram_open(VOUCHER);
    sk_text_put_time(sk_durations_since_ms(), since);
    sk_instances_name(control.sale->instance, name);
    (void)snprintf(expected, sizeof expected, "\"instance\":\"%s\",\"instance_since\":\"%s\",\"count\":1,", name,
                   since);
    sk_histogram_add(durable, 3000000);
    ask(VOUCHER, 1);
    ck_assert_uint_eq(fake_pg.count, 0);
    ck_assert_int_eq(fake_redis.asked[0].what, SK_SCRIPT_READ_VOUCHER);
    ck_assert_str_eq(arguments_of(&fake_redis.asked[0]),
                     "seckill:{7}:voucher seckill:{7}:buyers seckill:{7}:journal run-1"); // the process connected to
    give_snapshot();
    statement_must_be(SK_STATEMENT_SETTLEMENT, "7");
    ck_assert_uint_eq(fake_redis.count, 1);
    pg_answers(&counted);
    ck_assert_uint_eq(told_count, 0);
    give_snapshot();
    must_say(1, "\"verdict\":\"balanced\",\"missing\":{},\"wrong\":{},");
    ck_assert_ptr_nonnull(strstr(told_document, "{\"voucher_id\":\"7\","));
    ck_assert_ptr_nonnull(strstr(told_document, "\"books\":\"compared\",\"stock\":8,\"buyers\":2,\"journal\":0}"));
    ck_assert_ptr_nonnull(strstr(told_document, expected));
    ck_assert_ptr_nonnull(strstr(told_document, "\"max_ms\":3.000"));
    sk_histogram_close(durable);
}

TEST(what_does_not_agree_is_wrong)
{
    ask(VOUCHER, 1);
    SNAPSHOT("open", "10-1", "9", "run-1", 3, 0);
    pg_answers(&counted);
    SNAPSHOT("open", "10-1", "9", "run-1", 3, 0);
    must_say(1, "\"verdict\":\"wrong\"");
    ck_assert_ptr_nonnull(strstr(told_document, "\"REDIS_STOCK\":{\"is\":9,\"should_be\":8},"
                                                "\"REDIS_BUYERS\":{\"is\":3,\"should_be\":2}"));
}

// The second check; the first is give_snapshot().
TEST_EACH(what_moves_is_not_compared, 8)
{
    static const struct {
        const char *state, *last, *stock, *run;
        int64_t buyers, journal;
        const char *books;
    } rows[] = {
        {"open", "10-2", "8", "run-1", 2, 0, "moving"},     {"open", "10-1", "7", "run-1", 2, 0, "moving"},
        {"open", "10-1", "8", "run-1", 3, 0, "moving"},     {"open", "10-1", "8", "run-1", 2, 1, "moving"},
        {"loading", "10-1", "8", "run-1", 2, 0, "loading"}, {"open", "10-1", "8", "", 2, 0, "unsure"},
        {"open", "10-1", "x", "run-1", 2, 0, "unsure"},     {"", "", "", "", 0, 0, "missing"},
    };
    char books[64];
    ask_and_count(&counted);
    SNAPSHOT(rows[_i].state, rows[_i].last, rows[_i].stock, rows[_i].run, rows[_i].buyers, rows[_i].journal);
    (void)snprintf(books, sizeof books, "\"books\":\"%s\"", rows[_i].books);
    must_say(1, books);
    ck_assert_ptr_nonnull(strstr(told_document, "\"verdict\":\"open\""));
    ck_assert_ptr_nonnull(strstr(told_document, "\"REDIS\":1"));
    ck_assert_ptr_nonnull(strstr(told_document, "\"wrong\":{}"));
}

TEST(a_first_snapshot_that_was_not_at_rest_does_not_count)
{
    for (int i = 0; i < 3; i++) {
        ask(VOUCHER, 1);
        SNAPSHOT(i == 0 ? "loading" : i == 1 ? "" : "open", "10-1", "8", "run-1", 2, i == 2);
        pg_answers(&counted);
        give_snapshot();
        must_say(1, "\"books\":\"moving\"");
    }
}

TEST(without_redis_the_rest_is_told)
{
    static const struct sk_reply error = ERROR("LOADING"), nil = NIL;
    static const struct sk_reply *const bad[] = {NULL, &error, &nil};
    for (int i = 0; i < 6; i++) {
        ask(VOUCHER, 1);
        if (i >= 3)
            give_snapshot();
        else
            redis_answers(bad[i]);
        pg_answers(&counted);
        if (i >= 3)
            redis_answers(bad[i - 3]);
        must_say(1, "\"verdict\":\"open\",\"missing\":{\"REDIS\":1}");
        ck_assert_ptr_nonnull(strstr(told_document, "\"redis\":{\"books\":\"unknown\"}"));
        ck_assert(!stores_wait());
    }
    fake_redis.down = true;
    ask(VOUCHER, 1);
    pg_answers(&counted);
    must_say(1, "\"books\":\"unknown\"");
}

TEST(without_postgres_there_is_no_report)
{
    ask_and_count(NULL);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    ask_and_count(&no_rows);
    must_be_told(1, SK_VERDICT_UNKNOWN_VOUCHER);
    ask_and_count(&unreadable);
    must_be_told(1, SK_VERDICT_INTERNAL);
    for (int closed = 0; closed <= 1; closed++) { // its link is not held: the heartbeats use it
        fake_pg.down = !closed;
        shards[0].closed = closed;
        ask(VOUCHER, 1);
        give_snapshot();
        must_be_told(1, SK_VERDICT_UNAVAILABLE);
    }
}

// ---- not in the catalogue ----

TEST(a_retired_voucher_is_settled_without_redis)
{
    fake_redis.down = true;
    ask(OLD, 1);
    statement_must_be(SK_STATEMENT_SETTLEMENT, "5");
    pg_answers(&counted_retired);
    must_say(1, "\"verdict\":\"balanced\"");
    ck_assert_ptr_nonnull(strstr(told_document, "\"redis\":{\"books\":\"retired\"}"));
    ask(OLD, 1); // reloaded just now
    pg_answers(&counted);
    must_say(1, "\"books\":\"unknown\"");
    ask(OLD, 1);
    pg_answers(&no_rows);
    must_be_told(1, SK_VERDICT_UNKNOWN_VOUCHER);
    fake_redis.down = false;
    ask_and_count(&counted_retired); // retired just now
    must_say(1, "\"books\":\"retired\"");
    ck_assert(!stores_wait());
}

TEST(a_newer_id_waits_for_the_next_read)
{
    ask(NEW, 1);
    follow_ends(true);
    must_be_told(1, SK_VERDICT_UNKNOWN_VOUCHER);
    ck_assert(!stores_wait());
}

// ---- one at a time ----

TEST(there_is_one_count_at_a_time)
{
    for (int times = 0; times < 2; times++) {
        ask(VOUCHER, 1);
        ask(VOUCHER, 2);
        ask(OTHER, 3);
        must_be_told(3, SK_VERDICT_OVERLOADED);
        sk_settlement_report(&control, VOUCHER, SK_REPORT_CSV, 4); // another format
        must_be_told(4, SK_VERDICT_OVERLOADED);
        for (uint64_t handle = 1; handle <= 2; handle++) { // later callers share a new count
            give_snapshot();
            ask(OTHER, 3);
            must_be_told(3, SK_VERDICT_OVERLOADED);
            pg_answers(&counted);
            give_snapshot();
            must_say(handle, "\"books\":\"compared\",\"stock\":8,\"buyers\":2,\"journal\":0}");
        }
        ask(OTHER, 3);
        redis_answers(NULL);
        pg_answers(NULL);
        must_be_told(3, SK_VERDICT_UNAVAILABLE);
    }
}

TEST(each_shard_counts_one)
{
    sale.shard_count = 2;
    sale.shards[1].reports = sale.shards[0].reports;
    sk_catalogue_find(sale.catalogue, OTHER)->shard = 1;
    ask(VOUCHER, 1);
    ask(OTHER, 2);
    give_snapshot();
    give_snapshot();
    for (int i = 0; i < 2; i++)
        pg_answers(&counted);
    give_snapshot();
    give_snapshot();
    must_say(1, "balanced");
    must_say(2, "balanced");
}

TEST(each_format_is_told)
{
    static const struct {
        enum sk_report_format format;
        const char *begin;
    } rows[] = {{SK_REPORT_JSON, "{\"voucher_id\":\"7\""},
                {SK_REPORT_TEXT, "voucher_id           7\n"},
                {SK_REPORT_CSV, "section,item,orders,units,value\r\n"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sk_settlement_report(&control, VOUCHER, rows[i].format, 1);
        give_snapshot();
        pg_answers(&counted);
        give_snapshot();
        must_say(1, "balanced");
        ck_assert_int_eq(strncmp(told_document, rows[i].begin, strlen(rows[i].begin)), 0);
    }
}

// ---- memory that is short ----

static void converse(void)
{
    ask(VOUCHER, 1);
    while (stores_wait()) {
        if (fake_pg.answered < fake_pg.count)
            pg_answers(&counted);
        else
            give_snapshot();
    }
    if (!memory_has_failed)
        ck_assert_ptr_nonnull(strstr(told_document, "\"books\":\"compared\""));
}

TEST(every_allocation_may_fail)
{
    (void)short_memory_borne(converse); // Redis may be missing in the report
}

SUITE(.setup = setup, .teardown = control_teardown);
