// A command of an operator: how often its statement is sent, and which functions of its kind run.
#include "fake_timer.h" // must precede the next one's loop

#include "fake_control.h"

#include "command.h"
#include "test.h"

enum { PG_MS = 1000, REDIS_MS = 500, TICK_MS = 50 };

// What a kind was told.
static struct {
    unsigned rows, failures, ticks, late, releases;
    bool lost; // as the row came
} heard;

static struct sk_command *command;

static void on_row(struct sk_command *judged, const struct sk_rows *rows)
{
    ck_assert_str_eq(sk_rows_text(rows, 0, 0), "done");
    heard.rows++;
    heard.lost = judged->lost;
}

static void on_failure(struct sk_command *failed)
{
    ck_assert_ptr_eq(failed, command);
    heard.failures++;
}

static void on_tick(struct sk_command *ticked, bool late)
{
    ck_assert_ptr_eq(ticked, command);
    heard.ticks++;
    heard.late += late;
}

static void on_release(struct sk_command *released)
{
    ck_assert_ptr_eq(released, command);
    heard.releases++;
}

static const struct sk_command_kind kind = {on_row, on_failure, on_tick, on_release};

static void start(struct sk_query *query)
{
    sk_command_ask((struct sk_command *)query);
}

static void begin(void)
{
    command = sk_query_new(&control, SK_PG_COMMANDS, 1, NULL, sizeof *command, start);
    if (command == NULL)
        return; // it was told so
    sk_command_open(command, &kind, SK_STATEMENT_SET_VOUCHER_STATE);
    sk_command_add(command, "key");
    sk_command_add(command, NULL);
    sk_command_add_number(command, -5);
    sk_command_add(command, "");
}

static void ask(void)
{
    begin();
    if (command != NULL)
        sk_command_start(command);
}

static void setup(void)
{
    stores = (struct sk_store_options){.pg_timeout_ms = PG_MS, .redis_timeout_ms = REDIS_MS};
    now_ms = 100000;
    control_setup();
    memset(&heard, 0, sizeof heard);
}

static void row(void)
{
    const char *const rows[][ROW_COLUMNS] = {{"done"}};
    pg_answers(&(struct sk_rows){1, rows});
}

static void tick(uint64_t after_ms)
{
    now_ms += after_ms;
    time_comes();
}

static void must_have_asked(size_t times)
{
    ck_assert_uint_eq(fake_pg.count, times);
    statement_must_be(SK_STATEMENT_SET_VOUCHER_STATE, "key - -5 ");
}

static void end(void)
{
    sk_query_end(&command->query, SK_VERDICT_FOUND, NULL);
    must_be_told(1, SK_VERDICT_FOUND);
}

static void must_end(enum sk_verdict verdict, unsigned failures)
{
    must_be_told(1, verdict);
    ck_assert_uint_eq(heard.failures, failures);
    ck_assert_uint_eq(heard.releases, 1);
}

TEST(its_row_is_its_kinds)
{
    ask();
    must_have_asked(1);
    tick(TICK_MS);
    ck_assert_uint_eq(heard.ticks, 0); // it is still asking
    row();
    ck_assert(heard.rows == 1 && !heard.lost);
    tick(TICK_MS);
    ck_assert(heard.ticks == 1 && heard.late == 0);
    tick(2 * PG_MS + REDIS_MS - 2 * TICK_MS);
    ck_assert(heard.ticks == 2 && heard.late == 1);
    end();
    ck_assert_uint_eq(heard.failures, 0);
    ck_assert_uint_eq(heard.releases, 1);
}

TEST(a_lost_answer_is_asked_for_until_it_takes_too_long)
{
    static const struct {
        enum sk_result_kind kind;
        bool lost; // as its kind sees it
    } rows[] = {{SK_RESULT_LOCKED, false}, {SK_RESULT_LOST, true}, {SK_RESULT_FAILED, true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ask();
        fake_pg.down = true;
        pg_fails(rows[i].kind);
        tick(TICK_MS); // while the link is down nothing is asked
        ck_assert_uint_eq(fake_pg.count, 2 * i + 1);
        fake_pg.down = false;
        tick(TICK_MS);
        must_have_asked(2 * i + 2);
        row();
        ck_assert(heard.lost == rows[i].lost);
        end();
    }
    memset(&heard, 0, sizeof heard);
    ask();
    pg_fails(SK_RESULT_LOST);
    tick(PG_MS - 1);
    pg_fails(SK_RESULT_LOST);
    tick(1);
    must_end(SK_VERDICT_UNAVAILABLE, 1);
}

TEST(what_postgres_will_never_take_is_not_tried_again)
{
    const char *const two[][ROW_COLUMNS] = {{"done"}, {"done"}};
    ask();
    pg_fails(SK_RESULT_REFUSED);
    must_end(SK_VERDICT_INTERNAL, 1);
    memset(&heard, 0, sizeof heard);
    ask();
    pg_answers(&(struct sk_rows){2, two});
    must_end(SK_VERDICT_INTERNAL, 1);
}

TEST(what_cannot_be_sent_ends_it_unless_it_insists)
{
    fake_pg.down = true;
    ask();
    must_end(SK_VERDICT_UNAVAILABLE, 0);
    memset(&heard, 0, sizeof heard);
    begin();
    command->insists = true;
    sk_command_start(command);
    tick(TICK_MS);
    ck_assert_uint_eq(told[1].count + fake_pg.count, 0);
    fake_pg.down = false;
    tick(TICK_MS);
    must_have_asked(1);
    row();
    ck_assert(heard.rows == 1 && !heard.lost);
    end();
}

TEST(another_statement_has_its_own_parameters)
{
    ask();
    pg_fails(SK_RESULT_LOST);
    tick(TICK_MS);
    row();
    ck_assert(heard.lost);
    sk_command_again(command, SK_STATEMENT_REMOVE_UNITS);
    sk_command_add(command, "epoch");
    sk_command_ask(command);
    statement_must_be(SK_STATEMENT_REMOVE_UNITS, "epoch");
    row();
    ck_assert(heard.rows == 2 && !heard.lost);
    end();
}

static void converse(void)
{
    ask();
    if (told[1].count > 0)
        return;
    row();
    sk_query_end(&command->query, SK_VERDICT_FOUND, NULL);
}

TEST(short_memory_is_told)
{
    must_survive_short_memory(converse, a_voucher(sale.catalogue, 7));
}

TEST(who_still_waits_at_the_end_is_told_so)
{
    ask();
    fake_pg.down = true;
    pg_fails(SK_RESULT_LOST);
    ck_assert_uint_eq(told[1].count, 0);
    sk_queries_close(control.queries);
    control.queries = NULL;
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
}

SUITE(.setup = setup, .teardown = control_teardown);
