#include "stores.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "memory.h"
#include "redis_format.h"
#include "world.h"

enum { SHA_CHARS = 40, READ_BYTES = 1 << 16, INFO_SIZE = 128, CHECKED_S = 1893456000 };

static const char empty_sql[] =
    "TRUNCATE voucher_order, seckill_voucher, voucher_stock, seckill_offer, dead_letter, order_event, payment,"
    " admin_event, stock_change, admin_request, shard_seen, archived_orders, archived_part, archived_voucher"
    " RESTART IDENTITY; DELETE FROM seckill_catalogue; INSERT INTO seckill_catalogue DEFAULT VALUES";

struct logged {
    int64_t wall;
    size_t len;
    char *command;
};

static struct {
    int64_t *clock;
    int redis[2]; // sockets: the service's, and one with all rights
    PGconn *service, *owner;
    bool changed, harmed;
    char shas[SK_SCRIPT_COUNT][SHA_CHARS + 1];
    bool has_scripts;
    unsigned runs;
    char info[INFO_SIZE];
    struct logged *log;
    size_t logged, log_room;
} stores;

static _Noreturn void stores_die(const char *what, const char *why)
{
    (void)fprintf(stderr, "sim: %s: %s\n", what, why);
    exit(2);
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

static struct sk_reply *stores_exchange(int fd, const char *command, size_t len)
{
    static char bytes[READ_BYTES];
    struct sk_reader *reader = sk_reader_open();
    struct sk_reply *reply = NULL;
    const char *why = "out of memory";
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
        sk_reader_feed(reader, bytes, (size_t)n);
        if (!sk_reader_next(reader, &reply, &why))
            stores_die("Redis", why);
    }
    sk_reader_close(reader);
    return reply;
}

static char *stores_format(const char *const *argv, size_t *len)
{
    const char *words[16];
    int argc = 0;
    for (; argv[argc] != NULL; argc++)
        words[argc] = argv[argc];
    return sk_redis_format(argc, words, NULL, len);
}

static struct sk_reply *stores_command(int fd, const char *const *argv)
{
    size_t len;
    char *command = stores_format(argv, &len);
    struct sk_reply *reply = stores_exchange(fd, command, len);
    free(command);
    return reply;
}

struct sk_reply *stores_redis_ask(const char *const *argv)
{
    *stores.clock = world_wall();
    return stores_command(stores.redis[1], argv);
}

static void stores_must(int fd, const char *const *argv)
{
    struct sk_reply *reply = stores_command(fd, argv);
    const char *error = sk_reply_error(reply);
    if (error != NULL)
        stores_die(argv[0], error);
    sk_reply_free(reply);
}

#define STORES_MUST(...) stores_must(stores.redis[1], (const char *const[]){__VA_ARGS__, NULL})

static void stores_log(const char *command, size_t len)
{
    stores.log = world_grow(stores.log, stores.logged, &stores.log_room, sizeof *stores.log);
    struct logged *entry = &stores.log[stores.logged++];
    *entry = (struct logged){world_wall(), len, world_alloc(len)};
    memcpy(entry->command, command, len);
}

void stores_redis_harm(const char *const *argv)
{
    size_t len;
    char *command = stores_format(argv, &len);
    stores.harmed = true;
    *stores.clock = world_wall();
    sk_reply_free(stores_exchange(stores.redis[1], command, len));
    stores_log(command, len);
    free(command);
}

// Whatever succeeded may have changed something: the log need not know which.
struct sk_reply *stores_redis(const char *command, size_t len)
{
    *stores.clock = world_wall();
    struct sk_reply *reply = stores_exchange(stores.redis[0], command, len);
    if (sk_reply_error(reply) == NULL)
        stores_log(command, len);
    return reply;
}

const char *stores_sha(enum sk_script script)
{
    return stores.shas[script];
}

static void stores_load_scripts(void)
{
    for (int i = 0; i < SK_SCRIPT_COUNT; i++) {
        const char *const argv[] = {"SCRIPT", "LOAD", sk_scripts[i].text, NULL};
        struct sk_reply *reply = stores_command(stores.redis[1], argv);
        const char *sha = sk_reply_text(reply, NULL);
        if (sha == NULL || sk_reply_error(reply) != NULL)
            stores_die("SCRIPT LOAD", sha == NULL ? "no text" : sha);
        (void)snprintf(stores.shas[i], sizeof stores.shas[i], "%s", sha);
        sk_reply_free(reply);
    }
    stores.has_scripts = true;
}

const char *stores_redis_info(void)
{
    if (!stores.has_scripts)
        stores_load_scripts();
    (void)snprintf(stores.info, sizeof stores.info, "run_id:%040u\r\nrole:master\r\n", stores.runs);
    return stores.info;
}

void stores_redis_restart(size_t lost)
{
    stores.harmed = true;
    size_t kept = lost > stores.logged ? 0 : stores.logged - lost;
    STORES_MUST("FLUSHALL");
    stores_load_scripts(); // those that run in the log
    for (size_t i = 0; i < kept; i++) {
        *stores.clock = stores.log[i].wall;
        sk_reply_free(stores_exchange(stores.redis[1], stores.log[i].command, stores.log[i].len));
    }
    stores.logged = kept;
    *stores.clock = world_wall();
    STORES_MUST("SCRIPT", "FLUSH");
    stores.has_scripts = false;
    stores.runs++;
}

bool stores_redis_harmed(void)
{
    return stores.harmed;
}

// ---- PostgreSQL ----

static PGconn *stores_connect_postgres(const char *url)
{
    PGconn *conn = PQconnectdb(url);
    if (PQstatus(conn) != CONNECTION_OK)
        stores_die("PostgreSQL", PQerrorMessage(conn));
    return conn;
}

static void stores_prepare(void)
{
    for (int i = 0; i < SK_STATEMENT_COUNT; i++) {
        PGresult *result = PQprepare(stores.service, sk_statements[i].name, sk_statements[i].text, 0, NULL);
        if (PQresultStatus(result) != PGRES_COMMAND_OK)
            stores_die(sk_statements[i].name, PQerrorMessage(stores.service));
        PQclear(result);
    }
}

PGresult *stores_postgres(enum sk_statement statement, int n, const char *const *params)
{
    *stores.clock = world_wall();
    PGresult *result = PQexecPrepared(stores.service, sk_statements[statement].name, n, params, NULL, NULL, 0);
    if (PQstatus(stores.service) != CONNECTION_OK)
        stores_die("PostgreSQL", PQerrorMessage(stores.service));
    stores.changed = true;
    return result;
}

bool stores_changed(void)
{
    bool changed = stores.changed;
    stores.changed = false;
    return changed;
}

bool stores_notified(void)
{
    bool any = false;
    for (PGnotify *notify; (notify = PQnotifies(stores.service)) != NULL; any = true)
        PQfreemem(notify);
    return any;
}

PGresult *stores_query(const char *sql, int n, const char *const *params)
{
    *stores.clock = world_wall();
    PGresult *result = PQexecParams(stores.owner, sql, n, NULL, params, NULL, NULL, 0);
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        stores_die("a query", PQerrorMessage(stores.owner));
    return result;
}

void stores_spoil(const char *sql)
{
    PGresult *result = PQexec(stores.owner, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        stores_die("a change", PQerrorMessage(stores.owner));
    PQclear(result);
}

// ---- both ----

// Else the library was not preloaded.
static void stores_check_clocks(void)
{
    *stores.clock = (int64_t)CHECKED_S * 1000000000;
    struct sk_reply *time = stores_command(stores.redis[1], (const char *const[]){"TIME", NULL});
    int64_t redis = 0;
    (void)sk_reply_number(sk_reply_at(time, 0), &redis);
    sk_reply_free(time);
    PGresult *row = PQexec(stores.owner, "SELECT extract(epoch FROM now())::bigint");
    int64_t postgres = PQntuples(row) == 1 ? strtoll(PQgetvalue(row, 0, 0), NULL, 10) : 0;
    PQclear(row);
    if (redis != CHECKED_S || postgres != CHECKED_S)
        stores_die(redis == CHECKED_S ? "PostgreSQL" : "Redis", "its clock is not the simulation's");
}

void stores_open(const struct stores_options *options)
{
    int fd = open(options->time, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        stores_die(options->time, "cannot open");
    stores.clock = mmap(NULL, sizeof *stores.clock, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (stores.clock == MAP_FAILED)
        stores_die(options->time, "cannot map");
    stores.redis[0] = stores_connect_redis(options->redis);
    stores.redis[1] = stores_connect_redis(options->redis);
    stores_must(stores.redis[0], (const char *const[]){"AUTH", "seckill", getenv("SK_SIM_REDIS_PASSWORD"), NULL});
    stores.service = stores_connect_postgres(options->postgres);
    stores.owner = stores_connect_postgres(options->owner);
    stores_check_clocks();
    stores_prepare();
    STORES_MUST("SCRIPT", "FLUSH");
}

void stores_empty(void)
{
    *stores.clock = world_wall();
    STORES_MUST("FLUSHALL");
    PGresult *result = PQexec(stores.owner, empty_sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        stores_die("TRUNCATE", PQerrorMessage(stores.owner));
    PQclear(result);
}
