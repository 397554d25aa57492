// The catalogue in SQL: creates and shows vouchers.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "params.h"
#include "shards.h"
#include "slot.h"
#include "sql.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

TEST(a_voucher_is_shown_with_its_terms)
{
    const char *id, *title, *currency, *begin_at, *end_at, *state;
    int price, units, remaining, limit, pay_within_s, version, ticket, work_bits, offer;
    PQclear(PQexec(sql_service, "SET timezone = 'Asia/Kathmandu'")); // the session's time zone has no effect
    PGresult *created = SQL_RUN(SK_STATEMENT_CREATE_VOUCHER, "k", "Gr\xc3\xbc\xc3\x9f \"e\"\n", "9900", "5",
                                "1794326400123", "1794330000000", "3", "60", "EUR", "ann", "1", "18", NULL, NULL);
    (void)snprintf(sql_voucher, sizeof sql_voucher, "%s", PQgetvalue(created, 0, 1));
    db_run("UPDATE voucher_stock SET epoch = 3 WHERE voucher_id = %s", sql_voucher);
    db_text(sql_slot, sizeof sql_slot, "SELECT slot FROM voucher_stock WHERE voucher_id = %s", sql_voucher);
    PLACE("3", ORDERS({1, "alice"}), ENDS({"placed", 0}));
    PGresult *found = SQL_RUN(SK_STATEMENT_FIND_VOUCHER, sql_voucher);
    ck_assert_str_eq(PQgetvalue(found, 0, 0), sql_voucher);
    ck_assert_str_eq(PQgetvalue(found, 0, 1), "1794326400123");
    ck_assert_str_eq(PQgetvalue(found, 0, 2), "1794330000000");
    const struct {
        const PGresult *result;
        int column, remaining;
        const char *state;
    } shown[] = {{created, 3, 5, "open"}, {created, 4, 5, "loading"}, {found, 3, 4, "open"}};
    for (int i = 0; i < 3; i++) {
        json_t *json = sql_document(shown[i].result, shown[i].column);
        ck_assert_int_eq(json_unpack(json, "{s:s,s:s,s:i,s:s,s:i,s:i,s:i,s:i,s:s,s:s,s:s,s:i,s:b,s:i,s:i!}", "id", &id,
                                     "title", &title, "price_cents", &price, "currency", &currency, "stock", &units,
                                     "remaining", &remaining, "limit", &limit, "pay_within_s", &pay_within_s,
                                     "begin_at", &begin_at, "end_at", &end_at, "state", &state, "version", &version,
                                     "ticket", &ticket, "work_bits", &work_bits, "offer", &offer),
                         0);
        ck_assert_str_eq(id, sql_voucher);
        ck_assert_str_eq(title, "Gr\xc3\xbc\xc3\x9f \"e\"\n");
        ck_assert_int_eq(price, 9900);
        ck_assert_str_eq(currency, "EUR");
        ck_assert_int_eq(units, 5);
        ck_assert_int_eq(limit, 3);
        ck_assert_int_eq(pay_within_s, 60);
        ck_assert_int_eq(ticket, 1);
        ck_assert_int_eq(work_bits, 18);
        ck_assert_int_eq(offer, 1);
        ck_assert_int_eq(version, (int)db_number("SELECT change FROM seckill_catalogue"));
        ck_assert_int_eq(remaining, shown[i].remaining);
        ck_assert_str_eq(begin_at, "2026-11-10T16:00:00.123Z");
        ck_assert_str_eq(end_at, "2026-11-10T17:00:00.000Z");
        ck_assert_str_eq(state, shown[i].state);
        json_decref(json);
    }
    PQclear(created);
    PQclear(found);
    found = SQL_RUN(SK_STATEMENT_FIND_VOUCHER, "999999999");
    ck_assert_int_eq(PQntuples(found), 0);
    PQclear(found);
}

// ---- create_voucher ----

#define CREATE(key, title) key, title, "100", "5", "1000", "2000", "1", "900", "CNY", "ann", "0", "0", NULL, NULL

static void must_be_created(PGresult *result, const char *outcome, const char *id, const char *epoch)
{
    ck_assert_int_eq(PQntuples(result), 1);
    ck_assert_str_eq(PQgetvalue(result, 0, 0), outcome);
    ck_assert_str_eq(PQgetvalue(result, 0, 1), id);
    ck_assert_str_eq(PQgetvalue(result, 0, 2), epoch);
    PQclear(result);
}

// A repeated creation of one that is not open: it sells to no one, whether Redis has it or not.
TEST(only_what_is_open_is_shown_as_loading)
{
    static const char *const states[] = {"open", "paused", "closed", "retired"};
    enum { LOADING = 4 };
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        PGresult *result = SQL_RUN(SK_STATEMENT_CREATE_VOUCHER, CREATE("k", "T"));
        db_run("UPDATE seckill_voucher SET state = '%s' WHERE id = %s", states[i], PQgetvalue(result, 0, 1));
        PQclear(result);
        result = SQL_RUN(SK_STATEMENT_CREATE_VOUCHER, CREATE("k", "T"));
        json_t *loading = sql_document(result, LOADING);
        const char *state = json_string_value(json_object_get(loading, "state"));
        ck_assert_str_eq(state, i == 0 ? "loading" : states[i]);
        json_decref(loading);
        PQclear(result);
    }
}

TEST(a_voucher_is_created_once_for_each_key)
{
    PGresult *first = SQL_RUN(SK_STATEMENT_CREATE_VOUCHER, CREATE("k", "T"));
    (void)snprintf(sql_voucher, sizeof sql_voucher, "%s", PQgetvalue(first, 0, 1));
    must_be_created(first, "created", sql_voucher, "0");
    db_run("UPDATE voucher_stock SET epoch = 3 WHERE voucher_id = %s", sql_voucher);
    db_run("UPDATE seckill_voucher SET title = 'changed' WHERE id = %s", sql_voucher);
    PQclear(PQexec(sql_service, "SET timezone = 'Asia/Kathmandu'")); // the terms are the same in every zone
    must_be_created(SQL_RUN(SK_STATEMENT_CREATE_VOUCHER, CREATE("k", "T")), "created", sql_voucher, "3");
    must_be_created(SQL_RUN(SK_STATEMENT_CREATE_VOUCHER, CREATE("k", "changed")), "reused", sql_voucher, "3");
    static const char *const others[][7] = {
        {"101", "5", "1", "900", "CNY", "0", "0"}, {"100", "6", "1", "900", "CNY", "0", "0"},
        {"100", "5", "2", "900", "CNY", "0", "0"}, {"100", "5", "1", "0", "CNY", "0", "0"},
        {"100", "5", "1", "900", "EUR", "0", "0"}, {"100", "5", "1", "900", "CNY", "1", "0"},
        {"100", "5", "1", "900", "CNY", "0", "1"},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        must_be_created(SQL_RUN(SK_STATEMENT_CREATE_VOUCHER, "k", "T", others[i][0], others[i][1], "1000", "2000",
                                others[i][2], others[i][3], others[i][4], "ann", others[i][5], others[i][6], NULL,
                                NULL),
                        "reused", sql_voucher, "3");
    must_be_created(SQL_RUN(SK_STATEMENT_CREATE_VOUCHER, "k", "T", "100", "5", "1000", "2001", "1", "900", "CNY", "ann",
                            "0", "0", NULL, NULL),
                    "reused", sql_voucher, "3");
    must_be_created(SQL_RUN(SK_STATEMENT_CREATE_VOUCHER, "k", "T", "100", "5", "1000", "2000", "1", "900", "CNY", "ann",
                            "0", "0", "D", NULL),
                    "reused", sql_voucher, "3");
    must_be_created(SQL_RUN(SK_STATEMENT_CREATE_VOUCHER, "k", "T", "100", "5", "1000", "2000", "1", "900", "CNY", "bob",
                            "0", "0", "", ""),
                    "created", sql_voucher, "3"); // the caller's name does not matter
    ck_assert_int_eq(db_number("SELECT count(*) FROM seckill_voucher"), 1);
    ck_assert_int_eq(db_number("SELECT count(*) FROM admin_event WHERE what = 'created' AND by_whom = 'ann'"
                               " AND voucher_id = %s AND detail->>'limit' = '1'",
                               sql_voucher),
                     1);
    ck_assert_int_eq(db_number("SELECT count(*) FROM admin_event"), 1);
    PQclear(SQL_RUN(SK_STATEMENT_CREATE_VOUCHER, CREATE("K", "T"))); // keys are compared byte by byte
    ck_assert_int_eq(db_number("SELECT count(*) FROM seckill_voucher"), 2);
}

static void send_create(PGconn *conn, const char *title)
{
    const char *params[] = {CREATE("k", title)};
    int sent = PQsendQueryParams(conn, sk_statements[SK_STATEMENT_CREATE_VOUCHER].text,
                                 sizeof params / sizeof params[0], NULL, params, NULL, NULL, 0);
    ck_assert_msg(sent == 1, "%s", PQerrorMessage(conn));
}

// The second waits for the first and sees its result, even if its own snapshot is older.
TEST(of_two_connections_one_creates_the_voucher)
{
    static const struct {
        const char *end, *title, *outcome;
    } rows[] = {
        {"COMMIT", "T", "created"},
        {"COMMIT", "other", "reused"},
        {"ROLLBACK", "T", "created"},
    };
    PGconn *other = sql_connect();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        db_run("TRUNCATE seckill_voucher, voucher_stock");
        PQclear(PQexec(sql_service, "BEGIN"));
        PGresult *first = SQL_RUN(SK_STATEMENT_CREATE_VOUCHER, CREATE("k", "T"));
        send_create(other, rows[i].title);
        WAIT_FOR(db_number("SELECT count(*) FROM pg_stat_activity WHERE pid = %d AND wait_event_type = 'Lock'",
                           PQbackendPID(other)) == 1);
        PQclear(PQexec(sql_service, rows[i].end));
        PGresult *second = sql_receive(other);
        ck_assert_str_eq(PQgetvalue(second, 0, 0), rows[i].outcome);
        bool committed = strcmp(rows[i].end, "COMMIT") == 0;
        ck_assert_int_eq(strcmp(PQgetvalue(first, 0, 1), PQgetvalue(second, 0, 1)) == 0, committed);
        ck_assert_int_eq(db_number("SELECT count(*) FROM seckill_voucher"), 1);
        PQclear(first);
        PQclear(second);
    }
    PQfinish(other);
}

// src/store/shards.c is the same.
TEST(each_slot_has_the_shard_that_the_service_asks)
{
    for (int count = 1; count <= SK_SHARDS_MAX; count++) {
        int64_t sum = 0;
        for (unsigned slot = 0; slot < SK_SLOTS; slot++)
            sum += (int64_t)(slot + 1) * sk_shard_of_slot(slot, (size_t)count);
        ck_assert_int_eq(
            db_number("SELECT sum((s + 1)::bigint * shard_of_slot(s, %d)) FROM generate_series(0, 16383) s", count),
            sum);
    }
}

TEST(a_shard_creates_vouchers_of_its_own_slots)
{
    db_run("TRUNCATE seckill_voucher, voucher_stock");
    ck_assert_int_eq(db_number("SELECT (set_shard(1, 3) IS NULL)::int"), 1);
    for (int i = 0; i < 20; i++) {
        char key[SK_PARAM_NUMBER_SIZE];
        PGresult *created = SQL_RUN(SK_STATEMENT_CREATE_VOUCHER, CREATE(sk_params_number(key, i), "T"));
        ck_assert_str_eq(PQgetvalue(created, 0, 0), "created");
        ck_assert_uint_eq(sk_shard_of_voucher(strtoll(PQgetvalue(created, 0, 1), NULL, 10), 3), 1);
        PQclear(created);
    }
    // One that belongs elsewhere is refused, and the number stays while there are vouchers.
    ck_assert_int_eq(db_number("SELECT (set_shard(0, 1) IS NULL)::int"), 0);
    ck_assert_int_eq(db_number("SELECT number * 10 + shards FROM seckill_shard"), 13);
    PGconn *owner = PQconnectdb(stack_owner_url());
    PGresult *moved = PQexec(owner, "INSERT INTO voucher_stock (voucher_id, tag, slot, units, stock)"
                                    " SELECT id, 'x', 0, 1, 1 FROM seckill_voucher LIMIT 1");
    ck_assert_ptr_nonnull(strstr(PQresultErrorMessage(moved), "belongs to another shard"));
    PQclear(moved);
    PQfinish(owner);
    db_run("TRUNCATE seckill_voucher, voucher_stock");
    ck_assert_int_eq(db_number("SELECT (set_shard(0, 1) IS NULL)::int"), 1);
}

// A running instance has checked the number when it connected. Beats are those of the former number.
TEST(a_number_changes_without_instances_and_begins_without_beats)
{
    char url[1024];
    (void)snprintf(url, sizeof url, "%s%sapplication_name=seckill-orders", stack_owner_url(),
                   strchr(stack_owner_url(), '?') == NULL ? "?" : "&");
    db_run("TRUNCATE seckill_voucher, voucher_stock");
    db_run("UPDATE seckill_shard SET beat = 5");
    db_run("INSERT INTO shard_seen VALUES (1, 7)");
    PGconn *instance = PQconnectdb(url);
    ck_assert_int_eq(PQstatus(instance), CONNECTION_OK);
    ck_assert_int_eq(db_number("SELECT (set_shard(1, 3) IS NULL)::int"), 0);
    PQfinish(instance);
    WAIT_FOR(db_number("SELECT (set_shard(1, 3) IS NULL)::int") == 1);
    ck_assert_int_eq(db_number("SELECT beat + (SELECT count(*) FROM shard_seen) FROM seckill_shard"), 0);
    ck_assert_int_eq(db_number("SELECT (set_shard(0, 1) IS NULL)::int"), 1);
}

// The clock of the server that was lost may have been ahead.
TEST(an_accepted_shard_has_a_newer_beat_than_was_seen)
{
    db_run("UPDATE seckill_shard SET beat = 5");
    ck_assert_int_eq(db_number("SELECT (accept_shard(0) > 1700000000000)::int"), 1);
    ck_assert_int_eq(db_number("SELECT accept_shard(9000000000000)"), INT64_C(9000000000001));
    db_run("UPDATE seckill_shard SET beat = 0");
}

SUITE(.begin = sql_start, .setup = sql_setup, .teardown = sql_teardown, .in_one_process = true);
