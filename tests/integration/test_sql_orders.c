// How orders are shown and listed.
#include <stdlib.h>
#include <string.h>

#include "sql.h"
#include "stack.h"
#include "stores.h"
#include "test.h"

TEST(an_order_is_shown_to_its_user_alone)
{
    static const struct {
        int id;
        const char *user, *status, *reason; // NULL: no such member
    } rows[] = {
        {1, "alice", "unpaid", NULL},
        {2, "alice", "refused", "ALREADY_ORDERED"},
        {3, "bob", "refused", "SOLD_OUT"},
    };
    sql_make_voucher(1);
    PLACE("3", ORDERS({1, "alice"}, {2, "alice"}, {3, "bob"}), ENDS({"placed", 0}, {"duplicate", 1}, {"sold_out", 0}));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *id, *voucher_id, *user, *status, *created_at, *expires_at, *reason = NULL;
        int quantity, price, total;
        const char *currency;
        char uuid[SK_UUID_SIZE];
        sql_put_id(uuid, rows[i].id);
        PGresult *found = SQL_RUN(SK_STATEMENT_FIND_ORDER, sql_slot, uuid, rows[i].user);
        json_t *json = sql_document(found, 0);
        ck_assert_int_eq(json_unpack(json, "{s:s,s:s,s:s,s:i,s:i,s:i,s:s,s:s,s:s,s:s,s?s!}", "id", &id, "voucher_id",
                                     &voucher_id, "user_id", &user, "quantity", &quantity, "price_cents", &price,
                                     "total_cents", &total, "currency", &currency, "status", &status, "created_at",
                                     &created_at, "expires_at", &expires_at, "reason", &reason),
                         0);
        ck_assert_str_eq(id, uuid);
        ck_assert_str_eq(voucher_id, sql_voucher);
        ck_assert_str_eq(user, rows[i].user);
        ck_assert_str_eq(status, rows[i].status);
        ck_assert_pstr_eq(reason, rows[i].reason);
        ck_assert_int_eq(quantity, 1);
        ck_assert_int_eq(price, 100);
        ck_assert_int_eq(total, 100);
        ck_assert_str_eq(currency, "CNY");
        ck_assert_uint_eq(strlen(created_at), strlen("2026-11-10T16:00:00.123Z"));
        ck_assert_uint_eq(strlen(expires_at), strlen(created_at));
        json_decref(json);
        PQclear(found);
        found = SQL_RUN(SK_STATEMENT_FIND_ORDER, "1", uuid, rows[i].user); // it is not there
        ck_assert_int_eq(PQntuples(found), 0);
        PQclear(found);
        found = SQL_RUN(SK_STATEMENT_FIND_ORDER, sql_slot, uuid, "mallory"); // it is another's
        ck_assert_int_eq(PQntuples(found), 1);
        ck_assert_int_eq(PQgetisnull(found, 0, 0), 1);
        PQclear(found);
    }
}

TEST(the_newest_hundred_orders_of_a_user_are_listed)
{
    enum { ORDERS_MADE = 130, LISTED = 100 };
    char expected[SK_UUID_SIZE];
    db_run("INSERT INTO voucher_order (id, slot, user_id, voucher_id, status, reason)"
           " SELECT ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 1, 'alice', n,"
           "        (ARRAY['unpaid', 'paid', 'cancelled', 'refused'])[n %% 4 + 1]::order_status,"
           "        CASE WHEN n %% 4 = 3 THEN 'SOLD_OUT' END"
           "   FROM generate_series(1, %d) n",
           ORDERS_MADE);
    db_run("INSERT INTO voucher_order (id, slot, user_id, voucher_id) VALUES (gen_random_uuid(), 1, 'bob', 1)");
    PGresult *listed = SQL_RUN(SK_STATEMENT_LIST_ORDERS, "alice", NULL, "100", "{}", "{}");
    ck_assert_int_eq(PQntuples(listed), LISTED);
    for (int i = 0; i < LISTED; i++) {
        sql_put_id(expected, ORDERS_MADE - i);
        ck_assert_str_eq(PQgetvalue(listed, i, 0), expected);
    }
    PQclear(listed);
    listed = SQL_RUN(SK_STATEMENT_LIST_ORDERS, "zoe", NULL, "100", "{}", "{}");
    ck_assert_int_eq(PQntuples(listed), 1); // it has the newest voucher alone, as each row
    ck_assert_int_eq(PQgetisnull(listed, 0, 0), 1);
    ck_assert_int_eq(db_number("SELECT coalesce(max(id), 0) FROM seckill_voucher"),
                     strtoll(PQgetvalue(listed, 0, 3), NULL, 10));
    PQclear(listed);
}

// Of the orders in Redis only those without a row are pending: neither an order older than the newest hundred, nor one
// settled a moment ago, nor another user's.
TEST(orders_without_a_row_are_listed_as_pending)
{
    enum { ORDERS_MADE = 130, LISTED = 100, OLD = 5, JUST_SETTLED = 130, ANOTHERS = 200, PENDING = 300 };
    const struct sql_order asked[] = {{OLD, ""}, {JUST_SETTLED, ""}, {PENDING, ""}, {ANOTHERS, ""}, {PENDING + 1, ""}};
    struct sk_buf ids = {0}, users = {0}, vouchers = {0};
    char expected[SK_UUID_SIZE];
    sql_make_voucher(ORDERS_MADE);
    db_run("INSERT INTO voucher_order (id, slot, user_id, voucher_id, status)"
           " SELECT ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, %s, CASE n WHEN %d THEN 'bob' ELSE"
           "        'alice' END, CASE WHEN n IN (%d, %d, %d) THEN %s ELSE -n END,"
           "        CASE n WHEN %d THEN 'cancelled'::order_status ELSE 'unpaid' END"
           "   FROM (SELECT generate_series(1, %d) UNION ALL SELECT %d) AS made (n)",
           sql_slot, ANOTHERS, OLD, JUST_SETTLED, ANOTHERS, sql_voucher, OLD, ORDERS_MADE, ANOTHERS);
    sk_buf_printf(&vouchers, "{%s,%s,-13,%s,-15}", sql_voucher, sql_voucher, sql_voucher);
    sql_put_arrays(&ids, &users, sizeof asked / sizeof asked[0], asked);
    PGresult *listed = SQL_RUN(SK_STATEMENT_LIST_ORDERS, "alice", NULL, "100", ids.data, vouchers.data);
    ck_assert_int_eq(PQntuples(listed), LISTED + 2);
    for (int i = 0; i < LISTED; i++) {
        sql_put_id(expected, ORDERS_MADE - i);
        ck_assert_str_eq(PQgetvalue(listed, i, 0), expected);
        ck_assert(!PQgetisnull(listed, i, 1));
    }
    for (int i = 0; i < 2; i++) {
        sql_put_id(expected, PENDING + 1 - i);
        ck_assert_str_eq(PQgetvalue(listed, LISTED + i, 0), expected);
        ck_assert(PQgetisnull(listed, LISTED + i, 1));
        ck_assert_str_eq(PQgetvalue(listed, LISTED + i, 2), i == 0 ? "-15" : "-13");
    }
    PQclear(listed);
    sk_buf_free(&ids);
    sk_buf_free(&users);
    sk_buf_free(&vouchers);
}

SUITE(.begin = sql_start, .setup = sql_setup, .teardown = sql_teardown, .in_one_process = true);
