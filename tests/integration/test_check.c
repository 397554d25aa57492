// seckill --check against real stores: each setting, right and role is broken in turn. The check must report it, and
// stop reporting it after the repair.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "clock.h"
#include "key_texts.h"
#include "proc.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

enum {
    OUTPUT_SIZE = 1 << 15,
    ENV_SIZE = 320,
    NAME_SIZE = 128,
    RIGHTS_MAX = 200,
    AT_ONCE = 8,
    GOOD = 0,
    WARNS = 1,
    FAILS = 2
};

#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])
#define PASSWORD    "password-of-the-check"
#define NO_STANDBY  "warn postgresql synchronous standbys: none: a fail-over may lose "
#define CHECK       ((const char *const[]){"--check", NULL})

static char out[OUTPUT_SIZE], database[ENV_SIZE], redis[ENV_SIZE];

// How many lines of the output begin with this text.
static size_t lines_of(const char *line)
{
    size_t n = 0;
    for (const char *at = out; at != NULL; at = strchr(at, '\n')) {
        at += *at == '\n';
        n += strncmp(at, line, strlen(line)) == 0;
    }
    return n;
}

static bool found(const char *line)
{
    return lines_of(line) > 0;
}

// These tests have one PostgreSQL, without a standby. Its warning alone counts as good.
static int check_run(const char *const *env)
{
    int code = service_run(CHECK, env, out, sizeof out);
    return code == WARNS && lines_of("warn") == 1 && found(NO_STANDBY) ? GOOD : code;
}

static int check_with(const char *one, const char *two)
{
    const char *const env[] = {database, redis, "SECKILL_TRUSTED_PROXIES=10.0.0.0/8", one, one == NULL ? NULL : two,
                               NULL};
    return check_run(env);
}

// Behind a gateway whose X-Forwarded-For is not trusted.
static int check_without_addresses(const char *more)
{
    const char *const env[] = {database, redis, more, NULL};
    return check_run(env);
}

static int check_now(void)
{
    return check_with(NULL, NULL);
}

static void must_find(int code, const char *line)
{
    int got = check_now();
    ck_assert_msg(found(line), "not found: %s\n%s", line, out);
    ck_assert_msg(got == code, "%d instead of %d: %s", got, code, out);
}

static void must_be_good(void)
{
    int got = check_now();
    ck_assert_msg(got == GOOD && found(NO_STANDBY) && !found("fail"), "%d: %s", got, out);
}

// Waits until new sessions have the value: the server reads its files shortly after the call.
static void reload(const char *name, const char *value)
{
    char is[NAME_SIZE];
    db_run("SELECT pg_reload_conf()");
    WAIT_FOR((db_text(is, sizeof is, "SELECT current_setting('%s')", name), strcmp(is, value) == 0));
}

static void setup(void)
{
    stack_start(STACK_ALL);
    if (stack_redis_nodes() > 1 || stack_shards() > 1)
        stack_skip_all("it spoils one server of each store; ./dev stores cluster and shards have checks of several");
    (void)snprintf(database, sizeof database, "SECKILL_DATABASE_URL=%s", stack_database_url());
    // A login with all rights; the tests then remove them one by one.
    redis_run("ACL SETUSER default on >" PASSWORD " ~* &* +@all");
    (void)snprintf(redis, sizeof redis, "SECKILL_REDIS_URL=redis://:" PASSWORD "@127.0.0.1:%d", stack_redis_port());
    db_run("ALTER SYSTEM SET fsync = on");
    reload("fsync", "on");
}

TEST(what_is_right_is_good)
{
    must_be_good();
    static const char *const lines[] = {
        "ok   configuration: ",
        "ok   file descriptors: ",
        "ok   admin tokens: none: no voucher can be created",
        "ok   redis reachable: ",
        "ok   redis version: ",
        "ok   redis role: master",
        "ok   redis appendonly: yes",
        "ok   redis appendfsync: always",
        "ok   redis auto-aof-rewrite-percentage: 100, from 1073741824",
        "ok   redis user default: may do all that scripts write",
        "ok   redis maxmemory-policy: noeviction",
        "ok   redis commands: ",
        "ok   postgresql version: ",
        "ok   postgresql fsync: on",
        "ok   postgresql full_page_writes: on",
        "ok   postgresql checkpoints: ",
        "ok   postgresql log segments: ",
        "ok   postgresql rights: ",
        "ok   postgresql schema: ",
        "ok   postgresql commits of the service: wait as `on` says",
        "ok   clocks: ",
        "ok   demo: ",
    };
    for (size_t i = 0; i < COUNT(lines); i++)
        ck_assert_msg(found(lines[i]), "%s is missing:\n%s", lines[i], out);
    // The checks leave nothing behind.
    ck_assert_int_eq(redis_number("DBSIZE"), 0);
    // The service's own login has every right that the service needs.
    char url[ENV_SIZE];
    (void)snprintf(url, sizeof url, "SECKILL_REDIS_URL=%s", stack_redis_url());
    ck_assert_int_ne(check_with(url, NULL), FAILS);
    ck_assert_msg(found("ok   redis commands: ") && !found("fail"), "%s", out);
    ck_assert_int_eq(check_with("SECKILL_DEMO=on", NULL), WARNS);
    ck_assert_msg(found("warn demo: "), "%s", out);
    // The checks also pass next to a running service.
    struct service *service = service_start(NULL);
    must_be_good();
    service_await(service, true);
    service_stop_all();
}

// ---- Redis ----

TEST(settings_of_redis_are_found)
{
    static const struct {
        const char *name, *bad, *good;
        int code;
        const char *line;
    } rows[] = {
        {"appendonly", "no", "yes", FAILS, "fail redis appendonly: no"},
        {"appendfsync", "everysec", "always", WARNS, "warn redis appendfsync: everysec"},
        {"appendfsync", "no", "always", FAILS, "fail redis appendfsync: no"},
        {"no-appendfsync-on-rewrite", "yes", "no", WARNS, "warn redis no-appendfsync-on-rewrite: yes"},
        {"auto-aof-rewrite-min-size", "64mb", "1gb", WARNS,
         "warn redis auto-aof-rewrite-percentage: 100, from 67108864"},
        {"maxmemory-policy", "allkeys-lru", "noeviction", WARNS, "warn redis maxmemory-policy: allkeys-lru"},
        {"maxmemory-policy", "volatile-ttl", "noeviction", WARNS, "warn redis maxmemory-policy: volatile-ttl"},
        {"maxmemory", "1", "0", FAILS, "fail redis commands: HSET: OOM"},
        {"maxmemory", "1", "0", FAILS, "warn redis memory: "},
        {"min-replicas-to-write", "1", "0", FAILS, "fail redis commands: HSET: NOREPLICAS"},
        {"maxclients", "2", "10000", WARNS, "warn redis connections: "},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        redis_run("CONFIG SET %s %s", rows[i].name, rows[i].bad);
        must_find(rows[i].code, rows[i].line);
        redis_run("CONFIG SET %s %s", rows[i].name, rows[i].good);
    }
    redis_run("CONFIG SET auto-aof-rewrite-percentage 0 auto-aof-rewrite-min-size 64mb");
    must_be_good();
    redis_run("CONFIG SET maxmemory 100mb maxmemory-policy allkeys-lru");
    must_find(FAILS, "fail redis maxmemory-policy: allkeys-lru");
    redis_run("CONFIG SET maxmemory 0 maxmemory-policy noeviction");
    redis_run("REPLICAOF 127.0.0.1 1");
    must_find(FAILS, "fail redis role: slave");
    redis_run("REPLICAOF NO ONE");
    must_be_good();
}

// `words` are arguments of ACL SETUSER, separated by blanks.
static void redis_set_default(const char *words)
{
    char command[NAME_SIZE];
    (void)snprintf(command, sizeof command, "ACL SETUSER default %s", words);
    redis_run(command);
}

// Removes each command from the login: the check must report this one and no other. The list is that of
// lua/check_commands.lua, which `./dev lint` compares with the service's commands.
TEST(commands_of_redis_are_found)
{
    static const char *const commands[] = {
        "HSET",   "PEXPIRE", "XADD",  "EXPIRE",  "SET",    "HGET",   "HMGET",  "HLEN", "HGETALL",
        "HSCAN",  "HINCRBY", "HDEL",  "XLEN",    "XRANGE", "XDEL",   "GET",    "PTTL", "TYPE",
        "EXISTS", "TIME",    "ZADD",  "ZINCRBY", "ZSCORE", "ZCOUNT", "ZRANGE", "ZREM", "ZREMRANGEBYSCORE",
        "DEL",    "UNLINK",  "XINFO",
    };
    char line[NAME_SIZE];
    for (size_t first = 0; first < COUNT(commands); first += AT_ONCE) {
        size_t after = first + AT_ONCE < COUNT(commands) ? first + AT_ONCE : COUNT(commands);
        for (size_t i = first; i < after; i++)
            redis_run("ACL SETUSER default -%s", commands[i]);
        ck_assert_int_eq(check_now(), FAILS);
        redis_run("ACL SETUSER default +@all");
        for (size_t i = 0; i < COUNT(commands); i++) {
            (void)snprintf(line, sizeof line, "fail redis commands: %s: ", commands[i]);
            ck_assert_msg(found(line) == (i >= first && i < after), "%s: %s", commands[i], out);
        }
    }
    static const char *const others[][2] = {
        {"-INFO", "fail redis info: "},           {"-SELECT", "fail redis database: "},
        {"-SCRIPT|LOAD", "fail redis scripts: "}, {"-EVALSHA", "fail redis scripts: "},
        {"resetkeys", "fail redis scripts: "},
    };
    for (size_t i = 0; i < COUNT(others); i++) {
        redis_run("ACL SETUSER default %s", others[i][0]);
        must_find(FAILS, others[i][1]);
        redis_run("ACL SETUSER default +@all allkeys");
    }
    redis_run("ACL SETUSER default -CONFIG|GET");
    must_find(WARNS, "warn redis appendfsync: cannot be read");
    redis_run("ACL SETUSER default +@all");
    must_be_good();
    ck_assert_int_eq(redis_number("EXISTS seckill:{shared}:sessions"), 0);
}

// The rights of Redis's ACL file at load are not the login's own: another user, with all rights, asks.
TEST(rights_that_loading_lacks_are_found)
{
    static const char *const lacking[][2] = {
        {"-@all", "HSET seckill:{check}:voucher"},
        {"-@write", "HSET seckill:{check}:voucher"},
        {"-XADD", "XADD seckill:{check}:voucher"},
        {"-PEXPIREAT", "PEXPIREAT seckill:{check}:voucher"},
        {"-ZADD", "ZADD seckill:{check}:voucher"},
        {"-UNLINK", "UNLINK seckill:{check}:voucher"},
        {"resetkeys", "HSET seckill:{check}:voucher"},
        {"resetkeys ~seckill:{*}:*", "HSET seckill:lock:rebuild:{check}"},
    };
    static const char *const enough[] = {"+@all allkeys", "-@dangerous", "resetkeys ~seckill:*", "off"};
    char url[ENV_SIZE], line[NAME_SIZE];
    redis_run("ACL SETUSER operator on >%s ~* &* +@all", PASSWORD "/@%");
    (void)snprintf(url, sizeof url, "SECKILL_REDIS_URL=redis://oper%%61tor:" PASSWORD "%%2F%%40%%25@127.0.0.1:%d",
                   stack_redis_port());
    for (size_t i = 0; i < COUNT(lacking); i++) {
        redis_set_default(lacking[i][0]);
        ck_assert_int_eq(check_with(url, NULL), FAILS);
        (void)snprintf(line, sizeof line, "fail redis user default: is denied %s: ", lacking[i][1]);
        ck_assert_msg(found(line), "%s: %s", line, out);
        redis_set_default("+@all allkeys");
    }
    for (size_t i = 0; i < COUNT(enough); i++) {
        redis_set_default(enough[i]);
        ck_assert_msg(check_with(url, NULL) == GOOD && found("ok   redis user default: "), "%s: %s", enough[i], out);
    }
    redis_set_default("on +@all allkeys");
    // The service's own user may not read these rights; the check reports that.
    (void)snprintf(url, sizeof url, "SECKILL_REDIS_URL=%s", stack_redis_url());
    ck_assert_int_eq(check_with(url, NULL), WARNS);
    ck_assert_msg(found("warn redis user default: its rights cannot be asked (NOPERM"), "%s", out);
}

TEST(other_redises_are_found)
{
    char url[ENV_SIZE];
    (void)snprintf(url, sizeof url, "SECKILL_REDIS_URL=redis://:wrong@127.0.0.1:%d", stack_redis_port());
    ck_assert_int_eq(check_with(url, NULL), FAILS);
    ck_assert_msg(found("fail redis login: "), "%s", out);
    (void)snprintf(url, sizeof url, "SECKILL_REDIS_URL=%s/99", stack_redis_url());
    ck_assert_int_eq(check_with(url, NULL), FAILS);
    ck_assert_msg(found("fail redis database: "), "%s", out);
    ck_assert_int_eq(check_with("SECKILL_REDIS_URL=redis://127.0.0.1:1", NULL), FAILS);
    ck_assert_msg(found("fail redis reachable: ") && found("ok   postgresql schema: "), "%s", out);
    ck_assert_int_eq(check_with("SECKILL_REDIS_URL=http://127.0.0.1", NULL), FAILS);
    ck_assert_msg(found("fail redis url: is not of a form"), "%s", out);
    ck_assert_int_eq(check_with("SECKILL_REDIS_URL=redis://:100%@127.0.0.1", NULL), FAILS);
    ck_assert_msg(found("fail redis url: has a % in its user or password"), "%s", out);
    redis_pause(); // accepts connections, and never answers
    int code = check_with("SECKILL_REDIS_TIMEOUT_MS=200", NULL);
    redis_resume();
    ck_assert_int_eq(code, FAILS);
    ck_assert_msg(found("fail redis login: "), "%s", out);
}

// ---- a fake Redis, for replies that no real one can be made to send ----

enum { FAKE_SIZE = 1 << 14, COMMAND_SIZE = 32 };

static const struct fake {
    const char *info;  // NULL: an error reply
    const char *tried; // the reply of the script
    int64_t ahead_ms;  // its clock
    const char *may;   // the rights of the user `default`; NULL: all
} * fake;

static int fake_listener = -1;

// The length of the whole command at `bytes`, and its first word; 0: incomplete.
static size_t fake_take(const char *bytes, char word[COMMAND_SIZE])
{
    char *at = NULL;
    long words = bytes[0] == '*' ? strtol(bytes + 1, &at, 10) : 0;
    for (long i = 0; i < words && at != NULL; i++) {
        if (strncmp(at, "\r\n$", 3) != 0)
            return 0;
        size_t n = strtoul(at + 3, &at, 10);
        if (strlen(at) < 2 + n + 2)
            return 0;
        if (i == 0)
            (void)snprintf(word, COMMAND_SIZE, "%.*s", (int)n, at + 2);
        at += 2 + n;
    }
    return at == NULL || strncmp(at, "\r\n", 2) != 0 ? 0 : (size_t)(at + 2 - bytes);
}

static void fake_answer(int fd, const char *word)
{
    char text[FAKE_SIZE], seconds[24], micros[24];
    uint64_t now_ms = sk_wall_ms() + (uint64_t)fake->ahead_ms;
    if (strcmp(word, "INFO") == 0 && fake->info != NULL)
        (void)snprintf(text, sizeof text, "$%zu\r\n%s\r\n", strlen(fake->info), fake->info);
    else if (strcmp(word, "CONFIG") == 0)
        (void)snprintf(text, sizeof text,
                       "*4\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n$27\r\nauto-aof-rewrite-percentage\r\n$1\r\n0\r\n");
    else if (strcmp(word, "ACL") == 0)
        (void)snprintf(text, sizeof text, "%s", fake->may != NULL ? fake->may : "+OK\r\n");
    else if (strcmp(word, "SCRIPT") == 0)
        (void)snprintf(text, sizeof text, "$3\r\nsha\r\n");
    else if (strcmp(word, "EVALSHA") == 0)
        (void)snprintf(text, sizeof text, "%s", fake->tried);
    else if (strcmp(word, "TIME") == 0)
        (void)snprintf(text, sizeof text, "*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n",
                       snprintf(seconds, sizeof seconds, "%d", (int)(now_ms / 1000)), seconds,
                       snprintf(micros, sizeof micros, "%d", (int)(now_ms % 1000) * 1000), micros);
    else
        (void)snprintf(text, sizeof text, strcmp(word, "INFO") == 0 ? "-NOPERM no\r\n" : "+OK\r\n");
    (void)!write(fd, text, strlen(text));
}

static void *fake_run(void *arg)
{
    static char bytes[FAKE_SIZE];
    char word[COMMAND_SIZE];
    int fd;
    while ((fd = accept(fake_listener, NULL, NULL)) >= 0) {
        size_t len = 0;
        ssize_t n;
        while ((n = read(fd, bytes + len, sizeof bytes - 1 - len)) > 0) {
            len += (size_t)n;
            bytes[len] = '\0';
            for (size_t took; (took = fake_take(bytes, word)) > 0;) {
                fake_answer(fd, word);
                memmove(bytes, bytes + took, len - took + 1);
                len -= took;
            }
        }
        (void)close(fd);
    }
    return arg;
}

#define FAKE_INFO(version, cluster, written, rewritten, saved)                                                      \
    "# Server\r\nredis_version:" version "\r\nrole:master\r\ncluster_enabled:" cluster "\r\naof_enabled:1\r\n"      \
    "aof_last_write_status:" written "\r\naof_last_bgrewrite_status:" rewritten "\r\nrdb_last_bgsave_status:" saved \
    "\r\nmaxmemory_policy:noeviction\r\nused_memory:1\r\nmaxmemory:0\r\nmaxclients:100\r\nconnected_clients:1\r\n"
#define FAKE_GOOD FAKE_INFO("7.0.0", "0", "ok", "ok", "ok")

TEST(what_no_redis_of_ours_says_is_found)
{
    static const struct {
        struct fake fake;
        int code;
        const char *line;
    } rows[] = {
        {{FAKE_GOOD, "*0\r\n", 0, NULL}, GOOD, "ok   redis version: 7.0.0"}, // the control
        {{FAKE_INFO("6.2.14", "0", "ok", "ok", "ok"), "*0\r\n", 0, NULL}, FAILS, "fail redis version: 6.2.14"},
        {{FAKE_INFO("none", "0", "ok", "ok", "ok"), "*0\r\n", 0, NULL}, FAILS, "fail redis version: none"},
        {{FAKE_INFO("7.0.0", "1", "ok", "ok", "ok"), "*0\r\n", 0, NULL}, FAILS, "fail redis cluster: on"},
        {{FAKE_INFO("7.0.0", "0", "err", "ok", "ok"), "*0\r\n", 0, NULL}, FAILS, "fail redis file written: err"},
        {{FAKE_INFO("7.0.0", "0", "ok", "err", "ok"), "*0\r\n", 0, NULL}, WARNS, "warn redis file rewritten: err"},
        {{FAKE_INFO("7.0.0", "0", "ok", "ok", "err"), "*0\r\n", 0, NULL}, WARNS, "warn redis snapshot: err"},
        {{"", "*0\r\n", 0, NULL}, FAILS, "fail redis version: unknown"},
        {{NULL, "*0\r\n", 0, NULL}, FAILS, "fail redis info: NOPERM"},
        {{FAKE_GOOD, "*2\r\n$4\r\nHSET\r\n$4\r\nnot \r\n", 0, NULL}, FAILS, "fail redis commands: HSET: not"},
        {{FAKE_GOOD, "*2\r\n:1\r\n$-1\r\n", 0, NULL}, FAILS, "fail redis commands: one: is refused"},
        {{FAKE_GOOD, ":1\r\n", 0, NULL}, FAILS, "fail redis scripts: "},
        {{FAKE_GOOD, "*0\r\n", 3000, NULL}, WARNS, "warn clocks: "},
        {{FAKE_GOOD, "*0\r\n", -3000, NULL}, WARNS, "warn clock of this machine: "},
        {{FAKE_GOOD, "*0\r\n", 60000, NULL}, FAILS, "fail clocks: "},
        {{FAKE_GOOD, "*0\r\n", -60000, NULL}, FAILS, "fail clocks: "},
        {{FAKE_GOOD, "*0\r\n", 0, "$2\r\nno\r\n"}, FAILS, "fail redis user default: is denied HSET "},
        {{FAKE_GOOD, "*0\r\n", 0, "*-1\r\n"}, WARNS, "warn redis user default: its rights cannot be asked (no text)"},
    };
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char url[ENV_SIZE];
    pthread_t thread;
    (void)snprintf(at.sun_path, sizeof at.sun_path, "%s/fake", proc_scratch());
    (void)snprintf(url, sizeof url, "SECKILL_REDIS_URL=unix://%s", at.sun_path);
    fake_listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fake_listener, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(fake_listener, 1), 0);
    fake = &rows[0].fake;
    ck_assert_int_eq(pthread_create(&thread, NULL, fake_run, NULL), 0);
    for (size_t i = 0; i < COUNT(rows); i++) {
        fake = &rows[i].fake;
        int code = check_with(url, NULL);
        ck_assert_msg(found(rows[i].line) && code == rows[i].code, "%s: %d: %s", rows[i].line, code, out);
    }
    (void)shutdown(fake_listener, SHUT_RDWR);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    (void)close(fake_listener);
}

// ---- PostgreSQL ----

TEST(settings_of_postgresql_are_found)
{
    static const struct {
        const char *name, *bad, *good;
        int code;
        const char *line;
    } rows[] = {
        {"fsync", "off", "on", FAILS, "fail postgresql fsync: off"},
        {"full_page_writes", "off", "on", FAILS, "fail postgresql full_page_writes: off"},
        {"synchronous_commit", "off", "on", WARNS, "warn postgresql synchronous_commit: off"},
        {"synchronous_commit", "local", "on", WARNS, "warn postgresql synchronous_commit: local"},
        {"max_wal_size", "1GB", "2GB", WARNS, "warn postgresql checkpoints: max_wal_size 1GB"},
        {"checkpoint_timeout", "5min", "15min", WARNS, "warn postgresql checkpoints: max_wal_size 2GB"},
        {"min_wal_size", "80MB", "512MB", WARNS, "warn postgresql log segments: min_wal_size 80MB"},
        {"wal_recycle", "off", "on", WARNS, "warn postgresql log segments: min_wal_size 512MB, wal_recycle off"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        db_run("ALTER SYSTEM SET %s = '%s'", rows[i].name, rows[i].bad);
        reload(rows[i].name, rows[i].bad);
        must_find(rows[i].code, rows[i].line);
        ck_assert_msg(found("ok   postgresql commits of the service: wait as `on` says"), "%s", out);
        db_run("ALTER SYSTEM SET %s = '%s'", rows[i].name, rows[i].good);
        reload(rows[i].name, rows[i].good);
    }
    must_be_good();
}

TEST(a_standby_that_is_missing_is_found)
{
    db_run("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    reload("synchronous_standby_names", "nobody");
    must_find(WARNS, "warn postgresql synchronous standbys: none of `nobody` is attached");
    db_run("ALTER SYSTEM RESET synchronous_standby_names");
    reload("synchronous_standby_names", "");
    must_be_good();
}

// tests/stores/standbys.py has real standbys.
TEST(each_host_is_tried)
{
    static const struct {
        const char *hosts; // `%s`: this test's own server
        int code;
        const char *line, *other;
    } rows[] = {
        {"%s", GOOD, "ok   postgresql reachable: ", "ok   postgresql schema: "},
        {"127.0.0.1:1,%s", WARNS,
         "warn postgresql host: 127.0.0.1: ", "warn postgresql synchronous standbys: none: a fail-over"},
        {"%s,127.0.0.1:1", WARNS, "ok   postgresql host: 127.0.0.1 port ", "warn postgresql host: "},
        {"127.0.0.1:1,127.0.0.1:2", FAILS, "fail postgresql reachable: none of 2 hosts is a primary",
         "warn postgresql host: "},
        {"%s,%s", FAILS, "fail postgresql primaries: 2", "ok   postgresql schema: "},
    };
    const char *own = stack_database_url(), *server = strchr(own, '@') + 1;
    int len = (int)strcspn(server, "/");
    for (size_t i = 0; i < COUNT(rows); i++) {
        char url[2 * ENV_SIZE];
        size_t n = (size_t)snprintf(url, sizeof url, "SECKILL_DATABASE_URL=%.*s", (int)(server - own), own);
        const char *form = rows[i].hosts, *mark;
        for (; (mark = strchr(form, '%')) != NULL; form = mark + 2)
            n += (size_t)snprintf(url + n, sizeof url - n, "%.*s%.*s", (int)(mark - form), form, len, server);
        (void)snprintf(url + n, sizeof url - n, "%s%s", form, server + len);
        int code = check_with(url, NULL);
        ck_assert_msg(code == rows[i].code && found(rows[i].line), "%s: %d: %s", rows[i].hosts, code, out);
        ck_assert_msg(found(rows[i].other), "%s: %s", rows[i].hosts, out);
    }
}

TEST(a_wrong_login_is_found)
{
    static const struct {
        const char *bad, *good;
        int code;
        const char *line;
    } rows[] = {
        {"ALTER ROLE seckill SET default_transaction_read_only = on",
         "ALTER ROLE seckill RESET default_transaction_read_only", FAILS,
         "fail postgresql default_transaction_read_only: on"},
        {"REVOKE seckill_service FROM seckill", "GRANT seckill_service TO seckill", FAILS,
         "fail postgresql role of the login: seckill has not the role"},
        {"ALTER ROLE seckill SUPERUSER", "ALTER ROLE seckill NOSUPERUSER", WARNS,
         "warn postgresql role of the login: seckill is a superuser"},
        {"GRANT owner TO seckill", "REVOKE owner FROM seckill", WARNS,
         "warn postgresql role of the login: seckill owns the tables"},
        {"ALTER ROLE owner CREATEROLE", "ALTER ROLE owner NOCREATEROLE", WARNS,
         "warn postgresql owner of the tables: owner may create roles"},
        {"GRANT pg_execute_server_program TO owner", "REVOKE pg_execute_server_program FROM owner", WARNS,
         "warn postgresql owner of the tables: owner may create roles, or run programs"},
        {"ALTER ROLE seckill CONNECTION LIMIT 3", "ALTER ROLE seckill CONNECTION LIMIT -1", GOOD,
         "ok   postgresql connections of the login: 3 more"},
        {"ALTER ROLE seckill CONNECTION LIMIT 2", "ALTER ROLE seckill CONNECTION LIMIT -1", WARNS,
         "warn postgresql connections of the login: 2 more"},
        // One connection is this test's own.
        {"ALTER DATABASE seckill CONNECTION LIMIT 3", "ALTER DATABASE seckill CONNECTION LIMIT -1", WARNS,
         "warn postgresql connections of the database: 2 more"},
        {"ALTER ROLE seckill NOLOGIN", "ALTER ROLE seckill LOGIN", FAILS, "fail postgresql reachable: "},
        {"ALTER FUNCTION pay_order RENAME TO pay_order_of_old", "ALTER FUNCTION pay_order_of_old RENAME TO pay_order",
         FAILS, "fail postgresql schema: pay_order: "},
        {"ALTER TABLE voucher_order RENAME TO orders_of_old", "ALTER TABLE orders_of_old RENAME TO voucher_order",
         FAILS, "fail postgresql schema: "},
        {"ALTER SCHEMA public RENAME TO other", "ALTER SCHEMA other RENAME TO public", FAILS,
         "fail postgresql schema: "},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        db_run("%s", rows[i].bad);
        int code = check_now();
        db_run("%s", rows[i].good);
        ck_assert_msg(found(rows[i].line), "not found: %s\n%s", rows[i].line, out);
        ck_assert_msg(code == rows[i].code, "%d instead of %d: %s", code, rows[i].code, out);
    }
    must_be_good();
}

struct right {
    char take[NAME_SIZE * 2], give[NAME_SIZE * 2], line[NAME_SIZE];
};

// Removes the rights of the service's role, a few at a time: the check must report exactly these.
TEST(rights_that_lack_are_found)
{
    static struct right rights[RIGHTS_MAX];
    PGconn *conn = db_connect();
    PGresult *result = PQexec(
        conn,
        "SELECT format('%s ON %I', privilege_type, table_name), format('%s on %I', privilege_type, table_name)"
        "  FROM information_schema.role_table_grants WHERE grantee = 'seckill_service'"
        " UNION ALL SELECT 'EXECUTE ON FUNCTION ' || oid::regprocedure, 'EXECUTE on ' || proname FROM pg_proc"
        "  WHERE pronamespace = 'public'::regnamespace AND has_function_privilege('seckill_service', oid, 'EXECUTE')"
        "    AND NOT EXISTS (SELECT FROM aclexplode(coalesce(proacl, acldefault('f', proowner))) WHERE grantee = 0)");
    int count = PQntuples(result);
    ck_assert_int_gt(count, 30);
    ck_assert_int_le(count, RIGHTS_MAX);
    for (int i = 0; i < count; i++) {
        const char *right = PQgetvalue(result, i, 0);
        (void)snprintf(rights[i].take, sizeof rights[i].take, "REVOKE %s FROM seckill_service", right);
        (void)snprintf(rights[i].give, sizeof rights[i].give, "GRANT %s TO seckill_service", right);
        (void)snprintf(rights[i].line, sizeof rights[i].line, "fail postgresql rights: the login has not %s\n",
                       PQgetvalue(result, i, 1));
    }
    PQclear(result);
    PQfinish(conn);
    for (int first = 0; first < count; first += AT_ONCE) {
        int after = first + AT_ONCE < count ? first + AT_ONCE : count;
        for (int i = first; i < after; i++)
            db_run("%s", rights[i].take);
        int code = check_now();
        for (int i = first; i < after; i++)
            db_run("%s", rights[i].give);
        ck_assert_int_eq(code, FAILS);
        for (int i = 0; i < count; i++)
            ck_assert_msg(found(rights[i].line) == (i >= first && i < after), "%s: %s", rights[i].take, out);
    }
    must_be_good();
}

TEST(other_databases_are_found)
{
    char url[ENV_SIZE];
    (void)snprintf(url, sizeof url, "SECKILL_DATABASE_URL=%s", stack_owner_url());
    ck_assert_int_eq(check_with(url, NULL), WARNS);
    ck_assert_msg(found("warn postgresql role of the login: owner owns the tables"), "%s", out);
    db_run("CREATE DATABASE other");
    (void)snprintf(url, sizeof url, "%.*s/other", (int)(strrchr(database, '/') - database), database);
    ck_assert_int_eq(check_with(url, NULL), FAILS);
    ck_assert_msg(found("fail postgresql schema: ") && strstr(out, "--migrate") != NULL, "%s", out);
    ck_assert_int_eq(check_with("SECKILL_DATABASE_URL=postgresql://nobody@127.0.0.1:1/none", NULL), FAILS);
    ck_assert_msg(found("fail postgresql reachable: ") && found("ok   redis commands: "), "%s", out);
    ck_assert_int_eq(check_with("SECKILL_DATABASE_URL=postgresql://nobody:p/sesame@127.0.0.1:1/none", NULL), FAILS);
    ck_assert_msg(found("fail postgresql reachable: ") && strstr(out, "sesame") == NULL, "%s", out);
    ck_assert_int_eq(check_with("SECKILL_DATABASE_URL=postgresql://nobody:p@sesame@127.0.0.1:1/none", NULL), FAILS);
    ck_assert_msg(found("fail postgresql reachable: ") && strstr(out, "sesame") == NULL, "%s", out);
    db_run("CREATE DATABASE latin ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
    (void)snprintf(url, sizeof url, "%.*s/latin", (int)(strrchr(database, '/') - database), database);
    ck_assert_int_eq(check_with(url, NULL), FAILS);
    ck_assert_msg(found("fail postgresql encoding: SQL_ASCII"), "%s", out);
    db_run("DROP DATABASE other");
    db_run("DROP DATABASE latin");
    db_run("UPDATE seckill_shard SET shards = 2, number = 1");
    must_find(FAILS, "fail postgresql shard: the database is shard 1 of 2, not 0 of 1");
    db_run("UPDATE seckill_shard SET shards = 1, number = 0");
    must_be_good();
}

// ---- this machine ----

TEST(keys_of_users_that_cannot_be_read_are_found)
{
    const char *const env[] = {database,
                               redis,
                               "SECKILL_AUTH=token",
                               "SECKILL_TOKEN_KEYS=/nowhere",
                               "SECKILL_TOKEN_ISSUER=i",
                               "SECKILL_TOKEN_AUDIENCE=a",
                               NULL};
    ck_assert_int_eq(service_run(CHECK, env, out, sizeof out), FAILS);
    ck_assert_msg(found("fail keys of users' tokens: "), "%s", out);
}

// Keys for other purposes are usual, keys that are wrong are not.
TEST(wrong_keys_of_a_set_are_found)
{
    char path[] = "/tmp/seckill-keys-XXXXXX", keys[NAME_SIZE];
    static const char set[] =
        JWK_SET("{\"kty\":\"AKP\",\"kid\":\"k\"}," JWK_OKP("good", ED_PUBLIC) "," JWK_OCT("weak", "AAAA"));
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, set, sizeof set - 1), (ssize_t)(sizeof set - 1));
    (void)snprintf(keys, sizeof keys, "SECKILL_TOKEN_KEYS=%s", path);
    const char *const env[] = {
        database, redis, "SECKILL_AUTH=token", keys, "SECKILL_TOKEN_ISSUER=i", "SECKILL_TOKEN_AUDIENCE=a", NULL};
    ck_assert_int_eq(service_run(CHECK, env, out, sizeof out), WARNS);
    ck_assert_msg(found("ok   keys of users' tokens: read") &&
                      found("warn keys of users' tokens: keys[2] is not used: a secret of HS256"),
                  "%s", out);
    ck_assert_msg(!found("keys of users' tokens: keys[0]"), "%s", out);
    (void)close(fd);
    (void)unlink(path);
}

static long descriptors_needed(const char *database_of, const char *redis_of)
{
    const char *const env[] = {database_of, redis_of, NULL};
    (void)check_run(env);
    const char *line = strstr(out, " file descriptors: ");
    ck_assert_msg(line != NULL, "%s", out);
    return strtol(line + strlen(" file descriptors: "), NULL, 10);
}

// Sets SECKILL_SHARDS to a file with these lines.
static void put_shards(char env[ENV_SIZE], int count, const char *last)
{
    char path[NAME_SIZE];
    (void)snprintf(path, sizeof path, "%s/shards", proc_scratch());
    (void)snprintf(env, ENV_SIZE, "SECKILL_SHARDS=%s", path);
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    for (int i = 1; i < count; i++)
        (void)fprintf(file, "postgresql://nobody@127.0.0.1:1/none\n");
    (void)fprintf(file, "%s\n", last);
    (void)fclose(file);
}

// Three for a shard; two for a sentinel; two for each of 255 nodes, and one.
TEST(each_server_needs_descriptors)
{
    enum { ONE = 4096 + 16 + 64 };
    char shards[ENV_SIZE];
    for (int count = 1; count <= 16; count += 15) {
        put_shards(shards, count, "postgresql://nobody@127.0.0.1:1/none");
        ck_assert_int_eq(descriptors_needed(shards, redis), ONE + 3 * (count - 1));
    }
    ck_assert_int_eq(descriptors_needed(database, "SECKILL_REDIS_URL=redis+sentinel://127.0.0.1:1,127.0.0.1:2/m"),
                     ONE + 4);
    ck_assert_int_eq(descriptors_needed(database, "SECKILL_REDIS_URL=redis+cluster://127.0.0.1:1"), ONE + 509);
}

TEST(each_shard_is_looked_at)
{
    char shards[ENV_SIZE];
    put_shards(shards, 3, "postgresql://seckill:demo-password@127.0.0.1:1/none");
    const char *const env[] = {shards, redis, NULL};
    ck_assert_int_eq(check_run(env), FAILS);
    ck_assert_msg(found("warn secrets: SECKILL_SHARDS has a value of the demo"), "%s", out);
    ck_assert_uint_eq(lines_of("fail postgresql reachable: "), 3);
    ck_assert_uint_eq(lines_of("ok   clock of this machine: "), 1);
}

TEST(a_wrong_configuration_is_found)
{
    ck_assert_int_eq(check_with("SECKILL_REACTORS=64", "SECKILL_MAX_CONNECTIONS=16"), WARNS);
    ck_assert_msg(found("warn postgresql connections: ") && strstr(out, "needs 192") != NULL, "%s", out);
    service_limit_descriptors(0, 300);
    int code = check_now();
    service_limit_descriptors(0, 0);
    ck_assert_int_eq(code, FAILS);
    ck_assert_msg(found("fail file descriptors: 4176 needed, the hard limit here is 300"), "%s", out);
    static const char *const forms[][2] = {
        {"SECKILL_ADMIN_TOKENS=nonsense", "fail admin tokens: SECKILL_ADMIN_TOKENS: line 1: "},
        {"SECKILL_ADMIN_TOKEN=nonsense", "fail admin tokens: SECKILL_ADMIN_TOKEN: "},
        {"SECKILL_TICKET_SECRET=nonsense", "fail ticket secrets: SECKILL_TICKET_SECRET: "},
        {"SECKILL_CORS_ORIGINS=nowhere", "fail CORS origins: SECKILL_CORS_ORIGINS: "},
        {"SECKILL_TRUSTED_PROXIES=nowhere", "fail trusted proxies: SECKILL_TRUSTED_PROXIES: "},
        {"SECKILL_LOGIN_URL=nowhere", "fail login: "},
        {"SECKILL_PICTURE_ORIGINS=nowhere", "fail picture origins: SECKILL_PICTURE_ORIGINS: "},
    };
    for (size_t i = 0; i < COUNT(forms); i++) {
        ck_assert_int_eq(check_with(forms[i][0], NULL), FAILS);
        ck_assert_msg(found(forms[i][1]) && strstr(out, "nonsense") == NULL, "%s", out);
    }
    static const char *const listeners[][3] = {
        {"SECKILL_LISTEN=8080", "SECKILL_GATEWAY_TRUSTED=yes", "fail listener: SECKILL_LISTEN: '8080' is not"},
        {"SECKILL_LISTEN=127.0.0.1:1", "SECKILL_ADMIN_LISTEN=8082",
         "fail operators' listener: SECKILL_ADMIN_LISTEN: '8082' is not"},
        {"SECKILL_LISTEN=127.0.0.1:1", "SECKILL_ADMIN_LISTEN=localhost:1",
         "fail operators' listener: SECKILL_ADMIN_LISTEN is that of"},
    };
    for (size_t i = 0; i < COUNT(listeners); i++) {
        ck_assert_int_eq(check_with(listeners[i][0], listeners[i][1]), FAILS);
        ck_assert_msg(found(listeners[i][2]), "%s", out);
    }
    ck_assert_int_eq(check_with("SECKILL_LISTEN=127.0.0.1:1", "SECKILL_ADMIN_LISTEN=127.0.0.1:2"), GOOD);
    ck_assert_int_eq(check_with("SECKILL_LOGIN_URL=nowhere", "SECKILL_PAGES=off"), GOOD); // nothing reads it
    ck_assert_int_eq(check_with("SECKILL_LISTEN=0.0.0.0:1", NULL), FAILS);
    ck_assert_msg(found("fail gateway: SECKILL_LISTEN, 0.0.0.0:1, can be reached"), "%s", out);
    ck_assert_int_eq(check_with("SECKILL_LISTEN=0.0.0.0:1", "SECKILL_GATEWAY_TRUSTED=yes"), GOOD);
    static const struct {
        const char *env, *more, *line;
    } unwise[] = {
        {"SECKILL_ADMIN_TOKEN=demo-admin-token", NULL, "warn secrets: SECKILL_ADMIN_TOKEN has a value of the demo"},
        {"SECKILL_ADMIN_TOKENS=scraper metrics demo-metrics-token", NULL, "warn secrets: SECKILL_ADMIN_TOKENS has"},
        {"SECKILL_TICKET_SECRET=demo-secret-of-tickets", NULL, "warn secrets: SECKILL_TICKET_SECRET has"},
        {"SECKILL_ADDRESS_RATE=5", NULL, NULL},
        {"SECKILL_ADMIN_TOKEN=an-admin-of-demo-", NULL, NULL},
    };
    for (size_t i = 0; i < COUNT(unwise); i++) {
        ck_assert_int_eq(check_with(unwise[i].env, unwise[i].more), unwise[i].line == NULL ? GOOD : WARNS);
        ck_assert_msg(unwise[i].line == NULL || found(unwise[i].line), "%s: %s", unwise[i].env, out);
        ck_assert_msg(strstr(out, "demo-") == NULL, "a secret is shown: %s", out);
    }
    ck_assert_int_eq(check_without_addresses(NULL), WARNS);
    ck_assert_msg(found("warn client addresses: are not known: one client may have all streams"), "%s", out);
    ck_assert_int_eq(check_without_addresses("SECKILL_ADDRESS_RATE=5"), WARNS);
    ck_assert_msg(found("warn client addresses: are counted, and all clients of the gateway have one"), "%s", out);
    ck_assert_int_eq(check_without_addresses("SECKILL_ADDRESS_CONNECTIONS=5"), WARNS);
    // An invalid value of a setting is rejected before any check runs.
    ck_assert_int_eq(check_with("SECKILL_BATCH_MAX=many", NULL), FAILS);
    ck_assert_msg(strstr(out, "SECKILL_BATCH_MAX") != NULL && !found("ok"), "%s", out);
    ck_assert_int_eq(check_with("SECKILL_ORDERS_MAX=1", NULL), FAILS);
    ck_assert_msg(strstr(out, "SECKILL_ORDERS_MAX") != NULL && !found("ok"), "%s", out);
}

SUITE(.timeout_s = 150, .begin = setup, .in_one_process = true);
