#include "stack.h"

#include <errno.h>
#include <libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "http.h"
#include "launcher.h"
#include "proc.h"
#include "stores.h"
#include "wait.h"

enum {
    SKIPPED = 77, // exit status, known to CTest
    SERVICES_MAX = 8,
    NAME_SIZE = 24,
    READY_IN_A_ROW = 8,
    OUTPUT_NAME_SIZE = 24,
    OPTIONS_SIZE = 512,
    SETTING_SIZE = 160,
};

const char stack_admin_token[] = "admin-token-of-the-tests";

const char stack_redis_password[] = "redis-password"; // as in stores.py

struct service {
    struct proc proc;
    int port;
    int reactors;
    bool stopped; // by SIGSTOP
};

static struct {
    bool all_rights; // of the user in stack_redis_url()
    struct service services[SERVICES_MAX];
    int service_count; // in this test
    unsigned soft_descriptors, hard_descriptors;
    int out_fd, err_fd;
} stack;

// ---- the stores ----

const char *stack_redis_url(void)
{
    return launcher_value(stack.all_rights ? "redis_tests_url" : "redis_url");
}

void stack_redis_with_all_rights(void)
{
    stack.all_rights = true;
}

int stack_redis_port(void)
{
    return stack_redis_port_of(0);
}

int stack_redis_nodes(void)
{
    return (int)strtol(launcher_value("redis_nodes"), NULL, 10);
}

int stack_redis_port_of(int node)
{
    char name[NAME_SIZE];
    (void)snprintf(name, sizeof name, "redis_port_%d", node);
    return (int)strtol(launcher_value(name), NULL, 10);
}

int stack_shards(void)
{
    return (int)strtol(launcher_value("shards"), NULL, 10);
}

const char *stack_database_setting(void)
{
    return launcher_value("database_setting");
}

const char *stack_keeper_setting(void)
{
    return launcher_value("keeper_setting");
}

const char *stack_database_url(void)
{
    return launcher_value("database_url");
}

const char *stack_keeper_url(void)
{
    return launcher_value("keeper_url");
}

const char *stack_owner_url(void)
{
    return launcher_value("owner_url");
}

const char *stack_superuser_url(void)
{
    return launcher_value("superuser_url_0");
}

PGconn *stack_connect_to(int shard)
{
    char name[NAME_SIZE];
    (void)snprintf(name, sizeof name, "superuser_url_%d", shard);
    return PQconnectdb(launcher_value(name));
}

void redis_start(void)
{
    ck_assert(launcher_do("start redis"));
}

void redis_kill(void)
{
    ck_assert(launcher_do("kill redis"));
}

void redis_erase(void)
{
    ck_assert(launcher_do("erase redis"));
}

void redis_pause(void)
{
    ck_assert(launcher_do("pause redis"));
}

void redis_resume(void)
{
    ck_assert(launcher_do("resume redis"));
}

void postgres_start(void)
{
    ck_assert(launcher_do("start postgres"));
}

void postgres_stop(void)
{
    ck_assert(launcher_do("stop postgres"));
}

void postgres_keep(const char *path)
{
    ck_assert(launcher_do("keep %s", path));
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

static int take_port(void)
{
    ck_assert(launcher_do("port"));
    return (int)strtol(launcher_value("port"), NULL, 10);
}

struct service *service_launch(const char *const *env)
{
    char listen_at[64], redis[SETTING_SIZE], token[64], name[PROC_NAME_SIZE];
    const char *all[32] = {listen_at, stack_database_setting(), redis, token};
    int count = 4, extra = 0;
    ck_assert_int_lt(stack.service_count, SERVICES_MAX);
    struct service *service = &stack.services[stack.service_count++];
    *service = (struct service){.port = take_port(), .reactors = reactors_in(env)};
    (void)snprintf(name, sizeof name, "seckill-%d", service->port);
    (void)snprintf(listen_at, sizeof listen_at, "SECKILL_LISTEN=127.0.0.1:%d", service->port);
    (void)snprintf(redis, sizeof redis, "SECKILL_REDIS_URL=%s", stack_redis_url());
    (void)snprintf(token, sizeof token, "SECKILL_ADMIN_TOKEN=%s", stack_admin_token);
    for (; env != NULL && env[extra] != NULL; extra++) {
        ck_assert_int_lt(count, 31);
        bool database = strncmp(env[extra], "SECKILL_DATABASE_URL=", sizeof "SECKILL_DATABASE_URL=" - 1) == 0;
        all[database ? 1 : count++] = env[extra]; // else there could be shards, too
    }
    const char *const argv[] = {SECKILL_BINARY, NULL};
    struct proc_options options = {name,         argv,        all, stack.soft_descriptors, stack.hard_descriptors,
                                   stack.out_fd, stack.err_fd};
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
    ck_assert(launcher_do("mend"));
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
    struct proc_options options = {name, argv, env, stack.soft_descriptors, stack.hard_descriptors, 0, 0};
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
    const char *redis = (parts & STACK_REDIS) != 0 ? "redis" : "",
               *postgres = (parts & STACK_POSTGRES) != 0 ? "postgres" : "";
    ck_assert(launcher_do("start %s %s", redis, postgres));
}

void stack_end(void)
{
    launcher_end();
}
