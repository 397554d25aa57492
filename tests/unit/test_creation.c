// Creating a voucher: what is answered when the row is there, when it is not known whether it is, and when loading it
// fails, takes long, or was done before. The stores and the rebuild are stand-ins.
#include <stdio.h>

#include "creation.h"
#include "fake_catalogue.h"
#include "fake_catalogue_sync.h"
#include "fake_phase.h"
#include "fake_stores.h"
#include "test.h"
#include "uuid.h"
#include "wait.h"

enum { TICKET = 7, SOON_MS = 1, NEVER_MS = 60000 };

static const struct sk_terms terms = {"T", "EUR", "D", NULL, 5, 990, 1000, 2000, 3, 60, 1, 18};

static uv_loop_t loop;
static struct sk_store_options stores;
static struct sk_shard shards[SK_SHARDS_MAX];
static struct sk_sale sale;
static struct sk_recovery recovery;
static struct sk_control control;

// ---- what comes out ----

static struct {
    size_t count;
    enum sk_verdict verdict;
    int64_t version;
    char document[16], location[24]; // empty: none
} told;

static void on_answer(void *arg, uint64_t handle, const struct sk_answer *answer)
{
    (void)arg;
    ck_assert_uint_eq(handle, TICKET);
    told.count++;
    told.verdict = answer->verdict;
    told.version = answer->version;
    (void)snprintf(told.document, sizeof told.document, "%s", answer->body == NULL ? "" : answer->body);
    (void)snprintf(told.location, sizeof told.location, "%s", answer->location == NULL ? "" : answer->location);
}

static void must_be_told(enum sk_verdict verdict, const char *document)
{
    ck_assert_uint_eq(told.count, 1);
    ck_assert_int_eq(told.verdict, verdict);
    ck_assert_str_eq(told.document, document);
    ck_assert_str_eq(told.location, verdict == SK_VERDICT_CREATED ? "/vouchers/12" : "");
    ck_assert_int_eq(told.version, verdict == SK_VERDICT_CREATED ? 31 : 0);
}

// ---- what PostgreSQL says ----

#define ROW(outcome, epoch) \
    ((const struct sk_rows){1, (const char *const[1][ROW_COLUMNS]){{outcome, "12", epoch, "ready", "loading", "31"}}})

// The row is there, and the catalogue comes to know it.
static void answer_row(const struct sk_rows *row)
{
    pg_answers(row);
    (void)a_voucher(sale.catalogue, 12);
    follow_ends(true);
}

static const char *asked_key(size_t question)
{
    ck_assert_uint_lt(question, fake_pg.count);
    ck_assert_int_eq(fake_pg.asked[question].what, SK_STATEMENT_CREATE_VOUCHER);
    return fake_pg.asked[question].argv[0];
}

// ---- fixture ----

static void open_with(int64_t pg_timeout_ms, int64_t redis_timeout_ms)
{
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    stores = (struct sk_store_options){.pg_timeout_ms = pg_timeout_ms, .redis_timeout_ms = redis_timeout_ms};
    sale = (struct sk_sale){.loop = &loop, .shards = shards, .shard_count = 1};
    sale.catalogue = sk_catalogue_new(sizeof(struct sk_maintenance));
    control = (struct sk_control){
        .on_answer = on_answer, .sale = &sale, .stores = &stores, .recovery = &recovery, .queries = sk_queries_open()};
    ck_assert_ptr_nonnull(control.queries);
    fake_rebuild.status = SK_OK;
}

static void create(const char *key)
{
    sk_create_voucher(&control, key, "ann", &terms, TICKET);
}

static void setup(void)
{
    open_with(NEVER_MS, NEVER_MS);
}

static void teardown(void)
{
    sk_queries_close(control.queries);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    if (sk_catalogue_find(sale.catalogue, 12) != NULL)
        ck_assert_uint_eq(sk_catalogue_find(sale.catalogue, 12)->pins, 0);
    sk_catalogue_free(sale.catalogue);
    fake_stores_forget();
}

static bool turn_until(const size_t *count, size_t wanted)
{
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    return *count == wanted;
}

// ---- the row is there ----

TEST(a_voucher_that_is_loaded_is_shown_as_it_is)
{
    static const char *const params[] = {"k1", "T", "990", "5", "1000", "2000", "3", "60", "EUR", "ann", "1", "18"};
    create("k1");
    ck_assert_int_eq(fake_pg.asked[0].argc, 14);
    for (int i = 0; i < 12; i++)
        ck_assert_str_eq(fake_pg.asked[0].argv[i], params[i]);
    ck_assert_str_eq(fake_pg.asked[0].argv[12], "D");
    ck_assert_ptr_null(fake_pg.asked[0].argv[13]);
    answer_row(&ROW("created", "0"));
    ck_assert_uint_eq(told.count, 0); // not before it can sell
    ck_assert_uint_eq(fake_catalogue_sync.hurries, 1);
    ck_assert_int_eq(fake_rebuild.voucher->id, 12);
    ck_assert_uint_eq(fake_rebuild.voucher->pins, 1);
    ck_assert_int_eq(fake_rebuild.why, SK_REBUILD_DOUBT);
    fake_rebuild.done(fake_rebuild.arg, true);
    must_be_told(SK_VERDICT_CREATED, "ready");
}

TEST(a_voucher_that_cannot_be_loaded_is_created_all_the_same)
{
    create("k1");
    answer_row(&ROW("created", "0"));
    fake_rebuild.done(fake_rebuild.arg, false);
    must_be_told(SK_VERDICT_CREATED, "loading");
}

TEST(so_is_one_whose_loading_cannot_begin)
{
    fake_rebuild.status = SK_DOWN;
    create("k1");
    answer_row(&ROW("created", "0"));
    must_be_told(SK_VERDICT_CREATED, "loading");
    ck_assert_uint_eq(fake_rebuild.count, 1);
}

TEST(so_is_one_that_the_catalogue_does_not_come_to_know)
{
    create("k1");
    pg_answers(&ROW("created", "0"));
    follow_ends(false);
    must_be_told(SK_VERDICT_CREATED, "loading");
    told.count = 0;
    create("k1");
    pg_answers(&ROW("created", "0"));
    follow_ends(true); // without it: it was retired meanwhile
    must_be_told(SK_VERDICT_CREATED, "loading");
    ck_assert_uint_eq(fake_rebuild.count, 0);
}

TEST(a_catalogue_that_takes_long_is_not_waited_for)
{
    teardown();
    open_with(SOON_MS, SOON_MS);
    create("k1");
    pg_answers(&ROW("created", "0"));
    WAIT_FOR(turn_until(&told.count, 1));
    must_be_told(SK_VERDICT_CREATED, "loading");
    (void)a_voucher(sale.catalogue, 12);
    follow_ends(true);
    ck_assert_uint_eq(fake_rebuild.count, 1); // it is loaded all the same
    fake_rebuild.done(fake_rebuild.arg, true);
    ck_assert_uint_eq(told.count, 1);
}

TEST(loading_that_takes_long_is_not_waited_for)
{
    teardown();
    open_with(SOON_MS, SOON_MS);
    create("k1");
    answer_row(&ROW("created", "0"));
    WAIT_FOR(turn_until(&told.count, 1));
    must_be_told(SK_VERDICT_CREATED, "loading");
    fake_rebuild.done(fake_rebuild.arg, true);
    ck_assert_uint_eq(told.count, 1); // it was answered
}

// Loading closes a voucher for a moment, and this one may be in the middle of its sale.
TEST(a_voucher_that_was_loaded_before_is_only_checked)
{
    static const struct {
        struct sk_reply reply;
        bool dead;
        const char *document;
    } rows[] = {
        {TEXT("open"), false, "ready"}, {TEXT("closed"), false, "ready"},       {TEXT("loading"), false, "loading"},
        {NIL, false, "loading"},        {ERROR("WRONGTYPE"), false, "loading"}, {NUMBER(1), false, "loading"},
        {NIL, true, "loading"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        told.count = 0;
        create("k1");
        answer_row(&ROW("created", "3"));
        ck_assert_uint_eq(fake_redis.count, i + 1);
        ck_assert_str_eq(fake_redis.asked[i].argv[0], "HGET");
        ck_assert_str_eq(fake_redis.asked[i].argv[1], "seckill:{12}:voucher");
        redis_answers(rows[i].dead ? NULL : &rows[i].reply);
        must_be_told(SK_VERDICT_CREATED, rows[i].document);
    }
    fake_redis.down = true;
    told.count = 0;
    create("k1");
    answer_row(&ROW("created", "3"));
    must_be_told(SK_VERDICT_CREATED, "loading");
    ck_assert_uint_eq(fake_rebuild.count, 0);
}

// ---- there is none, or it is not known ----

TEST(a_key_of_other_terms_is_refused)
{
    create("k1");
    pg_answers(&ROW("reused", "3"));
    must_be_told(SK_VERDICT_IDEMPOTENCY_KEY_REUSED, "");
    ck_assert_uint_eq(fake_rebuild.count + fake_redis.count, 0);
}

TEST(a_lost_answer_is_asked_for_again_under_the_same_key)
{
    static const struct {
        const char *key;
        enum sk_result_kind kind;
    } rows[] = {{"k1", SK_RESULT_LOST}, {NULL, SK_RESULT_LOST}, {"k1", SK_RESULT_FAILED}, {"k1", SK_RESULT_LOCKED}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        told.count = fake_rebuild.count = 0;
        create(rows[i].key);
        fake_pg.down = true;
        pg_fails(rows[i].kind);
        (void)uv_run(&loop, UV_RUN_ONCE); // while the link is down nothing is asked
        ck_assert_uint_eq(fake_pg.count, 2 * i + 1);
        fake_pg.down = false;
        WAIT_FOR(turn_until(&fake_pg.count, 2 * i + 2));
        ck_assert_str_eq(asked_key(2 * i + 1), asked_key(2 * i));
        answer_row(&ROW("created", "0"));
        fake_rebuild.done(fake_rebuild.arg, true);
        must_be_told(SK_VERDICT_CREATED, "ready");
    }
}

// Two calls without a key are two wishes.
TEST(each_call_without_a_key_gets_one_of_its_own)
{
    create(NULL);
    create(NULL);
    ck_assert(sk_uuid_valid(asked_key(0)) && sk_uuid_valid(asked_key(1)));
    ck_assert_str_ne(asked_key(0), asked_key(1));
    pg_answers(&ROW("reused", "0"));
    pg_answers(&ROW("reused", "0"));
}

SUITE(.setup = setup, .teardown = teardown);
