// Orders of several units, and orders with an Idempotency-Key, in PostgreSQL. An order gets all its units or none, a
// key leads to its order, and Redis is rebuilt from both.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql.h"
#include "stack.h"
#include "stores.h"
#include "test.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum { MOST = 16, TEXT_SIZE = 2048, SHORT_SIZE = 64 };

// Fingerprints in the service's format.
#define KEY1 "00000000000000a1"
#define KEY2 "00000000000000a2"

struct wish {
    int id;
    const char *user;
    int quantity;
    const char *key; // NULL: none
};

struct end {
    const char *outcome;
    int live_id, first_id; // 0: none
};

// ---- calls ----

struct arrays {
    struct sk_buf ids, users, quantities, keys;
};

static void put_arrays(struct arrays *arrays, size_t n, const struct wish *wishes)
{
    struct sk_buf *all[] = {&arrays->ids, &arrays->users, &arrays->quantities, &arrays->keys};
    for (size_t i = 0; i < COUNT(all); i++)
        sk_buf_puts(all[i], "{");
    for (size_t i = 0; i < n; i++) {
        char id[SK_UUID_SIZE];
        const char *comma = i == 0 ? "" : ",";
        sql_put_id(id, wishes[i].id);
        sk_buf_printf(&arrays->ids, "%s%s", comma, id);
        sk_buf_printf(&arrays->users, "%s%s", comma, wishes[i].user);
        sk_buf_printf(&arrays->quantities, "%s%d", comma, wishes[i].quantity);
        sk_buf_printf(&arrays->keys, "%s%s", comma, wishes[i].key == NULL ? "null" : wishes[i].key);
    }
    for (size_t i = 0; i < COUNT(all); i++)
        sk_buf_puts(all[i], "}");
}

static void free_arrays(struct arrays *arrays)
{
    sk_buf_free(&arrays->ids);
    sk_buf_free(&arrays->users);
    sk_buf_free(&arrays->quantities);
    sk_buf_free(&arrays->keys);
}

static void must_be_id(const PGresult *result, int row, int column, int id)
{
    char expected[SK_UUID_SIZE] = "";
    if (id != 0)
        sql_put_id(expected, id);
    ck_assert_str_eq(PQgetvalue(result, row, column), expected);
}

// The order's time, as in its row.
static void must_be_dated(const PGresult *result, int row, int id)
{
    char uuid[SK_UUID_SIZE];
    sql_put_id(uuid, id);
    ck_assert_int_eq(atoll(PQgetvalue(result, row, 4)),
                     db_number("SELECT unix_ms(created_at) FROM voucher_order WHERE id = '%s' AND voucher_id = %s",
                               uuid, sql_voucher));
}

// The live order, as the buyer's entry in Redis has it.
static void must_be_kept(const PGresult *result, int row, int live_id)
{
    char uuid[SK_UUID_SIZE], expected[TEXT_SIZE] = "";
    sql_put_id(uuid, live_id);
    if (live_id != 0)
        db_text(expected, sizeof expected,
                "SELECT id || CASE WHEN request_key IS NOT NULL THEN ' ' || quantity || ' ' || request_key"
                "                  WHEN quantity > 1 THEN ' ' || quantity ELSE '' END"
                "  FROM voucher_order WHERE id = '%s' AND voucher_id = %s",
                uuid, sql_voucher);
    ck_assert_str_eq(PQgetvalue(result, row, 7), expected);
}

static void place(size_t n, const struct wish *wishes, const struct end *ends)
{
    struct arrays arrays = {0};
    put_arrays(&arrays, n, wishes);
    PGresult *result = SQL_RUN(SK_STATEMENT_PLACE_ORDERS, sql_slot, sql_voucher, "3", arrays.ids.data,
                               arrays.users.data, NULL, arrays.quantities.data, arrays.keys.data, "0");
    bool one_for_all = PQgetisnull(result, 0, 0);
    ck_assert_int_eq(PQntuples(result), one_for_all ? 1 : (int)n);
    for (int i = 0; i < (int)n; i++) {
        int row = one_for_all ? 0 : i;
        ck_assert_msg(strcmp(PQgetvalue(result, row, 1), ends[i].outcome) == 0, "order %d is %s, should be %s",
                      wishes[i].id, PQgetvalue(result, row, 1), ends[i].outcome);
        must_be_id(result, row, 2, ends[i].live_id);
        must_be_id(result, row, 3, ends[i].first_id);
        must_be_kept(result, row, ends[i].live_id);
        if (strcmp(ends[i].outcome, "clash") != 0)
            must_be_dated(result, row, wishes[i].id);
    }
    PQclear(result);
    free_arrays(&arrays);
}

#define WISHES(...)  ((const struct wish[]){__VA_ARGS__})
#define COME_TO(...) ((const struct end[]){__VA_ARGS__})
#define PLACE_UNITS(wishes, ends)                                                                   \
    do {                                                                                            \
        ck_assert_uint_eq(sizeof(wishes) / sizeof(struct wish), sizeof(ends) / sizeof(struct end)); \
        place(sizeof(wishes) / sizeof(struct wish), wishes, ends);                                  \
    } while (0)

// ---- results ----

static void must_have(int64_t live, int64_t live_units, int64_t left)
{
    ck_assert_int_eq(db_number("SELECT count(*) FROM voucher_order WHERE voucher_id = %s AND status IN"
                               " ('unpaid', 'paid')",
                               sql_voucher),
                     live);
    ck_assert_int_eq(db_number("SELECT coalesce(sum(quantity), 0) FROM voucher_order WHERE voucher_id = %s"
                               " AND status IN ('unpaid', 'paid')",
                               sql_voucher),
                     live_units);
    ck_assert_int_eq(sql_stock(), left);
    ck_assert_int_eq(db_number("SELECT live FROM voucher_stock WHERE voucher_id = %s", sql_voucher), live);
    ck_assert_int_eq(db_number("SELECT units FROM voucher_stock WHERE voucher_id = %s", sql_voucher),
                     live_units + left);
}

static void must_have_key(int id, const char *key)
{
    char uuid[SK_UUID_SIZE], found[SHORT_SIZE];
    sql_put_id(uuid, id);
    db_text(found, sizeof found, "SELECT coalesce(request_key, '') FROM voucher_order WHERE id = '%s'", uuid);
    ck_assert_str_eq(found, key);
}

// Ends an order as a canceller does, and returns its units.
static void end_order(int id, const char *move)
{
    char uuid[SK_UUID_SIZE], ids[SK_UUID_SIZE + 2];
    sql_put_id(uuid, id);
    (void)snprintf(ids, sizeof ids, "{%s}", uuid);
    PGresult *result =
        SQL_RUN(SK_STATEMENT_RETURN_ORDERS, sql_slot, sql_voucher, "3", ids, move, "test", (const char *)NULL, "7-1");
    ck_assert_str_eq(PQgetvalue(result, 0, 1), "returned");
    PQclear(result);
}

// ---- units ----

TEST(units_are_summed_up)
{
    sql_make_voucher(10);
    PLACE_UNITS(WISHES({1, "alice", 4, NULL}, {2, "bob", 1, NULL}, {3, "carol", 2, NULL}),
                COME_TO({"placed", 0, 0}, {"placed", 0, 0}, {"placed", 0, 0}));
    must_have(3, 7, 3);
    ck_assert_int_eq(db_number("SELECT quantity FROM voucher_order WHERE id = '" SQL_ID1 "'"), 4);
    PLACE_UNITS(WISHES({4, "dave", 3, NULL}), COME_TO({"placed", 0, 0})); // the last units
    must_have(4, 10, 0);
    PLACE_UNITS(WISHES({5, "erin", 1, NULL}), COME_TO({"sold_out", 0, 0}));
    must_have(4, 10, 0);
}

TEST(an_order_gets_all_its_units_or_none)
{
    sql_make_voucher(5);
    PLACE_UNITS(WISHES({1, "alice", 6, NULL}), COME_TO({"sold_out", 0, 0}));
    must_have(0, 0, 5);
    sql_must_be(1, "refused", "SOLD_OUT");
    ck_assert_int_eq(db_number("SELECT quantity FROM voucher_order WHERE id = '" SQL_ID1 "'"), 6);
    // Orders that fit are placed, in the order of the batch, not of their ids.
    PLACE_UNITS(WISHES({14, "bob", 3, NULL}, {12, "carol", 3, NULL}, {13, "dave", 1, NULL}, {11, "erin", 2, NULL},
                       {10, "frank", 1, NULL}),
                COME_TO({"placed", 0, 0}, {"sold_out", 0, 0}, {"placed", 0, 0}, {"sold_out", 0, 0}, {"placed", 0, 0}));
    must_have(3, 5, 0);
}

TEST(units_are_taken_once)
{
    sql_make_voucher(7);
    for (int run = 0; run < 3; run++) {
        const char *outcome = run == 0 ? "placed" : "already_placed";
        PLACE_UNITS(WISHES({1, "alice", 3, NULL}, {2, "bob", 2, KEY1}), COME_TO({outcome, 0, 0}, {outcome, 0, 0}));
        must_have(2, 5, 2);
    }
    // The same within one batch.
    PLACE_UNITS(WISHES({3, "carol", 2, KEY1}, {3, "carol", 2, KEY1}), COME_TO({"placed", 0, 0}, {"placed", 0, 0}));
    must_have(3, 7, 0);
}

TEST(a_second_order_takes_none)
{
    sql_make_voucher(10);
    PLACE_UNITS(WISHES({1, "alice", 3, NULL}), COME_TO({"placed", 0, 0}));
    PLACE_UNITS(WISHES({2, "alice", 2, NULL}, {3, "bob", 7, NULL}), COME_TO({"duplicate", 1, 0}, {"placed", 0, 0}));
    must_have(2, 10, 0); // the second one's quantity did not block bob
    sql_must_be(2, "refused", "ALREADY_ORDERED");
    ck_assert_int_eq(db_number("SELECT quantity FROM voucher_order WHERE id = '" SQL_ID2 "'"), 2);
}

// Each of these is its own batch; then all of them are repeated as one.
TEST(without_quantities_and_keys_it_is_the_same)
{
    static const struct sql_order plain[] = {{1, "alice"}, {2, "bob"}, {3, "alice"}, {4, "carol"}, {5, "dave"}};
    static const char *const orders = "SELECT coalesce(string_agg(concat_ws(' ', id, user_id, quantity, status, "
                                      "reason, request_key), ',' ORDER BY id),"
                                      "       '') FROM voucher_order WHERE voucher_id = %s";
    char found[2][TEXT_SIZE];
    for (int form = 0; form < 2; form++) {
        struct sk_buf told = {0};
        sql_make_voucher(3);
        for (size_t batch = 0; batch <= COUNT(plain); batch++) {
            struct arrays arrays = {0};
            struct wish wishes[COUNT(plain)];
            size_t first = batch < COUNT(plain) ? batch : 0, n = batch < COUNT(plain) ? 1 : COUNT(plain);
            for (size_t i = 0; i < n; i++)
                wishes[i] = (struct wish){plain[first + i].id, plain[first + i].user, 1, NULL};
            put_arrays(&arrays, n, wishes);
            PGresult *result =
                SQL_RUN(SK_STATEMENT_PLACE_ORDERS, sql_slot, sql_voucher, "3", arrays.ids.data, arrays.users.data,
                        "1-1", form == 0 ? NULL : arrays.quantities.data, form == 0 ? NULL : arrays.keys.data, "0");
            for (int row = 0; row < PQntuples(result); row++)
                sk_buf_printf(&told, "%s %s %s %s,", PQgetvalue(result, row, 0), PQgetvalue(result, row, 1),
                              PQgetvalue(result, row, 2), PQgetvalue(result, row, 3));
            PQclear(result);
            free_arrays(&arrays);
        }
        db_text(found[form], TEXT_SIZE / 2, orders, sql_voucher);
        (void)snprintf(found[form] + strlen(found[form]), TEXT_SIZE / 2, " %s", told.data);
        sk_buf_free(&told);
        must_have(3, 3, 0);
    }
    ck_assert_str_eq(found[0], found[1]);
    ck_assert_ptr_nonnull(strstr(found[0], "duplicate"));
    ck_assert_ptr_nonnull(strstr(found[0], "sold_out"));
}

// ---- keys ----

TEST(the_same_key_leads_to_the_first_order)
{
    sql_make_voucher(10);
    PLACE_UNITS(WISHES({1, "alice", 2, KEY1}), COME_TO({"placed", 0, 0}));
    must_have_key(1, KEY1);
    PLACE_UNITS(WISHES({2, "alice", 2, KEY1}), COME_TO({"repeated", 1, 1}));
    PLACE_UNITS(WISHES({3, "alice", 1, KEY1}), COME_TO({"reused", 1, 1}));
    PLACE_UNITS(WISHES({4, "alice", 2, KEY2}), COME_TO({"duplicate", 1, 0})); // another key is another request
    PLACE_UNITS(WISHES({5, "alice", 2, NULL}), COME_TO({"duplicate", 1, 0}));
    for (int id = 2; id <= 3; id++)
        sql_must_be(id, "refused", "REPEATED");
    sql_must_be(4, "refused", "ALREADY_ORDERED");
    for (int id = 2; id <= 5; id++)
        must_have_key(id, "");
    must_have(1, 2, 8);
    // A refused order that is settled again stays refused.
    struct arrays arrays = {0};
    put_arrays(&arrays, 1, WISHES({2, "alice", 2, KEY1}));
    PGresult *result = SQL_RUN(SK_STATEMENT_PLACE_ORDERS, sql_slot, sql_voucher, "3", arrays.ids.data,
                               arrays.users.data, NULL, arrays.quantities.data, arrays.keys.data, "0");
    ck_assert_str_eq(PQgetvalue(result, 0, 1), "ended");
    PQclear(result);
    free_arrays(&arrays);
    must_have(1, 2, 8);
}

TEST(the_first_order_under_a_key_may_have_ended)
{
    static const char *const moves[] = {"cancelled", "expired", "refunded", "refunded-kept"};
    for (size_t i = 0; i < COUNT(moves); i++) {
        db_run("TRUNCATE voucher_order, order_event");
        sql_make_voucher(10);
        PLACE_UNITS(WISHES({1, "alice", 2, KEY1}), COME_TO({"placed", 0, 0}));
        db_run("UPDATE voucher_order SET created_at = now() - interval '1 h', status = '%s' WHERE id = '" SQL_ID1 "'",
               i < 2 ? "unpaid" : "paid");
        end_order(1, moves[i]);
        int64_t left = i == 3 ? 8 : 10;
        ck_assert_int_eq(sql_stock(), left);
        PLACE_UNITS(WISHES({2, "alice", 2, KEY1}), COME_TO({"repeated", 0, 1}));
        PLACE_UNITS(WISHES({3, "alice", 3, KEY1}), COME_TO({"reused", 0, 1}));
        ck_assert_int_eq(sql_stock(), left);
        // She may buy again, under another key or none. A repeat then returns both, the first and the live order.
        PLACE_UNITS(WISHES({4, "alice", 1, i % 2 == 0 ? KEY2 : NULL}), COME_TO({"placed", 0, 0}));
        PLACE_UNITS(WISHES({5, "alice", 2, KEY1}), COME_TO({"repeated", 4, 1}));
        ck_assert_int_eq(sql_stock(), left - 1);
    }
}

TEST(of_one_key_in_a_batch_the_first_order_is_placed)
{
    sql_make_voucher(10);
    PLACE_UNITS(WISHES({2, "alice", 2, KEY1}, {1, "alice", 2, KEY1}, {3, "alice", 4, KEY1}, {4, "bob", 1, NULL}),
                COME_TO({"placed", 0, 0}, {"repeated", 2, 2}, {"reused", 2, 2}, {"placed", 0, 0}));
    must_have(2, 3, 7);
    // The first order gets no units, so it does not count as the first.
    PLACE_UNITS(WISHES({5, "carol", 8, KEY1}, {6, "carol", 8, KEY1}), COME_TO({"sold_out", 0, 0}, {"sold_out", 0, 0}));
    must_have(2, 3, 7);
}

TEST(a_key_belongs_to_its_user_and_voucher)
{
    sql_make_voucher(10);
    PLACE_UNITS(WISHES({1, "alice", 1, KEY1}, {2, "bob", 2, KEY1}), COME_TO({"placed", 0, 0}, {"placed", 0, 0}));
    sql_make_voucher(10);
    PLACE_UNITS(WISHES({3, "alice", 3, KEY1}, {4, "bob", 1, KEY1}), COME_TO({"placed", 0, 0}, {"placed", 0, 0}));
    must_have(2, 4, 6);
    for (int id = 1; id <= 4; id++)
        must_have_key(id, KEY1);
    PLACE_UNITS(WISHES({5, "bob", 1, KEY1}), COME_TO({"repeated", 4, 4}));
}

static void must_be_aged(int id, const char *age)
{
    char uuid[SK_UUID_SIZE];
    sql_put_id(uuid, id);
    db_run("UPDATE voucher_order SET created_at = now() - interval '%s' WHERE id = '%s'", age, uuid);
}

TEST(a_key_counts_for_a_day)
{
    sql_make_voucher(10);
    PLACE_UNITS(WISHES({1, "alice", 1, KEY1}, {2, "bob", 1, KEY1}), COME_TO({"placed", 0, 0}, {"placed", 0, 0}));
    end_order(1, "cancelled");
    must_be_aged(1, "1 day -1 min");
    must_be_aged(2, "1 day 1 min");
    PLACE_UNITS(WISHES({11, "alice", 2, KEY1}), COME_TO({"reused", 0, 1}));
    must_be_aged(1, "1 day 1 min");
    PLACE_UNITS(WISHES({12, "alice", 2, KEY1}), COME_TO({"placed", 0, 0}));
    must_have_key(1, "");
    must_have_key(12, KEY1);
    // The order stays live, but no longer answers to that key.
    PLACE_UNITS(WISHES({13, "bob", 1, KEY1}), COME_TO({"duplicate", 2, 0}));
    must_have_key(2, "");
    must_have_key(13, "");
    must_have(2, 3, 7);
}

TEST(a_refused_order_loses_its_key)
{
    sql_make_voucher(2);
    PLACE_UNITS(WISHES({1, "alice", 1, NULL}, {2, "bob", 2, KEY1}), COME_TO({"placed", 0, 0}, {"sold_out", 0, 0}));
    must_have_key(2, "");
    PLACE_UNITS(WISHES({3, "bob", 1, KEY1}),
                COME_TO({"placed", 0, 0})); // other units: the first one was never an order
    PLACE_UNITS(WISHES({4, "alice", 1, KEY1}), COME_TO({"duplicate", 1, 0}));
    must_have_key(4, "");
    end_order(1, "cancelled");
    PLACE_UNITS(WISHES({5, "alice", 1, KEY1}), COME_TO({"placed", 0, 0}));
    must_have(2, 2, 0);
}

// The rows of voucher_order that a batch reads, including its own.
static int64_t rows_read_by(size_t n, const struct wish *wishes, const struct end *ends)
{
    PQclear(PQexec(sql_service, "BEGIN"));
    place(n, wishes, ends);
    PGresult *result = PQexec(sql_service, "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables"
                                           " WHERE relname = 'voucher_order'");
    ck_assert_msg(PQresultStatus(result) == PGRES_TUPLES_OK, "%s", PQresultErrorMessage(result));
    int64_t rows = atoll(PQgetvalue(result, 0, 0));
    PQclear(result);
    PQclear(PQexec(sql_service, "COMMIT"));
    return rows;
}

// Plans live as long as a session, so those made for a small table must also suit a large one.
TEST(a_key_costs_the_same_however_many_there_are)
{
    enum { MANY = 20000, PLANNED = 10, ROWS_MOST = 1000 };
    sql_make_voucher(MANY + 10);
    PLACE_UNITS(WISHES({1, "alice", 1, KEY1}, {2, "bob", 2, KEY1}), COME_TO({"placed", 0, 0}, {"placed", 0, 0}));
    PLACE_UNITS(WISHES({3, "alice", 1, KEY1}), COME_TO({"repeated", 1, 1}));
    for (int i = 0; i < PLANNED; i++)
        (void)rows_read_by(2, WISHES({2, "bob", 2, KEY1}, {3, "alice", 1, KEY1}),
                           COME_TO({"already_placed", 0, 0}, {"ended", 1, 1}));
    db_run("INSERT INTO voucher_order (id, slot, user_id, voucher_id, request_key)"
           " SELECT gen_random_uuid(), %s, 'u' || n, %s, 'key' || n FROM generate_series(1, %d) n",
           sql_slot, sql_voucher, MANY);
    ck_assert_int_le(rows_read_by(2, WISHES({2, "bob", 2, KEY1}, {3, "alice", 1, KEY1}),
                                  COME_TO({"already_placed", 0, 0}, {"ended", 1, 1})),
                     ROWS_MOST);
}

// ---- several batches ----

struct batch {
    char slot[8], voucher[24];
    int count;
};

static struct batch make_batch(int stock, int count)
{
    struct batch batch = {.count = count};
    sql_make_voucher(stock);
    memcpy(batch.slot, sql_slot, sizeof batch.slot);
    memcpy(batch.voucher, sql_voucher, sizeof batch.voucher);
    return batch;
}

static void switch_to(const struct batch *batch)
{
    memcpy(sql_slot, batch->slot, sizeof batch->slot);
    memcpy(sql_voucher, batch->voucher, sizeof batch->voucher);
}

// `ends`: "batch n outcome live first,...", with the last digits of the ids.
static void place_batches(const struct batch batches[2], const struct wish *wishes, const char *ends)
{
    struct arrays arrays = {0};
    struct sk_buf told = {0};
    char slots[SHORT_SIZE], vouchers[SHORT_SIZE], counts[SHORT_SIZE];
    put_arrays(&arrays, (size_t)(batches[0].count + batches[1].count), wishes);
    (void)snprintf(slots, sizeof slots, "{%s,%s}", batches[0].slot, batches[1].slot);
    (void)snprintf(vouchers, sizeof vouchers, "{%s,%s}", batches[0].voucher, batches[1].voucher);
    (void)snprintf(counts, sizeof counts, "{%d,%d}", batches[0].count, batches[1].count);
    PGresult *result = SQL_RUN(SK_STATEMENT_PLACE_BATCHES, slots, vouchers, "{3,3}", counts, arrays.ids.data,
                               arrays.users.data, "{1-1,null}", arrays.quantities.data, arrays.keys.data, "{1,1}");
    for (int row = 0; row < PQntuples(result); row++) {
        const char *live = PQgetvalue(result, row, 2), *first = PQgetvalue(result, row, 3);
        ck_assert(atoll(PQgetvalue(result, row, 4)) > 0);
        ck_assert_int_eq(strncmp(PQgetvalue(result, row, 7), live, SK_UUID_CHARS),
                         0); // found within its own batch's voucher
        sk_buf_printf(&told, "%s%s %s %s %d %d", row == 0 ? "" : ",", PQgetvalue(result, row, 6),
                      PQgetisnull(result, row, 0) ? "-" : PQgetvalue(result, row, 0), PQgetvalue(result, row, 1),
                      live[0] == '\0' ? 0 : atoi(live + SK_UUID_CHARS - 12),
                      first[0] == '\0' ? 0 : atoi(first + SK_UUID_CHARS - 12));
    }
    ck_assert_str_eq(told.data, ends);
    PQclear(result);
    sk_buf_free(&told);
    free_arrays(&arrays);
}

TEST(batches_have_their_own_units_and_keys)
{
    struct batch batches[2];
    batches[0] = make_batch(10, 2);
    batches[1] = make_batch(10, 1);
    place_batches(batches, WISHES({1, "alice", 4, KEY1}, {2, "bob", 1, NULL}, {3, "alice", 10, KEY1}),
                  "1 - placed 0 0,2 - placed 0 0");
    must_have(1, 10, 0);
    switch_to(&batches[0]);
    must_have(2, 5, 5);
    must_have_key(1, KEY1);
    must_have_key(2, "");
    must_have_key(3, KEY1);
    // An order that does not fit does not affect the other batch.
    place_batches(batches, WISHES({11, "carol", 6, NULL}, {12, "dave", 2, KEY2}, {13, "carol", 1, NULL}),
                  "1 1 sold_out 0 0,1 2 placed 0 0,2 1 sold_out 0 0");
    must_have(3, 7, 3);
    // A key that was used in one of the vouchers.
    batches[0].count = 3;
    place_batches(batches,
                  WISHES({21, "alice", 4, KEY1}, {22, "dave", 1, KEY2}, {23, "erin", 3, NULL}, {24, "alice", 10, NULL}),
                  "1 1 repeated 1 1,1 2 reused 12 12,1 3 placed 0 0,2 1 duplicate 3 0");
    must_have(4, 10, 0);
    switch_to(&batches[1]);
    must_have(1, 10, 0);
}

TEST(batches_without_quantities_are_of_one_unit_each)
{
    struct batch batches[2];
    char slots[SHORT_SIZE], vouchers[SHORT_SIZE];
    batches[0] = make_batch(10, 1);
    batches[1] = make_batch(1, 2);
    (void)snprintf(slots, sizeof slots, "{%s,%s}", batches[0].slot, batches[1].slot);
    (void)snprintf(vouchers, sizeof vouchers, "{%s,%s}", batches[0].voucher, batches[1].voucher);
    PGresult *result =
        SQL_RUN(SK_STATEMENT_PLACE_BATCHES, slots, vouchers, "{3,3}", "{1,2}", "{" SQL_ID1 "," SQL_ID2 "," SQL_ID3 "}",
                "{alice,bob,carol}", "{null,null}", NULL, NULL, "{1,1}");
    ck_assert_int_eq(PQntuples(result), 3);
    ck_assert_str_eq(PQgetvalue(result, 0, 1), "placed");
    ck_assert_str_eq(PQgetvalue(result, 1, 1), "placed");
    ck_assert_str_eq(PQgetvalue(result, 2, 1), "sold_out");
    PQclear(result);
    must_have(1, 1, 0);
    switch_to(&batches[0]);
    must_have(1, 1, 9);
}

// ---- data for a rebuild ----

static void set_aside(const char *journal, const char *orders)
{
    PQclear(SQL_RUN(SK_STATEMENT_SET_ASIDE, sql_slot, sql_voucher, journal, "\\x00", orders, "why", "0"));
}

static void must_account_for(const char *stock, const char *buyers)
{
    char slots[SHORT_SIZE], vouchers[SHORT_SIZE];
    (void)snprintf(slots, sizeof slots, "{%s}", sql_slot);
    (void)snprintf(vouchers, sizeof vouchers, "{%s}", sql_voucher);
    PGresult *accounts = SQL_RUN(SK_STATEMENT_VOUCHER_ACCOUNTS, slots, vouchers);
    ck_assert_int_eq(PQntuples(accounts), 1);
    ck_assert_str_eq(PQgetvalue(accounts, 0, 5), stock);
    ck_assert_str_eq(PQgetvalue(accounts, 0, 6), buyers);
    PQclear(accounts);
    PGresult *opened = SQL_RUN(SK_STATEMENT_REBUILD_STOCK, sql_slot, sql_voucher, "3");
    ck_assert_str_eq(PQgetvalue(opened, 0, 0), stock);
    ck_assert_str_eq(PQgetvalue(opened, 0, 4), buyers);
    PQclear(opened);
}

TEST(letters_hold_the_units_of_their_orders)
{
    char letter[SHORT_SIZE];
    sql_make_voucher(20);
    PLACE_UNITS(WISHES({1, "alice", 3, KEY1}), COME_TO({"placed", 0, 0}));
    must_account_for("17", "1");
    set_aside("7-1", SQL_ID2 " bob 5 " KEY2 "," SQL_ID3 " carol 2");
    must_account_for("10", "3");
    set_aside("7-2", SQL_ID2 " bob 5 " KEY2 ",00000000-0000-7000-8000-000000000004 dave"); // bob is held already
    must_account_for("9", "4");
    PLACE_UNITS(WISHES({3, "carol", 2, NULL}), COME_TO({"placed", 0, 0})); // settled after all
    must_account_for("9", "4");
    db_text(letter, sizeof letter, "SELECT min(id) FROM dead_letter");
    for (int i = 0; i < 2; i++) {
        PGresult *off = SQL_RUN(SK_STATEMENT_WRITE_OFF, sql_slot, sql_voucher, letter);
        ck_assert_int_eq(PQntuples(off), 1);
        ck_assert_str_eq(PQgetvalue(off, 0, 0), SQL_ID2);
        ck_assert_str_eq(PQgetvalue(off, 0, 2), "5");
        PQclear(off);
    }
    must_account_for("14", "3");
    must_have_key(2, "");
    must_have(2, 5, 15);
}

// PostgreSQL has fewer units than the letters hold: an account never goes below zero.
TEST(letters_may_hold_more_than_there_is)
{
    sql_make_voucher(3);
    set_aside("7-1", SQL_ID1 " alice 5");
    must_account_for("0", "1");
}

// Appends a chunk: "id value field" of buyers, with "-" before ended orders, and their number if there is one. For
// orders that the walk has passed, the number alone.
static int put_chunk(struct sk_buf *told, char after[SK_UUID_SIZE], const char *most)
{
    PGresult *chunk = SQL_RUN(SK_STATEMENT_REBUILD_BUYERS, sql_slot, sql_voucher, after, most, "3");
    int count = PQntuples(chunk);
    for (int i = 0; i < count; i++) {
        const char *kind = PQgetvalue(chunk, i, 1), *field = PQgetvalue(chunk, i, 2), *value = PQgetvalue(chunk, i, 3),
                   *nth = PQgetvalue(chunk, i, 4);
        ck_assert_int_eq(strncmp(value, PQgetvalue(chunk, i, 0), SK_UUID_CHARS), 0);
        if (strcmp(kind, "passed") != 0)
            sk_buf_printf(told, "%s%d%s %s,", strcmp(kind, "ended") == 0 ? "-" : "", atoi(value + SK_UUID_CHARS - 12),
                          value + SK_UUID_CHARS, field);
        if (nth[0] != '\0')
            sk_buf_printf(told, "%.*s=%s,", (int)strcspn(field, " "), field, nth);
        memcpy(after, PQgetvalue(chunk, i, 0), SK_UUID_SIZE);
    }
    PQclear(chunk);
    return count;
}

// For users at the bound, whatever their orders came with; for other users, no number.
TEST(numbers_of_users_at_the_bound_are_read_with_them)
{
    static const char *const expected = "2 bob,-4 1 " KEY1 " dave " KEY1 ",dave=3,erin=4,7 fay,";
    static const char *const sizes[] = {"1", "2", "3", "1000"};
    sql_make_voucher(100);
    PLACE_UNITS(WISHES({1, "alice", 1, NULL}, {2, "bob", 1, NULL}, {3, "carol", 1, NULL}, {4, "dave", 1, KEY1},
                       {5, "erin", 1, NULL}, {6, "fred", 1, KEY1}, {7, "fay", 1, NULL}),
                COME_TO({"placed", 0, 0}, {"placed", 0, 0}, {"placed", 0, 0}, {"placed", 0, 0}, {"placed", 0, 0},
                        {"placed", 0, 0}, {"placed", 0, 0}));
    for (int id = 3; id <= 6; id++)
        end_order(id, "cancelled");
    must_be_aged(6, "2 days");
    db_run("UPDATE voucher_order SET status = 'refused', reason = 'GRANT_LOST' WHERE user_id = 'alice'");
    db_run("UPDATE voucher_order SET ended_nth = CASE user_id WHEN 'carol' THEN 2 WHEN 'dave' THEN 3 WHEN 'erin' THEN 4"
           " WHEN 'fred' THEN 1 END");
    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct sk_buf told = {0};
        char after[SK_UUID_SIZE] = SQL_ID0;
        while (put_chunk(&told, after, sizes[i]) == atoi(sizes[i]))
            ;
        ck_assert_str_eq(told.data, expected);
        sk_buf_free(&told);
    }
}

TEST(buyers_have_what_redis_keeps_of_them)
{
    static const char *const expected =
        "1 alice,2 2 bob,3 1 " KEY1 " carol,4 3 " KEY1 " dave,-5 2 " KEY1 " erin " KEY1 ",9 held,10 4 " KEY2 " kept,";
    static const char *const sizes[] = {"1", "2", "3", "7", "8", "1000"};
    sql_make_voucher(100);
    PLACE_UNITS(WISHES({1, "alice", 1, NULL}, {2, "bob", 2, NULL}, {3, "carol", 1, KEY1}, {4, "dave", 3, KEY1},
                       {5, "erin", 2, KEY1}, {6, "frank", 2, KEY1}, {7, "grace", 2, NULL}, {8, "heidi", 200, KEY1}),
                COME_TO({"placed", 0, 0}, {"placed", 0, 0}, {"placed", 0, 0}, {"placed", 0, 0}, {"placed", 0, 0},
                        {"placed", 0, 0}, {"placed", 0, 0}, {"sold_out", 0, 0}));
    for (int id = 5; id <= 7; id++)
        end_order(id, "cancelled");
    must_be_aged(3, "2 days"); // a live order keeps its key
    must_be_aged(5, "1 day -1 min");
    must_be_aged(6, "1 day 1 min");
    set_aside("7-1", "00000000-0000-7000-8000-000000000009 held,00000000-0000-7000-8000-000000000010 kept 4 " KEY2);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct sk_buf told = {0};
        char after[SK_UUID_SIZE] = SQL_ID0;
        while (put_chunk(&told, after, sizes[i]) == atoi(sizes[i]))
            ;
        ck_assert_str_eq(told.data, expected);
        sk_buf_free(&told);
    }
    must_account_for("88", "6"); // of 100: 7 in live orders, 5 in the letter
}

SUITE(.begin = sql_start, .setup = sql_setup, .teardown = sql_teardown, .in_one_process = true);
