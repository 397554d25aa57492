// Queries: who shares one, who gets a round of its own, and that every asker is answered once, whatever fails.
#include "fake_control.h"
#include "test.h"

enum { LATE = 4200 - 1, QUESTIONS_MAX = SK_QUERY_ASKERS_MAX - SK_PG_QUERIES * SK_QUERY_RESERVE };

static size_t rounds, releases;

struct chat {
    struct sk_query query;
    bool followed;
};

static void chat_on_row(void *arg, const struct sk_result *result)
{
    struct sk_query *query = arg;
    if (result->rows == NULL) {
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    sk_buf_printf(&query->body, "{\"round\":%d}", (int)rounds);
    sk_query_end(query, SK_VERDICT_FOUND, query->body.data);
}

static void chat_start(struct sk_query *query)
{
    rounds++;
    ck_assert_uint_eq(query->body.len, 0);
    ck_assert_ptr_null(query->voucher);
    (void)sk_query_find_voucher(query, 7);
    sk_query_ask_pg(query, SK_STATEMENT_LIST_VOUCHERS, 0, NULL, chat_on_row);
}

static void chat_release(struct sk_query *query)
{
    (void)query;
    releases++;
}

static struct sk_query *ask_as(enum sk_pg_class class, const char *key, uint64_t handle)
{
    struct chat *chat = sk_query_new(&control, class, handle, key, sizeof *chat, chat_start);
    if (chat == NULL)
        return NULL;
    ck_assert(!chat->followed);
    chat->query.release = chat_release;
    sk_query_start(&chat->query);
    return &chat->query;
}

static struct sk_query *ask(const char *key, uint64_t handle)
{
    return ask_as(SK_PG_QUERIES, key, handle);
}

static void setup(void)
{
    control_setup();
    rounds = releases = 0;
}

// ---- who shares ----

// What the first one is answered with may be older than the others' questions.
TEST(equal_questions_that_come_meanwhile_share_the_next_round)
{
    (void)ask("k", 1);
    (void)ask("k", 2);
    (void)ask("k", 3);
    ck_assert_uint_eq(fake_pg.count, 1);
    ck_assert_uint_eq(told_count, 0);
    pg_answers(&no_rows);
    must_be_shown(1, "{\"round\":1}");
    ck_assert_uint_eq(told_count, 1);
    ck_assert_uint_eq(fake_pg.count, 2);
    (void)ask("k", 4); // meanwhile again
    pg_answers(&no_rows);
    must_be_shown(2, "{\"round\":2}");
    must_be_shown(3, "{\"round\":2}");
    ck_assert_uint_eq(told_count, 3);
    pg_answers(&no_rows);
    must_be_shown(4, "{\"round\":3}");
    ck_assert_uint_eq(fake_pg.count, 3);
    (void)ask("k", 5); // that was the end of it
    ck_assert_uint_eq(fake_pg.count, 4);
    pg_answers(&no_rows);
    must_be_shown(5, "{\"round\":4}");
    ck_assert_uint_eq(releases, rounds);
}

TEST(other_questions_do_not_share)
{
    (void)ask("k", 1);
    (void)ask("l", 2);
    (void)ask(NULL, 3);
    (void)ask(NULL, 4);
    ck_assert_uint_eq(fake_pg.count, 4);
    for (int i = 0; i < 4; i++)
        pg_answers(&no_rows);
    for (uint64_t handle = 1; handle <= 4; handle++)
        must_be_told(handle, SK_VERDICT_FOUND);
}

// In any order: their places in the table are lists.
TEST(many_at_a_time_end_in_any_order)
{
    enum { MANY = 200 };
    for (uint64_t i = 0; i < MANY; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "%d", (int)i);
        (void)ask(i % 4 == 0 ? NULL : key, i + 1);
    }
    for (size_t i = 0; i < MANY; i++) {
        const struct asked *asked = &fake_pg.asked[i * 77 % MANY];
        asked->on_result(asked->arg, &(struct sk_result){.kind = SK_RESULT_ROWS, .rows = &no_rows});
        ck_assert_uint_eq(told_count, i + 1);
    }
    fake_pg.answered = MANY;
    for (uint64_t handle = 1; handle <= MANY; handle++)
        must_be_told(handle, SK_VERDICT_FOUND);
}

TEST(a_round_lets_go_of_its_voucher)
{
    struct sk_voucher *voucher = a_voucher(sale.catalogue, 7);
    struct sk_query *query = ask("k", 1);
    (void)ask("k", 2);
    ck_assert_uint_eq(voucher->pins, 1);
    ck_assert_ptr_eq(sk_query_find_voucher(query, 7), voucher);
    ck_assert_uint_eq(voucher->pins, 1);
    ck_assert_ptr_null(sk_query_find_voucher(query, 8));
    ck_assert_uint_eq(voucher->pins, 0);
    pg_answers(&no_rows);
    ck_assert_uint_eq(voucher->pins, 1); // the second round found it again
    pg_answers(&no_rows);
    ck_assert_uint_eq(voucher->pins, 0);
}

// ---- what is told ----

TEST(an_answer_is_told_as_it_is)
{
    static const struct sk_answer rows[] = {{.verdict = SK_VERDICT_LOADING}, // the verdict says when to try again
                                            {.verdict = SK_VERDICT_OVERLOADED, .retry_after_ms = 50},
                                            {.verdict = SK_VERDICT_ENDED, .order_id = "x"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sk_query_end_with(ask(NULL, 1), &rows[i]);
        must_be_told(1, rows[i].verdict);
        ck_assert_uint_eq(told[1].retry_after_ms, rows[i].retry_after_ms);
        ck_assert_str_eq(told[1].order_id, rows[i].order_id == NULL ? "" : rows[i].order_id);
    }
}

TEST(an_answer_may_come_before_the_end)
{
    struct sk_query *query = ask("k", 1);
    (void)ask("k", 2);
    sk_query_answer(query, &(struct sk_answer){.verdict = SK_VERDICT_LOADING});
    must_be_told(1, SK_VERDICT_LOADING);
    ck_assert_uint_eq(told_count, 1); // who came later waits for its round
    sk_query_end(query, SK_VERDICT_NOT_FOUND, NULL);
    ck_assert_uint_eq(told_count, 1);
    ck_assert_uint_eq(rounds, 2);
    sk_query_end(query, SK_VERDICT_NOT_FOUND, NULL);
    must_be_told(2, SK_VERDICT_NOT_FOUND);
}

TEST(a_ticket_may_be_taken_along)
{
    struct sk_query *query = ask(NULL, 9);
    ck_assert_uint_eq(sk_query_take_handle(query), 9);
    ck_assert_uint_eq(sk_query_take_handle(query), 0);
    sk_query_end(query, SK_VERDICT_NOT_FOUND, NULL);
    ck_assert_uint_eq(told_count, 0);
}

static void on_followed(struct sk_query *query, bool ok)
{
    ((struct chat *)query)->followed = true;
    sk_query_end(query, ok ? SK_VERDICT_NOT_FOUND : SK_VERDICT_UNAVAILABLE, NULL);
}

TEST(a_read_of_the_catalogue_may_be_waited_for)
{
    sk_query_follow(ask(NULL, 1), on_followed);
    sk_query_follow(ask(NULL, 2), on_followed);
    ck_assert_uint_eq(told_count, 0);
    follow_ends(true);
    must_be_told(1, SK_VERDICT_NOT_FOUND);
    must_be_told(2, SK_VERDICT_NOT_FOUND);
    sk_query_follow(ask(NULL, 3), on_followed);
    follow_ends(false);
    must_be_told(3, SK_VERDICT_UNAVAILABLE);
}

// ---- what fails ----

TEST(a_statement_that_cannot_be_asked_ends_it)
{
    fake_pg.down = true;
    (void)ask("k", 1);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    fake_pg.down = false;
    (void)ask("k", 2);
    (void)ask("k", 3);
    allocations_left = 2; // the body's is the first
    pg_answers(&no_rows);
    must_be_told(2, SK_VERDICT_FOUND);
    must_be_told(3, SK_VERDICT_OVERLOADED);
    (void)ask("k", 4);
    fake_pg.down = true;
    (void)ask("k", 5);
    pg_answers(NULL); // the link dies, and the next round finds it dead
    must_be_told(4, SK_VERDICT_UNAVAILABLE);
    must_be_told(5, SK_VERDICT_UNAVAILABLE);
    ck_assert_uint_eq(releases, rounds);
}

TEST(an_answer_that_finds_no_memory_is_none)
{
    (void)ask("k", 1);
    (void)ask("k", 2);
    allocations_left = 1;
    pg_answers(&no_rows);
    must_be_told(1, SK_VERDICT_OVERLOADED);
    ck_assert_str_eq(told_document, "");
    pg_answers(&no_rows);
    must_be_shown(2, "{\"round\":2}"); // the next round begins with an empty body
}

TEST(a_conversation_that_finds_no_memory_is_refused)
{
    allocations_left = 1;
    ck_assert_ptr_null(ask("k", 1));
    must_be_told(1, SK_VERDICT_OVERLOADED);
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_QUERIES), 0);
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_QUERIES_FULL), 1);
    allocations_left = 1;
    ck_assert_ptr_null(sk_query_try_new(&control, 2, sizeof(struct chat), chat_start));
    ck_assert_int_eq(told[2].count, 0); // the caller answers
    allocations_left = 1;
    ck_assert_ptr_null(sk_queries_open());
    (void)ask("k", 3);
    pg_answers(&no_rows);
    must_be_told(3, SK_VERDICT_FOUND);
    ck_assert_uint_eq(sk_metrics_read(&metrics, SK_METRIC_QUERIES), 1);
}

TEST(all_askers_together_are_bounded)
{
    for (int times = 0; times < 2; times++) { // their places are given back
        fake_stores_forget();
        (void)ask("k", 1);
        for (uint64_t handle = 2; handle <= QUESTIONS_MAX; handle++)
            (void)ask("k", handle);
        ck_assert_uint_eq(fake_pg.count, 1);
        told_count = 0;
        ck_assert_ptr_null(ask("k", LATE));
        must_be_told(LATE, SK_VERDICT_OVERLOADED);
        ck_assert_ptr_null(ask("l", LATE));
        must_be_told(LATE, SK_VERDICT_OVERLOADED);
        ck_assert_ptr_null(sk_query_try_new(&control, LATE, sizeof(struct chat), chat_start));
        ck_assert_uint_eq(told_count, 2);
        pg_answers(&no_rows);
        must_be_told(1, SK_VERDICT_FOUND);
        ck_assert_ptr_nonnull(ask("l", LATE)); // there is one place now
        ck_assert_ptr_null(ask("m", 1));
        must_be_told(1, SK_VERDICT_OVERLOADED);
        pg_answers(&no_rows);
        pg_answers(&no_rows);
        must_be_told(LATE, SK_VERDICT_FOUND);
        for (uint64_t handle = 2; handle <= QUESTIONS_MAX; handle++)
            must_be_told(handle, SK_VERDICT_FOUND);
    }
}

// Each class leaves places to those above it: a crowd of questions refuses no payment.
TEST(questions_leave_places_to_commands)
{
    static const enum sk_pg_class upwards[] = {SK_PG_QUERIES, SK_PG_MOVES, SK_PG_COMMANDS};
    uint64_t handle = 1;
    for (size_t i = 0; i < sizeof upwards / sizeof upwards[0]; i++) {
        uint64_t most = SK_QUERY_ASKERS_MAX - (uint64_t)upwards[i] * SK_QUERY_RESERVE;
        char key[8];
        (void)snprintf(key, sizeof key, "%zu", i);
        for (; handle <= most; handle++)
            (void)ask_as(upwards[i], key, handle);
        ck_assert_uint_eq(fake_pg.count, i + 1);
        ck_assert_int_eq(fake_pg.asked[i].class, upwards[i]);
        ck_assert_uint_eq(told_count, i);
        ck_assert_ptr_null(ask_as(upwards[i], key, LATE));
        must_be_told(LATE, SK_VERDICT_OVERLOADED);
    }
    ck_assert_uint_eq(handle, SK_QUERY_ASKERS_MAX + 1);
}

TEST(closing_answers_everyone_once)
{
    (void)ask("k", 1);
    (void)ask("k", 2);
    (void)ask("l", 3);
    (void)ask(NULL, 4);
    (void)ask(NULL, 5);
    sk_queries_close(control.queries);
    for (uint64_t handle = 1; handle <= 5; handle++)
        must_be_told(handle, SK_VERDICT_UNAVAILABLE);
    ck_assert_uint_eq(told_count, 5);
    ck_assert_uint_eq(rounds, 4); // no round begins any more
    sk_queries_close(NULL);
    control.queries = sk_queries_open(); // for the teardown
}

SUITE(.setup = setup, .teardown = control_teardown);
