#include "books.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores.h"
#include "wait.h"

static bool wrong(char why[BOOKS_WHY_SIZE], const char *what, int64_t is, int64_t should_be)
{
    (void)snprintf(why, BOOKS_WHY_SIZE, "%s: %" PRId64 ", should be %" PRId64, what, is, should_be);
    return false;
}

// Every order, live or held, is its user's entry in Redis. With as many entries as orders, they are the same.
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
    PGconn *conn = db_connect();
    redisContext *redis = redis_connect();
    PGresult *orders = PQexecParams(conn,
                                    "SELECT user_id, id FROM voucher_order"
                                    " WHERE voucher_id = $1::bigint AND status IN ('unpaid', 'paid')"
                                    " UNION ALL SELECT user_id, id FROM held_order WHERE voucher_id = $1::bigint",
                                    1, NULL, &voucher, NULL, NULL, 0);
    ck_assert_int_eq(PQresultStatus(orders), PGRES_TUPLES_OK);
    bool same = same_buyers(voucher, orders, redis, why);
    PQclear(orders);
    PQfinish(conn);
    redisFree(redis);
    return same;
}

bool books_balance(const char *voucher, char why[BOOKS_WHY_SIZE])
{
    static const char live_orders[] =
        "SELECT %s FROM voucher_order WHERE voucher_id = %s AND status IN ('unpaid', 'paid')";
    why[0] = '\0';
    int64_t journal = redis_number("XLEN seckill:{%s}:journal", voucher);
    if (journal != 0)
        return wrong(why, "journal entries", journal, 0);
    int64_t units = db_number("SELECT units FROM seckill_segment WHERE voucher_id = %s", voucher);
    int64_t stock = db_number("SELECT stock FROM seckill_segment WHERE voucher_id = %s", voucher);
    int64_t counted = db_number("SELECT live FROM seckill_segment WHERE voucher_id = %s", voucher);
    int64_t live = db_number(live_orders, "count(*)", voucher);
    int64_t held = db_number("SELECT count(*) FROM held_order WHERE voucher_id = %s", voucher);
    int64_t users = db_number(live_orders, "count(DISTINCT user_id)", voucher);
    int64_t redis_stock = redis_number("HGET seckill:{%s}:voucher stock", voucher);
    int64_t buyers = redis_number("HLEN seckill:{%s}:buyers", voucher);
    if (live > units)
        return wrong(why, "oversold: live orders", live, units);
    if (users != live)
        return wrong(why, "users with a live order", users, live);
    if (counted != live)
        return wrong(why, "live orders counted", counted, live);
    if (stock != units - live)
        return wrong(why, "stock in PostgreSQL", stock, units - live);
    if (redis_stock != units - live - held)
        return wrong(why, "stock in Redis", redis_stock, units - live - held);
    if (buyers != live + held)
        return wrong(why, "buyers in Redis", buyers, live + held);
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
