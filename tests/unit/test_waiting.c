// Requests that wait for an order's change: the queries for all of them together, and that each change is reported
// once, whatever is lost in between.
#include "fake_timer.h"

#include "fake_control.h"

#include "test.h"
#include "waiting.h"

enum { TICK_MS = 200, ASK_MAX = 1000, MOVED_MAX = 5000, CROWD = 1500, DOCUMENT_SIZE = 64 };

#define ID  "018bcfe5-6800-7000-8000-0123456789ab"
#define ID2 "018bcfe5-6800-7000-8000-0123456789ac"

typedef const char *const rows_t[ROW_COLUMNS];

static struct sk_waiting *waiting;

static void setup(void)
{
    now_ms = 1000000;
    control_setup();
    control.waiting = waiting = sk_waiting_open(&control);
    ck_assert_ptr_nonnull(waiting);
}

static void teardown(void)
{
    sk_waiting_close(waiting);
    control_teardown();
}

static void wait_for(const char *id, const char *status, uint64_t handle)
{
    ck_assert(sk_waiting_add(waiting, id, "alice", status, handle));
}

// The next query for moves, and its answer: only the snapshot, or one order.
static void moved(const char *since, const char *seen, const char *id)
{
    rows_t rows[] = {{seen, NULL}, {NULL, id}};
    time_comes();
    const struct asked *asked = the_statement(SK_STATEMENT_ORDERS_MOVED);
    if (since == NULL)
        ck_assert_ptr_null(asked->argv[0]);
    else
        ck_assert_str_eq(asked->argv[0], since);
    pg_answers(&(struct sk_rows){id == NULL ? 1 : 2, rows});
}

static void must_ask(const char *ids, const char *known)
{
    const struct asked *asked = the_statement(SK_STATEMENT_ORDERS_CHANGED);
    ck_assert_str_eq(asked->argv[1], ids);
    ck_assert_str_eq(asked->argv[3], known);
}

static void changed(const char *n, const char *document)
{
    rows_t rows[] = {{n, document}};
    pg_answers(&(struct sk_rows){1, rows});
}

// It begins to wait, and the first query is for it.
static void wait_and_ask(const char *id, const char *status, uint64_t handle)
{
    wait_for(id, status, handle);
    moved(NULL, "7:9:", NULL);
}

static void must_be_at_rest(void)
{
    ck_assert_uint_eq(sk_waiting_count(waiting), 0);
    ck_assert(!stores_wait());
    if (due_ms != 0)
        time_comes();
    ck_assert(!stores_wait());
    ck_assert_uint_eq(due_ms, 0);
}

TEST(a_change_is_told_once)
{
    ck_assert_uint_eq(due_ms, 0);
    wait_for(ID, "unpaid", 1);
    wait_for(ID2, "unpaid", 2);
    ck_assert_uint_eq(due_ms, now_ms + TICK_MS);
    moved(NULL, "7:9:", NULL);
    must_ask("{" ID "," ID2 "}", "{\"unpaid\",\"unpaid\"}");
    pg_answers(&no_rows);
    ck_assert_uint_eq(due_ms, now_ms + TICK_MS);
    moved("7:9:", "9:9:", NULL);
    ck_assert(!stores_wait()); // nothing has moved, so there is no other query
    moved("9:9:", "9:12:", ID);
    must_ask("{" ID "}", "{\"unpaid\"}");
    changed("1", "{\"id\":1}");
    must_be_shown(1, "{\"id\":1}");
    ck_assert_uint_eq(told_count, 1);
    moved("9:12:", "12:12:", ID); // nobody waits for it now
    ck_assert(!stores_wait());
    sk_waiting_leave(waiting, 2);
    must_be_at_rest();
}

// It changed between the client's last read and the first query; or it is another user's.
TEST_EACH(what_changed_before_is_told, 2)
{
    wait_and_ask(ID, _i == 0 ? "unpaid" : "pending", 1);
    changed("1", _i == 0 ? "{}" : NULL);
    must_be_told(1, _i == 0 ? SK_VERDICT_FOUND : SK_VERDICT_NOT_FOUND);
    ck_assert_str_eq(told_document, _i == 0 ? "{}" : "");
    must_be_at_rest();
}

static size_t asked_now(void)
{
    const struct asked *asked = the_statement(SK_STATEMENT_ORDERS_CHANGED);
    size_t commas = 0;
    for (const char *c = asked->argv[1]; *c != '\0'; c++)
        commas += *c == ',';
    return commas + 1;
}

TEST(pending_ones_have_their_turns)
{
    for (uint64_t handle = 1; handle <= CROWD; handle++)
        wait_for(ID, "pending", handle);
    moved(NULL, "7:9:", NULL);
    ck_assert_uint_eq(asked_now(), ASK_MAX);
    pg_answers(&no_rows);
    while (stores_wait()) {
        ck_assert_uint_le(asked_now(), ASK_MAX);
        pg_answers(&no_rows);
    }
    for (int i = 0; i < 3; i++) {
        moved("7:9:", "7:9:", NULL);
        ck_assert_uint_eq(asked_now(), ASK_MAX);
        if (i < 2)
            pg_answers(&no_rows);
    }
    changed("1000", "{}"); // the last one queried
    ck_assert_uint_eq(told_count, 1);
    ck_assert_uint_eq(sk_waiting_count(waiting), CROWD - 1);
    ck_assert(!stores_wait());
}

TEST(nothing_is_missed_when_answers_are_lost)
{
    wait_and_ask(ID, "unpaid", 1);
    pg_answers(&no_rows);
    time_comes();
    pg_answers(NULL); // orders_moved
    must_ask("{" ID "}", "{\"unpaid\"}");
    pg_answers(NULL);
    moved(NULL, "9:9:", NULL); // from the start
    must_ask("{" ID "}", "{\"unpaid\"}");
    pg_answers(&no_rows);
    fake_pg.down = true;
    time_comes();
    fake_pg.down = false;
    ck_assert_uint_eq(due_ms, now_ms + TICK_MS);
    moved(NULL, "9:9:", NULL);
    changed("1", "{}");
    must_be_shown(1, "{}");
    must_be_at_rest();
}

TEST(too_many_have_moved)
{
    static const char *rows[MOVED_MAX + 2][ROW_COLUMNS];
    wait_and_ask(ID, "unpaid", 1);
    pg_answers(&no_rows);
    for (size_t i = 1; i < MOVED_MAX + 2; i++)
        rows[i][1] = ID2;
    rows[0][0] = "9:9:";
    time_comes();
    (void)the_statement(SK_STATEMENT_ORDERS_MOVED);
    pg_answers(&(struct sk_rows){MOVED_MAX + 2, (rows_t *)rows});
    must_ask("{" ID "}", "{\"unpaid\"}");
    changed("1", "{}");
    must_be_shown(1, "{}");
    must_be_at_rest();
}

TEST(the_time_is_up)
{
    wait_and_ask(ID, "unpaid", 1);
    pg_answers(&no_rows);
    sk_waiting_over(waiting, 1);
    moved("7:9:", "9:9:", NULL);
    must_ask("{" ID "}", "{\"\"}"); // any status counts
    sk_waiting_over(waiting, 1);    // also during its query
    changed("1", "{\"status\":\"unpaid\"}");
    must_be_shown(1, "{\"status\":\"unpaid\"}");
    sk_waiting_over(waiting, 1); // already answered
    must_be_at_rest();
}

// PostgreSQL has no row, or no answer, so it is looked up like any order.
TEST_EACH(the_time_is_up_and_it_is_pending, 2)
{
    wait_for(ID, "pending", 1);
    sk_waiting_over(waiting, 1);
    if (_i == 0) {
        moved(NULL, "7:9:", NULL);
        pg_answers(&no_rows);
    } else {
        time_comes();
        pg_answers(NULL);
        pg_answers(NULL);
    }
    ck_assert_uint_eq(sk_waiting_count(waiting), 0);
    (void)the_statement(SK_STATEMENT_FIND_ORDER);
    pg_answers(NULL);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
    must_be_at_rest();
}

TEST(clients_leave)
{
    wait_for(ID, "unpaid", 1);
    wait_for(ID, "unpaid", 2);
    wait_for(ID, "unpaid", 3);
    sk_waiting_leave(waiting, 2);
    moved(NULL, "7:9:", NULL);
    must_ask("{" ID "," ID "}", "{\"unpaid\",\"unpaid\"}");
    sk_waiting_leave(waiting, 1); // during its query
    sk_waiting_leave(waiting, 1);
    changed("1", "{}");
    ck_assert_uint_eq(told_count, 0);
    sk_waiting_leave(waiting, 3);
    must_be_at_rest();
}

TEST(memory_is_short)
{
    allocations_left = 1;
    ck_assert(!sk_waiting_add(waiting, ID, "alice", "unpaid", 1));
    allocations_left = 0;
    ck_assert_uint_eq(told_count, 0);
    must_be_at_rest();
}

TEST(the_end)
{
    wait_for(ID, "unpaid", 1);
    wait_for(ID2, "pending", 2);
    time_comes();
    pg_answers(NULL); // as the links do when they are closed
    pg_answers(NULL);
    wait_for(ID, "unpaid", 3);
    sk_waiting_close(waiting);
    for (uint64_t handle = 1; handle <= 3; handle++)
        must_be_told(handle, SK_VERDICT_UNAVAILABLE);
    waiting = NULL;
}

SUITE(.setup = setup, .teardown = teardown);
