#include "witness.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "journal.h"
#include "judge.h"
#include "keys.h"
#include "net.h"
#include "rebuild.h"
#include "redis_reply.h"
#include "servers.h"
#include "shards.h"
#include "stores.h"
#include "trouble.h"
#include "uuid.h"
#include "world.h"

enum {
    TTL_MS = 3000,
    APART_MS = 5100,
    CLOSED_MS = 4000,
    RETIRES_MAX = 16,
    REMOVED_MAX = 8,
    KEY_SIZE = 72,
    KEYS = 5, // of place_orders, at least
    ID_SIZE = 24,
    CODES = 6,
    EPOCH = 3,
    FIRST_ORDER = 9,
    MUST_FAIL = -1,
    MODE = 10, // of place_orders: the third argument; the eighth
    OFFER = 15,
    SETTLED_KEY = 5,
    SETTLED_ENTRY = 8
};

struct grant {
    char order_id[SK_UUID_SIZE], epoch[ID_SIZE];
    int64_t voucher;
    const struct instance *holder;
    uint64_t life, at;
    bool written, ended;
};

static struct {
    struct grant *grants;
    size_t count, room;
    struct {
        char id[SK_UUID_SIZE]; // the session's; "": none
        uint64_t life, since, kept;
    } sessions[INSTANCES_MAX];
    int64_t retires[RETIRES_MAX];
    size_t retire_count;
    bool shifted; // a store's clock was wrong
    struct {
        size_t node;
        char key[KEY_SIZE], ids[REMOVED_MAX][SK_JOURNAL_ID_SIZE];
        char *orders[REMOVED_MAX];
        size_t count;
    } removing; // journal entries, by the command that is being executed
} witness;

// ---- Redis ----

static void witness_copy(const struct command *command, size_t word, char *out, size_t size)
{
    (void)snprintf(out, size, "%.*s", (int)command->lens[word], command->words[word]);
}

static struct grant *witness_find(const char *order_id)
{
    for (size_t i = 0; i < witness.count; i++) {
        if (strncmp(witness.grants[i].order_id, order_id, SK_UUID_CHARS) == 0)
            return &witness.grants[i];
    }
    return NULL;
}

static void witness_note_grant(const struct grant *grant)
{
    struct grant *known = witness_find(grant->order_id);
    if (known != NULL && known->written)
        return; // it has its row, and its time to pay counts from there
    if (known != NULL) {
        known->holder = grant->holder;
        known->life = grant->life;
        known->at = grant->at;
        memcpy(known->epoch, grant->epoch, sizeof known->epoch);
        return;
    }
    witness.grants = world_grow(witness.grants, witness.count, &witness.room, sizeof *witness.grants);
    witness.grants[witness.count++] = *grant;
}

// What is granted for the first time is granted under the voucher's offer.
static void witness_check_offer(const struct command *command, size_t others, const char *key)
{
    struct sk_reply *reply =
        stores_redis_ask(servers_node_of_key(key), (const char *const[]){"HGET", key, "offer", NULL});
    const char *offer = sk_reply_text(reply, NULL);
    if (offer != NULL && !command_is(command, OFFER + others, offer))
        world_fail("%s sells under offer %.*s, and has offer %s", key, (int)command->lens[OFFER + others],
                   command->words[OFFER + others], offer);
    sk_reply_free(reply);
}

// Only the words that a struct command keeps: of large batches the first orders.
static void witness_placed(const struct instance *from, uint64_t life, const struct command *command,
                           const struct sk_reply *reply)
{
    const char *word = sk_reply_text(sk_reply_at(reply, 0), NULL),
               *codes = sk_reply_text(sk_reply_at(reply, CODES), NULL);
    const char *epoch = sk_reply_text(sk_reply_at(reply, EPOCH), NULL);
    struct grant grant = {.holder = from, .life = life, .at = world_now()};
    char key[KEY_SIZE], keys[8];
    if (word == NULL || strcmp(word, "ok") != 0 || codes == NULL || epoch == NULL)
        return;
    witness_copy(command, 3, key, sizeof key);
    grant.voucher = strtoll(strrchr(key, '{') + 1, NULL, 10);
    witness_copy(command, 2, keys, sizeof keys);
    size_t others = (size_t)strtoul(keys, NULL, 10) - KEYS; // buyers of other vouchers in the scope
    if (strchr(codes, 'p') != NULL && command_is(command, MODE + others, "new"))
        witness_check_offer(command, others, key);
    (void)snprintf(grant.epoch, sizeof grant.epoch, "%s", epoch);
    size_t first = 3 + KEYS + others + FIRST_ORDER; // behind EVALSHA, its script and number of keys, and the keys
    for (size_t i = 0; codes[i] != '\0' && first + 2 * i + 1 < COMMAND_WORDS_MAX; i++) {
        witness_copy(command, first + 2 * i + 1, grant.order_id, sizeof grant.order_id);
        if (codes[i] == 'p')
            witness_note_grant(&grant);
    }
}

static void witness_opened(const struct command *command)
{
    char key[KEY_SIZE];
    witness_copy(command, 3, key, sizeof key);
    if (stores_postgres_lost_at() == 0)
        judge_opened(strtoll(strrchr(key, '{') + 1, NULL, 10));
}

static void witness_kept(const struct instance *from, uint64_t life, const struct command *command,
                         const struct sk_reply *reply)
{
    size_t i = (size_t)(instance_letter(from) - 'A');
    int64_t kept = 0;
    char key[KEY_SIZE];
    if (!sk_reply_number(sk_reply_at(reply, 0), &kept) || kept != 1) {
        witness.sessions[i].id[0] = '\0';
        return;
    }
    witness_copy(command, 3, key, sizeof key);
    bool same = witness.sessions[i].life == life && witness.sessions[i].id[0] != '\0' &&
                world_now() - witness.sessions[i].kept < (uint64_t)TTL_MS * MS;
    if (!same)
        witness.sessions[i].since = world_now();
    witness.sessions[i].life = life;
    witness.sessions[i].kept = world_now();
    (void)snprintf(witness.sessions[i].id, SK_UUID_SIZE, "%s", strrchr(key, ':') + 1);
}

static bool witness_has_session(const char *id)
{
    char key[80];
    int64_t there = 0;
    (void)snprintf(key, sizeof key, "seckill:{shared}:session:%s", id);
    struct sk_reply *reply = stores_redis_ask(servers_node_of_key(key), (const char *const[]){"EXISTS", key, NULL});
    (void)sk_reply_number(reply, &there);
    sk_reply_free(reply);
    return there == 1;
}

static void witness_ended(const struct instance *from, const struct command *command)
{
    witness.sessions[instance_letter(from) - 'A'].id[0] = '\0';
    char key[KEY_SIZE];
    int64_t until = 0;
    witness_copy(command, 3, key, sizeof key);
    const char *id = strrchr(key, ':') + 1;
    struct sk_reply *reply = stores_redis_ask(servers_node_of_key(SK_KEY_SESSIONS),
                                              (const char *const[]){"ZSCORE", SK_KEY_SESSIONS, id, NULL});
    if (witness_has_session(id) || sk_reply_number(reply, &until))
        world_fail("session %s has ended, and is still there", id);
    sk_reply_free(reply);
}

// The orders of a journal entry; NULL: it is not there, or is one of returns.
static char *witness_entry(size_t node, const char *key, const char *id)
{
    struct sk_reply *reply = stores_redis_ask(node, (const char *const[]){"XRANGE", key, id, id, NULL});
    const struct sk_reply *fields = sk_reply_at(sk_reply_at(reply, 0), 1);
    const char *name = sk_reply_text(sk_reply_at(fields, 2), NULL),
               *orders = sk_reply_text(sk_reply_at(fields, 3), NULL);
    char *copy = name != NULL && orders != NULL && strcmp(name, "orders") == 0 ? world_copy(orders) : NULL;
    sk_reply_free(reply);
    return copy;
}

static void witness_note_entry(const struct command *command, size_t word)
{
    char *id = witness.removing.ids[witness.removing.count];
    witness_copy(command, word, id, SK_JOURNAL_ID_SIZE);
    char *orders = id[0] == '\0' ? NULL : witness_entry(witness.removing.node, witness.removing.key, id);
    if (orders != NULL)
        witness.removing.orders[witness.removing.count++] = orders;
}

void witness_before_command(size_t node, const struct command *command, int script)
{
    bool drops = command_is(command, 0, "XDEL"), settles = script == SK_SCRIPT_SETTLE_ENTRY;
    size_t first = drops ? 2 : SETTLED_ENTRY, end = drops ? command->count : SETTLED_ENTRY + 1;
    witness.removing.count = 0;
    witness.removing.node = node;
    if (!drops && !settles)
        return;
    witness_copy(command, drops ? 1 : SETTLED_KEY, witness.removing.key, KEY_SIZE);
    for (size_t i = first; i < end && i < COMMAND_WORDS_MAX && witness.removing.count < REMOVED_MAX; i++)
        witness_note_entry(command, i);
}

// The command gives back its units, and forgets its buyer.
static bool witness_settles(const struct command *command, const char *order_id)
{
    for (size_t i = SETTLED_ENTRY; i < command->count && i < COMMAND_WORDS_MAX; i++) {
        if (command->lens[i] == SK_UUID_CHARS && strncmp(command->words[i], order_id, SK_UUID_CHARS) == 0)
            return true;
    }
    return command->count > COMMAND_WORDS_MAX;
}

static void witness_removed(const struct instance *from, const struct command *command)
{
    for (size_t i = 0; i < witness.removing.count; i++) {
        const char *id = witness.removing.ids[i];
        char order_id[SK_UUID_SIZE];
        if (witness_entry(witness.removing.node, witness.removing.key, id) != NULL)
            continue;
        for (const char *at = witness.removing.orders[i]; strlen(at) >= SK_UUID_CHARS; at++) {
            (void)snprintf(order_id, sizeof order_id, "%.*s", SK_UUID_CHARS, at);
            if (sk_uuid_valid(order_id) && !judge_is_decided(order_id) && !witness_settles(command, order_id))
                world_fail("%c removes entry %s of the journal, and order %s is not decided", instance_letter(from), id,
                           order_id);
        }
    }
}

void witness_command(const struct instance *from, uint64_t life, const struct command *command, int script,
                     const struct sk_reply *reply)
{
    int64_t done = 0;
    if (script == SK_SCRIPT_PLACE_ORDERS)
        witness_placed(from, life, command, reply);
    else if (script == SK_SCRIPT_REBUILD_OPEN && sk_reply_number(reply, &done) && done == 1)
        witness_opened(command);
    else if (script == SK_SCRIPT_SESSION_KEEP)
        witness_kept(from, life, command, reply);
    else if (script == SK_SCRIPT_SESSION_END && sk_reply_number(reply, &done) && done == 1)
        witness_ended(from, command);
    if (stores_postgres_lost_at() == 0)
        witness_removed(from, command);
    witness.shifted = witness.shifted || !stores_clocks_are_right();
}

// ---- the audit ----

// The linker's names (--wrap).
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
enum sk_status __wrap_sk_rebuild(struct sk_rebuilds *rebuilds, struct sk_voucher *voucher, enum sk_rebuild_why why,
                                 sk_rebuild_cb *done, void *arg);
enum sk_status __real_sk_rebuild(struct sk_rebuilds *rebuilds, struct sk_voucher *voucher, enum sk_rebuild_why why,
                                 sk_rebuild_cb *done, void *arg);

enum sk_status __wrap_sk_rebuild(struct sk_rebuilds *rebuilds, struct sk_voucher *voucher, enum sk_rebuild_why why,
                                 sk_rebuild_cb *done, void *arg)
{
    if (why == SK_REBUILD_ORDERED && done == NULL)
        judge_mended(voucher->id);
    return __real_sk_rebuild(rebuilds, voucher, why, done, arg);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

// ---- PostgreSQL ----

// Whether its holder may be writing it: as far as it knows, its session has lived since the grant. Redis may have lost
// the session: nobody may believe that at once.
static bool witness_is_held(const struct grant *grant)
{
    size_t i = (size_t)(instance_letter(grant->holder) - 'A');
    return instance_state(grant->holder) != INSTANCE_OFF && instance_life(grant->holder) == grant->life &&
           witness.sessions[i].life == grant->life && witness.sessions[i].id[0] != '\0' &&
           witness.sessions[i].since <= grant->at && world_now() - witness.sessions[i].kept < (uint64_t)TTL_MS * MS;
}

static void witness_write(const struct instance *from, const char *order_id, const char *epoch)
{
    struct grant *grant = witness_find(order_id);
    if (grant == NULL)
        return;
    grant->written = true;
    grant->ended = grant->ended || !stores_clocks_are_right(); // its row has a wrong time
    if (grant->holder != from && strcmp(grant->epoch, epoch) == 0 && !witness.shifted && witness_is_held(grant))
        world_fail("the lock: %c writes order %.36s, which %c holds, and its session lives", instance_letter(from),
                   order_id, instance_letter(grant->holder));
}

static void witness_write_all(const struct instance *from, const char *ids, const char *epoch)
{
    for (const char *at = ids + 1; strlen(at) >= SK_UUID_CHARS; at += SK_UUID_CHARS + 1)
        witness_write(from, at, epoch);
}

static void witness_check_expired(size_t shard)
{
    PGresult *rows = stores_query(shard,
                                  "SELECT o.id, floor(1000 * coalesce(extract(epoch FROM o.due_at - o.created_at),"
                                  "                                   v.pay_within_s))::bigint,"
                                  "       EXISTS (SELECT FROM expiry_hold h WHERE h.voucher_id IN (0, v.id)"
                                  "                                           AND h.since < o.updated_at)"
                                  "  FROM voucher_order o JOIN seckill_voucher v ON v.id = o.voucher_id"
                                  " WHERE o.status = 'expired'",
                                  0, NULL);
    for (int i = 0; i < PQntuples(rows); i++) {
        struct grant *grant = witness_find(PQgetvalue(rows, i, 0));
        uint64_t within_ms = strtoull(PQgetvalue(rows, i, 1), NULL, 10), apart_ms = witness.shifted ? APART_MS : 0;
        if (grant == NULL || grant->ended)
            continue;
        grant->ended = true;
        if (PQgetvalue(rows, i, 2)[0] == 't' && stores_clocks_are_right())
            world_fail("order %s has expired, and an operator holds expiry", PQgetvalue(rows, i, 0));
        if (world_now() - grant->at + apart_ms * MS < within_ms * MS)
            world_fail("order %s has expired %" PRIu64 " ms after it was granted", PQgetvalue(rows, i, 0),
                       (world_now() - grant->at) / MS);
    }
    PQclear(rows);
}

// How many payments of a refunded order are still to be refunded; of any other order -1.
static int64_t witness_to_refund(size_t shard, const char *order_id)
{
    PGresult *row = stores_query(shard,
                                 "SELECT (SELECT count(*) FROM payment p WHERE p.order_id = o.id AND p.state ="
                                 " 'to_refund') FROM voucher_order o WHERE o.id = $1::uuid AND o.status = 'refunded'",
                                 1, &order_id);
    int64_t count = PQntuples(row) == 1 ? strtoll(PQgetvalue(row, 0, 0), NULL, 10) : -1;
    PQclear(row);
    return count;
}

static int64_t witness_number(size_t shard, const char *sql)
{
    PGresult *row = stores_query(shard, sql, 0, NULL);
    int64_t number = PQntuples(row) == 1 ? strtoll(PQgetvalue(row, 0, 0), NULL, 10) : 0;
    PQclear(row);
    return number;
}

// Another shard has seen a newer state of this one: it has lost commits, and nobody has accepted that.
static void witness_check_beat(const struct instance *from, size_t shard)
{
    char sql[80];
    if (servers_shards() < 2 || stores_postgres_lost_at() == 0 ||
        troubles_well_for((size_t)(instance_letter(from) - 'A')) < (uint64_t)CLOSED_MS * MS)
        return;
    (void)snprintf(sql, sizeof sql, "SELECT beat FROM shard_seen WHERE number = %zu", shard);
    if (witness_number(shard, "SELECT beat FROM seckill_shard") < witness_number(1 - shard, sql))
        world_fail("%c writes to shard %zu, which has lost commits", instance_letter(from), shard);
}

int64_t witness_before(const struct instance *from, size_t shard, enum sk_statement statement,
                       const char *const *params)
{
    if (statement == SK_STATEMENT_PLACE_ORDERS || statement == SK_STATEMENT_PLACE_BATCHES ||
        statement == SK_STATEMENT_RETURN_ORDERS || statement == SK_STATEMENT_RETURN_BATCHES)
        witness_check_beat(from, shard);
    if (statement == SK_STATEMENT_NOTE_REFUNDS && params[4] == NULL)
        return witness_to_refund(shard, params[1]) + 1;
    if (statement != SK_STATEMENT_CHANGE_VOUCHER || strcmp(params[1], "0") == 0)
        return 0;
    PGresult *row = stores_query(shard, "SELECT change FROM seckill_voucher WHERE id = $1::bigint", 1, params);
    bool differs = PQntuples(row) != 1 || strcmp(PQgetvalue(row, 0, 0), params[1]) != 0;
    PQclear(row);
    return differs ? MUST_FAIL : 0;
}

void witness_statement(const struct instance *from, size_t shard, enum sk_statement statement,
                       const char *const *params, const PGresult *result, int64_t expected)
{
    bool done = PQresultStatus(result) == PGRES_TUPLES_OK, rows = done && PQntuples(result) > 0;
    if (statement == SK_STATEMENT_PLACE_ORDERS && done)
        witness_write_all(from, params[3], params[2]);
    else if (statement == SK_STATEMENT_PLACE_BATCHES && done)
        witness_write_all(from, params[4], "");
    else if (statement == SK_STATEMENT_RETURN_ORDERS || statement == SK_STATEMENT_RETURN_BATCHES)
        witness_check_expired(shard);
    else if (statement == SK_STATEMENT_MAY_RETIRE && rows && strcmp(PQgetvalue(result, 0, 0), "t") == 0 &&
             witness.retire_count < RETIRES_MAX)
        witness.retires[witness.retire_count++] = strtoll(params[0], NULL, 10);
    else if (statement == SK_STATEMENT_NOTE_REFUNDS && expected > 0 &&
             witness_to_refund(shard, params[1]) < expected - 1)
        world_fail("a refund of order %s that was refunded before settles what was paid since", params[1]);
    else if (expected == MUST_FAIL && rows && strcmp(PQgetvalue(result, 0, 0), "done") == 0)
        world_fail("voucher %s was changed, though another version of it was meant", params[0]);
}

bool witness_had_session(const struct instance *instance)
{
    return witness.sessions[instance_letter(instance) - 'A'].life == instance_life(instance);
}

bool witness_clocks_differed(void)
{
    return witness.shifted;
}

bool witness_may_retire(int64_t voucher)
{
    for (size_t i = 0; i < witness.retire_count; i++) {
        if (witness.retires[i] == voucher)
            return true;
    }
    return false;
}

void witness_stalled(uint64_t ms, bool own)
{
    char status[JUDGE_STATUS_SIZE];
    if (stores_redis_harmed() || stores_postgres_lost_at() > 0)
        return; // it may be lost
    for (size_t i = 0; i < witness.count; i++) {
        struct grant *grant = &witness.grants[i];
        // While its holder lives, nobody else writes it: it waits until that one has PostgreSQL.
        size_t holder = instance_number(grant->holder);
        bool lives = instance_state(grant->holder) != INSTANCE_OFF && instance_life(grant->holder) == grant->life;
        if (grant->written || grant->at + ms * MS > world_now() || stores_locked() == grant->voucher ||
            (lives ? troubles_well_for(holder) < ms * MS : own))
            continue;
        if (own && (!witness_is_held(grant) || net_on_time_for(holder) < ms * MS))
            continue; // it has lost its session since; or had to connect anew, and then once more
        judge_status(grant->order_id, status);
        if (status[0] == '\0')
            world_fail("order %s was granted %" PRIu64 " ms ago, and is not written", grant->order_id,
                       (world_now() - grant->at) / MS);
        grant->written = true;
    }
}
