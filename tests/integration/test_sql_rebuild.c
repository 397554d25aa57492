// The data that Redis is compared with and rebuilt from, and how many orders are read for it.
#include <stdlib.h>
#include <string.h>

#include "sql.h"
#include "stack.h"
#include "stores.h"
#include "test.h"

TEST(a_loading_reads_its_voucher_under_its_own_epoch_only)
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
    db_run("UPDATE voucher_stock SET live = %d WHERE voucher_id = %s", BUYERS, sql_voucher);
    db_run("INSERT INTO voucher_order (id, slot, user_id, voucher_id, status)"
           " VALUES (gen_random_uuid(), %s, 'gone', %s, 'cancelled')",
           sql_slot, sql_voucher);
    PGresult *epoch = SQL_RUN(SK_STATEMENT_REBUILD_EPOCH, sql_slot, sql_voucher, "2", "200");
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
    db_run("UPDATE seckill_voucher SET state = 'retired' WHERE id = %s", sql_voucher); // while the new epoch waited
    PGresult *retired = SQL_RUN(SK_STATEMENT_REBUILD_STOCK, sql_slot, sql_voucher, "4");
    ck_assert_int_eq(PQntuples(retired), 0);
    PQclear(retired);
    db_run("UPDATE seckill_voucher SET state = 'open' WHERE id = %s", sql_voucher);
    do { // every live order once, cancelled ones never
        PGresult *chunk = SQL_RUN(SK_STATEMENT_REBUILD_BUYERS, sql_slot, sql_voucher, after, "500", "20");
        count = PQntuples(chunk);
        for (int i = 0; i < count; i++) {
            memcpy(after, PQgetvalue(chunk, i, 0), sizeof after);
            if (strcmp(PQgetvalue(chunk, i, 1), "passed") == 0)
                continue;
            sql_put_id(expected, ++seen);
            ck_assert_str_eq(PQgetvalue(chunk, i, 0), expected);
            ck_assert_str_eq(PQgetvalue(chunk, i, 1), "live");
        }
        PQclear(chunk);
    } while (count == CHUNK);
    ck_assert_int_eq(seen, BUYERS);
}

// ---- rows read ----

// Orders of the last voucher made, of the users user-<id>.
static void make_orders(int first, int last, const char *status)
{
    db_run("INSERT INTO voucher_order (id, slot, user_id, voucher_id, status)"
           " SELECT ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, %s, 'user-' || n, %s, '%s'"
           "   FROM generate_series(%d, %d) n",
           sql_slot, sql_voucher, status, first, last);
    db_run("UPDATE voucher_stock SET live = (SELECT count(*) FROM voucher_order o WHERE o.voucher_id = %s"
           "   AND o.status IN ('unpaid', 'paid')) WHERE voucher_id = %s",
           sql_voucher, sql_voucher);
}

// Orders read by this session, not only in this transaction: subtract what was read before.
static int64_t rows_read(void)
{
    PGresult *result = PQexec(sql_service, "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables"
                                           " WHERE relname = 'voucher_order'");
    ck_assert_int_eq(PQntuples(result), 1);
    int64_t rows = atoll(PQgetvalue(result, 0, 0));
    PQclear(result);
    return rows;
}

// Reads all chunks of the last voucher made. Returns the number of calls.
static int walk(int *live)
{
    char after[SK_UUID_SIZE] = SQL_ID0;
    int calls = 0;
    *live = 0;
    for (int count = 500; count == 500; calls++) {
        PGresult *chunk = SQL_RUN(SK_STATEMENT_REBUILD_BUYERS, sql_slot, sql_voucher, after, "500", "20");
        count = PQntuples(chunk);
        for (int i = 0; i < count; i++)
            *live += strcmp(PQgetvalue(chunk, i, 1), "live") == 0;
        if (count > 0)
            memcpy(after, PQgetvalue(chunk, count - 1, 0), sizeof after);
        PQclear(chunk);
    }
    return calls;
}

// Statistics that mislead the planner: nearly all orders have ended, so without the key it would read and sort all live
// ones for each chunk. Plans made for small tables must do, too.
TEST(a_rebuild_reads_each_order_once_and_none_of_others)
{
    enum { OTHERS = 10000, ENDED = 40000, LIVE = 10000 };
    int live;
    sql_make_voucher(1);
    make_orders(1, 10, "paid");
    for (int i = 0; i < 10; i++)
        (void)walk(&live);
    sql_make_voucher(1);
    make_orders(1, OTHERS, "cancelled");
    sql_make_voucher(1);
    make_orders(1, ENDED, "cancelled");
    db_run("ANALYZE voucher_order");
    make_orders(ENDED + 1, ENDED + LIVE, "paid");
    PQclear(PQexec(sql_service, "BEGIN"));
    int64_t before = rows_read();
    int calls = walk(&live);
    int64_t read = rows_read() - before;
    PQclear(PQexec(sql_service, "COMMIT"));
    ck_assert_int_eq(live, LIVE);
    ck_assert_int_eq(read, ENDED + LIVE);
    ck_assert_int_le(calls, LIVE / 500 + ENDED / 256 / 500 + 2);
}

// With only ended orders a call reads about 256 of them for each row that it may return, so that other queries do not
// wait long.
TEST(a_chunk_is_bounded_where_nothing_is_kept)
{
    enum { ENDED = 60000 };
    sql_make_voucher(1);
    make_orders(1, ENDED, "cancelled");
    PQclear(PQexec(sql_service, "BEGIN"));
    PGresult *chunk = SQL_RUN(SK_STATEMENT_REBUILD_BUYERS, sql_slot, sql_voucher, SQL_ID0, "100", "20");
    ck_assert_int_eq(PQntuples(chunk), 100);
    PQclear(chunk);
    ck_assert_int_lt(rows_read(), ENDED * 3 / 4);
    PQclear(PQexec(sql_service, "COMMIT"));
}

// The retirement check runs repeatedly while an order is unpaid.
TEST(a_refused_retirement_reads_one_order)
{
    enum { PAID = 40000 };
    sql_make_voucher(1);
    make_orders(1, PAID, "paid");
    db_run("ANALYZE voucher_order");
    db_run("UPDATE voucher_order SET status = 'unpaid' WHERE id = '" SQL_ID1 "'");
    db_run("UPDATE seckill_voucher SET begin_at = begin_at - interval '1 day', end_at = end_at - interval '1 day'"
           " WHERE id = %s",
           sql_voucher);
    PQclear(PQexec(sql_service, "BEGIN"));
    PGresult *refused = SQL_RUN(SK_STATEMENT_RETIRE_VOUCHER, sql_voucher, sql_slot, "3");
    ck_assert_str_eq(PQgetvalue(refused, 0, 0), "f");
    PQclear(refused);
    ck_assert_int_eq(rows_read(), 1);
    PQclear(PQexec(sql_service, "COMMIT"));
}

// ---- cache times of refusals ----

static void raise_epoch(const char *cache_ms, const char *epoch, const char *before, const char *now)
{
    PGresult *row = SQL_RUN(SK_STATEMENT_REBUILD_EPOCH, sql_slot, sql_voucher, "0", cache_ms);
    ck_assert_int_eq(PQntuples(row), 1);
    ck_assert_str_eq(PQgetvalue(row, 0, 0), epoch);
    ck_assert_str_eq(PQgetvalue(row, 0, 1), before);
    ck_assert_str_eq(PQgetvalue(row, 0, 2), now);
    PQclear(row);
}

// Instances with another setting may have loaded it before, and may still cache refusals.
TEST(the_longest_time_that_refusals_were_cached_is_known)
{
    sql_make_voucher(1);
    raise_epoch("200", "4", "0", "200"); // none were cached
    raise_epoch("5000", "5", "200", "5000");
    raise_epoch("0", "6", "5000", "5000");
    raise_epoch("60000", "7", "5000", "60000");
}

SUITE(.begin = sql_start, .setup = sql_setup, .teardown = sql_teardown, .in_one_process = true);
