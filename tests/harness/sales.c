#include "sales.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores.h"
#include "wait.h"

enum { PATH_SIZE = 256, FUNCTION_SIZE = 2048 };

bool sales_full(void)
{
    return getenv("SECKILL_TEST_FULL") != NULL;
}

// ---- direct writes to the stores ----

int64_t sales_make(int count, int stock)
{
    const char *sequence = "pg_get_serial_sequence('seckill_voucher', 'id')";
    int64_t first = db_number("SELECT nextval(%s)", sequence); // of several shards it is beyond each one's last
    db_run("WITH own AS MATERIALIZED (SELECT n FROM seckill_shard s, generate_series(%" PRId64 ", %" PRId64 ") AS n"
           "                           WHERE shard_of_slot(slot_of(n::text), s.shards) = s.number)"
           " SELECT made.id FROM own, setval(%s, n, false) AS next, create_voucher(gen_random_uuid()::text || next, "
           "'Test',"
           " 100, %d, unix_ms(now() - interval '1 s'), unix_ms(now() + interval '1 h')) AS made",
           first, first + count - 1, sequence, stock);
    return first;
}

// The ids are built like the service's: their last 24 bits are slot and epoch.
void sales_add_orders(int64_t first, int vouchers, int each)
{
    db_run("INSERT INTO voucher_order (id, slot, user_id, voucher_id)"
           " SELECT (substr(gen_random_uuid()::text, 1, 30) ||"
           "         lpad(to_hex(s.slot::integer << 10 | s.epoch::integer & 1023), 6, '0'))::uuid,"
           "        s.slot, 'p' || n, s.voucher_id"
           "   FROM voucher_stock s, generate_series(1, %d) AS n"
           "  WHERE s.voucher_id BETWEEN %" PRId64 " AND %" PRId64,
           each, first, first + vouchers - 1);
    db_run("UPDATE voucher_stock SET live = live + %d, stock = stock - %d"
           " WHERE voucher_id BETWEEN %" PRId64 " AND %" PRId64,
           each, each, first, first + vouchers - 1);
}

void sales_end(const char *voucher)
{
    db_run("UPDATE seckill_voucher SET begin_at = now() - interval '4 days', end_at = now() - interval '3 days', "
           "pay_within_s = 0"
           " WHERE id = %s",
           voucher);
}

void sales_refuse_user(const char *user)
{
    db_run("CREATE OR REPLACE FUNCTION public.refuse_user() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
           " IF NEW.user_id = '%s' AND NEW.status <> 'refused' THEN RAISE 'not this one'; END IF; RETURN NEW; END $$",
           user);
    db_run("CREATE OR REPLACE TRIGGER refuse_user BEFORE INSERT ON voucher_order"
           " FOR EACH ROW EXECUTE FUNCTION refuse_user()");
}

void sales_refuse_none(void)
{
    db_run("SET client_min_messages = warning; DROP TRIGGER IF EXISTS refuse_user ON voucher_order");
}

static char numbering[FUNCTION_SIZE]; // the trigger's original function; empty: not replaced

void sales_stop_notifying(void)
{
    char silent[FUNCTION_SIZE];
    db_text(numbering, sizeof numbering, "SELECT pg_get_functiondef('number_voucher_change'::regproc)");
    db_text(
        silent, sizeof silent,
        "SELECT regexp_replace(pg_get_functiondef('number_voucher_change'::regproc), 'PERFORM pg_notify[^;]*;', '')");
    ck_assert_str_ne(silent, numbering);
    ck_assert_uint_lt(strlen(numbering), sizeof numbering - 1);
    db_run("%s", silent);
}

void sales_notify_again(void)
{
    if (numbering[0] != '\0')
        db_run("%s", numbering);
    numbering[0] = '\0';
}

// ---- requests ----

void sales_beside(const struct service *service, int stock, const char *first, char second[VOUCHER_ID_SIZE])
{
    do
        voucher_on_sale(service, stock, second);
    while (db_shard_of(second) != db_shard_of(first));
}

int sales_admin(const struct service *service, const char *method, const char *voucher, const char *what,
                struct http_reply *reply)
{
    char path[PATH_SIZE], header[HTTP_FIELD_SIZE];
    (void)snprintf(path, sizeof path, "/admin/vouchers/%s%s", voucher, what);
    (void)snprintf(header, sizeof header, "Authorization: Bearer %s\r\n", stack_admin_token);
    return http_ask(service, method, path, header, NULL, reply);
}

void sales_accept(const struct service *service, const char *voucher, const char *user, char id[ORDER_ID_SIZE])
{
    char value[HTTP_FIELD_SIZE];
    struct http_reply reply;
    WAIT_FOR(http_buy_async(service, voucher, user, &reply) != 503);
    ck_assert_msg(reply.status == 202, "%s %s", reply.text, reply.body);
    ck_assert(http_member(&reply, "id", value));
    ck_assert_uint_lt(strlen(value), ORDER_ID_SIZE);
    (void)snprintf(id, ORDER_ID_SIZE, "%.*s", ORDER_ID_SIZE - 1, value);
}

int sales_order(const struct service *service, const char *id, const char *user, char status[HTTP_FIELD_SIZE])
{
    char path[PATH_SIZE];
    struct http_reply reply;
    (void)snprintf(path, sizeof path, "/orders/%s", id);
    status[0] = '\0';
    if (http_get(service, path, user, &reply) == 200)
        ck_assert(http_member(&reply, "status", status));
    return reply.status;
}

bool sales_order_is(const struct service *service, const char *id, const char *user, const char *status)
{
    char found[HTTP_FIELD_SIZE];
    int answer = sales_order(service, id, user, found);
    ck_assert_msg(answer == 200 || answer == 503, "order %s of %s: %d", id, user, answer); // 404 above all
    return answer == 200 && strcmp(found, status) == 0;
}

// ---- checks ----

bool sales_redis_has(const char *voucher, const char *state)
{
    char found[HTTP_FIELD_SIZE];
    return redis_text(found, sizeof found, "HGET seckill:{%s}:voucher state", voucher) && strcmp(found, state) == 0;
}

void sales_note(const char *what, uint64_t since_ms)
{
    (void)printf("%s: %" PRIu64 " ms\n", what, sk_monotonic_ms() - since_ms);
}
