#include "judge.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "instance.h"
#include "keys.h"
#include "net.h"
#include "people.h"
#include "redis_reply.h"
#include "servers.h"
#include "shards.h"
#include "stores.h"
#include "trouble.h"
#include "witness.h"
#include "world.h"

enum {
    EXPIRED_MS = 6000,
    READY_MS = 6000,
    READY_LOOKS = 14,
    SLOW_MS = 500,
    SELLS_MS = 8000,
    LOADS_MS = 2500,
    UNKNOWN_MAX = 3,
    REOPENS_MS = 300, // the options' sold_out_mark_ms, and a moment
};

static int64_t judge_number(const PGresult *result, int row, int column)
{
    return strtoll(PQgetvalue(result, row, column), NULL, 10);
}

static char *judge_rows, *judge_told; // tests/judge.sql, tests/answers.sql

static char *judge_read(const char *path)
{
    long size;
    char *text = NULL;
    FILE *file = fopen(path, "r");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0 || fseek(file, 0, SEEK_SET) != 0 ||
        (text = calloc((size_t)size + 1, 1)) == NULL || fread(text, 1, (size_t)size, file) != (size_t)size) {
        perror(path);
        exit(2);
    }
    (void)fclose(file);
    return text;
}

void judge_open(const char *rows, const char *answers)
{
    judge_rows = judge_read(rows);
    judge_told = judge_read(answers);
}

static void judge_step_of(size_t shard)
{
    PGresult *wrong = stores_query(shard, judge_rows, 0, NULL);
    if (PQntuples(wrong) > 0)
        world_fail("%s", PQgetvalue(wrong, 0, 0));
    PQclear(wrong);
}

void judge_step(void)
{
    for (size_t i = 0; i < servers_shards(); i++)
        judge_step_of(i);
}

static PGresult *judge_query(int64_t voucher, const char *sql)
{
    char id[24];
    (void)snprintf(id, sizeof id, "%" PRId64, voucher);
    return stores_query(sk_shard_of_voucher(voucher, servers_shards()), sql, 1, (const char *const[]){id});
}

int64_t judge_epoch(int64_t voucher)
{
    PGresult *row = judge_query(voucher, "SELECT s.epoch FROM voucher_stock s JOIN seckill_voucher v ON v.id ="
                                         " s.voucher_id WHERE v.id = $1::bigint AND v.state <> 'retired'");
    int64_t epoch = PQntuples(row) == 0 ? 0 : judge_number(row, 0, 0);
    PQclear(row);
    return epoch;
}

static bool judge_has(const char *sql, const char *value)
{
    bool has = false;
    for (size_t i = 0; !has && i < servers_shards(); i++) {
        PGresult *row = stores_query(i, sql, 1, &value);
        has = PQntuples(row) > 0;
        PQclear(row);
    }
    return has;
}

bool judge_is_live(const char *order_id)
{
    return judge_has("SELECT FROM voucher_order WHERE id = $1::uuid AND status IN ('unpaid', 'paid')", order_id);
}

bool judge_is_open(const char *order_id)
{
    return judge_has("SELECT FROM voucher_order WHERE id = $1::uuid AND status IN ('waiting', 'unpaid', 'paid')",
                     order_id);
}

bool judge_is_decided(const char *order_id)
{
    return judge_has(
        "SELECT FROM voucher_order WHERE id = $1::uuid UNION ALL SELECT FROM held_order WHERE id = $1::uuid", order_id);
}

// Another instance has PostgreSQL, so buyers are better off there. If nobody has it, 202 is better than nothing. What
// is so at one look only may be on its way.
static void judge_readiness_of(size_t i, bool one_well, bool all_without)
{
    static uint64_t was_ready[INSTANCES_MAX]; // in which life: before it has read the catalogue it cannot be
    static unsigned wrong[INSTANCES_MAX];
    struct instance *instance = instance_at(i);
    bool ready = instance_ready(instance), without = troubles_without_postgres_for(i) >= (uint64_t)READY_MS * MS;
    bool could = was_ready[i] == instance_life(instance);
    was_ready[i] = ready ? instance_life(instance) : was_ready[i];
    bool is_wrong = without && ((one_well && ready) || (all_without && could && !ready));
    wrong[i] = is_wrong && instance_state(instance) == INSTANCE_ON && !instance_drains(instance) ? wrong[i] + 1 : 0;
    if (wrong[i] >= READY_LOOKS)
        world_fail("%c is %s without PostgreSQL, and %s", instance_letter(instance), ready ? "ready" : "not ready",
                   one_well ? "another instance has it" : "nobody has it");
}

void judge_readiness(void)
{
    bool one_well = false, all_without = true;
    for (size_t i = 0; i < instances_count(); i++) {
        one_well = one_well ||
                   (troubles_well_for(i) >= (uint64_t)READY_MS * MS && net_on_time_for(i) >= (uint64_t)READY_MS * MS);
        all_without = all_without && (instance_state(instance_at(i)) == INSTANCE_OFF ||
                                      troubles_without_postgres_for(i) >= (uint64_t)READY_MS * MS);
    }
    for (size_t i = 0; i < instances_count() && servers_shards() == 1; i++)
        judge_readiness_of(i, one_well, all_without);
}

// A loss in between may have taken it.
static bool judge_may_be_lost(const struct call *call)
{
    return call->asked_at < stores_postgres_lost_at();
}

void judge_status(const char *order_id, char status[JUDGE_STATUS_SIZE])
{
    status[0] = '\0';
    for (size_t i = 0; i < servers_shards() && status[0] == '\0'; i++) {
        PGresult *row = stores_query(i, "SELECT status FROM voucher_order WHERE id = $1::uuid", 1, &order_id);
        if (PQntuples(row) == 1)
            (void)snprintf(status, JUDGE_STATUS_SIZE, "%s", PQgetvalue(row, 0, 0));
        PQclear(row);
    }
}

// ---- at rest ----

static bool judge_differs(char why[JUDGE_WHY_SIZE], int64_t voucher, const char *what, int64_t is, int64_t should_be)
{
    (void)snprintf(why, JUDGE_WHY_SIZE, "voucher %" PRId64 ": %s: %" PRId64 ", should be %" PRId64, voucher, what, is,
                   should_be);
    return is == should_be;
}

static struct sk_reply *judge_ask(const char *command, int64_t voucher, const char *key, const char *field)
{
    char name[PEOPLE_KEY_SIZE];
    people_key(voucher, key, name);
    return stores_redis_ask(servers_node_of_key(name), (const char *const[]){command, name, field, NULL});
}

static int64_t judge_redis(const char *command, int64_t voucher, const char *key, const char *field)
{
    struct sk_reply *reply = judge_ask(command, voucher, key, field);
    int64_t number = -1;
    (void)sk_reply_number(reply, &number);
    sk_reply_free(reply);
    return number;
}

// Each live or held order is its user's field in Redis.
static bool judge_buyers(int64_t voucher, char why[JUDGE_WHY_SIZE])
{
    PGresult *orders =
        judge_query(voucher, "SELECT user_id, id FROM voucher_order WHERE voucher_id = $1::bigint AND status IN"
                             " ('unpaid', 'paid') UNION ALL SELECT user_id, id FROM held_order WHERE voucher_id ="
                             " $1::bigint");
    bool same =
        judge_differs(why, voucher, "buyers in Redis", judge_redis("HLEN", voucher, "buyers", NULL), PQntuples(orders));
    for (int i = 0; same && i < PQntuples(orders); i++) {
        struct sk_reply *reply = judge_ask("HGET", voucher, "buyers", PQgetvalue(orders, i, 0));
        const char *text = sk_reply_text(reply, NULL);
        same = text != NULL && strncmp(text, PQgetvalue(orders, i, 1), SK_UUID_CHARS) == 0;
        if (!same)
            (void)snprintf(why, JUDGE_WHY_SIZE, "voucher %" PRId64 ": user %s has %s in Redis, should have %s", voucher,
                           PQgetvalue(orders, i, 0), text == NULL ? "nothing" : text, PQgetvalue(orders, i, 1));
        sk_reply_free(reply);
    }
    PQclear(orders);
    return same;
}

static bool judge_state(int64_t voucher, const char *state, char why[JUDGE_WHY_SIZE])
{
    struct sk_reply *reply = judge_ask("HGET", voucher, "voucher", "state");
    const char *text = sk_reply_text(reply, NULL);
    bool same = text != NULL && strcmp(text, state) == 0;
    if (!same)
        (void)snprintf(why, JUDGE_WHY_SIZE, "voucher %" PRId64 " is %s in Redis, should be %s", voucher,
                       text == NULL ? "nothing" : text, state);
    sk_reply_free(reply);
    return same;
}

static bool judge_voucher(int64_t voucher, char why[JUDGE_WHY_SIZE])
{
    PGresult *row = judge_query(
        voucher, "SELECT s.stock, v.state,"
                 "       (SELECT coalesce(sum(quantity), 0) FROM held_order h WHERE h.voucher_id = v.id),"
                 "       (SELECT count(*) FROM dead_letter d WHERE d.voucher_id = v.id AND d.ended_at IS NULL), s.epoch"
                 "  FROM seckill_voucher v JOIN voucher_stock s ON s.voucher_id = v.id WHERE v.id = $1::bigint");
    if (PQntuples(row) != 1)
        world_fail("voucher %" PRId64 " is not there", voucher);
    int64_t left = judge_number(row, 0, 0), held = judge_number(row, 0, 2), epoch = judge_number(row, 0, 4);
    int64_t journal = judge_redis("XLEN", voucher, "journal", NULL);
    bool retired = strcmp(PQgetvalue(row, 0, 1), "retired") == 0;
    bool back = retired && stores_redis_harmed(); // its keys came back, and nothing reads them: docs/reliability.md
    bool rests = judge_differs(why, voucher, "dead letters", judge_number(row, 0, 3), 0) &&
                 (back || judge_differs(why, voucher, "journal entries", journal > 0 ? journal : 0, 0));
    int64_t to_sell = left > held ? left - held : 0;
    if (rests && !retired)
        rests =
            judge_state(voucher, PQgetvalue(row, 0, 1), why) &&
            judge_differs(why, voucher, "epoch", judge_redis("HGET", voucher, "voucher", "epoch"), epoch) &&
            judge_differs(why, voucher, "stock in Redis", judge_redis("HGET", voucher, "voucher", "stock"), to_sell) &&
            judge_buyers(voucher, why);
    PQclear(row);
    return rests;
}

// The order that is most overdue, if it is by so many ms.
static bool judge_has_overdue(size_t shard, uint64_t ms, char id[SK_UUID_SIZE])
{
    char late[24], locked[24];
    (void)snprintf(late, sizeof late, "%" PRIu64, ms);
    (void)snprintf(locked, sizeof locked, "%" PRId64, stores_locked());
    PGresult *rows = stores_query(shard,
                                  "SELECT o.id FROM voucher_order o JOIN seckill_voucher v ON v.id = o.voucher_id"
                                  " WHERE o.status = 'unpaid' AND v.pay_within_s > 0 AND v.id <> $2::bigint"
                                  "   AND now() > coalesce(o.due_at, o.created_at + v.pay_within_s * interval '1 s')"
                                  "               + $1::integer * interval '1 ms'"
                                  "   AND NOT EXISTS (SELECT FROM expiry_hold h WHERE h.voucher_id IN (0, v.id))"
                                  " ORDER BY o.created_at",
                                  2, (const char *const[]){late, locked});
    bool has = PQntuples(rows) > 0;
    (void)snprintf(id, SK_UUID_SIZE, "%s", has ? PQgetvalue(rows, 0, 0) : "");
    PQclear(rows);
    return has;
}

void judge_overdue(uint64_t ms)
{
    char id[SK_UUID_SIZE];
    for (size_t i = 0; i < servers_shards() && !troubles_wait_for_owner(); i++) {
        if (judge_has_overdue(i, ms, id))
            world_fail("order %s has been due for %" PRIu64 " ms, and somebody could see to it", id, ms);
    }
}

// An order that was accepted and is no row yet; NULL: none.
static const struct call *judge_pending(void)
{
    char status[JUDGE_STATUS_SIZE];
    for (size_t i = 0; i < people_calls(); i++) {
        const struct call *call = people_call(i);
        bool lost_twice = stores_redis_harmed() && people_instance_died(call); // docs/reliability.md
        if (call->kind != CALL_BUY || call->outcome != CALL_TAKEN || lost_twice || judge_may_be_lost(call))
            continue;
        judge_status(call->order_id, status);
        if (status[0] == '\0')
            return call;
    }
    return NULL;
}

bool judge_rests(char why[JUDGE_WHY_SIZE])
{
    char id[SK_UUID_SIZE];
    bool rests = true;
    for (size_t i = 0; rests && i < servers_shards(); i++) {
        rests = !judge_has_overdue(i, EXPIRED_MS, id);
        if (!rests)
            (void)snprintf(why, JUDGE_WHY_SIZE, "order %s has not expired", id);
    }
    const struct call *pending = rests ? judge_pending() : NULL;
    if (pending != NULL) {
        (void)snprintf(why, JUDGE_WHY_SIZE, "P5: order %s was accepted, and is no row", pending->order_id);
        rests = false;
    }
    for (size_t i = 0; rests && i < people_vouchers(); i++) {
        if (people_voucher(i)->id != 0)
            rests = judge_voucher(people_voucher(i)->id, why);
    }
    return rests;
}

// ---- answers ----

void judge_done(const struct call *call, size_t number)
{
    char reference[REFERENCE_SIZE];
    people_reference(call, reference);
    if (judge_may_be_lost(call))
        return;
    if (call->kind == CALL_BUY && !judge_has("SELECT FROM voucher_order WHERE id = $1::uuid", call->order_id))
        world_fail("P3: #%zu was told %s, and order %s is not committed", number, call->code, call->order_id);
    if (call->kind == CALL_PAY && !judge_has("SELECT FROM payment WHERE reference = $1", reference))
        world_fail("payment #%zu was confirmed, and is not committed", number);
    if (call->kind == CALL_EXTEND &&
        !judge_has("SELECT FROM order_event WHERE type = 'extended' AND reference = $1", reference))
        world_fail("extension #%zu was confirmed, and is not committed", number);
    if (call->kind == CALL_CANCEL &&
        !judge_has("SELECT FROM voucher_order WHERE id = $1::uuid AND status = 'cancelled'", call->order_id))
        world_fail("cancellation #%zu was confirmed, and is not committed", number);
}

// Where a voucher is, and where the sessions are, for an instance that has not had one yet: nothing else is needed.
static unsigned judge_servers_of(int64_t voucher, const struct instance *instance)
{
    char key[PEOPLE_KEY_SIZE];
    people_key(voucher, "buyers", key);
    unsigned servers = 1U << (SERVER_REDIS + servers_node_of_key(key)) |
                       1U << (SERVER_POSTGRES + sk_shard_of_voucher(voucher, servers_shards()));
    if (!witness_had_session(instance))
        servers |= 1U << (SERVER_REDIS + servers_node_of_key(SK_KEY_SESSIONS));
    return servers;
}

// Whether a purchase was told LOADING because somebody was reopening the sale: so are all but winners, until caches
// have expired.
static bool judge_is_held(const struct call *buy, size_t number)
{
    bool held = false;
    for (size_t i = number; i-- > 0 && !held && strcmp(buy->code, "LOADING") == 0;) {
        const struct call *other = people_call(i);
        bool reopens = other->kind == CALL_REBUILD || other->kind == CALL_RESUME || other->kind == CALL_ADD ||
                       other->kind == CALL_CANCEL || other->kind == CALL_REFUND;
        bool is_over = other->outcome == CALL_REFUSED ||
                       (other->outcome != CALL_WAITS && other->ended_at + (uint64_t)REOPENS_MS * MS < buy->asked_at);
        held = other->voucher == buy->voucher && reopens && !is_over;
    }
    return held;
}

// A rebuild may take a moment.
void judge_unknown(const struct call *call, size_t number)
{
    int64_t voucher = people_voucher(call->voucher)->id;
    if (call->kind != CALL_BUY || people_instance_died(call) || troubles_wait_for_owner() ||
        stores_locked() == voucher || servers_move())
        return;
    unsigned servers = judge_servers_of(voucher, instance_at(call->instance));
    bool sells = troubles_usable_for(call->instance, servers) >= (uint64_t)SELLS_MS * MS &&
                 net_on_time_for(call->instance) >= (uint64_t)READY_MS * MS;
    size_t unknown = 0;
    for (size_t i = number + 1; i-- > 0 && sells;) {
        const struct call *other = people_call(i);
        if (other->kind != CALL_BUY || other->voucher != call->voucher || other->outcome == CALL_WAITS ||
            other->instance != call->instance || (other->outcome == CALL_UNKNOWN && judge_is_held(other, i)))
            continue;
        if (other->outcome != CALL_UNKNOWN || other->asked_at + (uint64_t)SELLS_MS * MS < world_now())
            break;
        if (++unknown >= UNKNOWN_MAX && other->asked_at + (uint64_t)LOADS_MS * MS <= world_now())
            world_fail("#%zu was told %s, as others there since #%zu, and all that is needed has been well for %d ms",
                       number, call->code, i, SELLS_MS);
    }
}

int64_t judge_letter(size_t voucher)
{
    PGresult *row = judge_query(people_voucher(voucher)->id,
                                "SELECT id FROM dead_letter WHERE voucher_id = $1::bigint AND ended_at IS NULL"
                                " ORDER BY id LIMIT 1");
    int64_t letter = PQntuples(row) == 0 ? 0 : judge_number(row, 0, 0);
    PQclear(row);
    return letter;
}

void judge_look(const struct call *look, bool stranger, const char *before)
{
    char status[JUDGE_STATUS_SIZE];
    if (stores_postgres_lost_at() > 0)
        return;
    if (stranger && look->outcome == CALL_DONE)
        world_fail("a stranger who looked at order %s was told %s", look->order_id, look->code);
    judge_status(look->order_id, status);
    if (!stranger && status[0] != '\0' && strcmp(status, look->status) != 0 && strcmp(before, look->status) != 0)
        world_fail("P5: PostgreSQL has order %s as %s, and its user was told %s %s", look->order_id, status, look->code,
                   look->status);
}

static const char *judge_answer(const struct call *call)
{
    static const char *const names[] = {
        [CALL_WAITS] = "unknown",   [CALL_DONE] = "done",       [CALL_TAKEN] = "taken",
        [CALL_REFUSED] = "refused", [CALL_UNKNOWN] = "unknown",
    };
    return strcmp(call->code, "ALREADY_ORDERED") == 0 ? "another" : names[call->outcome];
}

// What tests/answers.sql asks for, of one shard. It lasts until the next call.
static const char *judge_document(size_t shard)
{
    static const char *const moves[CALL_KINDS] = {[CALL_BUY] = "buy", [CALL_PAY] = "pay", [CALL_CANCEL] = "cancel"};
    static char document[CALLS_MAX * 320];
    size_t len = 0;
    for (size_t i = 0; i < people_calls(); i++) {
        const struct call *call = people_call(i);
        const struct sold *voucher = people_voucher(call->voucher);
        char reference[REFERENCE_SIZE];
        if (moves[call->kind] == NULL || voucher->id == 0 ||
            sk_shard_of_voucher(voucher->id, servers_shards()) != shard)
            continue;
        bool lost_twice = call->outcome == CALL_TAKEN && stores_redis_harmed() && people_instance_died(call);
        bool excused = lost_twice || judge_may_be_lost(call); // docs/reliability.md, "What is not promised"
        const char *quote = call->order_id[0] == '\0' ? "" : "\"";
        people_reference(call, reference);
        len += (size_t)snprintf(document + len, sizeof document - len,
                                "%c{\"nth\":%zu,\"what\":\"%s\",\"answer\":\"%s\",\"excused\":%s,\"voucher\":%" PRId64
                                ",\"user\":\"%s\",\"quantity\":%u,\"id\":%s%s%s,\"reference\":\"%s\"}",
                                len == 0 ? '[' : ',', i, moves[call->kind], judge_answer(call),
                                excused ? "true" : "false", voucher->id, call->user, call->quantity, quote,
                                quote[0] == '\0' ? "null" : call->order_id, quote, reference);
    }
    (void)snprintf(document + len, sizeof document - len, "%s]", len == 0 ? "[" : "");
    return document;
}

static void judge_told_by(size_t shard)
{
    PGresult *wrong = stores_query(shard, judge_told, 1, (const char *const[]){judge_document(shard)});
    if (PQntuples(wrong) > 0)
        world_fail("%s: %s", PQgetvalue(wrong, 0, 0), PQgetvalue(wrong, 0, 1));
    PQclear(wrong);
}

// Units: those of the start, and each change once. One whose answer was lost may count or not.
static void judge_units(size_t number)
{
    const struct sold *voucher = people_voucher(number);
    int64_t least = voucher->stock, most = voucher->stock;
    for (size_t i = 0; i < people_calls(); i++) {
        const struct call *call = people_call(i);
        if (call->kind != CALL_ADD || call->voucher != number || call->outcome == CALL_REFUSED)
            continue;
        least += call->outcome == CALL_DONE || call->units < 0 ? call->units : 0;
        most += call->outcome == CALL_DONE || call->units > 0 ? call->units : 0;
    }
    PGresult *row = judge_query(voucher->id, "SELECT units FROM voucher_stock WHERE voucher_id = $1::bigint");
    int64_t units = judge_number(row, 0, 0);
    if (units < least || units > most)
        world_fail("voucher %" PRId64 " has %" PRId64 " units, should have %" PRId64 " to %" PRId64, voucher->id, units,
                   least, most);
    PQclear(row);
}

// An operator ordered a rebuild; or units left Redis, as they do first, and PostgreSQL did not follow at once: an audit
// finds that.
static bool judge_was_ordered(size_t voucher)
{
    for (size_t i = 0; i < people_calls(); i++) {
        const struct call *call = people_call(i);
        bool slow = call->outcome != CALL_DONE || call->ended_at - call->asked_at > (uint64_t)SLOW_MS * MS;
        bool lacks = call->kind == CALL_ADD && call->units < 0 && slow;
        if (call->voucher == voucher && (lacks || call->kind == CALL_REBUILD))
            return true;
    }
    return false;
}

// What Redis has lost shows at once, by its run id, epoch or newest id. The audit is left with what cannot show.
void judge_mended(int64_t voucher)
{
    size_t i = 0;
    while (i < people_vouchers() && people_voucher(i)->id != voucher)
        i++;
    if (i < people_vouchers() && !judge_was_ordered(i) && !people_buyers_forgotten() &&
        !servers_may_replace(SERVER_REDIS))
        world_fail("the books of voucher %" PRId64 " differ", voucher);
}

void judge_opened(int64_t voucher)
{
    char why[JUDGE_WHY_SIZE];
    PGresult *row = judge_query(voucher, "SELECT count(DISTINCT o.user_id) FROM voucher_order o, seckill_voucher v"
                                         " WHERE v.id = $1::bigint AND o.voucher_id = v.id"
                                         "   AND o.ended_nth >= v.orders_per_user");
    if (!judge_buyers(voucher, why) ||
        !judge_differs(why, voucher, "users who have had all orders in Redis",
                       judge_redis("HLEN", voucher, "ended", NULL), judge_number(row, 0, 0)))
        world_fail("a rebuild opens %s", why);
    PQclear(row);
}

// A rebuild without a reason mends what should not have been wrong.
static void judge_rebuilds(size_t number)
{
    const struct sold *voucher = people_voucher(number);
    int64_t epoch = judge_epoch(voucher->id);
    if (!judge_was_ordered(number) && !witness_may_retire(voucher->id) && !stores_redis_harmed() &&
        voucher->epoch != 0 && epoch != 0 && epoch != voucher->epoch)
        world_fail("voucher %" PRId64 " was rebuilt, and nothing had happened to Redis: epoch %" PRId64 " is %" PRId64,
                   voucher->id, voucher->epoch, epoch);
}

void judge_answers(void)
{
    bool lost = stores_postgres_lost_at() > 0;
    judge_step();
    for (size_t i = 0; !lost && i < people_vouchers(); i++) {
        if (people_voucher(i)->id != 0)
            judge_units(i);
        judge_rebuilds(i);
    }
    for (size_t i = 0; i < people_calls(); i++) {
        const struct call *look = people_call(i);
        if (look->kind == CALL_LOOK && strcmp(look->code, "NOT_FOUND") == 0 && !people_buyers_forgotten() &&
            !judge_may_be_lost(look))
            world_fail("P5: #%zu: order %s is said not to exist", i, look->order_id);
    }
    for (size_t i = 0; i < servers_shards(); i++)
        judge_told_by(i);
}

// Who has read all of it knows what became of each order.
static void judge_feed_statuses(void)
{
    for (size_t i = 0; i < people_calls(); i++) {
        const struct call *call = people_call(i);
        const char *read =
            call->kind == CALL_BUY && call->order_id[0] != '\0' ? people_feed_status(call->order_id) : NULL;
        char status[JUDGE_STATUS_SIZE];
        if (read == NULL)
            continue;
        judge_status(call->order_id, status);
        if (strcmp(read, status) != 0)
            world_fail("the feed's last word on order %s is %s, and it is %s", call->order_id, read, status);
    }
}

bool judge_feed(void)
{
    const char **events;
    size_t count = people_feed(&events), most = 0;
    PGresult *rows[STORES_SHARDS];
    int read[STORES_SHARDS] = {0};
    if (stores_postgres_lost_at() > 0)
        return true; // a restored PostgreSQL keeps its transaction ids here: that stays with the fault suite
    for (size_t i = 0; i < servers_shards(); i++) {
        rows[i] = stores_query(
            i,
            "SELECT text FROM ("
            "SELECT tx, seq, order_id || ' ' || CASE WHEN type = 'moved' AND status = 'unpaid' THEN 'order.promoted'"
            " WHEN type = 'moved' THEN 'order.' || status"
            " WHEN type = 'extended' THEN 'order.extended'"
            " ELSE replace(type, 'payment_', 'payment.') END AS text FROM order_event"
            " UNION ALL SELECT tx, seq + n - 1, id || CASE WHEN joined THEN ' order.waiting'"
            "                                              ELSE ' order.placed' END"
            " FROM order_placed, unnest(ids) WITH ORDINALITY AS o (id, n)"
            " UNION ALL SELECT tx, seq, voucher_id || ' ' || name FROM sale_event) AS events"
            " ORDER BY tx, seq",
            0, NULL);
        most += (size_t)PQntuples(rows[i]);
    }
    for (size_t i = 0; i < count; i++) { // each is the next one of its shard
        size_t shard = 0;
        while (shard < servers_shards() && (read[shard] == PQntuples(rows[shard]) ||
                                            strcmp(PQgetvalue(rows[shard], read[shard], 0), events[i]) != 0))
            shard++;
        if (shard == servers_shards())
            world_fail("event %zu of the feed is %s, which is not the next one", i, events[i]);
        read[shard]++;
    }
    for (size_t i = 0; i < servers_shards(); i++)
        PQclear(rows[i]);
    if (count == most)
        judge_feed_statuses();
    return count == most;
}

bool judge_sells(size_t voucher)
{
    PGresult *row = judge_query(
        people_voucher(voucher)->id,
        "SELECT FROM seckill_voucher v JOIN voucher_stock s ON s.voucher_id = v.id WHERE v.id = $1::bigint"
        " AND v.state = 'open' AND s.stock > 0 AND now() BETWEEN v.begin_at AND v.end_at - interval '20 s'");
    bool sells = PQntuples(row) > 0;
    PQclear(row);
    return sells;
}
