#include "stores.h"

#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "hash.h"
#include "keys.h"
#include "pg_link.h"
#include "redis_format.h"
#include "world.h"

enum { SHA_CHARS = 40, READ_BYTES = 1 << 16, INFO_SIZE = 256, CHECKED_S = 1893456000, BLOCKED_MS = 2 };

static const char empty_sql[] =
    "TRUNCATE voucher_order, seckill_voucher, voucher_stock, seckill_offer, dead_letter, order_event, payment,"
    " admin_event, stock_change, admin_request, shard_seen, archived_orders, archived_part, archived_voucher,"
    " order_placed, sale_event, sale_phase, webhook_receiver, expiry_hold, voucher_line"
    " RESTART IDENTITY; DELETE FROM seckill_catalogue; INSERT INTO seckill_catalogue DEFAULT VALUES";

// PostgreSQL's timers are real, and what they compare is the world's clock: one would ring again and again.
static const char no_timeouts[] = "SELECT set_config(name, '0', false) FROM unnest(ARRAY['statement_timeout',"
                                  " 'lock_timeout', 'idle_in_transaction_session_timeout']) AS name";

struct redis_logged {
    int64_t wall;
    size_t len;
    char *command;
};

struct redis_node {
    int sockets[2]; // the service's, and one with all rights
    bool loaded[SK_SCRIPT_COUNT];
    unsigned runs[2], active; // of the two processes that take turns: how often each has started; which one it is
    unsigned promotions;      // how often the other one took its place
    char info[INFO_SIZE];
    struct redis_logged *log;
    size_t logged, log_room;
};

struct postgres_logged {
    int64_t wall;
    enum sk_statement statement;
    int n;
    char *params[SK_PG_PARAMS_MAX]; // NULL: SQL's NULL
};

struct postgres_shard {
    PGconn *service, *owner;
    PGconn *late;   // of the service, for the transaction that is open
    PGconn *locker; // of the owner
    bool open;
    int64_t locked; // a voucher, whose row the locker holds; 0: none
    struct postgres_logged *log;
    size_t logged, log_room;
    size_t stays; // of the log, what is never lost
};

enum { CLOCKS = STORES_NODES + 1 }; // of the Redis servers, and of PostgreSQL

static struct {
    volatile int64_t *clocks;
    int64_t shifts[CLOCKS];
    struct redis_node nodes[STORES_NODES];
    struct postgres_shard shards[STORES_SHARDS];
    size_t shard_count;
    char shas[SK_SCRIPT_COUNT][SHA_CHARS + 1];
    bool writes[SK_STATEMENT_COUNT];
    bool changed, harmed;
    uint64_t lost_at;
    char *bytes; // of the latest reply of Redis
    size_t bytes_len, bytes_room;
} stores;

static _Noreturn void stores_die(const char *what, const char *why)
{
    (void)fprintf(stderr, "sim: %s: %s\n", what, why);
    exit(2);
}

// ---- their clocks ----

static void stores_set_clock(size_t clock)
{
    stores.clocks[clock] = world_wall() + stores.shifts[clock];
}

// As servers are numbered: the nodes, then the shards, which have one process.
static size_t stores_clock_of(size_t server)
{
    return server < STORES_NODES ? server : STORES_NODES;
}

void stores_shift_clock(size_t server, int64_t ns)
{
    if (server < (size_t)STORES_NODES + STORES_SHARDS)
        stores.shifts[stores_clock_of(server)] = ns;
}

bool stores_clocks_are_right(void)
{
    bool right = true;
    for (size_t i = 0; i < CLOCKS; i++)
        right = right && stores.shifts[i] == 0;
    return right;
}

// ---- Redis ----

static int stores_connect_redis(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) != 0)
        stores_die("Redis", "cannot connect");
    return fd;
}

static void stores_keep_bytes(const char *bytes, size_t n)
{
    while (stores.bytes_len + n > stores.bytes_room)
        stores.bytes = world_grow(stores.bytes, stores.bytes_room, &stores.bytes_room, 1);
    memcpy(stores.bytes + stores.bytes_len, bytes, n);
    stores.bytes_len += n;
}

static struct sk_reply *stores_exchange(int fd, const char *command, size_t len)
{
    static char bytes[READ_BYTES];
    struct sk_reader *reader = sk_reader_open();
    struct sk_reply *reply = NULL;
    const char *why = "out of memory";
    stores.bytes_len = 0;
    for (size_t sent = 0; sent < len;) {
        ssize_t n = write(fd, command + sent, len - sent);
        if (n <= 0)
            stores_die("Redis", "cannot write");
        sent += (size_t)n;
    }
    while (reader != NULL && reply == NULL) {
        ssize_t n = read(fd, bytes, sizeof bytes);
        if (n <= 0)
            stores_die("Redis", "it has gone");
        stores_keep_bytes(bytes, (size_t)n);
        sk_reader_feed(reader, bytes, (size_t)n);
        if (!sk_reader_next(reader, &reply, &why))
            stores_die("Redis", why);
    }
    sk_reader_close(reader);
    return reply;
}

// `lens` NULL: the arguments have no NUL inside.
static char *stores_format(const char *const *argv, const size_t *lens, size_t *len)
{
    const char *words[16];
    int argc = 0;
    for (; argv[argc] != NULL; argc++)
        words[argc] = argv[argc];
    return sk_redis_format(argc, words, lens, len);
}

static struct sk_reply *stores_command(int fd, const char *const *argv)
{
    size_t len;
    char *command = stores_format(argv, NULL, &len);
    struct sk_reply *reply = stores_exchange(fd, command, len);
    free(command);
    return reply;
}

struct sk_reply *stores_redis_ask(size_t node, const char *const *argv)
{
    stores_set_clock(node);
    return stores_command(stores.nodes[node].sockets[1], argv);
}

static void stores_must(int fd, const char *const *argv)
{
    struct sk_reply *reply = stores_command(fd, argv);
    const char *error = sk_reply_error(reply);
    if (error != NULL)
        stores_die(argv[0], error);
    sk_reply_free(reply);
}

#define STORES_MUST(node, ...) stores_must(stores.nodes[node].sockets[1], (const char *const[]){__VA_ARGS__, NULL})

static void stores_log(size_t number, const char *command, size_t len)
{
    struct redis_node *node = &stores.nodes[number];
    node->log = world_grow(node->log, node->logged, &node->log_room, sizeof *node->log);
    struct redis_logged *entry = &node->log[node->logged++];
    *entry = (struct redis_logged){stores.clocks[number], len, world_alloc(len)};
    memcpy(entry->command, command, len);
}

static void stores_do(size_t number, const char *const *argv, const size_t *lens)
{
    struct redis_node *node = &stores.nodes[number];
    size_t len;
    char *command = stores_format(argv, lens, &len);
    stores_set_clock(number);
    struct sk_reply *reply = stores_exchange(node->sockets[1], command, len);
    if (sk_reply_error(reply) == NULL)
        stores_log(number, command, len); // else the key is of a type that somebody gave it
    sk_reply_free(reply);
    free(command);
}

void stores_redis_harm(size_t node, const char *const *argv)
{
    stores.harmed = true;
    stores_do(node, argv, NULL);
}

// Whatever succeeded may have changed something: the log need not know which.
const char *stores_redis(size_t node, const char *command, size_t len, struct sk_reply **reply, size_t *n)
{
    stores_set_clock(node);
    *reply = stores_exchange(stores.nodes[node].sockets[0], command, len);
    if (sk_reply_error(*reply) == NULL)
        stores_log(node, command, len);
    *n = stores.bytes_len;
    return stores.bytes;
}

int stores_script(const char *sha, size_t len)
{
    for (int i = 0; len == SHA_CHARS && i < SK_SCRIPT_COUNT; i++) {
        if (memcmp(stores.shas[i], sha, len) == 0)
            return i;
    }
    return -1;
}

static void stores_load(size_t node, int script)
{
    const char *const argv[] = {"SCRIPT", "LOAD", sk_scripts[script].text, NULL};
    struct sk_reply *reply = stores_command(stores.nodes[node].sockets[1], argv);
    const char *sha = sk_reply_text(reply, NULL);
    if (sha == NULL || sk_reply_error(reply) != NULL)
        stores_die("SCRIPT LOAD", sha == NULL ? "no text" : sha);
    (void)snprintf(stores.shas[script], sizeof stores.shas[script], "%s", sha);
    sk_reply_free(reply);
    stores.nodes[node].loaded[script] = true;
}

const char *stores_load_script(size_t node, const char *text, size_t len)
{
    static char reply[SHA_CHARS + 8];
    int script = 0;
    while (script < SK_SCRIPT_COUNT &&
           (strlen(sk_scripts[script].text) != len || memcmp(sk_scripts[script].text, text, len) != 0))
        script++;
    if (script == SK_SCRIPT_COUNT)
        world_fail("a script that is not the service's");
    if (!stores.nodes[node].loaded[script])
        stores_load(node, script);
    (void)snprintf(reply, sizeof reply, "$%d\r\n%s\r\n", SHA_CHARS, stores.shas[script]);
    return reply;
}

void stores_forget_scripts(size_t node)
{
    STORES_MUST(node, "SCRIPT", "FLUSH");
    memset(stores.nodes[node].loaded, 0, sizeof stores.nodes[node].loaded);
}

const char *stores_redis_info(size_t number)
{
    struct redis_node *node = &stores.nodes[number];
    (void)snprintf(node->info, sizeof node->info, "run_id:%037u%u%02zu\r\nrole:master\r\nmaster_replid2:%016u\r\n",
                   node->runs[node->active], node->active, number, node->promotions);
    return node->info;
}

static void stores_replay(size_t number, size_t lost)
{
    struct redis_node *node = &stores.nodes[number];
    stores.harmed = true;
    size_t kept = lost > node->logged ? 0 : node->logged - lost;
    STORES_MUST(number, "FLUSHALL");
    for (int i = 0; i < SK_SCRIPT_COUNT; i++) // those that run in the log
        stores_load(number, i);
    for (size_t i = 0; i < kept; i++) {
        stores.clocks[number] = node->log[i].wall;
        sk_reply_free(stores_exchange(node->sockets[1], node->log[i].command, node->log[i].len));
    }
    node->logged = kept;
    stores_set_clock(number);
    stores_forget_scripts(number);
}

void stores_redis_restart(size_t number, size_t lost)
{
    struct redis_node *node = &stores.nodes[number];
    stores_replay(number, lost);
    node->runs[node->active]++;
}

void stores_redis_replace(size_t number, size_t lost)
{
    struct redis_node *node = &stores.nodes[number];
    stores_replay(number, lost);
    node->active = 1 - node->active;
    node->promotions++;
}

static void stores_take_key(size_t from, size_t to, const char *key)
{
    char ttl[24];
    int64_t left = 0;
    size_t len;
    struct sk_reply *dump = stores_redis_ask(from, (const char *const[]){"DUMP", key, NULL});
    struct sk_reply *expires = stores_redis_ask(from, (const char *const[]){"PTTL", key, NULL});
    const char *value = sk_reply_text(dump, &len);
    (void)sk_reply_number(expires, &left);
    (void)snprintf(ttl, sizeof ttl, "%lld", left > 0 ? (long long)left : 0);
    const char *const restore[] = {"RESTORE", key, ttl, value, "REPLACE", NULL};
    const char *const gone[] = {"DEL", key, NULL};
    if (value != NULL) {
        stores_do(to, restore, (const size_t[]){7, strlen(key), strlen(ttl), len, 7});
        stores_do(from, gone, NULL);
    }
    sk_reply_free(dump);
    sk_reply_free(expires);
}

void stores_redis_migrate(size_t from, size_t to, unsigned slot)
{
    struct sk_reply *keys = stores_redis_ask(from, (const char *const[]){"KEYS", "*", NULL});
    stores.harmed = true;
    for (size_t i = 0; i < sk_reply_count(keys); i++) {
        const char *key = sk_reply_text(sk_reply_at(keys, i), NULL);
        if (sk_key_slot(key) == slot)
            stores_take_key(from, to, key);
    }
    sk_reply_free(keys);
}

bool stores_redis_harmed(void)
{
    return stores.harmed;
}

// ---- PostgreSQL ----

// The linker's names: libpq.c has others of the same functions.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
PGnotify *__real_PQnotifies(PGconn *conn);
int __real_PQsocket(const PGconn *conn);
int __real_PQsendQueryPrepared(PGconn *conn, const char *name, int n, const char *const *params, const int *lens,
                               const int *formats, int format);
PGresult *__real_PQgetResult(PGconn *conn);
int __real_PQisBusy(PGconn *conn);
int __real_PQconsumeInput(PGconn *conn);
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

static void stores_on_notice(void *arg, const char *message)
{
    (void)arg;
    (void)message;
}

static PGconn *stores_connect_postgres(const char *url)
{
    PGconn *conn = PQconnectdb(url);
    (void)PQsetNoticeProcessor(conn, stores_on_notice, NULL);
    if (PQtransactionStatus(conn) != PQTRANS_IDLE)
        stores_die("PostgreSQL", "cannot connect");
    return conn;
}

// Whether the statement calls a function of ours that may write.
static bool stores_may_write(const char *text)
{
    PGresult *row = PQexecParams(stores.shards[0].owner,
                                 "SELECT FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND provolatile = 'v'"
                                 " AND $1 ~ ('\\m' || proname || '\\(')",
                                 1, NULL, &text, NULL, NULL, 0);
    bool may = PQntuples(row) > 0;
    PQclear(row);
    return may;
}

static void stores_prepare(PGconn *service)
{
    for (int i = 0; i < SK_STATEMENT_COUNT; i++) {
        PGresult *result = PQprepare(service, sk_statements[i].name, sk_statements[i].text, 0, NULL);
        if (PQresultStatus(result) != PGRES_COMMAND_OK)
            stores_die(sk_statements[i].name, PQresultErrorMessage(result));
        PQclear(result);
    }
}

static void stores_log_statement(struct postgres_shard *shard, enum sk_statement statement, int n,
                                 const char *const *params)
{
    shard->log = world_grow(shard->log, shard->logged, &shard->log_room, sizeof *shard->log);
    struct postgres_logged *entry = &shard->log[shard->logged++];
    *entry = (struct postgres_logged){.wall = stores.clocks[STORES_NODES], .statement = statement, .n = n};
    for (int i = 0; i < n; i++) {
        entry->params[i] = world_copy(params[i]);
    }
    if (statement == SK_STATEMENT_CREATE_VOUCHER)
        shard->stays = shard->logged;
}

static void stores_change(PGconn *conn, const char *sql)
{
    PGresult *result = PQexec(conn, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
        stores_die("a change", PQresultErrorMessage(result));
    PQclear(result);
}

// Whether the backend waits for a lock, which it would for ever: PostgreSQL's own time-outs go by the world's clock.
static bool stores_is_blocked(const struct postgres_shard *shard, PGconn *conn)
{
    char sql[96];
    (void)snprintf(sql, sizeof sql, "SELECT FROM pg_stat_activity WHERE pid = %d AND wait_event_type = 'Lock'",
                   PQbackendPID(conn));
    PGresult *row = PQexec(shard->owner, sql);
    bool blocked = PQntuples(row) > 0;
    PQclear(row);
    return blocked;
}

// Ends a statement that waits for the row that somebody holds. False: none had to.
static bool stores_unblock(const struct postgres_shard *shard, PGconn *conn)
{
    char sql[64];
    struct pollfd answer = {.fd = __real_PQsocket(conn), .events = POLLIN};
    while (__real_PQisBusy(conn)) { // a notification may come before the answer
        if (poll(&answer, 1, BLOCKED_MS) > 0 && __real_PQconsumeInput(conn) != 1)
            stores_die("PostgreSQL", "it has gone");
        if (!__real_PQisBusy(conn) || !stores_is_blocked(shard, conn))
            continue;
        (void)snprintf(sql, sizeof sql, "SELECT pg_cancel_backend(%d)", PQbackendPID(conn));
        stores_change(shard->owner, sql);
        return true;
    }
    return false;
}

static PGresult *stores_execute(size_t number, PGconn *conn, enum sk_statement statement, int n,
                                const char *const *params)
{
    const struct postgres_shard *shard = &stores.shards[number];
    bool locked = false;
    if (__real_PQsendQueryPrepared(conn, sk_statements[statement].name, n, params, NULL, NULL, 0) != 1)
        stores_die("PostgreSQL", "cannot send");
    if (shard->open || shard->locked != 0)
        locked = stores_unblock(shard, conn);
    PGresult *result = __real_PQgetResult(conn), *more;
    while ((more = __real_PQgetResult(conn)) != NULL)
        PQclear(more);
    if (PQtransactionStatus(conn) == PQTRANS_UNKNOWN)
        stores_die("PostgreSQL", PQresultErrorMessage(result));
    if (!locked)
        return result;
    PQclear(result);
    return stores_postgres_error(number, "55P03");
}

// Also what fails is in the log: it may have drawn numbers.
PGresult *stores_postgres(size_t number, enum sk_statement statement, int n, const char *const *params)
{
    struct postgres_shard *shard = &stores.shards[number];
    stores_set_clock(STORES_NODES);
    PGresult *result = stores_execute(number, shard->service, statement, n, params);
    if (statement == SK_STATEMENT_SESSION)
        stores_change(shard->service, no_timeouts);
    if (stores.writes[statement]) {
        stores.changed = true;
        stores_log_statement(shard, statement, n, params);
    }
    return result;
}

bool stores_may_be_late(size_t shard, enum sk_statement statement)
{
    return stores.writes[statement] && statement != SK_STATEMENT_CREATE_VOUCHER && !stores.shards[shard].open;
}

PGresult *stores_postgres_begin(size_t number, enum sk_statement statement, int n, const char *const *params)
{
    struct postgres_shard *shard = &stores.shards[number];
    stores_set_clock(STORES_NODES);
    stores_change(shard->late, "BEGIN");
    shard->open = true;
    PGresult *result = stores_execute(number, shard->late, statement, n, params);
    stores_log_statement(shard, statement, n, params);
    return result;
}

void stores_postgres_end(size_t number, bool commit)
{
    struct postgres_shard *shard = &stores.shards[number];
    if (PQtransactionStatus(shard->late) != PQTRANS_IDLE)
        stores_change(shard->late, commit ? "COMMIT" : "ROLLBACK");
    if (shard->open && !commit)
        shard->logged--; // the caller ends it before the process does
    stores.changed = stores.changed || shard->open;
    shard->open = false;
}

void stores_lock(size_t number, int64_t voucher)
{
    char sql[96];
    PGconn *locker = stores.shards[number].locker;
    if (PQtransactionStatus(locker) != PQTRANS_IDLE)
        stores_change(locker, "ROLLBACK");
    (void)snprintf(sql, sizeof sql, "SELECT FROM voucher_stock WHERE voucher_id = %lld FOR UPDATE SKIP LOCKED",
                   (long long)voucher);
    stores.shards[number].locked = voucher;
    if (voucher == 0)
        return;
    stores_change(locker, "BEGIN");
    stores_change(locker, sql);
}

int64_t stores_locked(void)
{
    int64_t locked = 0;
    for (size_t i = 0; i < stores.shard_count; i++)
        locked = locked == 0 ? stores.shards[i].locked : locked;
    return locked;
}

PGresult *stores_postgres_error(size_t shard, const char *sqlstate)
{
    char sql[96];
    (void)snprintf(sql, sizeof sql, "DO $$ BEGIN RAISE 'by the simulation' USING ERRCODE = '%s'; END $$", sqlstate);
    return PQexec(stores.shards[shard].owner, sql);
}

bool stores_changed(void)
{
    bool changed = stores.changed;
    stores.changed = false;
    return changed;
}

bool stores_notified(size_t shard)
{
    bool any = false;
    for (PGnotify *notify; (notify = __real_PQnotifies(stores.shards[shard].service)) != NULL; any = true)
        PQfreemem(notify);
    return any;
}

// Prepared once for each text and connection, by a name that says which: other worlds' processes use it, too.
PGresult *stores_query(size_t shard, const char *sql, int n, const char *const *params)
{
    char name[24];
    PGconn *owner = stores.shards[shard].owner;
    (void)snprintf(name, sizeof name, "q%016llx", (unsigned long long)sk_hash(sql, strlen(sql)));
    stores_set_clock(STORES_NODES);
    PGresult *result = PQexecPrepared(owner, name, n, params, NULL, NULL, 0);
    const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    if (code != NULL && strcmp(code, "26000") == 0) { // it is not prepared
        PQclear(result);
        PGresult *prepared = PQprepare(owner, name, sql, 0, NULL);
        if (PQresultStatus(prepared) != PGRES_COMMAND_OK)
            stores_die("a query", PQresultErrorMessage(prepared));
        PQclear(prepared);
        result = PQexecPrepared(owner, name, n, params, NULL, NULL, 0);
    }
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        stores_die("a query", PQresultErrorMessage(result));
    return result;
}

void stores_spoil(const char *sql)
{
    for (size_t i = 0; i < stores.shard_count; i++)
        stores_change(stores.shards[i].owner, sql);
}

static void stores_empty_shard(size_t shard)
{
    char number[128];
    // Also of a world that ended in the middle: this process does not know of its transactions.
    stores_change(stores.shards[shard].late, "ROLLBACK");
    stores_change(stores.shards[shard].locker, "ROLLBACK");
    stores.shards[shard].open = false;
    stores.shards[shard].locked = 0;
    stores_change(stores.shards[shard].owner, empty_sql);
    (void)snprintf(number, sizeof number, "UPDATE seckill_shard SET number = %zu, shards = %zu, beat = 0", shard,
                   stores.shard_count);
    stores_change(stores.shards[shard].owner, number);
}

void stores_postgres_restore(size_t number, size_t lost)
{
    struct postgres_shard *shard = &stores.shards[number];
    stores_postgres_end(number, false);
    stores_lock(number, 0);
    size_t least = shard->stays, kept = lost > shard->logged ? 0 : shard->logged - lost;
    if (kept < least)
        kept = least;
    if (kept == shard->logged)
        return; // as it is: its transactions keep their numbers
    stores_empty_shard(number);
    for (size_t i = 0; i < kept; i++) {
        const struct postgres_logged *entry = &shard->log[i];
        stores.clocks[STORES_NODES] = entry->wall;
        PQclear(stores_execute(number, shard->service, entry->statement, entry->n, (const char *const *)entry->params));
    }
    stores.lost_at = world_now();
    shard->logged = kept;
    stores_set_clock(STORES_NODES);
    stores.changed = true;
}

// The newest beat that the other shards have seen of it.
void stores_accept(size_t shard)
{
    char sql[96];
    int64_t seen = 0;
    for (size_t i = 0; i < stores.shard_count; i++) {
        (void)snprintf(sql, sizeof sql, "SELECT coalesce(max(beat), 0) FROM shard_seen WHERE number = %zu", shard);
        PGresult *row = stores_query(i, sql, 0, NULL);
        int64_t beat = strtoll(PQgetvalue(row, 0, 0), NULL, 10);
        seen = beat > seen ? beat : seen;
        PQclear(row);
    }
    (void)snprintf(sql, sizeof sql, "SELECT accept_shard(%lld)", (long long)seen);
    stores_postgres_end(shard, true);
    PQclear(stores_query(shard, sql, 0, NULL));
}

uint64_t stores_postgres_lost_at(void)
{
    return stores.lost_at;
}

// ---- both ----

// Else the library was not preloaded.
static void stores_check_clocks(void)
{
    for (size_t i = 0; i < CLOCKS; i++)
        stores.clocks[i] = (int64_t)CHECKED_S * 1000000000;
    for (size_t i = 0; i < STORES_NODES; i++) {
        struct sk_reply *time = stores_command(stores.nodes[i].sockets[1], (const char *const[]){"TIME", NULL});
        int64_t now = 0;
        if (!sk_reply_number(sk_reply_at(time, 0), &now) || now != CHECKED_S)
            stores_die("Redis", "its clock is not the simulation's");
        sk_reply_free(time);
    }
    for (size_t i = 0; i < STORES_SHARDS; i++) {
        PGresult *row = PQexec(stores.shards[i].owner, "SELECT extract(epoch FROM now())::bigint");
        if (PQntuples(row) != 1 || strtoll(PQgetvalue(row, 0, 0), NULL, 10) != CHECKED_S)
            stores_die("PostgreSQL", "its clock is not the simulation's");
        PQclear(row);
    }
}

static void stores_map_clock(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        stores_die(path, "cannot open");
    void *mapped = mmap(NULL, CLOCKS * sizeof *stores.clocks, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (mapped == MAP_FAILED)
        stores_die(path, "cannot map");
    stores.clocks = mapped;
}

void stores_open(const struct stores_options *options)
{
    stores_map_clock(options->time);
    for (size_t i = 0; i < STORES_NODES; i++) {
        int *sockets = stores.nodes[i].sockets;
        sockets[0] = stores_connect_redis(options->redis[i]);
        sockets[1] = stores_connect_redis(options->redis[i]);
        stores_must(sockets[0], (const char *const[]){"AUTH", "seckill", getenv("SK_SIM_REDIS_PASSWORD"), NULL});
    }
    for (size_t i = 0; i < STORES_SHARDS; i++) {
        stores.shards[i].service = stores_connect_postgres(options->postgres[i]);
        stores.shards[i].owner = stores_connect_postgres(options->owner[i]);
        stores.shards[i].late = stores_connect_postgres(options->postgres[i]);
        stores.shards[i].locker = stores_connect_postgres(options->owner[i]);
        stores_change(stores.shards[i].owner, "SET plan_cache_mode = force_generic_plan");
        stores_prepare(stores.shards[i].service);
        stores_prepare(stores.shards[i].late);
    }
    for (int i = 0; i < SK_STATEMENT_COUNT; i++)
        stores.writes[i] = stores_may_write(sk_statements[i].text);
    stores_check_clocks();
    for (size_t i = 0; i < STORES_NODES; i++) {
        STORES_MUST(i, "DEBUG", "SET-ACTIVE-EXPIRE", "0"); // a timer of its own would do it, in real time
        for (int script = 0; script < SK_SCRIPT_COUNT; script++)
            stores_load(i, script);
    }
}

void stores_empty(size_t nodes, size_t shards)
{
    stores.shard_count = shards;
    stores_set_clock(STORES_NODES);
    for (size_t i = 0; i < nodes; i++) {
        stores_set_clock(i);
        STORES_MUST(i, "FLUSHALL");
        stores_forget_scripts(i); // an earlier world may have
    }
    for (size_t i = 0; i < shards; i++)
        stores_empty_shard(i);
}
