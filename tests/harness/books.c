#include "books.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keys.h"
#include "stores.h"
#include "wait.h"

static bool wrong(char why[BOOKS_WHY_SIZE], const char *what, int64_t is, int64_t should_be)
{
    (void)snprintf(why, BOOKS_WHY_SIZE, "%s: %" PRId64 ", should be %" PRId64, what, is, should_be);
    return false;
}

// Every live or held order must be its user's entry in Redis, with its quantity and key. If the number of entries
// equals the number of orders, both sets are equal.
static bool same_buyers(const char *voucher, PGresult *orders, redisContext *redis, char why[BOOKS_WHY_SIZE])
{
    for (int i = 0; i < PQntuples(orders); i++) {
        const char *user = PQgetvalue(orders, i, 0), *order = PQgetvalue(orders, i, 1);
        redisReply *reply = redisCommand(redis, "HGET seckill:{%s}:buyers %s", voucher, user);
        bool same = reply != NULL && reply->type == REDIS_REPLY_STRING && strcmp(reply->str, order) == 0;
        freeReplyObject(reply);
        if (!same) {
            (void)snprintf(why, BOOKS_WHY_SIZE, "buyer in Redis: %s has not order %s", user, order);
            return false;
        }
    }
    return true;
}

static bool check_buyers(const char *voucher, char why[BOOKS_WHY_SIZE])
{
    PGconn *conn = db_connect_to(voucher);
    char key[SK_KEY_SIZE];
    (void)snprintf(key, sizeof key, "{%s}", voucher);
    redisContext *redis = redis_connect_to(key);
    PGresult *orders = PQexecParams(
        conn,
        "SELECT user_id, concat_ws(' ', id, CASE WHEN quantity > 1 OR request_key IS NOT NULL THEN quantity END,"
        "                          request_key)"
        "  FROM (SELECT user_id, id, quantity, request_key FROM voucher_order"
        "         WHERE voucher_id = $1::bigint AND status IN ('unpaid', 'paid')"
        "        UNION ALL SELECT user_id, id, quantity, request_key FROM held_order WHERE voucher_id = $1::bigint) o",
        1, NULL, &voucher, NULL, NULL, 0);
    ck_assert_int_eq(PQresultStatus(orders), PGRES_TUPLES_OK);
    bool same = same_buyers(voucher, orders, redis, why);
    PQclear(orders);
    PQfinish(conn);
    redisFree(redis);
    return same;
}

// The state in PostgreSQL, read in one snapshot.
struct account {
    int64_t units, stock, counted;                           // the voucher's own counters
    int64_t live, live_units, users, held, held_units, kept; // of its orders; kept: units of refunds without restock
};

static struct account read_account(const char *voucher)
{
    struct account account;
    int64_t *const numbers[] = {&account.units, &account.stock, &account.counted,    &account.live, &account.live_units,
                                &account.users, &account.held,  &account.held_units, &account.kept};
    PGconn *conn = db_connect_to(voucher);
    PGresult *row = PQexecParams(
        conn,
        "SELECT s.*, l.*, h.*, k.*"
        "  FROM (SELECT sum(units), sum(stock), sum(live) FROM voucher_stock WHERE voucher_id = $1::bigint) s,"
        "       (SELECT count(*), coalesce(sum(quantity), 0), count(DISTINCT user_id) FROM voucher_order"
        "         WHERE voucher_id = $1::bigint AND status IN ('unpaid', 'paid')) l,"
        "       (SELECT count(*), coalesce(sum(quantity), 0) FROM held_order WHERE voucher_id = $1::bigint) h,"
        "       (SELECT coalesce(sum(quantity), 0) FROM voucher_order"
        "         WHERE voucher_id = $1::bigint AND status = 'refunded' AND reason = 'KEPT') k",
        1, NULL, &voucher, NULL, NULL, 0);
    ck_assert_msg(PQntuples(row) == 1, "%s", PQerrorMessage(conn));
    for (int i = 0; i < PQnfields(row); i++)
        *numbers[i] = strtoll(PQgetvalue(row, 0, i), NULL, 10);
    PQclear(row);
    PQfinish(conn);
    return account;
}

bool books_balance(const char *voucher, char why[BOOKS_WHY_SIZE])
{
    why[0] = '\0';
    int64_t journal = redis_number("XLEN seckill:{%s}:journal", voucher);
    if (journal != 0)
        return wrong(why, "journal entries", journal, 0);
    struct account account = read_account(voucher);
    int64_t left = account.units - account.live_units - account.kept;
    int64_t redis_stock = redis_number("HGET seckill:{%s}:voucher stock", voucher);
    int64_t buyers = redis_number("HLEN seckill:{%s}:buyers", voucher);
    if (left < 0)
        return wrong(why, "oversold: units in live orders", account.live_units, account.units - account.kept);
    if (account.users != account.live)
        return wrong(why, "users with a live order", account.users, account.live);
    if (account.counted != account.live)
        return wrong(why, "live orders counted", account.counted, account.live);
    if (account.stock != left)
        return wrong(why, "stock in PostgreSQL", account.stock, left);
    int64_t to_sell = left > account.held_units ? left - account.held_units : 0;
    if (redis_stock != to_sell)
        return wrong(why, "stock in Redis", redis_stock, to_sell);
    if (buyers != account.live + account.held)
        return wrong(why, "buyers in Redis", buyers, account.live + account.held);
    return check_buyers(voucher, why);
}

void books_must_balance(const char *voucher)
{
    char why[BOOKS_WHY_SIZE];
    uint64_t until_ms = sk_monotonic_ms() + WAIT_DEADLINE_MS;
    while (!books_balance(voucher, why)) {
        ck_assert_msg(sk_monotonic_ms() < until_ms, "the books of voucher %s do not balance: %s", voucher, why);
        (void)usleep(WAIT_PAUSE_US);
    }
}
