// An operator's call step by step: the statements to PostgreSQL, and how their result reaches Redis (voucher_changes.c
// is included). Also lost replies, rebuilds in between, and units taken from Redis that PostgreSQL then refuses to
// remove.
#include "fake_timer.h" // must precede the next one's loop

#include "fake_control.h"

#include "operation.h"
#include "test.h"

enum { VOUCHER = 7, PG_MS = 1000, REDIS_MS = 500, MANY = 5000 };

#define DOCUMENT     "{\"id\":\"7\"}"
#define SLOT         "1716" // of voucher 7
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static struct sk_voucher *voucher;

static void setup(void)
{
    stores = (struct sk_store_options){.pg_timeout_ms = PG_MS, .redis_timeout_ms = REDIS_MS};
    options = (struct sk_sale_options){.sold_out_mark_ms = 200};
    now_ms = 100000;
    control_setup();
    voucher = a_voucher(sale.catalogue, VOUCHER);
}

// ---- the stores ----

typedef const char *const rows_t[ROW_COLUMNS];

static void pg_says(const char *outcome, const char *state, const char *left)
{
    const rows_t rows[] = {{outcome, DOCUMENT, "31", state, left}};
    const struct sk_rows one = {1, rows};
    pg_answers(&one);
}

static void redis_must_be_asked(int what, const char *arguments)
{
    ck_assert_uint_lt(fake_redis.answered, fake_redis.count);
    ck_assert_int_eq(fake_redis.asked[fake_redis.answered].what, what);
    ck_assert_str_eq(arguments_of(&fake_redis.asked[fake_redis.answered]), arguments);
}

static void redis_says(const char *first, const char *second, const char *third)
{
    const struct sk_reply items[] = {TEXT(first), TEXT(second), TEXT(third)};
    const struct sk_reply reply = LIST_OF(items);
    redis_answers(&reply);
}

// Redis has change 30 of epoch 4, PostgreSQL has 31: runs up to the call that applies it.
static void bring_up_to_the_change(void)
{
    const rows_t rows[] = {{"31", "paused", "1000", "2000", "5", "2"}};
    const struct sk_rows one = {1, rows};
    redis_must_be_asked(PLAIN_COMMAND, "HMGET seckill:{7}:voucher epoch change");
    redis_says("4", "30", "");
    statement_must_be(SK_STATEMENT_VOUCHER_CHANGES, SLOT " 7 30");
    pg_answers(&one);
    redis_must_be_asked(SK_SCRIPT_APPLY_CHANGE, "seckill:{7}:voucher run-1 4 30 31 paused 1000 2000 5 2");
}

static void bring(const char *word)
{
    bring_up_to_the_change();
    redis_says(word, "", "");
}

static void tick(uint64_t after_ms)
{
    now_ms += after_ms;
    time_comes();
}

// ---- one call ----

static void pause_it(const char *key)
{
    const struct sk_operation operation = {.voucher_id = VOUCHER, .key = key, .by = "ann", .if_match = 12};
    sk_operate_state(&control, &operation, SK_VOUCHER_PAUSED, 1);
}

TEST(a_change_is_told_when_redis_has_it)
{
    pause_it("k");
    statement_must_be(SK_STATEMENT_SET_VOUCHER_STATE, "7 12 k ann paused");
    pg_says("done", "paused", NULL);
    voucher->refusals.newest.until_ms = MANY;
    bring_up_to_the_change();
    ck_assert_uint_eq(told_count, 0);
    redis_says("applied", "", "");
    must_be_shown(1, DOCUMENT);
    ck_assert_uint_eq(voucher->refusals.newest.until_ms, 0); // cached refusals are outdated
    ck_assert_uint_eq(fake_catalogue_sync.hurries, 1);
    ck_assert_uint_eq(fake_rebuild.count, 0);
}

TEST(terms_are_asked_for_as_they_are_given)
{
    const struct sk_operation operation = {.voucher_id = VOUCHER, .key = "k", .by = "ann"};
    const struct sk_terms all = {"T", "EUR", "", "https://p/x",  5, 990, 1000, 2000, 3, 0, 4, 60, 90,
                                 1,   18,    0,  SK_TERM_DEFAULT};
    const struct sk_terms none = {NULL, NULL, NULL, NULL, -1, -1, -1, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1};
    sk_operate_change(&control, &operation, &all, 1);
    statement_must_be(SK_STATEMENT_CHANGE_VOUCHER,
                      "7 0 k ann T 990 EUR 1000 2000 3 60 1 18  https://p/x 90 4 0 {\"waitlist\": true}");
    pg_says("unknown", NULL, NULL);
    must_be_told(1, SK_VERDICT_UNKNOWN_VOUCHER);
    sk_operate_change(&control, &operation, &none, 1);
    statement_must_be(SK_STATEMENT_CHANGE_VOUCHER, "7 0 k ann - - - - - - - - - - - - - - -");
    pg_says("unknown", NULL, NULL);
    must_be_told(1, SK_VERDICT_UNKNOWN_VOUCHER);
}

TEST(each_refusal_has_its_verdict)
{
    static const struct {
        const char *outcome;
        enum sk_verdict verdict;
    } rows[] = {{"reused", SK_VERDICT_IDEMPOTENCY_KEY_REUSED},
                {"unknown", SK_VERDICT_UNKNOWN_VOUCHER},
                {"changed", SK_VERDICT_VERSION_CHANGED},
                {"state", SK_VERDICT_WRONG_STATE},
                {"started", SK_VERDICT_STARTED},
                {"invalid", SK_VERDICT_INVALID},
                {"below", SK_VERDICT_BELOW_SOLD},
                {"odd", SK_VERDICT_INTERNAL}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        pause_it("k");
        pg_says(rows[i].outcome, "closed", NULL);
        must_be_told(1, rows[i].verdict);
        ck_assert_str_eq(told_status, rows[i].verdict == SK_VERDICT_WRONG_STATE ? "closed" : "");
        ck_assert_uint_eq(fake_redis.count, 0);
    }
}

// test_command.c has when, and for how long.
TEST(an_answer_that_is_lost_is_asked_for_again_under_the_same_key)
{
    pause_it(NULL);
    pg_fails(SK_RESULT_LOST);
    tick(50);
    ck_assert(sk_uuid_valid(fake_pg.asked[0].argv[2]));
    ck_assert_str_eq(the_statement(SK_STATEMENT_SET_VOUCHER_STATE)->argv[2], fake_pg.asked[0].argv[2]);
    pg_says("known", "paused", NULL);
    bring("already");
    must_be_shown(1, DOCUMENT);
}

// A completed change is answered with or without Redis; the audit continues. Late replies still reach the query.
TEST(what_redis_cannot_have_now_is_told_later)
{
    static const char *const words[] = {"missing", "loading", "unsure", "other", "odd"};
    for (size_t i = 0; i < COUNT(words); i++) {
        int rounds = strcmp(words[i], "other") == 0 ? 3 : 1; // it tries so often itself
        pause_it("k");
        pg_says("done", "paused", NULL);
        for (int round = 0; round < 2 * rounds; round++) {
            if (round == rounds)
                tick(50); // again
            bring(words[i]);
        }
        ck_assert_uint_eq(told_count, i);
        tick(2 * PG_MS + REDIS_MS);
        must_be_shown(1, DOCUMENT);
    }
    pause_it("k");
    pg_says("done", "paused", NULL);
    tick(2 * PG_MS + REDIS_MS); // a slow Redis is not waited for
    must_be_shown(1, DOCUMENT);
    bring("applied");
    ck_assert_uint_eq(told_count, COUNT(words) + 1);
    pause_it("k");
    pg_says("done", "paused", NULL);
    fake_redis.down = true;
    redis_answers(NULL);
    tick(50);
    tick(2 * PG_MS + REDIS_MS);
    must_be_shown(1, DOCUMENT);
}

// PostgreSQL decides about a voucher that is not in the catalogue: the call may be a repeat.
TEST(a_retired_voucher_has_nothing_to_bring)
{
    const struct sk_operation old = {.voucher_id = 3, .key = "k", .by = "ann"};
    fake_catalogue_sync.newest_id = 8;
    sk_operate_state(&control, &old, SK_VOUCHER_CLOSED, 1);
    pg_says("known", "retired", NULL);
    must_be_shown(1, DOCUMENT);
    const struct sk_operation unknown = {.voucher_id = 9, .key = "k", .by = "ann"};
    sk_operate_state(&control, &unknown, SK_VOUCHER_CLOSED, 1);
    follow_ends(true);
    must_be_told(1, SK_VERDICT_UNKNOWN_VOUCHER);
    ck_assert_uint_eq(fake_redis.count, 0);
}

// ---- stock ----

static void stock(int64_t units)
{
    const struct sk_operation operation = {.voucher_id = VOUCHER, .key = "k", .by = "ann"};
    sk_operate_stock(&control, &operation, units, 1);
}

// Runs up to the call that takes the units out of Redis.
static void reduce_up_to_taking(void)
{
    stock(-3);
    statement_must_be(SK_STATEMENT_MAY_REMOVE_UNITS, "7 0 k 3");
    pg_says("ready", "open", NULL);
    bring("already"); // so that Redis has all added units
    redis_must_be_asked(SK_SCRIPT_TAKE_UNITS, "seckill:{7}:voucher run-1 3");
}

static void reduce_up_to_removing(void)
{
    reduce_up_to_taking();
    redis_says("taken", "2", "4");
    statement_must_be(SK_STATEMENT_REMOVE_UNITS, SLOT " 7 4 0 k ann 3");
}

TEST(units_leave_redis_before_postgres)
{
    stock(3);
    statement_must_be(SK_STATEMENT_ADD_UNITS, "7 0 k ann 3");
    pg_says("done", "open", NULL);
    bring("applied");
    must_be_shown(1, DOCUMENT);
    reduce_up_to_removing();
    pg_says("done", "open", NULL);
    bring("applied");
    must_be_shown(1, DOCUMENT);
    ck_assert_uint_eq(fake_rebuild.count, 0);
}

TEST(nothing_is_taken_that_may_not_be)
{
    static const struct sk_reply has_moved = ERROR("MOVED 7 a:1");
    stock(-3);
    pg_says("state", "closed", NULL);
    must_be_told(1, SK_VERDICT_WRONG_STATE);
    stock(-3);
    pg_says("known", "open", NULL); // it was already done
    bring("already");
    must_be_shown(1, DOCUMENT);
    reduce_up_to_taking();
    redis_says("short", "2", "");
    must_be_told(1, SK_VERDICT_BELOW_SOLD);
    reduce_up_to_taking();
    redis_says("loading", "", "");
    must_be_told(1, SK_VERDICT_LOADING);
    reduce_up_to_taking();
    redis_answers(&has_moved);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    ck_assert_uint_eq(fake_rebuild.count, 0); // no unit has left Redis
}

// Redis then has, or may have, fewer units than PostgreSQL: a rebuild repairs it.
TEST(what_postgres_does_not_take_is_mended)
{
    reduce_up_to_removing();
    pg_says("below", "closed", "1");
    must_be_told(1, SK_VERDICT_BELOW_SOLD);
    ck_assert_uint_eq(fake_rebuild.count, 1);
    ck_assert_int_eq(fake_rebuild.why, SK_REBUILD_ORDERED);
    ck_assert_ptr_eq(fake_rebuild.voucher, voucher);
    reduce_up_to_removing();
    pg_says("known", "open", NULL); // the same call was faster: they were taken twice
    bring("already");
    must_be_shown(1, DOCUMENT);
    ck_assert_uint_eq(fake_rebuild.count, 2);
    reduce_up_to_taking();
    redis_answers(NULL); // the outcome in Redis is unknown
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    ck_assert_uint_eq(fake_rebuild.count, 3);
    reduce_up_to_removing();
    pg_answers(NULL);
    tick(PG_MS);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    ck_assert_uint_eq(fake_rebuild.count, 4);
}

TEST(a_lost_answer_does_not_take_them_twice)
{
    reduce_up_to_removing();
    pg_answers(NULL);
    tick(50);
    statement_must_be(SK_STATEMENT_REMOVE_UNITS, SLOT " 7 4 0 k ann 3");
    pg_says("known", "open", NULL); // our own call
    bring("already");
    must_be_shown(1, DOCUMENT);
    ck_assert_uint_eq(fake_rebuild.count, 0);
}

// A rebuild in between gave Redis PostgreSQL's state: the units are taken again, a few times at most.
TEST(a_new_epoch_begins_again)
{
    reduce_up_to_removing();
    for (int i = 0; i < 2; i++) {
        pg_says("stale", "open", NULL);
        bring("already");
        redis_says("taken", "2", "5");
        statement_must_be(SK_STATEMENT_REMOVE_UNITS, SLOT " 7 5 0 k ann 3");
    }
    pg_says("stale", "open", NULL);
    must_be_told(1, SK_VERDICT_LOADING);
    ck_assert_uint_eq(fake_rebuild.count, 0);
}

// ---- holding expiry ----

static void expiry_ends(enum sk_verdict verdict, const char *document)
{
    const rows_t rows[] = {{document}};
    const struct sk_rows one = {document[0] == '\0' ? 0 : 1, rows};
    pg_answers(&one);
    must_be_told(1, verdict);
    ck_assert_str_eq(told_document, document);
}

TEST(expiry_is_held_and_released)
{
    sk_operate_expiry(&control, VOUCHER, true, "ann", 1);
    statement_must_be(SK_STATEMENT_HOLD_EXPIRY, "7 1 ann");
    expiry_ends(SK_VERDICT_FOUND, "{\"held\":true}");
    sk_operate_expiry(&control, 0, false, "ann", 1);
    statement_must_be(SK_STATEMENT_HOLD_EXPIRY, "- 0 ann");
    expiry_ends(SK_VERDICT_FOUND, "{\"held\":false}");
    sk_operate_expiry(&control, 8, true, "ann", 1);
    expiry_ends(SK_VERDICT_UNKNOWN_VOUCHER, "");
}

// One that is away may hold it or not.
TEST(of_all_vouchers_in_all_shards)
{
    const rows_t rows[] = {{"{\"held\":true}"}};
    const struct sk_rows one = {1, rows};
    sale.shard_count = 2;
    sk_operate_expiry(&control, 0, true, "ann", 1);
    pg_answers(&one);
    pg_answers(&one);
    must_be_told(1, SK_VERDICT_FOUND);
    sk_operate_expiry(&control, 0, true, "ann", 1);
    pg_answers(NULL);
    pg_answers(&one);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    sk_operate_expiry(&control, VOUCHER, true, "ann", 1);
    pg_answers(&one);
    must_be_told(1, SK_VERDICT_FOUND);
}

SUITE(.setup = setup, .teardown = control_teardown);
