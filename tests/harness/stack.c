// Ports come from below the kernel's ephemeral range, starting at an offset that depends on our process id. So no
// client connection or parallel test program takes a port while the server that owns it restarts.
#include "stack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <glob.h>
#include <hiredis/hiredis.h>
#include <libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "http.h"
#include "proc.h"
#include "slot.h"
#include "stores.h"
#include "wait.h"

enum {
    PORT_FIRST = 15000,
    PORTS = 16000,
    SKIPPED = 77,    // exit status, known to CTest
    PORTS_EACH = 64, // distance between programs started one after the other
    SERVICES_MAX = 8,
    URL_SIZE = 128,
    READY_IN_A_ROW = 8,
    OUTPUT_NAME_SIZE = 24,
    OPTIONS_SIZE = 512,
    ACL_SIZE = 4096,
    SETTING_SIZE = URL_SIZE + 32,
};

const char stack_admin_token[] = "admin-token-of-the-tests";

// The passwords only keep out strangers on this machine; that they also test authentication is a benefit.
const char stack_redis_password[] = "redis-password";
static const char db_password[] = "db-password";

struct service {
    struct proc proc;
    int port;
    int reactors;
    bool stopped; // by SIGSTOP
};

enum { NODES = 3, SHARDS = 2 };

static struct {
    struct proc redis[NODES], postgres[SHARDS];
    int redis_nodes;                          // of a cluster; or 1
    int redis_ports[NODES], bus_ports[NODES]; // of its nodes
    int shards;                               // that share the vouchers; or 1; 0: PostgreSQL was not started
    int postgres_ports[SHARDS], next_port;
    bool all_rights; // of the user in redis_url
    char postgres_bin[URL_SIZE];
    char redis_url[URL_SIZE], database_url[URL_SIZE], keeper_url[URL_SIZE], owner_url[URL_SIZE],
        superuser_url[URL_SIZE];
    char database_setting[SETTING_SIZE], keeper_setting[SETTING_SIZE], owner_setting[SETTING_SIZE];
    struct service services[SERVICES_MAX];
    int service_count; // in this test
    unsigned soft_descriptors, hard_descriptors;
    int out_fd, err_fd;
} stack;

const char *stack_redis_url(void)
{
    return stack.redis_url;
}

int stack_redis_port(void)
{
    return stack.redis_ports[0];
}

int stack_redis_nodes(void)
{
    return stack.redis_nodes;
}

int stack_redis_port_of(int node)
{
    return stack.redis_ports[node];
}

int stack_shards(void)
{
    return stack.shards;
}

const char *stack_database_setting(void)
{
    return stack.database_setting;
}

const char *stack_keeper_setting(void)
{
    return stack.keeper_setting;
}

const char *stack_database_url(void)
{
    return stack.database_url;
}

const char *stack_keeper_url(void)
{
    return stack.keeper_url;
}

const char *stack_owner_url(void)
{
    return stack.owner_url;
}

const char *stack_superuser_url(void)
{
    return stack.superuser_url;
}

static bool free_port(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_free = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    (void)close(fd);
    return is_free;
}

static int take_port(void)
{
    if (stack.next_port == 0)
        stack.next_port = (int)((long)getpid() * PORTS_EACH % PORTS);
    do
        stack.next_port = (stack.next_port + 1) % PORTS;
    while (!free_port(PORT_FIRST + stack.next_port));
    return PORT_FIRST + stack.next_port;
}

// Waits until the server answers. If the server has ended, fails the test and shows its log.
static void await_server(struct proc *proc, bool (*answers)(void))
{
    int status = 0;
    WAIT_FOR(answers() || !proc_running(proc, &status));
    if (!proc_running(proc, &status)) {
        proc_show_log(proc->name);
        ck_abort_msg("%s has ended with status %d", proc->name, status);
    }
}

// ---- Redis ----

static bool says_status(redisContext *redis, const char *command)
{
    redisReply *reply = redisCommand(redis, command);
    bool is_status = reply != NULL && reply->type == REDIS_REPLY_STATUS; // LOADING is an error
    freeReplyObject(reply);
    return is_status;
}

// As the user of the tests. NULL: it does not answer.
static redisContext *redis_open(int node)
{
    char auth[URL_SIZE];
    (void)snprintf(auth, sizeof auth, "AUTH tests %s", stack_redis_password);
    redisContext *redis = redisConnect("127.0.0.1", stack.redis_ports[node]);
    if (redis != NULL && redis->err == 0 && says_status(redis, auth) && says_status(redis, "PING"))
        return redis;
    redisFree(redis);
    return NULL;
}

static bool redis_answers(void)
{
    bool answers = true;
    for (int i = 0; answers && i < stack.redis_nodes; i++) {
        redisContext *redis = redis_open(i);
        answers = redis != NULL;
        redisFree(redis);
    }
    return answers;
}

static bool redis_is_whole(void)
{
    bool whole = true;
    for (int i = 0; whole && i < stack.redis_nodes; i++) {
        redisContext *redis = redis_open(i);
        redisReply *reply = redis == NULL ? NULL : redisCommand(redis, "CLUSTER INFO");
        whole = reply != NULL && strstr(reply->str, "cluster_state:ok") != NULL &&
                strstr(reply->str, "cluster_slots_ok:16384") != NULL;
        freeReplyObject(reply);
        redisFree(redis);
    }
    return whole;
}

static void redis_make_cluster(void)
{
    for (int i = 0; i < NODES; i++) {
        char slots[URL_SIZE], meet[URL_SIZE], epoch[URL_SIZE];
        redisContext *redis = redis_open(i);
        ck_assert_ptr_nonnull(redis);
        (void)snprintf(slots, sizeof slots, "CLUSTER ADDSLOTSRANGE %d %d", i * SK_SLOTS / NODES,
                       (i + 1) * SK_SLOTS / NODES - 1);
        (void)snprintf(epoch, sizeof epoch, "CLUSTER SET-CONFIG-EPOCH %d", i + 1);
        (void)snprintf(meet, sizeof meet, "CLUSTER MEET 127.0.0.1 %d %d", stack.redis_ports[0], stack.bus_ports[0]);
        ck_assert(says_status(redis, slots) && says_status(redis, epoch) && (i == 0 || says_status(redis, meet)));
        redisFree(redis);
    }
}

// The service gets the rights of deploy/redis.acl; the tests use another user with all rights.
static void write_acl(const char *path)
{
    static const char placeholder[] = "SECKILL_REDIS_PASSWORD";
    char text[ACL_SIZE];
    FILE *from = fopen(SECKILL_DEPLOY "/redis.acl", "re"), *to = fopen(path, "we");
    ck_assert(from != NULL && to != NULL);
    size_t n = fread(text, 1, sizeof text - 1, from);
    ck_assert_uint_lt(n, sizeof text - 1);
    text[n] = '\0';
    char *at = strstr(text, placeholder);
    ck_assert_ptr_nonnull(at);
    (void)fprintf(to, "%.*s%s%s", (int)(at - text), text, stack_redis_password, at + sizeof placeholder - 1);
    (void)fprintf(to, "user tests on >%s ~* &* +@all\n", stack_redis_password);
    (void)fclose(from);
    ck_assert_int_eq(fclose(to), 0);
}

void stack_redis_with_all_rights(void)
{
    stack.all_rights = true;
}

// Its address for the service; the nodes of a cluster find each other.
static void redis_choose_ports(void)
{
    bool cluster = getenv("TEST_REDIS_CLUSTER") != NULL;
    stack.redis_nodes = cluster ? NODES : 1;
    for (int i = 0; i < stack.redis_nodes; i++) {
        stack.redis_ports[i] = take_port();
        stack.bus_ports[i] = cluster ? take_port() : 0;
    }
    (void)snprintf(stack.redis_url, URL_SIZE, "redis%s://%s:%s@127.0.0.1:%d", cluster ? "+cluster" : "",
                   stack.all_rights ? "tests" : "seckill", stack_redis_password, stack.redis_ports[0]);
}

static void redis_start_node(int node, const char *acl)
{
    char folder[PROC_PATH_SIZE], port[8], bus[8], name[PROC_NAME_SIZE] = "redis";
    bool cluster = stack.redis_nodes > 1;
    if (node > 0)
        (void)snprintf(name, sizeof name, "redis-%d", node);
    (void)snprintf(folder, sizeof folder, "%s/%s", proc_scratch(), name);
    (void)mkdir(folder, 0700);
    (void)snprintf(port, sizeof port, "%d", stack.redis_ports[node]);
    (void)snprintf(bus, sizeof bus, "%d", stack.bus_ports[node]);
    const char *const argv[] = {"redis-server",
                                SECKILL_DEPLOY "/redis.conf",
                                "--bind",
                                "127.0.0.1",
                                "--port",
                                port,
                                "--dir",
                                folder,
                                "--aclfile",
                                acl,
                                cluster ? "--cluster-enabled" : NULL,
                                "yes",
                                "--cluster-port",
                                bus,
                                "--cluster-node-timeout",
                                "2000",
                                "--cluster-require-full-coverage",
                                "no",
                                NULL};
    struct proc_options options = {.name = name, .argv = argv, .death_signal = SIGKILL};
    proc_start(&stack.redis[node], &options);
}

void redis_start(void)
{
    char acl[PROC_PATH_SIZE];
    bool first = stack.redis_nodes == 0;
    if (first)
        redis_choose_ports();
    (void)snprintf(acl, sizeof acl, "%s/redis.acl", proc_scratch());
    write_acl(acl);
    for (int i = 0; i < stack.redis_nodes; i++)
        redis_start_node(i, acl);
    await_server(&stack.redis[0], redis_answers);
    if (stack.redis_nodes == 1)
        return;
    if (first)
        redis_make_cluster();
    await_server(&stack.redis[0], redis_is_whole);
}

void redis_kill(void)
{
    for (int i = 0; i < stack.redis_nodes; i++)
        proc_signal(&stack.redis[i], SIGKILL);
    for (int i = 0; i < stack.redis_nodes; i++)
        (void)proc_wait(&stack.redis[i]);
}

void redis_erase(void)
{
    char folder[PROC_PATH_SIZE];
    ck_assert_int_eq(stack.redis[0].pid, 0);
    (void)snprintf(folder, sizeof folder, "%s/redis*/appendonlydir", proc_scratch());
    char pattern[PROC_PATH_SIZE + 2];
    (void)snprintf(pattern, sizeof pattern, "%s/*", folder);
    glob_t found;
    ck_assert_int_eq(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++)
        ck_assert_int_eq(unlink(found.gl_pathv[i]), 0);
    globfree(&found);
}

void redis_pause(void)
{
    for (int i = 0; i < stack.redis_nodes; i++)
        proc_signal(&stack.redis[i], SIGSTOP);
}

void redis_resume(void)
{
    for (int i = 0; i < stack.redis_nodes; i++)
        proc_signal(&stack.redis[i], SIGCONT);
}

// ---- PostgreSQL ----

// Debian keeps the server's programs out of the PATH; elsewhere they are in it.
static void find_postgres(void)
{
    glob_t found;
    stack.postgres_bin[0] = '\0';
    if (glob("/usr/lib/postgresql/*/bin/", 0, NULL, &found) == 0) {
        (void)snprintf(stack.postgres_bin, sizeof stack.postgres_bin, "%s", found.gl_pathv[found.gl_pathc - 1]);
        globfree(&found);
    }
}

static void set_db_url(char out[URL_SIZE], const char *user, const char *database, int shard)
{
    (void)snprintf(out, URL_SIZE, "postgresql://%s:%s@127.0.0.1:%d/%s", user, db_password, stack.postgres_ports[shard],
                   database);
}

PGconn *stack_connect_to(int shard)
{
    char url[URL_SIZE];
    set_db_url(url, "postgres", "seckill", shard);
    return PQconnectdb(url);
}

static bool postgres_answers(void)
{
    char url[URL_SIZE];
    bool answers = true;
    for (int i = 0; answers && i < stack.shards; i++) {
        set_db_url(url, "postgres", "postgres", i);
        answers = PQping(url) == PQPING_OK;
    }
    return answers;
}

static void run_to_end(const char *name, const char *const *argv, const char *const *env, bool as_postgres)
{
    struct proc proc = {0};
    struct proc_options options = {
        .name = name, .argv = argv, .env = env, .as_postgres = as_postgres, .death_signal = SIGKILL};
    proc_start(&proc, &options);
    int status = proc_wait(&proc);
    if (status != 0) {
        proc_show_log(name);
        ck_abort_msg("%s has ended with status %d", name, status);
    }
}

static void postgres_name(char out[PROC_NAME_SIZE], int shard)
{
    (void)snprintf(out, PROC_NAME_SIZE, shard == 0 ? "postgres" : "postgres-%d", shard);
}

static void postgres_folder(char out[PROC_PATH_SIZE], int shard)
{
    char name[PROC_NAME_SIZE];
    postgres_name(name, shard);
    (void)snprintf(out, PROC_PATH_SIZE, "%s/%s", proc_scratch(), name);
}

// As deploy/postgresql.conf, without fsync: the tests crash processes, not the machine. All is set in the cluster's own
// file, where a test may change it.
static void postgres_set(const char *path)
{
    char line[256];
    FILE *from = fopen(SECKILL_DEPLOY "/postgresql.conf", "re"), *to = fopen(path, "ae");
    ck_assert(from != NULL && to != NULL);
    while (fgets(line, sizeof line, from) != NULL)
        (void)fputs(line, to);
    (void)fputs("fsync = off\n", to);
    (void)fclose(from);
    ck_assert_int_eq(fclose(to), 0);
}

static void make_cluster(int shard)
{
    char folder[PROC_PATH_SIZE], program[PROC_PATH_SIZE + 16], password_file[PROC_PATH_SIZE + 16];
    postgres_folder(folder, shard);
    (void)snprintf(program, sizeof program, "%sinitdb", stack.postgres_bin);
    (void)snprintf(password_file, sizeof password_file, "%s/password", proc_scratch());
    FILE *file = fopen(password_file, "we");
    ck_assert_ptr_nonnull(file);
    (void)fprintf(file, "%s\n", db_password);
    (void)fclose(file);
    ck_assert_int_eq(chmod(password_file, 0644), 0);
    char data[PROC_PATH_SIZE + 32];
    (void)snprintf(data, sizeof data, "%s/data", folder);
    const char *const argv[] = {program,         "-D",          data,       "--username", "postgres",
                                "--pwfile",      password_file, "--locale", "C.UTF-8",    "--auth",
                                "scram-sha-256", "--no-sync",   NULL};
    run_to_end("initdb", argv, NULL, true);
    (void)snprintf(data, sizeof data, "%s/data/postgresql.conf", folder);
    postgres_set(data);
}

static void postgres_start_shard(int shard)
{
    char folder[PROC_PATH_SIZE], program[PROC_PATH_SIZE + 16], data[PROC_PATH_SIZE + 8], port[8], name[PROC_NAME_SIZE];
    postgres_name(name, shard);
    postgres_folder(folder, shard);
    (void)snprintf(program, sizeof program, "%spostgres", stack.postgres_bin);
    (void)snprintf(data, sizeof data, "%s/data", folder);
    (void)snprintf(port, sizeof port, "%d", stack.postgres_ports[shard]);
    const char *const argv[] = {program, "-D", data, "-k", folder, "-h", "127.0.0.1", "-p", port, NULL};
    struct proc_options options = {.name = name, .argv = argv, .as_postgres = true, .death_signal = SIGQUIT};
    proc_start(&stack.postgres[shard], &options);
}

void postgres_start(void)
{
    for (int i = 0; i < stack.shards; i++)
        postgres_start_shard(i);
    await_server(&stack.postgres[0], postgres_answers);
}

void postgres_stop(void)
{
    for (int i = 0; i < stack.shards; i++)
        proc_signal(&stack.postgres[i], SIGINT); // does not wait for clients to disconnect
    for (int i = 0; i < stack.shards; i++)
        ck_assert_int_eq(proc_wait(&stack.postgres[i]), 0);
}

static void run_as(const char *url, const char *sql)
{
    PGconn *conn = PQconnectdb(url);
    PGresult *result = PQexec(conn, sql);
    ck_assert_msg(PQresultStatus(result) == PGRES_COMMAND_OK, "%s", PQerrorMessage(conn));
    PQclear(result);
    PQfinish(conn);
}

static void migrate(const char *setting)
{
    const char *const argv[] = {SECKILL_BINARY, "--migrate", NULL};
    run_to_end("migrate", argv, ENV(setting), false);
}

static void make_database(int shard)
{
    char superuser[URL_SIZE], owner[URL_SIZE], setting[SETTING_SIZE];
    set_db_url(superuser, "postgres", "postgres", shard);
    set_db_url(owner, "owner", "seckill", shard);
    // The same as deploy/owner.sql and deploy/login.sql.
    run_as(superuser, "CREATE ROLE owner LOGIN PASSWORD 'db-password'");
    run_as(superuser, "CREATE ROLE seckill_service NOLOGIN");
    run_as(superuser, "CREATE ROLE seckill_keeper NOLOGIN");
    run_as(superuser, "CREATE DATABASE seckill OWNER owner");
    (void)snprintf(setting, sizeof setting, "SECKILL_DATABASE_URL=%s", owner);
    migrate(setting);
    run_as(superuser, "CREATE ROLE seckill LOGIN PASSWORD 'db-password' IN ROLE seckill_service");
    run_as(superuser, "CREATE ROLE keeper LOGIN PASSWORD 'db-password' IN ROLE seckill_keeper");
}

// The setting with which a login finds the database, or all shards.
static void set_db_setting(char out[SETTING_SIZE], const char *user)
{
    char url[URL_SIZE], path[PROC_PATH_SIZE];
    set_db_url(url, user, "seckill", 0);
    (void)snprintf(out, SETTING_SIZE, "SECKILL_DATABASE_URL=%s", url);
    if (stack.shards == 1)
        return;
    (void)snprintf(path, sizeof path, "%s/shards-%s", proc_scratch(), user);
    (void)snprintf(out, SETTING_SIZE, "SECKILL_SHARDS=%s", path);
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < stack.shards; i++) {
        set_db_url(url, user, "seckill", i);
        (void)fprintf(file, "%s\n", url);
    }
    ck_assert_int_eq(fclose(file), 0);
}

// Making and migrating a cluster takes most of a short program's time, so all programs copy one if it exists. The copy
// keeps the owner of the original.
static void copy_cluster(const char *from, const char *to)
{
    const char *const argv[] = {"cp", "-a", from, to, NULL};
    run_to_end("cp", argv, NULL, false);
}

static void make_postgres(void)
{
    char folder[PROC_PATH_SIZE], data[PROC_PATH_SIZE + 8];
    const char *made = getenv("HARNESS_CLUSTER");
    stack.shards = getenv("TEST_SHARDS") != NULL ? SHARDS : 1;
    find_postgres();
    for (int i = 0; i < stack.shards; i++) {
        stack.postgres_ports[i] = take_port();
        postgres_folder(folder, i);
        (void)snprintf(data, sizeof data, "%s/data", folder);
        ck_assert_int_eq(mkdir(folder, 0777), 0);
        ck_assert_int_eq(chmod(folder, 0777), 0); // initdb takes it over, under whatever user it runs
        if (made != NULL)
            copy_cluster(made, data);
        else
            make_cluster(i);
    }
    set_db_url(stack.superuser_url, "postgres", "seckill", 0);
    set_db_url(stack.owner_url, "owner", "seckill", 0);
    set_db_url(stack.database_url, "seckill", "seckill", 0);
    set_db_url(stack.keeper_url, "keeper", "seckill", 0);
    set_db_setting(stack.database_setting, "seckill");
    set_db_setting(stack.keeper_setting, "keeper");
    set_db_setting(stack.owner_setting, "owner");
    postgres_start();
    for (int i = 0; made == NULL && i < stack.shards; i++)
        make_database(i);
    if (stack.shards > 1)
        migrate(stack.owner_setting); // it gives them their numbers
}

void postgres_keep(const char *path)
{
    char folder[PROC_PATH_SIZE], data[PROC_PATH_SIZE + 8];
    const char *const argv[] = {"rm", "-rf", path, NULL};
    postgres_folder(folder, 0);
    (void)snprintf(data, sizeof data, "%s/data", folder);
    postgres_stop();
    run_to_end("rm", argv, NULL, false);
    copy_cluster(data, path);
}

// ---- the service ----

static int reactors_in(const char *const *env)
{
    static const char name[] = "SECKILL_REACTORS=";
    for (; env != NULL && *env != NULL; env++) {
        if (strncmp(*env, name, sizeof name - 1) == 0)
            return (int)strtol(*env + sizeof name - 1, NULL, 10);
    }
    return 1;
}

struct service *service_launch(const char *const *env)
{
    char listen_at[64], redis[SETTING_SIZE], token[64], name[PROC_NAME_SIZE];
    const char *all[32] = {listen_at, stack.database_setting, redis, token};
    int count = 4, extra = 0;
    ck_assert_int_lt(stack.service_count, SERVICES_MAX);
    struct service *service = &stack.services[stack.service_count++];
    *service = (struct service){.port = take_port(), .reactors = reactors_in(env)};
    (void)snprintf(name, sizeof name, "seckill-%d", service->port);
    (void)snprintf(listen_at, sizeof listen_at, "SECKILL_LISTEN=127.0.0.1:%d", service->port);
    (void)snprintf(redis, sizeof redis, "SECKILL_REDIS_URL=%s", stack.redis_url);
    (void)snprintf(token, sizeof token, "SECKILL_ADMIN_TOKEN=%s", stack_admin_token);
    for (; env != NULL && env[extra] != NULL; extra++) {
        ck_assert_int_lt(count, 31);
        bool database = strncmp(env[extra], "SECKILL_DATABASE_URL=", sizeof "SECKILL_DATABASE_URL=" - 1) == 0;
        all[database ? 1 : count++] = env[extra]; // else there could be shards, too
    }
    const char *const argv[] = {SECKILL_BINARY, NULL};
    struct proc_options options = {
        name, argv, all, false, SIGKILL, stack.soft_descriptors, stack.hard_descriptors, stack.out_fd, stack.err_fd};
    proc_start(&service->proc, &options);
    return service;
}

const char *service_preload_options(void)
{
    static char options[OPTIONS_SIZE];
    const char *ours = getenv("ASAN_OPTIONS");
    (void)snprintf(options, sizeof options, "ASAN_OPTIONS=%s:verify_asan_link_order=0", ours == NULL ? "" : ours);
    return options;
}

void service_limit_descriptors(unsigned soft, unsigned hard)
{
    stack.soft_descriptors = soft;
    stack.hard_descriptors = hard;
}

void service_direct_output(int fd)
{
    stack.out_fd = fd;
}

void service_direct_errors(int fd)
{
    stack.err_fd = fd;
}

// An instance that has ended counts as an answer, so that no caller waits for it in vain.
static bool answers_readyz(struct service *service, bool whole)
{
    struct http_reply reply;
    int status = 0;
    if (!proc_running(&service->proc, &status)) {
        proc_show_log(service->proc.name);
        ck_abort_msg("%s has ended with status %d", service->proc.name, status);
    }
    // Each reactor answers for itself, and the kernel chooses the reactor.
    int times = service->reactors > 1 ? service->reactors * READY_IN_A_ROW : 1;
    bool is_whole = whole;
    while (times > 0 && is_whole == whole) {
        is_whole = http_get(service, "/readyz", NULL, &reply) == 200 && strstr(reply.body, "shards_away") == NULL;
        times--;
    }
    return is_whole == whole && (whole || reply.status != 0);
}

void service_await(struct service *service, bool whole)
{
    WAIT_FOR(answers_readyz(service, whole));
}

struct service *service_start(const char *const *env)
{
    struct service *service = service_launch(env);
    service_await(service, true);
    return service;
}

struct service *service_start_apart(const char *const *env, const struct service **operators)
{
    static struct service apart;
    char listen_at[64];
    const char *all[32] = {listen_at};
    struct http_reply reply;
    for (int i = 0; env != NULL && env[i] != NULL; i++) {
        ck_assert_int_lt(i, 30);
        all[i + 1] = env[i];
    }
    apart = (struct service){.port = take_port()};
    (void)snprintf(listen_at, sizeof listen_at, "SECKILL_ADMIN_LISTEN=127.0.0.1:%d", apart.port);
    struct service *service = service_start(all);
    WAIT_FOR(http_get(&apart, "/readyz", NULL, &reply) == 200);
    *operators = &apart;
    return service;
}

int service_port(const struct service *service)
{
    return service->port;
}

void service_signal(struct service *service, int signal)
{
    proc_signal(&service->proc, signal);
    if (signal == SIGSTOP || signal == SIGCONT)
        service->stopped = signal == SIGSTOP;
}

void service_kill(struct service *service)
{
    service_signal(service, SIGKILL);
    (void)proc_wait(&service->proc);
}

int service_wait(struct service *service)
{
    int status = proc_wait(&service->proc);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void service_read_log(const struct service *service, char *out, size_t size)
{
    proc_read_log(service->proc.name, out, size);
}

void service_stop_all(void)
{
    int status = 0, bad = 0;
    db_let_orders_go();
    if (stack.redis_nodes != 0 && !proc_running(&stack.redis[0], &status))
        redis_start();
    if (stack.shards != 0 && !proc_running(&stack.postgres[0], &status))
        postgres_start();
    if (stack.redis[0].pid != 0)
        redis_resume();
    for (int i = 0; i < stack.service_count; i++) {
        struct service *service = &stack.services[i];
        if (service->proc.pid == 0)
            continue; // the test has already waited for it
        if (proc_running(&service->proc, &status)) {
            service_signal(service, SIGCONT);
            service_signal(service, SIGTERM);
            status = proc_wait(&service->proc);
        }
        if (status != 0) {
            (void)fprintf(stderr, "%s ended with status %d\n", service->proc.name, status);
            proc_show_log(service->proc.name);
            bad++;
        }
    }
    stack.service_count = 0;
    service_limit_descriptors(0, 0);
    service_direct_output(0);
    service_direct_errors(0);
    ck_assert_msg(bad == 0, "%d instances did not end with exit code 0", bad);
}

int service_run(const char *const *words, const char *const *env, char *out, size_t size)
{
    static int runs = 0;
    char name[OUTPUT_NAME_SIZE];
    const char *argv[16] = {SECKILL_BINARY};
    for (int i = 0; words[i] != NULL; i++) {
        ck_assert_int_lt(i, 14);
        argv[i + 1] = words[i];
    }
    (void)snprintf(name, sizeof name, "run-%d", ++runs);
    struct proc proc = {0};
    struct proc_options options = {name, argv, env, false, SIGKILL, stack.soft_descriptors, stack.hard_descriptors,
                                   0,    0};
    proc_start(&proc, &options);
    int status = proc_wait(&proc);
    proc_read_log(name, out, size);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// ---- all together ----

bool stack_skip(const char *test, const char *why)
{
    (void)printf("skipped: %s, %s: %s\n", program_invocation_short_name, test, why);
    return true;
}

void stack_skip_all(const char *why)
{
    (void)stack_skip("all of it", why);
    (void)fflush(stdout);
    exit(SKIPPED);
}

void stack_start(unsigned parts)
{
    if (parts == STACK_POSTGRES && getenv("TEST_SHARDS") != NULL)
        stack_skip_all("it is about one database, and each shard is one");
    if ((parts & STACK_REDIS) != 0 && stack.redis_nodes == 0)
        redis_start();
    if ((parts & STACK_POSTGRES) != 0 && stack.shards == 0)
        make_postgres();
}

void stack_end(void)
{
    for (int i = 0; i < stack.redis_nodes; i++) {
        if (stack.redis[i].pid != 0)
            (void)kill(stack.redis[i].pid, SIGKILL);
    }
    for (int i = 0; i < stack.shards; i++) {
        if (stack.postgres[i].pid != 0)
            (void)kill(stack.postgres[i].pid, SIGQUIT);
    }
    proc_scratch_remove();
}
