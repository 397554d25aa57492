// Notifications to a service manager: the instance is ready, all of its loops turn, it ends. The test plays the
// manager: it listens on NOTIFY_SOCKET.
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "http.h"
#include "proc.h"
#include "service_log.h"
#include "stack.h"
#include "stores.h"
#include "test.h"
#include "wait.h"

enum { LINES_SIZE = 256, ENV_SIZE = 320, WATCHDOG_MS = 4000, REACTORS = 3 };

// Long enough that no loop seems to hang where other tests run beside this one: each must turn once a second.
#define WATCHDOG "WATCHDOG_USEC=4000000"

static int manager = -1;
static char socket_env[ENV_SIZE];

static void setup(void)
{
    stack_start(STACK_ALL);
}

// Opens the manager's socket, with a path or an abstract name.
static void listen_for_news(bool abstract)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int n = snprintf(at.sun_path + abstract, sizeof at.sun_path - 1, "%s/notify", proc_scratch());
    ck_assert(n > 0 && (size_t)n < sizeof at.sun_path - 1);
    if (!abstract)
        (void)unlink(at.sun_path);
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert_int_ge(manager, 0);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n + 1);
    ck_assert_int_eq(bind(manager, (struct sockaddr *)&at, len), 0);
    (void)snprintf(socket_env, sizeof socket_env, "NOTIFY_SOCKET=%s%s", abstract ? "@" : "", at.sun_path + abstract);
}

static void teardown(void)
{
    service_stop_all();
    (void)close(manager);
    manager = -1;
}

// The next datagram; false: none yet.
static bool hear(char lines[LINES_SIZE])
{
    ssize_t n = recv(manager, lines, LINES_SIZE - 1, 0);
    lines[n > 0 ? n : 0] = '\0';
    return n > 0;
}

// Reads on until a datagram has this line.
static bool heard(const char *line)
{
    char lines[LINES_SIZE];
    while (hear(lines)) {
        const char *at = strstr(lines, line);
        if (at != NULL && (at == lines || at[-1] == '\n') && (at[strlen(line)] == '\n' || at[strlen(line)] == '\0'))
            return true;
    }
    return false;
}

static bool heard_of_readiness(void)
{
    char lines[LINES_SIZE];
    bool any = false;
    while (hear(lines))
        any = any || strstr(lines, "READY=1") != NULL;
    return any;
}

// While a store is away the instance asks the manager for more time and does not report readiness; nor does it while
// only some reactors are ready.
TEST_EACH(ready_is_what_readyz_says, 2)
{
    struct http_reply reply;
    listen_for_news(_i == 1);
    redis_kill();
    struct service *service = service_launch(ENV(socket_env, "SECKILL_REACTORS=3"));
    WAIT_FOR(heard("EXTEND_TIMEOUT_USEC=10000000"));
    WAIT_FOR(heard("STATUS=waits for the stores"));
    service_await(service, false);
    ck_assert(!heard_of_readiness());
    redis_start();
    WAIT_FOR(heard("READY=1"));
    for (int i = 0; i < 4 * REACTORS; i++)
        ck_assert_int_eq(http_get(service, "/readyz", NULL, &reply), 200);
    redis_kill(); // losing readiness changes the status only
    WAIT_FOR(heard("STATUS=not ready: see /readyz"));
    redis_start();
    WAIT_FOR(heard("STATUS=ready"));
}

TEST(a_reload_is_told)
{
    char lines[LINES_SIZE];
    listen_for_news(true);
    struct service *service = service_start(ENV(socket_env));
    WAIT_FOR(heard("READY=1"));
    service_signal(service, SIGHUP);
    WAIT_FOR(hear(lines) &&
             strncmp(lines, "RELOADING=1\nMONOTONIC_USEC=", strlen("RELOADING=1\nMONOTONIC_USEC=")) == 0);
    WAIT_FOR(heard("READY=1"));
}

TEST(the_end_is_told_and_watched)
{
    char voucher[VOUCHER_ID_SIZE];
    listen_for_news(true);
    struct service *service = service_start(ENV(socket_env, WATCHDOG, "SECKILL_CONFIRM_TIMEOUT_MS=20000"));
    voucher_on_sale(service, 1, voucher);
    db_hold_orders();
    int fd = http_begin_buying(service, voucher, "alice");
    WAIT_FOR(db_orders_held_ms() > 0);
    service_signal(service, SIGTERM);
    WAIT_FOR(heard("STOPPING=1"));
    WAIT_FOR(heard("EXTEND_TIMEOUT_USEC=10000000"));
    WAIT_FOR(heard("WATCHDOG=1")); // it drains, and its loop still turns
    db_let_orders_go();
    http_end_buying(fd, 201);
    ck_assert_int_eq(service_wait(service), 0);
}

// One loop hangs: the others serve, yet the watchdog gets no ping.
TEST(a_loop_that_hangs_ends_the_pings)
{
    char file[PROC_PATH_SIZE + 16], hanging[ENV_SIZE], lines[LINES_SIZE];
    (void)snprintf(file, sizeof file, "%s/hang", proc_scratch());
    (void)snprintf(hanging, sizeof hanging, "HANGING_LOOP=%s", file);
    listen_for_news(true);
    struct service *service = service_start(ENV(socket_env, WATCHDOG, hanging, "LD_PRELOAD=" HANGING_LOOP_LIBRARY,
                                                service_preload_options(), "SECKILL_REACTORS=3"));
    for (int i = 0; i < 3; i++)
        WAIT_FOR(heard("WATCHDOG=1"));
    ck_assert_int_eq(service_log_count(service, "a loop does not turn"), 0);
    int fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    (void)close(fd);
    service_log_must_have(service, 1, "a loop does not turn");
    while (hear(lines)) {}
    (void)usleep(WATCHDOG_MS * 1000); // time in which it pings four times
    ck_assert_msg(!heard("WATCHDOG=1"), "it pings while a loop hangs");
    ck_assert_int_eq(unlink(file), 0);
    WAIT_FOR(heard("WATCHDOG=1"));
    service_log_must_have(service, 1, "all loops turn again");
}

// WATCHDOG_PID names another process: an inherited environment does not count.
TEST(the_watchdog_of_another_process_is_none)
{
    char lines[LINES_SIZE];
    listen_for_news(true);
    struct service *service = service_start(ENV(socket_env, WATCHDOG, "WATCHDOG_PID=1"));
    WAIT_FOR(heard("READY=1"));
    (void)usleep(WATCHDOG_MS * 1000); // time in which it could ping
    while (hear(lines))
        ck_assert_msg(strstr(lines, "WATCHDOG") == NULL, "%s", lines);
    service_signal(service, SIGTERM);
    ck_assert_int_eq(service_wait(service), 0);
}

TEST(a_manager_that_went_away_stops_nothing)
{
    struct http_reply reply;
    listen_for_news(false);
    struct service *service = service_start(ENV(socket_env, WATCHDOG));
    WAIT_FOR(heard("READY=1"));
    (void)close(manager);
    manager = -1;
    service_log_must_have(service, 1, "does not take a notification");
    ck_assert_int_eq(http_get(service, "/readyz", NULL, &reply), 200);
    listen_for_news(false); // a restarted manager has a new socket under the old name
    WAIT_FOR(heard("WATCHDOG=1"));
}

TEST(what_is_no_manager_is_refused)
{
    static const char *const rows[][2] = {
        {"NOTIFY_SOCKET=relative/path", "NOTIFY_SOCKET"},
        {"NOTIFY_SOCKET=@", "NOTIFY_SOCKET"},
        {"NOTIFY_SOCKET=/"
         "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
         "NOTIFY_SOCKET"},
    };
    char out[4096], database[ENV_SIZE];
    (void)snprintf(database, sizeof database, "SECKILL_DATABASE_URL=%s", stack_database_url());
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ck_assert_int_eq(service_run((const char *const[]){NULL}, ENV(database, rows[i][0]), out, sizeof out), 1);
        ck_assert_msg(strstr(out, rows[i][1]) != NULL, "%s", out);
    }
    ck_assert_int_eq(service_run((const char *const[]){NULL}, ENV(database, "NOTIFY_SOCKET=@x", "WATCHDOG_USEC=soon"),
                                 out, sizeof out),
                     1);
    ck_assert_msg(strstr(out, "WATCHDOG_USEC") != NULL, "%s", out);
}

SUITE(.timeout_s = 60, .begin = setup, .teardown = teardown, .in_one_process = true);
