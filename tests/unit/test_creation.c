// Creating a voucher: what is answered when the row is there, when it is not known whether it is, and when loading it
// fails, takes long, or was done before. The stores and the rebuild are stand-ins.
#include "fake_timer.h" // must precede the next one's loop

#include "fake_control.h"

#include "creation.h"
#include "test.h"

enum { PG_MS = 1000, REDIS_MS = 500 };

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const struct sk_terms terms = {"T", "EUR", "D", NULL, 5, 990, 1000, 2000, 3, 0, 4, 60, 90, 1, 18, 77000, 40};

static void setup(void)
{
    stores = (struct sk_store_options){.pg_timeout_ms = PG_MS, .redis_timeout_ms = REDIS_MS};
    now_ms = 100000;
    control_setup();
}

static void create(const char *key)
{
    sk_create_voucher(&control, key, "ann", &terms, 1);
}

static void must_be_created(const char *document)
{
    must_be_told(1, SK_VERDICT_CREATED);
    ck_assert_str_eq(told_document, document);
    ck_assert_str_eq(told_location, "/vouchers/12");
    ck_assert_int_eq(told_version, 31);
}

static void pg_says(const char *outcome, const char *epoch)
{
    const char *const rows[][ROW_COLUMNS] = {{outcome, "12", epoch, "ready", "loading", "31"}};
    pg_answers(&(struct sk_rows){1, rows});
}

// The row is there, and the catalogue comes to know it.
static void create_row(const char *epoch)
{
    create("k1");
    pg_says("created", epoch);
    (void)a_voucher(sale.catalogue, 12);
    follow_ends(true);
}

static void tick(uint64_t after_ms)
{
    now_ms += after_ms;
    time_comes();
}

static void redis_says_state(const char *state)
{
    const struct sk_reply reply = TEXT(state);
    ck_assert_str_eq(arguments_of(&fake_redis.asked[fake_redis.answered]), "HGET seckill:{12}:voucher state");
    redis_answers(&reply);
}

// ---- the row is there ----

TEST(a_voucher_that_is_loaded_is_shown_as_it_is)
{
    create("k1");
    statement_must_be(SK_STATEMENT_CREATE_VOUCHER,
                      "k1 T 990 5 1000 2000 3 60 EUR ann 1 18 D - 90 4 77000 - {\"waitlist\": 40}");
    pg_says("created", "0");
    (void)a_voucher(sale.catalogue, 12);
    follow_ends(true);
    ck_assert_uint_eq(told_count, 0); // not before it can sell
    ck_assert_uint_eq(fake_catalogue_sync.hurries, 1);
    ck_assert_int_eq(fake_rebuild.voucher->id, 12);
    ck_assert_uint_eq(fake_rebuild.voucher->pins, 1);
    ck_assert_int_eq(fake_rebuild.why, SK_REBUILD_DOUBT);
    fake_rebuild.done(fake_rebuild.arg, true);
    must_be_created("ready");
}

TEST(a_voucher_that_cannot_be_loaded_is_created_all_the_same)
{
    for (int known = 0; known <= 1; known++) { // the catalogue does not come to know it, or it was retired meanwhile
        create("k1");
        pg_says("created", "0");
        follow_ends(known);
        must_be_created("loading");
    }
    ck_assert_uint_eq(fake_rebuild.count, 0);
    create_row("0");
    fake_rebuild.done(fake_rebuild.arg, false);
    must_be_created("loading");
    fake_rebuild.status = SK_DOWN;
    create_row("0");
    must_be_created("loading");
}

// It is loaded all the same.
TEST(what_takes_long_is_not_waited_for)
{
    create("k1");
    pg_says("created", "0");
    tick(2 * PG_MS + REDIS_MS - 1);
    ck_assert_uint_eq(told_count, 0);
    tick(1);
    must_be_created("loading");
    (void)a_voucher(sale.catalogue, 12);
    follow_ends(true);
    ck_assert_uint_eq(fake_rebuild.count, 1);
    fake_rebuild.done(fake_rebuild.arg, true);
    create_row("0");
    tick(2 * PG_MS + REDIS_MS);
    must_be_created("loading");
    fake_rebuild.done(fake_rebuild.arg, true);
    ck_assert_uint_eq(told_count, 2);
}

TEST(a_voucher_that_the_audit_loads_is_waited_for)
{
    for (int late = 0; late <= 1; late++) {
        fake_rebuild.status = SK_FULL;
        create_row("0");
        for (int times = 0; times < 2; times++) {
            tick(50);
            redis_says_state("loading");
            ck_assert_uint_eq(told_count, (size_t)late);
        }
        tick(late ? 2 * PG_MS + REDIS_MS : 50);
        if (!late)
            redis_says_state("open");
        must_be_created(late ? "loading" : "ready");
    }
    fake_rebuild.status = SK_FULL;
    create_row("0");
    fake_redis.down = true;
    tick(50);
    must_be_created("loading");
}

// Loading closes a voucher for a moment, and this one may be in the middle of its sale.
TEST(a_voucher_that_was_loaded_before_is_only_checked)
{
    static const struct sk_reply bad[] = {NIL, ERROR("WRONGTYPE"), NUMBER(1)};
    static const char *const states[][2] = {{"open", "ready"}, {"closed", "ready"}, {"loading", "loading"}};
    for (size_t i = 0; i < COUNT(states); i++) {
        create_row("3");
        redis_says_state(states[i][0]);
        must_be_created(states[i][1]);
    }
    for (size_t i = 0; i <= COUNT(bad); i++) {
        create_row("3");
        redis_answers(i < COUNT(bad) ? &bad[i] : NULL);
        must_be_created("loading");
    }
    fake_redis.down = true;
    create_row("3");
    must_be_created("loading");
    ck_assert_uint_eq(fake_rebuild.count, 0);
}

// ---- there is none, or it is not known ----

TEST(a_key_of_other_terms_is_refused)
{
    create("k1");
    pg_says("reused", "3");
    must_be_told(1, SK_VERDICT_IDEMPOTENCY_KEY_REUSED);
    ck_assert_str_eq(told_location, "");
    ck_assert_uint_eq(fake_rebuild.count + fake_redis.count, 0);
}

// Of a scope: on the shard of the voucher that it names, and not before all instances know scopes.
TEST(a_voucher_that_joins_a_scope_waits_for_no_older_instance)
{
    static const struct sk_reply all[] = {NUMBER(5), TEXT("one"), NUMBER(9), TEXT("0.2.0+scopes 1 3000 a:1")};
    static const struct sk_reply older[] = {NUMBER(5),
                                            TEXT("one"),
                                            NUMBER(9),
                                            TEXT("0.2.0+scopes 1 3000 a:1"),
                                            TEXT("two"),
                                            NUMBER(9),
                                            TEXT("0.2.0 1 3000 a:1")};
    static const struct sk_reply silent[] = {NUMBER(5), TEXT("one"), NUMBER(9), TEXT("")};
    const struct sk_reply replies[] = {LIST_OF(all), LIST_OF(older), LIST_OF(silent)};
    static const enum sk_verdict verdicts[] = {SK_VERDICT_INVALID, SK_VERDICT_SCOPES_OFF, SK_VERDICT_SCOPES_OFF,
                                               SK_VERDICT_UNAVAILABLE};
    struct sk_terms joins = terms;
    joins.scope = 7;
    for (size_t i = 0; i < COUNT(verdicts); i++) {
        sk_create_voucher(&control, "k1", "ann", &joins, 1);
        ck_assert_int_eq(fake_redis.asked[fake_redis.answered].what, SK_SCRIPT_LIST_INSTANCES);
        redis_answers(i < COUNT(replies) ? &replies[i] : NULL);
        if (i == 0) {
            statement_must_be(SK_STATEMENT_CREATE_VOUCHER,
                              "k1 T 990 5 1000 2000 3 60 EUR ann 1 18 D - 90 4 77000 7 {\"waitlist\": 40}");
            pg_says("scope", NULL);
        }
        must_be_told(1, verdicts[i]);
    }
}

// Two calls without a key are two wishes. A lost answer is asked for again under the same key (test_command.c).
TEST(each_call_without_a_key_gets_one_of_its_own)
{
    create(NULL);
    pg_fails(SK_RESULT_LOST);
    tick(50);
    pg_says("reused", "0");
    create(NULL);
    const char *keys[3];
    for (int i = 0; i < 3; i++) {
        keys[i] = fake_pg.asked[i].argv[0];
        ck_assert(sk_uuid_valid(keys[i]));
    }
    ck_assert_str_eq(keys[0], keys[1]);
    ck_assert_str_ne(keys[0], keys[2]);
    pg_says("reused", "0");
}

SUITE(.setup = setup, .teardown = control_teardown);
