// Operators' changes to a voucher in PostgreSQL: states, terms, stock, keys, versions, and the data that Redis is
// updated with.
#include <stdio.h>
#include <string.h>

#include "sql.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

enum { TEXT_SIZE = 32, COLUMN_OUTCOME = 0, COLUMN_CHANGE = 2, COLUMN_STATE = 3, COLUMN_LEFT = 4 };

static char change[TEXT_SIZE]; // of the last call
static char key[TEXT_SIZE];    // of the next one
static int keys;

static const char *new_key(void)
{
    (void)snprintf(key, sizeof key, "key-%d", ++keys);
    return key;
}

static void must_come_to(PGresult *result, const char *outcome)
{
    ck_assert_int_eq(PQntuples(result), 1);
    ck_assert_str_eq(PQgetvalue(result, 0, COLUMN_OUTCOME), outcome);
    (void)snprintf(change, sizeof change, "%s", PQgetvalue(result, 0, COLUMN_CHANGE));
    PQclear(result);
}

#define STATE(match, key, state) SQL_RUN(SK_STATEMENT_SET_VOUCHER_STATE, sql_voucher, match, key, "ann", state)
#define ADD(match, key, units)   SQL_RUN(SK_STATEMENT_ADD_UNITS, sql_voucher, match, key, "ann", units)
#define MAY(match, key, units)   SQL_RUN(SK_STATEMENT_MAY_REMOVE_UNITS, sql_voucher, match, key, units)
#define CHANGE(match, key, ...) \
    SQL_RUN(SK_STATEMENT_CHANGE_VOUCHER, sql_voucher, match, key, "ann", __VA_ARGS__, NULL, NULL, NULL, NULL)
#define CHANGE_TICKETS(ticket, bits)                                                                                   \
    SQL_RUN(SK_STATEMENT_CHANGE_VOUCHER, sql_voucher, "0", new_key(), "ann", NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
            ticket, bits, NULL, NULL)
#define CHANGE_LOOKS(key, description, picture)                                                                        \
    SQL_RUN(SK_STATEMENT_CHANGE_VOUCHER, sql_voucher, "0", key, "ann", NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
            NULL, description, picture)
#define REMOVE(epoch, key, units) remove_units(epoch, "0", key, units)

static PGresult *remove_units(const char *epoch, const char *match, const char *request_key, const char *units)
{
    return SQL_RUN(SK_STATEMENT_REMOVE_UNITS, sql_slot, sql_voucher, epoch, match, request_key, "ann", units);
}

static int64_t events(const char *what)
{
    return db_number("SELECT count(*) FROM admin_event WHERE voucher_id = %s AND what = '%s' AND by_whom = 'ann'",
                     sql_voucher, what);
}

static int64_t changes(void)
{
    return db_number("SELECT change FROM seckill_catalogue");
}

static void units_must_be(int units, int stock)
{
    ck_assert_int_eq(db_number("SELECT units FROM voucher_stock WHERE voucher_id = %s", sql_voucher), units);
    ck_assert_int_eq(db_number("SELECT stock FROM voucher_stock WHERE voucher_id = %s", sql_voucher), stock);
}

// ---- states ----

TEST(each_state_leads_where_it_may)
{
    static const char *const states[] = {"open", "paused", "closed", "retired"};
    static const char *const outcomes[4][3] = {
        {"done", "done", "done"}, {"done", "done", "done"}, {"state", "state", "done"}, {"state", "state", "state"}};
    for (int from = 0; from < 4; from++) {
        for (int to = 0; to < 3; to++) {
            sql_make_voucher(5);
            db_run("UPDATE seckill_voucher SET state = '%s' WHERE id = %s", states[from], sql_voucher);
            int64_t before = changes();
            must_come_to(STATE("0", new_key(), states[to]), outcomes[from][to]);
            bool moves = from != to && strcmp(outcomes[from][to], "done") == 0;
            ck_assert_int_eq(changes() - before, moves); // repeating a state changes nothing
            ck_assert_int_eq(db_number("SELECT (state = '%s')::int FROM seckill_voucher WHERE id = %s",
                                       states[moves ? to : from], sql_voucher),
                             1);
            ck_assert_int_eq(db_number("SELECT count(*) FROM admin_event WHERE voucher_id = %s AND by_whom = 'ann'"
                                       " AND change = %s",
                                       sql_voucher, change),
                             moves);
        }
    }
}

// ---- keys and versions ----

TEST(a_key_stands_for_one_request)
{
    char first[TEXT_SIZE];
    sql_make_voucher(5);
    must_come_to(ADD("0", "k", "2"), "done");
    (void)snprintf(first, sizeof first, "%s", change);
    must_come_to(STATE("0", "other", "paused"), "done");
    int64_t before = changes();
    must_come_to(ADD("0", "k", "2"), "known"); // returns the voucher as it is now
    ck_assert_str_ne(change, first);
    must_come_to(ADD("77", "k", "2"), "known"); // it was done, whatever the current version
    must_come_to(ADD("0", "k", "3"), "reused");
    must_come_to(STATE("0", "k", "open"), "reused");
    must_come_to(MAY("0", "k", "2"), "reused");
    must_come_to(REMOVE("3", "k", "2"), "reused");
    must_come_to(CHANGE("0", "k", "T", NULL, NULL, NULL, NULL, NULL, NULL), "reused");
    db_run("UPDATE seckill_voucher SET state = 'closed' WHERE id = %s", sql_voucher);
    must_come_to(STATE("0", "no", "open"), "state");
    must_come_to(ADD("0", "no", "1"), "state"); // a rejected call leaves its key free
    ck_assert_int_eq(changes() - before, 1);
    units_must_be(7, 7);
}

TEST(a_version_that_has_passed_is_told)
{
    char seen[TEXT_SIZE];
    sql_make_voucher(5);
    must_come_to(STATE("0", new_key(), "paused"), "done");
    (void)snprintf(seen, sizeof seen, "%s", change);
    must_come_to(STATE(seen, new_key(), "open"), "done");
    int64_t before = changes();
    must_come_to(STATE(seen, new_key(), "paused"), "changed");
    must_come_to(STATE(seen, new_key(), "open"), "changed"); // although it is already open
    must_come_to(ADD(seen, new_key(), "1"), "changed");
    must_come_to(MAY(seen, new_key(), "1"), "changed");
    must_come_to(remove_units("3", seen, new_key(), "1"), "changed");
    must_come_to(CHANGE(seen, new_key(), "T", NULL, NULL, NULL, NULL, NULL, NULL), "changed");
    ck_assert_int_eq(changes(), before);
    (void)snprintf(sql_voucher, sizeof sql_voucher, "999999");
    must_come_to(STATE("0", new_key(), "paused"), "unknown");
    must_come_to(ADD("0", new_key(), "1"), "unknown");
}

// Concurrent calls are serialized: the later one sees the result of the first.
TEST(of_two_calls_with_one_key_one_is_done)
{
    PGconn *second = sql_connect();
    sql_make_voucher(5);
    PQclear(PQexec(sql_service, "BEGIN"));
    must_come_to(ADD("0", "k", "2"), "done");
    const char *params[] = {sql_voucher, "0", "k", "ann", "2"};
    ck_assert_int_eq(
        PQsendQueryParams(second, sk_statements[SK_STATEMENT_ADD_UNITS].text, 5, NULL, params, NULL, NULL, 0), 1);
    WAIT_FOR(db_number("SELECT count(*) FROM pg_stat_activity WHERE pid = %d AND wait_event_type = 'Lock'",
                       PQbackendPID(second)) == 1);
    PQclear(PQexec(sql_service, "COMMIT"));
    must_come_to(sql_receive(second), "known");
    units_must_be(7, 7);
    PQfinish(second);
}

// ---- terms ----

#define MS_BEFORE "1000"
#define MS_AFTER  "4102444800000"

TEST(before_the_start_all_terms_change)
{
    sql_make_voucher(5);
    db_run(
        "UPDATE seckill_voucher SET begin_at = now() + interval '1 h', end_at = now() + interval '2 h' WHERE id = %s",
        sql_voucher);
    must_come_to(CHANGE("0", new_key(), "N", "7", "EUR", MS_BEFORE, MS_AFTER, "3", "0"), "done");
    ck_assert_int_eq(db_number("SELECT count(*) FROM seckill_voucher WHERE id = %s AND change = %s AND title = 'N'"
                               " AND price_cents = 7 AND currency = 'EUR' AND unix_ms(begin_at) = " MS_BEFORE
                               " AND unix_ms(end_at) = " MS_AFTER " AND user_limit = 3 AND pay_within_s = 0",
                               sql_voucher, change),
                     1);
    ck_assert_int_eq(db_number("SELECT (detail->>'limit')::int FROM admin_event WHERE change = %s", change), 3);
    ck_assert_int_eq(events("changed"), 1);
    int64_t before = changes();
    must_come_to(CHANGE("0", new_key(), "N", "7", "EUR", MS_BEFORE, MS_AFTER, "3", "0"), "done"); // already in effect
    must_come_to(CHANGE("0", new_key(), NULL, NULL, NULL, NULL, NULL, NULL, NULL), "done");
    ck_assert_int_eq(changes(), before);
    ck_assert_int_eq(events("changed"), 1);
}

TEST(what_would_end_before_it_begins_is_refused)
{
    sql_make_voucher(5);
    db_run(
        "UPDATE seckill_voucher SET begin_at = now() + interval '1 h', end_at = now() + interval '2 h' WHERE id = %s",
        sql_voucher);
    must_come_to(CHANGE("0", new_key(), NULL, NULL, NULL, NULL, MS_BEFORE, NULL, NULL), "invalid");
    must_come_to(CHANGE("0", new_key(), NULL, NULL, NULL, MS_AFTER, NULL, NULL, NULL), "invalid");
    must_come_to(CHANGE("0", new_key(), NULL, NULL, NULL, MS_AFTER, MS_AFTER, NULL, NULL), "invalid");
}

TEST(after_the_start_only_title_and_a_later_end)
{
    sql_make_voucher(5);
    int64_t before = changes();
    must_come_to(CHANGE("0", new_key(), NULL, "1", NULL, NULL, NULL, NULL, NULL), "started");
    must_come_to(CHANGE("0", new_key(), NULL, NULL, "EUR", NULL, NULL, NULL, NULL), "started");
    must_come_to(CHANGE("0", new_key(), NULL, NULL, NULL, MS_BEFORE, NULL, NULL, NULL), "started");
    must_come_to(CHANGE("0", new_key(), NULL, NULL, NULL, NULL, MS_BEFORE, NULL, NULL), "started");
    must_come_to(CHANGE("0", new_key(), NULL, NULL, NULL, NULL, NULL, "2", NULL), "started");
    must_come_to(CHANGE("0", new_key(), NULL, NULL, NULL, NULL, NULL, NULL, "1"), "started");
    must_come_to(CHANGE("0", new_key(), "N", "1", NULL, NULL, MS_AFTER, NULL, NULL), "started"); // all or nothing
    ck_assert_int_eq(changes(), before);
    must_come_to(CHANGE("0", new_key(), "N", "100", "CNY", NULL, MS_AFTER, "1", "900"), "done");
    ck_assert_int_eq(changes(), before + 1);
    db_run("UPDATE seckill_voucher SET state = 'closed' WHERE id = %s", sql_voucher);
    must_come_to(CHANGE("0", new_key(), "M", NULL, NULL, NULL, NULL, NULL, NULL), "state");
}

// ---- the offer that tickets are for ----

static int64_t offer(void)
{
    return db_number("SELECT offer FROM seckill_voucher WHERE id = %s", sql_voucher);
}

TEST(what_tickets_take_changes_at_any_time)
{
    sql_make_voucher(5); // has started
    must_come_to(CHANGE_TICKETS("1", NULL), "done");
    must_come_to(CHANGE_TICKETS(NULL, "24"), "done");
    ck_assert_int_eq(db_number("SELECT work_bits FROM seckill_voucher WHERE id = %s AND ticket AND change = %s",
                               sql_voucher, change),
                     24);
    ck_assert_int_eq(db_number("SELECT (detail->>'work_bits')::int FROM admin_event WHERE change = %s", change), 24);
    int64_t before = changes();
    must_come_to(CHANGE_TICKETS("1", "24"), "done"); // already in effect
    ck_assert_int_eq(changes(), before);
    must_come_to(CHANGE_TICKETS("0", "0"), "done");
    ck_assert_int_eq(offer(), 4);
}

TEST(description_and_picture_change_at_any_time)
{
    sql_make_voucher(5); // has started
    must_come_to(CHANGE_LOOKS("looks", "Spring harvest", "https://p.example/tea.webp"), "done");
    PGresult *known = CHANGE_LOOKS("looks", "Spring harvest", "https://p.example/tea.webp");
    const char *description, *picture;
    json_t *document = sql_document(known, 1);
    ck_assert_int_eq(json_unpack(document, "{s:s,s:s}", "description", &description, "picture", &picture), 0);
    ck_assert_str_eq(description, "Spring harvest");
    ck_assert_str_eq(picture, "https://p.example/tea.webp");
    json_decref(document);
    must_come_to(known, "known");
    must_come_to(CHANGE_LOOKS("looks", "Spring harvest", NULL), "reused");
    int64_t before = changes();
    must_come_to(CHANGE_LOOKS(new_key(), NULL, NULL), "done"); // as they are
    ck_assert_int_eq(changes(), before);
    must_come_to(CHANGE_LOOKS(new_key(), "", ""), "done"); // removed
    ck_assert_int_eq(db_number("SELECT count(*) FROM seckill_voucher WHERE id = %s AND description IS NULL"
                               " AND picture IS NULL",
                               sql_voucher),
                     1);
    ck_assert_int_eq(offer(), 1);
}

TEST(the_offer_counts_what_a_buyer_agrees_to)
{
    sql_make_voucher(5);
    db_run("UPDATE seckill_voucher SET begin_at = now() + interval '1 h', end_at = now() + interval '2 h'"
           " WHERE id = %s",
           sql_voucher);
    int64_t now = offer();
    must_come_to(CHANGE("0", new_key(), NULL, "7", NULL, NULL, NULL, NULL, NULL), "done");
    ck_assert_int_eq(offer(), now + 1);
    must_come_to(CHANGE("0", new_key(), NULL, NULL, "EUR", NULL, NULL, NULL, NULL), "done");
    ck_assert_int_eq(offer(), now + 2);
    must_come_to(CHANGE("0", new_key(), NULL, NULL, NULL, NULL, NULL, "3", NULL), "done");
    ck_assert_int_eq(offer(), now + 3);
    // The window is not part of the offer: place_orders.lua checks it.
    must_come_to(CHANGE("0", new_key(), NULL, NULL, NULL, NULL, MS_AFTER, NULL, NULL), "done");
    must_come_to(CHANGE("0", new_key(), NULL, NULL, NULL, MS_BEFORE, NULL, NULL, NULL), "done");
    ck_assert_int_eq(offer(), now + 3);
}

// Tickets stay valid after changes of title, state or stock, a rebuild, or a change to the same value.
TEST(the_offer_stays_through_all_else)
{
    sql_make_voucher(5);
    must_come_to(CHANGE("0", new_key(), "New title", "100", NULL, NULL, NULL, "1", NULL), "done");
    must_come_to(STATE("0", new_key(), "paused"), "done");
    must_come_to(STATE("0", new_key(), "open"), "done");
    must_come_to(ADD("0", new_key(), "3"), "done");
    PGresult *rebuild = SQL_RUN(SK_STATEMENT_REBUILD_EPOCH, sql_slot, sql_voucher, "3", "200");
    ck_assert_int_eq(PQntuples(rebuild), 1);
    PQclear(rebuild);
    must_come_to(STATE("0", new_key(), "closed"), "done");
    db_run("UPDATE seckill_voucher SET state = 'retired' WHERE id = %s", sql_voucher);
    PQclear(SQL_RUN(SK_STATEMENT_RECALL_VOUCHER, sql_voucher));
    ck_assert_int_eq(offer(), 1);
}

// ---- stock ----

TEST(units_are_added)
{
    sql_make_voucher(5);
    must_come_to(ADD("0", new_key(), "3"), "done");
    units_must_be(8, 8);
    ck_assert_int_eq(
        db_number("SELECT units FROM stock_change WHERE voucher_id = %s AND change = %s", sql_voucher, change), 3);
    ck_assert_int_eq(events("stock"), 1);
    must_come_to(ADD("0", new_key(), "99999993"), "invalid"); // one too many
    must_come_to(ADD("0", new_key(), "99999992"), "done");
}

TEST(units_go_under_the_epoch_of_which_they_were_taken)
{
    sql_make_voucher(5);
    PLACE("3", ORDERS({1, "alice"}, {2, "bob"}), ENDS({"placed", 0}, {"placed", 0}));
    must_come_to(MAY("0", "k", "2"), "ready");
    must_come_to(REMOVE("2", "k", "2"), "stale");
    must_come_to(REMOVE("4", "k", "2"), "stale");
    units_must_be(5, 3);
    PGresult *below = REMOVE("3", "k", "4");
    ck_assert_str_eq(PQgetvalue(below, 0, COLUMN_LEFT), "3");
    must_come_to(below, "below");
    units_must_be(5, 3);
    must_come_to(REMOVE("3", "k", "2"), "done");
    units_must_be(3, 1);
    ck_assert_int_eq(
        db_number("SELECT units FROM stock_change WHERE voucher_id = %s AND change = %s", sql_voucher, change), -2);
    must_come_to(REMOVE("3", "k", "2"), "known");
    must_come_to(MAY("0", "k", "2"), "known");
    must_come_to(REMOVE("3", "l", "1"), "done");
    units_must_be(2, 0);
    PLACE("3", ORDERS({3, "carol"}), ENDS({"sold_out", 0}));
    db_run("UPDATE seckill_voucher SET state = 'closed' WHERE id = %s", sql_voucher);
    must_come_to(MAY("0", new_key(), "1"), "state");
    must_come_to(REMOVE("3", new_key(), "1"), "state");
}

// A unit held by a dead letter may still become an order.
TEST(what_a_dead_letter_holds_is_not_taken_away)
{
    sql_make_voucher(2);
    db_run("INSERT INTO dead_letter (slot, voucher_id, journal_id, raw, orders, reason) VALUES"
           " (%s, %s, '1-0', 'x', '00000000-0000-7000-8000-000000000009 dave', 'a test')",
           sql_slot, sql_voucher);
    must_come_to(REMOVE("3", new_key(), "2"), "below");
    must_come_to(REMOVE("3", new_key(), "1"), "done");
}

// ---- the data that Redis is updated with ----

static void changes_must_be(const char *after, const char *state, const char *added)
{
    PGresult *result = SQL_RUN(SK_STATEMENT_VOUCHER_CHANGES, sql_slot, sql_voucher, after);
    ck_assert_int_eq(PQntuples(result), 1);
    ck_assert_int_eq(strtoll(PQgetvalue(result, 0, 0), NULL, 10),
                     db_number("SELECT change FROM seckill_voucher WHERE id = %s", sql_voucher));
    ck_assert_str_eq(PQgetvalue(result, 0, 1), state);
    ck_assert_int_eq(strtoll(PQgetvalue(result, 0, 2), NULL, 10),
                     db_number("SELECT unix_ms(begin_at) FROM seckill_voucher WHERE id = %s", sql_voucher));
    ck_assert_str_eq(PQgetvalue(result, 0, 4), added);
    PQclear(result);
}

TEST(what_was_added_since_is_summed_up)
{
    char first[TEXT_SIZE], second[TEXT_SIZE];
    sql_make_voucher(5);
    must_come_to(ADD("0", new_key(), "3"), "done");
    (void)snprintf(first, sizeof first, "%s", change);
    must_come_to(REMOVE("3", new_key(), "2"), "done"); // these units have left Redis before
    must_come_to(ADD("0", new_key(), "4"), "done");
    (void)snprintf(second, sizeof second, "%s", change);
    must_come_to(STATE("0", new_key(), "paused"), "done");
    changes_must_be("0", "paused", "7");
    changes_must_be(first, "paused", "4");
    changes_must_be(second, "paused", "0");
    db_run("UPDATE seckill_voucher SET state = 'retired' WHERE id = %s", sql_voucher);
    PGresult *retired = SQL_RUN(SK_STATEMENT_VOUCHER_CHANGES, sql_slot, sql_voucher, "0");
    ck_assert_int_eq(PQntuples(retired), 0);
    PQclear(retired);
}

// Stock and change number are read together, so that a Redis with this number also has this stock.
TEST(accounts_tell_the_change_number)
{
    char slots[TEXT_SIZE], vouchers[TEXT_SIZE];
    sql_make_voucher(5);
    must_come_to(ADD("0", new_key(), "3"), "done");
    must_come_to(STATE("0", new_key(), "paused"), "done");
    (void)snprintf(slots, sizeof slots, "{%s}", sql_slot);
    (void)snprintf(vouchers, sizeof vouchers, "{%s}", sql_voucher);
    PGresult *accounts = SQL_RUN(SK_STATEMENT_VOUCHER_ACCOUNTS, slots, vouchers);
    PGresult *stock = SQL_RUN(SK_STATEMENT_REBUILD_STOCK, sql_slot, sql_voucher, "3");
    ck_assert_str_eq(PQgetvalue(accounts, 0, 5), "8");
    ck_assert_str_eq(PQgetvalue(accounts, 0, 7), change);
    ck_assert_str_eq(PQgetvalue(accounts, 0, 8), "paused");
    ck_assert_str_eq(PQgetvalue(stock, 0, 0), "8");
    ck_assert_str_eq(PQgetvalue(stock, 0, 5), change);
    ck_assert_str_eq(PQgetvalue(stock, 0, 1), PQgetvalue(accounts, 0, 9));
    ck_assert_str_eq(PQgetvalue(stock, 0, 2), PQgetvalue(accounts, 0, 10));
    PQclear(accounts);
    PQclear(stock);
}

SUITE(.begin = sql_start, .setup = sql_setup, .teardown = sql_teardown, .in_one_process = true);
