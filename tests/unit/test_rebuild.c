// A rebuild: its calls to the stores, their order and epoch, and that it ends at the first missing or wrong reply,
// without another call. The stores and the lock are fakes.
#include "failing_memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "admit.h"
#include "course.h"
#include "fake_named_locks.h"
#include "fake_session.h"
#include "log.h"
#include "maintenance.h"
#include "rebuild.h"
#include "stage.h"
#include "test.h"

enum { VOUCHER = 7, CHUNK = 500, LINE_SIZE = 256 };

#define SLOT    "1716" // CRC16 of "7" modulo 16384
#define KEYS    "seckill:{7}:voucher seckill:{7}:buyers seckill:{7}:journal"
#define JOURNAL "seckill:{7}:journal"
#define NO_ID   "00000000-0000-0000-0000-000000000000"
#define A       "018bcfe5-6800-7000-8000-00000000000a"
#define B       "018bcfe5-6800-7000-8000-00000000000b"
#define C       "018bcfe5-6800-7000-8000-00000000000c"
#define D       "018bcfe5-6800-7000-8000-00000000000d"
#define E       "018bcfe5-6800-7000-8000-00000000000e"
#define F       "018bcfe5-6800-7000-8000-00000000000f"
#define KEY     "0123456789abcdef"

static struct sk_voucher *voucher;

// ---- fakes ----

static char logged[LINE_SIZE]; // the last line

// Names required by the linker.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
void __wrap_sk_log(enum sk_log_level level, const char *message, const char *format, ...);
void __wrap_sk_log(enum sk_log_level level, const char *message, const char *format, ...)
{
    char pairs[LINE_SIZE - 64];
    va_list args;
    (void)level;
    va_start(args, format);
    (void)vsnprintf(pairs, sizeof pairs, format, args);
    va_end(args);
    (void)snprintf(logged, sizeof logged, "%.60s: %s", message, pairs);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

// ---- fixture ----

static int ends;
static enum sk_rebuild_end last_end;

static void on_end(void *arg, enum sk_rebuild_end end)
{
    ck_assert_ptr_eq(arg, &ends);
    ck_assert_uint_eq(locks.released, 1); // the lock is already free for the next request
    ends++;
    last_end = end;
}

static void setup(void)
{
    const struct sk_sale_options with = {.sold_out_mark_ms = 200, .retire_after_ms = 86400000};
    stage_open(with, sizeof(struct sk_maintenance), 0);
    course_links(&sale);
    voucher = a_voucher(sale.catalogue, VOUCHER);
}

static void teardown(void)
{
    stage_close();
}

// Resets everything.
static void forget(void)
{
    fake_stores_forget();
    memset(&locks, 0, sizeof locks);
    memset(&metrics, 0, sizeof metrics);
    *voucher->maintenance = (struct sk_maintenance){0};
    voucher->seen = (struct sk_seen){0};
    ends = 0;
    logged[0] = '\0';
    fake_no_memory = NULL;
    calls_left = 0;
}

static void begin(enum sk_rebuild_why why)
{
    voucher->refusals.newest.until_ms = 1;
    ck_assert_int_eq(sk_rebuild_run(&sale, voucher, why, on_end, &ends), SK_OK);
    ck_assert_uint_eq(locks.count, 1);
    ck_assert_str_eq(locks.key, "seckill:lock:rebuild:{7}");
    ck_assert(!course_waits()); // no call without the lock
    ck_assert_int_eq(ends, 0);
    lock_answers(0, true);
}

static void must_have_ended(enum sk_rebuild_end end)
{
    ck_assert(!course_waits());
    ck_assert_int_eq(ends, 1);
    ck_assert_int_eq(last_end, end);
    ck_assert_uint_eq(locks.released, 1);
    ck_assert_uint_eq(voucher->refusals.newest.until_ms, 0); // cached refusals are outdated
}

static void must_be_counted(size_t rebuilds, size_t retired)
{
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_REBUILDS), rebuilds);
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_RETIRED), retired);
}

// ---- whole courses ----

enum { STEPS_MAX = 24 };

#define FENCE(seen)                                                                                            \
    {                                                                                                          \
        "ask-pg rebuild_epoch " SLOT " 7 " seen " 200", .rows = ROWS(1, {"4", "150", "250"}), .flags = ONE_ROW \
    }
#define BEGIN                                                                                                  \
    {                                                                                                          \
        "ask-redis rebuild_begin 5 " KEYS " seckill:{7}:repeats seckill:{7}:ended 4", .reply = NUMBER(1),      \
                                                                                      .flags = NO_OTHER_NUMBER \
    }
#define READ_JOURNAL "ask-redis XRANGE " JOURNAL " - + COUNT 4"
#define EMPTY_JOURNAL                     \
    {                                     \
        READ_JOURNAL, .reply = EMPTY_LIST \
    }
#define ENTRY(id, ...) REPLY_ITEMS(TEXT(id), REPLY_ITEMS(__VA_ARGS__))
#define PLACE(id, user)                                                                                                \
    {                                                                                                                  \
        "ask-pg place_orders " SLOT " 7 4 {" id "} {\"" user "\"} null null null 0", .rows = ROWS(1, {"1", "placed"}), \
                                                                                     .flags = ONE_ROW | MAY_BE_REFUSED \
    }
#define REMOVE(id)                                           \
    {                                                        \
        "ask-redis XDEL " JOURNAL " " id, .reply = NUMBER(1) \
    }
#define STOCK(stock, buyers)                                                                                      \
    {                                                                                                             \
        "ask-pg rebuild_stock " SLOT " 7 4", .rows = ROWS(1, {stock, "1000", "2000", "open", buyers, "31", "5"}), \
                                             .flags = ONE_ROW                                                     \
    }
#define CHUNK_OF_2                                                                                                     \
    {"ask-pg rebuild_buyers " SLOT " 7 " NO_ID " 500 20",                                                              \
     .rows =                                                                                                           \
         ROWS(6, {A, "live", "alice", A}, {B, "ended", "bob", B " 2 " KEY}, {C, "live", "carl", C " 2"},               \
              {D, "passed", "dave", D}, {E, "passed", "erin", E, "20"}, {F, "ended", "fay " KEY, F " 1 " KEY, "21"})}, \
    {                                                                                                                  \
        "ask-redis rebuild_buyers 4 seckill:{7}:voucher seckill:{7}:buyers seckill:{7}:repeats seckill:{7}:ended 4 2 " \
        "2 alice " A " carl " C " 2 bob " B " 2 " KEY " fay " KEY " " F " 1 " KEY " erin 20 fay " KEY " 21",           \
            .reply = NUMBER(1), .flags = NO_OTHER_NUMBER                                                               \
    }
#define NO_CHUNK                                                                 \
    {                                                                            \
        "ask-pg rebuild_buyers " SLOT " 7 " NO_ID " 500 20", .rows = { 0, NULL } \
    }
#define OPEN(stock, buyers)                                                                           \
    {                                                                                                 \
        "ask-redis rebuild_open 3 " KEYS " 4 " stock " " buyers " 1000 2000 open run-1 31 150 250 5", \
            .reply = NUMBER(1), .flags = NO_OTHER_NUMBER                                              \
    }

#define MAY_RETIRE(answer)                                                          \
    {                                                                               \
        "ask-pg may_retire 7 86400000", .rows = ROWS(1, {answer}), .flags = ONE_ROW \
    }

static const struct course {
    const char *name;
    enum sk_rebuild_why why;
    const char *line; // in the log, up to the duration; it decides what is counted
    struct step steps[STEPS_MAX];
    const char *failed_at[STEPS_MAX]; // the step's name in the log
} courses[] = {
    {"warm-up",
     SK_REBUILD_ORDERED,
     "voucher rebuilt: voucher=7 epoch=4 stock=100 buyers=0 journal_orders=0 ms=",
     {FENCE("0"), BEGIN, EMPTY_JOURNAL, STOCK("100", "0"), NO_CHUNK, OPEN("100", "0")},
     {"epoch", "begin", "journal", "stock", "buyers", "open"}},
    // Redis has lost all but one journal entry, and another entry arrives while the buyers are read.
    {"repair",
     SK_REBUILD_DOUBT,
     "voucher rebuilt: voucher=7 epoch=4 stock=97 buyers=2 journal_orders=2 ms=",
     {{"ask-pg voucher_accounts {" SLOT "} {7}",
       .rows = ROWS(1, {SLOT, "7", "3", "0", "0", "98", "2", "31", "open", "1000", "2000", "0", "5"}),
       .flags = ONE_ROW},
      {"ask-redis read_voucher 3 " KEYS " run-1",
       .reply =
           REPLY_ITEMS(TEXT(""), TEXT(""), TEXT(""), TEXT(""), TEXT(""), NUMBER(0), NUMBER(1), NUMBER(-1), TEXT("")),
       .flags = NO_OTHER_NUMBER},
      FENCE("0"),
      BEGIN,
      {READ_JOURNAL, .reply = REPLY_ITEMS(ENTRY("1-0", TEXT("epoch"), TEXT("3"), TEXT("orders"), TEXT(A " alice")))},
      PLACE(A, "alice"),
      REMOVE("1-0"),
      EMPTY_JOURNAL,
      STOCK("98", "2"),
      CHUNK_OF_2,
      {"ask-redis rebuild_open 3 " KEYS " 4 98 2 1000 2000 open run-1 31 150 250 5", .reply = NUMBER(2),
       .flags = NO_OTHER_NUMBER},
      {READ_JOURNAL, .reply = REPLY_ITEMS(ENTRY("2-0", TEXT("epoch"), TEXT("4"), TEXT("orders"), TEXT(B " bob")))},
      PLACE(B, "bob"),
      REMOVE("2-0"),
      EMPTY_JOURNAL,
      STOCK("97", "2"),
      CHUNK_OF_2,
      OPEN("97", "2")},
     {"check",  "check", "epoch",   "begin",   "journal", "journal", "journal", "journal", "stock",  "buyers",
      "buyers", "open",  "journal", "journal", "journal", "journal", "stock",   "buyers",  "buyers", "open"}},
    {"dead letter",
     SK_REBUILD_ORDERED,
     "voucher rebuilt: voucher=7 epoch=4 stock=99 buyers=0 journal_orders=0 ms=",
     {FENCE("0"),
      BEGIN,
      {READ_JOURNAL, .reply = REPLY_ITEMS(ENTRY("1-0", TEXT("x"), TEXT("y")))},
      {"pg set_aside " SLOT " 7 1-0 \\x313a782c313a792c null it cannot be read 0", .rows = ROWS(1, {""})},
      REMOVE("1-0"),
      EMPTY_JOURNAL,
      STOCK("99", "0"),
      NO_CHUNK,
      OPEN("99", "0")},
     {"epoch", "begin", "journal", "dead letter", "journal", "journal", "stock", "buyers", "open"}},
    {"retire",
     SK_REBUILD_RETIRE,
     "voucher retired: voucher=7 epoch=4 journal_orders=0",
     {MAY_RETIRE("t"),
      FENCE("0"),
      BEGIN,
      EMPTY_JOURNAL,
      {"ask-pg retire_voucher 7 " SLOT " 4", .rows = ROWS(1, {"t"}), .flags = ONE_ROW},
      {"ask-redis retire 5 " KEYS " seckill:{7}:repeats seckill:{7}:ended 4", .reply = NUMBER(1),
       .flags = NO_OTHER_NUMBER}},
     {"check", "epoch", "begin", "journal", "retire", "remove"}},
    {"retire, and something is open by then",
     SK_REBUILD_RETIRE,
     "voucher rebuilt: voucher=7 epoch=4 stock=0 buyers=2 journal_orders=0 ms=",
     {MAY_RETIRE("t"),
      FENCE("0"),
      BEGIN,
      EMPTY_JOURNAL,
      {"ask-pg retire_voucher 7 " SLOT " 4", .rows = ROWS(1, {"f"}), .flags = ONE_ROW},
      STOCK("0", "2"),
      CHUNK_OF_2,
      OPEN("0", "2")},
     {"check", "epoch", "begin", "journal", "retire", "stock", "buyers", "buyers", "open"}},
};
enum { COURSES = sizeof courses / sizeof courses[0] };

TEST_EACH(a_whole_course, COURSES)
{
    const struct course *course = &courses[_i];
    bool retires = strncmp(course->line, "voucher retired", 15) == 0;
    begin(course->why);
    for (size_t i = 0; i < course_steps(course->steps); i++) {
        ck_assert_int_eq(ends, 0);
        course_answer(&course->steps[i]);
    }
    must_have_ended(SK_REBUILD_OPENED);
    must_be_counted(!retires, retires);
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_DEAD_LETTERS), strcmp(course->name, "dead letter") == 0);
    ck_assert_msg(strncmp(logged, course->line, strlen(course->line)) == 0, "%s", logged);
}

// No call follows the failed step: the voucher stays as Redis has it, closed under this epoch since rebuild_begin.
static void must_have_failed(const struct course *course, size_t step)
{
    char line[LINE_SIZE];
    (void)snprintf(line, sizeof line, "voucher not rebuilt: voucher=7 step=%s", course->failed_at[step]);
    must_have_ended(SK_REBUILD_FAILED);
    must_be_counted(0, 0);
    ck_assert_str_eq(logged, line);
}

TEST_EACH(an_answer_that_is_lost_or_wrong_ends_it, COURSES)
{
    const struct course *course = &courses[_i];
    for (size_t step = 0; step < course_steps(course->steps); step++) {
        size_t faults = 0;
        for (int fault = 0; fault < FAULT_COUNT; fault++) {
            forget();
            begin(course->why);
            course_answers(course->steps, step);
            if (course_fail(&course->steps[step], (enum fault)fault)) {
                must_have_failed(course, step);
                faults++;
            } else {
                course_lose(); // impossible at this step
            }
        }
        ck_assert_uint_ge(faults, 2);
    }
}

// Memory is short, or both stores are down from the answer before on.
TEST_EACH(a_call_that_is_not_taken_ends_it, 2 * COURSES)
{
    const struct course *course = &courses[_i / 2];
    bool down = _i % 2 == 1;
    for (size_t step = 0; step < course_steps(course->steps); step++) {
        forget();
        calls_left = down ? 0 : step + 1;
        fake_no_memory = course_call_fails;
        fake_redis.down = fake_pg.down = down && step == 0;
        begin(course->why);
        for (size_t i = 0; i < step; i++) {
            if (i + 1 == step)
                fake_redis.down = fake_pg.down = down;
            course_answer(&course->steps[i]);
        }
        must_have_failed(course, step);
    }
}

// ---- the lock ----

TEST(without_the_lock_nothing_is_said)
{
    ck_assert_int_eq(sk_rebuild_run(&sale, voucher, SK_REBUILD_ORDERED, on_end, &ends), SK_OK);
    lock_answers(0, false); // another instance rebuilds it
    must_have_ended(SK_REBUILD_MISSED);
    must_be_counted(0, 0);
    ck_assert_str_eq(logged, ""); // it logs that itself
    ck_assert_uint_eq(fake_redis.count + fake_pg.count, 0);
}

TEST(what_cannot_begin_is_not_told)
{
    locks.cannot = true;
    ck_assert_int_eq(sk_rebuild_run(&sale, voucher, SK_REBUILD_ORDERED, on_end, &ends), SK_DOWN);
    locks.cannot = false;
    for (int i = 1; i <= 2; i++) {
        allocations_left = i;
        memory_has_failed = false;
        ck_assert_int_eq(sk_rebuild_run(&sale, voucher, SK_REBUILD_ORDERED, on_end, &ends), SK_NO_MEM);
        ck_assert(memory_has_failed);
    }
    ck_assert_uint_eq(locks.count, 0);
    ck_assert_int_eq(ends, 0);
}

// ---- the check under the lock ----

#define REDIS(state, epoch, last, stock, run) REDIS_OF("31", state, epoch, last, stock, run)
#define REDIS_OF(change, state, epoch, last, stock, run)                                                      \
    REPLY_ITEMS(TEXT(state), TEXT(epoch), TEXT(last), TEXT(stock), TEXT(run), NUMBER(2), NUMBER(0), TEXT(""), \
                TEXT(change), TEXT("1000"), TEXT("2000"), NUMBER(0), TEXT("5"))

// What counts as well, test_voucher_books.c tells. PostgreSQL: epoch 3, newest journal id 5-1. The new epoch must
// exceed every epoch that this reactor has seen, and that of Redis, also if another process of Redis opened the
// voucher: a file that is newer than PostgreSQL, say.
static const struct {
    const char *name;
    enum sk_rebuild_why why;
    int64_t seen; // epoch
    struct sk_reply reply;
    const char *question; // the next one; NULL: it is well, and there is none
} snapshots[] = {
#define ASKS(epoch) "ask-pg rebuild_epoch " SLOT " 7 " epoch " 200"
    {"well", SK_REBUILD_DOUBT, 3, REDIS("open", "3", "5-1", "98", "run-1"), NULL},
    {"a change that has not come", SK_REBUILD_DOUBT, 3, REDIS_OF("30", "closed", "3", "6-0", "98", "run-1"), NULL},
    {"not there", SK_REBUILD_DOUBT, 3, REDIS("", "", "", "", ""), ASKS("3")},
    {"a newer epoch, of another process", SK_REBUILD_DOUBT, 0, REDIS("open", "5003", "5-1", "98", ""), ASKS("5003")},
    {"an older epoch than PostgreSQL's", SK_REBUILD_DOUBT, 3, REDIS("open", "2", "5-1", "98", "run-1"), ASKS("3")},
    {"an epoch that cannot be", SK_REBUILD_DOUBT, 0, REDIS("open", "x", "5-1", "98", ""), ASKS("0")},
    {"damage", SK_REBUILD_DOUBT, 3, ERROR("WRONGTYPE it is no hash"), ASKS("3")},
    {"behind what was seen", SK_REBUILD_BEHIND, 3, REDIS("open", "3", "5-1", "98", "run-1"), ASKS("3")},
    {"rebuilt since", SK_REBUILD_BEHIND, 2, REDIS("open", "3", "5-1", "98", "run-1"), NULL},
};
enum { SNAPSHOTS = sizeof snapshots / sizeof snapshots[0] };

TEST_EACH(what_is_well_is_left_alone, SNAPSHOTS)
{
    voucher->seen.epoch = snapshots[_i].seen;
    begin(snapshots[_i].why);
    PG_ANSWERS(1, {SLOT, "7", "3", "5", "1", "98", "2", "31", "open", "1000", "2000", "0", "5"});
    redis_answers(&snapshots[_i].reply);
    if (snapshots[_i].question != NULL) {
        ck_assert_str_eq(course_question(), snapshots[_i].question);
        course_lose();
        must_have_ended(SK_REBUILD_FAILED);
        return;
    }
    must_have_ended(SK_REBUILD_OPENED);
    must_be_counted(0, 0);
    ck_assert_str_eq(logged, "");
    ck_assert_int_eq(voucher->seen.epoch, snapshots[_i].seen);
}

TEST_EACH(what_was_seen_goes_with_the_question_for_an_epoch, 3)
{
    static const struct {
        int64_t checked, seen;
        const char *question;
    } cases[] = {{0, 0, ASKS("0")}, {5, 3, ASKS("5")}, {3, 999999999999999, ASKS("999999999999999")}};
    voucher->maintenance->audited.snapshot.epoch = cases[_i].checked;
    voucher->seen.epoch = cases[_i].seen;
    begin(SK_REBUILD_ORDERED);
    ck_assert_str_eq(course_question(), cases[_i].question);
    course_lose();
    must_have_ended(SK_REBUILD_FAILED);
}

#define EPOCH_4 PG_ANSWERS(1, {"4", "150", "250"})

// The new epoch replaces them once both stores have it, not earlier.
TEST(what_was_seen_is_forgotten_once_it_is_closed)
{
    for (int begun = 0; begun <= 1; begun++) {
        forget();
        voucher->seen = (struct sk_seen){.epoch = 9, .last = "99-1"};
        voucher->maintenance->audited.snapshot = (struct sk_snapshot){.present = true, .epoch = 8};
        voucher->maintenance->lost.stale_epoch = 9;
        begin(SK_REBUILD_ORDERED);
        EPOCH_4;
        REDIS_ANSWERS(NUMBER(begun));
        ck_assert_int_eq(voucher->seen.epoch, begun ? 4 : 9);
        ck_assert_str_eq(voucher->seen.last, begun ? "" : "99-1");
        ck_assert_int_eq(voucher->maintenance->audited.snapshot.present, !begun);
        ck_assert_int_eq(voucher->maintenance->lost.stale_epoch, begun ? 3 : 9); // orders of epoch 4 are not stale
        if (begun)
            course_lose();
        must_have_ended(SK_REBUILD_FAILED);
    }
}

// No order is rejected, and Redis stays open.
TEST(what_cannot_be_retired_is_left_as_it_is)
{
    const struct step kept = MAY_RETIRE("f");
    begin(SK_REBUILD_RETIRE);
    course_answer(&kept);
    must_have_ended(SK_REBUILD_KEPT);
    must_be_counted(0, 0);
    ck_assert_str_eq(logged, "voucher not retired yet: voucher=7");
}

// ---- many buyers ----

enum { BUYERS_MAX = 1001 };

static const char *buyer_rows[BUYERS_MAX][ROW_COLUMNS];

static void make_buyers(void)
{
    static char ids[BUYERS_MAX][SK_UUID_SIZE], users[BUYERS_MAX][16];
    for (int i = 0; i < BUYERS_MAX; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "018bcfe5-6800-7000-8000-%012d", i);
        (void)snprintf(users[i], sizeof users[i], "user-%d", i);
        buyer_rows[i][0] = ids[i];
        buyer_rows[i][1] = "live";
        buyer_rows[i][2] = users[i];
        buyer_rows[i][3] = ids[i];
    }
}

// Begins a rebuild of a voucher with `count` buyers, up to the query for the first chunk.
static void begin_with(size_t count)
{
    make_buyers();
    char buyers[8];
    (void)snprintf(buyers, sizeof buyers, "%zu", count);
    begin(SK_REBUILD_ORDERED);
    EPOCH_4;
    REDIS_ANSWERS(NUMBER(1));
    REDIS_ANSWERS(EMPTY_LIST);
    PG_ANSWERS(1, {"7", "1000", "2000", "closed", buyers, "31", "5"});
}

// Answers the query for a chunk. Returns the number of buyers read so far.
static size_t chunk_is_read(size_t from, size_t count)
{
    char question[128];
    size_t n = count - from < CHUNK ? count - from : CHUNK;
    const struct sk_rows rows = {n, &buyer_rows[from]};
    (void)snprintf(question, sizeof question, "ask-pg rebuild_buyers " SLOT " 7 %s 500 20",
                   from == 0 ? NO_ID : buyer_rows[from - 1][0]);
    ck_assert_str_eq(course_question(), question);
    pg_answers(&rows);
    return from + n;
}

static void chunk_must_be_stored(size_t from, size_t to)
{
    const struct asked *asked = course_asked();
    ck_assert_int_eq(asked->what, SK_SCRIPT_REBUILD_BUYERS);
    ck_assert_int_eq(asked->argc, (int)(7 + 2 * (to - from)));
    ck_assert_str_eq(asked->argv[4], "4");
    for (size_t i = from; i < to; i++) {
        ck_assert_str_eq(asked->argv[7 + 2 * (i - from)], buyer_rows[i][2]);
        ck_assert_str_eq(asked->argv[8 + 2 * (i - from)], buyer_rows[i][0]);
    }
}

static const size_t crowds[] = {0, 1, 499, 500, 501, 1000, 1001};

TEST_EACH(buyers_come_in_chunks, sizeof crowds / sizeof crowds[0])
{
    size_t count = crowds[_i], from = 0, read = 0;
    char question[256], counted[32];
    begin_with(count);
    do {
        from = read;
        read = chunk_is_read(from, count);
        if (read > from) {
            chunk_must_be_stored(from, read);
            REDIS_ANSWERS(NUMBER(1));
        }
    } while (read - from == CHUNK);
    (void)snprintf(question, sizeof question,
                   "ask-redis rebuild_open 3 " KEYS " 4 7 %zu 1000 2000 closed run-1 31 150 250 5", count);
    ck_assert_str_eq(course_question(), question);
    REDIS_ANSWERS(NUMBER(1));
    must_have_ended(SK_REBUILD_OPENED);
    (void)snprintf(counted, sizeof counted, " buyers=%zu ", count);
    ck_assert_ptr_nonnull(strstr(logged, counted));
}

// Whatever breaks while the buyers are read.
static void buyers_must_have_failed(void)
{
    must_have_ended(SK_REBUILD_FAILED);
    must_be_counted(0, 0);
    ck_assert_str_eq(logged, "voucher not rebuilt: voucher=7 step=buyers");
}

// In the first of three chunks, the second or the last: memory is short, or the reply is lost.
TEST_EACH(a_chunk_that_is_not_stored_ends_it, 3)
{
    for (int fault = 0; fault < 3; fault++) {
        size_t read = 0;
        forget();
        begin_with(BUYERS_MAX);
        for (int chunk = 0; chunk < _i; chunk++) {
            read = chunk_is_read(read, BUYERS_MAX);
            REDIS_ANSWERS(NUMBER(1));
        }
        fake_no_memory = course_call_fails;
        calls_left = fault == 0;
        (void)chunk_is_read(read, BUYERS_MAX);
        if (fault == 1)
            redis_answers(NULL);
        if (fault == 2)
            REDIS_ANSWERS(NUMBER(0));
        buyers_must_have_failed();
    }
}

// ---- a walk that passes many orders that ended ----

enum { LONG_WALK = 8 }; // `passed` rows

static struct sk_rows chunks[3];

// Two full chunks have so many `passed` rows, and one row comes after them. Begins up to the question for the first.
static void begin_long_walk(void)
{
    begin_with(BUYERS_MAX);
    for (size_t chunk = 0; chunk < 3; chunk++)
        chunks[chunk] = (struct sk_rows){chunk < 2 ? CHUNK : 1, &buyer_rows[chunk * CHUNK]};
    for (size_t i = 0; i < LONG_WALK; i++)
        buyer_rows[i][1] = buyer_rows[CHUNK + i][1] = "passed";
}

// Whether PostgreSQL is asked for a chunk, and how many chunks Redis stores.
static void must_be_under_way(bool reading, size_t storing)
{
    ck_assert_int_eq(ends, 0);
    ck_assert_int_eq(fake_pg.count > fake_pg.answered, reading);
    ck_assert_uint_eq(fake_redis.count - fake_redis.answered, storing);
}

TEST(a_long_walk_goes_on_while_a_chunk_is_stored)
{
    begin_long_walk();
    pg_answers(&chunks[0]);
    must_be_under_way(true, 1);
    pg_answers(&chunks[1]);
    must_be_under_way(false, 2); // no third one
    REDIS_ANSWERS(NUMBER(1));
    must_be_under_way(false, 1);
    REDIS_ANSWERS(NUMBER(1));
    must_be_under_way(true, 0);
    pg_answers(&chunks[2]);
    must_be_under_way(false, 1);
    REDIS_ANSWERS(NUMBER(1));
    ck_assert_int_eq(course_asked()->what, SK_SCRIPT_REBUILD_OPEN);
    REDIS_ANSWERS(NUMBER(1));
    must_have_ended(SK_REBUILD_OPENED);
    ck_assert_ptr_nonnull(strstr(logged, " buyers=985 "));
}

TEST(a_short_walk_waits_for_redis)
{
    begin_long_walk();
    buyer_rows[0][1] = "live";
    pg_answers(&chunks[0]);
    must_be_under_way(false, 1);
    redis_answers(NULL);
    buyers_must_have_failed();
}

// Whatever breaks, the rebuild is there for the replies that are still to come, and asks for nothing more.
TEST_EACH(a_long_walk_that_breaks_ends_after_the_last_reply, 5)
{
    enum { NO_REPLY, WRONG_REPLY, NO_ROWS, NO_QUESTION, NO_CALL };
    begin_long_walk();
    fake_no_memory = course_call_fails;
    calls_left = _i == NO_QUESTION ? 2 : _i == NO_CALL ? 3 : 0;
    pg_answers(&chunks[0]);
    if (_i <= WRONG_REPLY) {
        if (_i == NO_REPLY)
            redis_answers(NULL);
        else
            REDIS_ANSWERS(NUMBER(0));
        must_be_under_way(true, 0);
        pg_answers(_i == NO_REPLY ? &chunks[1] : NULL);
    } else {
        if (_i != NO_QUESTION)
            pg_answers(_i == NO_ROWS ? NULL : &chunks[1]);
        must_be_under_way(false, 1);
        REDIS_ANSWERS(NUMBER(1));
    }
    buyers_must_have_failed();
}

// ---- memory ----

// ... or has no effect: then the stores get the complete course.
TEST_EACH(short_memory_ends_it, COURSES)
{
    const struct course *course = &courses[_i];
    int shortages = 0, failures = 0;
    for (int nth = 1;; nth++) {
        size_t said = 0;
        forget();
        ck_assert_int_eq(sk_rebuild_run(&sale, voucher, course->why, on_end, &ends), SK_OK);
        allocations_left = nth;
        memory_has_failed = false;
        lock_answers(0, true);
        while (ends == 0)
            course_answer(&course->steps[said++]);
        allocations_left = 0;
        bool good = last_end == SK_REBUILD_OPENED;
        must_have_ended(good ? SK_REBUILD_OPENED : SK_REBUILD_FAILED);
        failures += !good;
        if (good)
            ck_assert_uint_eq(said, course_steps(course->steps));
        if (!memory_has_failed)
            break;
        shortages++;
    }
    ck_assert_int_ge(shortages, 2);
    ck_assert_int_ge(failures, course->why == SK_REBUILD_DOUBT ? 4 : 0);
}

SUITE(.setup = setup, .teardown = teardown);
