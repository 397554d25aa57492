// What Redis is compared with, and rebuilt from.
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "sql.h"
#include "stack.h"
#include "stores.h"

START_TEST(a_loading_reads_its_voucher_under_its_own_epoch_only)
{
    enum { BUYERS = 2500, CHUNK = 500 };
    char after[SK_UUID_SIZE] = "00000000-0000-0000-0000-000000000000", expected[SK_UUID_SIZE];
    int seen = 0, count;
    sql_make_voucher(BUYERS);
    db_run("INSERT INTO voucher_order (id, slot, user_id, voucher_id, status)"
           " SELECT ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, %s, 'user-' || n, %s,"
           "        CASE n %% 2 WHEN 0 THEN 'paid' ELSE 'unpaid' END::order_status"
           "   FROM generate_series(1, %d) n",
           sql_slot, sql_voucher, BUYERS);
    db_run("UPDATE seckill_segment SET live = %d WHERE voucher_id = %s", BUYERS, sql_voucher);
    db_run("INSERT INTO voucher_order (id, slot, user_id, voucher_id, status)"
           " VALUES (gen_random_uuid(), %s, 'gone', %s, 'cancelled')",
           sql_slot, sql_voucher);
    PGresult *epoch = SQL_RUN(SK_STATEMENT_REBUILD_EPOCH, sql_slot, sql_voucher, "2");
    ck_assert_str_eq(PQgetvalue(epoch, 0, 0), "4");
    PGresult *ours = SQL_RUN(SK_STATEMENT_REBUILD_STOCK, sql_slot, sql_voucher, "4"),
             *old = SQL_RUN(SK_STATEMENT_REBUILD_STOCK, sql_slot, sql_voucher, "3");
    ck_assert_int_eq(PQntuples(ours), 1);
    ck_assert_str_eq(PQgetvalue(ours, 0, 0), "2500");
    ck_assert_str_eq(PQgetvalue(ours, 0, 3), "open");
    ck_assert_str_eq(PQgetvalue(ours, 0, 4), "2500");
    ck_assert_int_eq(PQntuples(old), 0);
    PQclear(epoch);
    PQclear(ours);
    PQclear(old);
    do { // every live order once, cancelled ones never
        PGresult *chunk = SQL_RUN(SK_STATEMENT_REBUILD_BUYERS, sql_slot, sql_voucher, after, "500");
        count = PQntuples(chunk);
        for (int i = 0; i < count; i++) {
            sql_put_id(expected, ++seen);
            ck_assert_str_eq(PQgetvalue(chunk, i, 0), expected);
            memcpy(after, expected, sizeof after);
        }
        PQclear(chunk);
    } while (count == CHUNK);
    ck_assert_int_eq(seen, BUYERS);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("sql_rebuild");
    tcase_add_unchecked_fixture(tcase, sql_start, NULL);
    tcase_add_checked_fixture(tcase, sql_setup, sql_teardown);
    tcase_add_test(tcase, a_loading_reads_its_voucher_under_its_own_epoch_only);
    return harness_main(tcase, CK_NOFORK);
}
