#include "site.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config.h"
#include "listener.h"
#include "log.h"
#include "wait.h"

enum { BACKLOG = 4096, CANNOT_START = 2, LEFT_OVER = 3 };

struct site site;

static uv_prepare_t turn;
static uv_signal_t drain, end;
static int listen_fd;
static struct sockaddr_in place = {.sin_family = AF_INET};
static pid_t child;

// ---- in the child ----

int sk_listen(const char *address)
{
    (void)address;
    return listen_fd;
}

static void on_malformed(void *arg, struct sk_request *request, enum sk_malformed what)
{
    (void)arg;
    sk_request_answer(request, what == SK_MALFORMED_HEAD ? 400 : 413, NULL);
}

static void on_turn(uv_prepare_t *handle)
{
    (void)handle;
    if (site.server == NULL)
        return;
    (void)sk_server_turn(site.server);
    if (site.draining && sk_server_waiting(site.server) == 0 && sk_server_sending(site.server) == 0)
        uv_stop(&site.loop);
}

static void on_signal(uv_signal_t *handle, int number)
{
    site.draining = true;
    if (number == SIGTERM)
        sk_server_drain(site.server);
    else
        uv_stop(handle->loop);
}

static void run(void)
{
    (void)uv_prepare_init(&site.loop, &turn);
    (void)uv_prepare_start(&turn, on_turn);
    (void)uv_signal_init(&site.loop, &drain);
    (void)uv_signal_start(&drain, on_signal, SIGTERM);
    (void)uv_signal_init(&site.loop, &end);
    (void)uv_signal_start(&end, on_signal, SIGUSR1);
    (void)uv_run(&site.loop, UV_RUN_DEFAULT);
    sk_server_close(site.server);
    site.server = NULL;
    uv_close((uv_handle_t *)&turn, NULL);
    uv_close((uv_handle_t *)&drain, NULL);
    uv_close((uv_handle_t *)&end, NULL);
    (void)uv_run(&site.loop, UV_RUN_DEFAULT);
}

int site_serve(const struct sk_handler *handler, const struct site_limits *limits)
{
    char name[] = "site", *words[] = {name, NULL};
    struct sk_config config;
    enum sk_command command;
    struct sk_handler all = *handler;
    all.malformed = on_malformed;
    sk_log_set_level(SK_LOG_ERROR);
    if (setenv("SECKILL_DATABASE_URL", "none", 1) != 0 ||
        sk_config_read(&config, &command, 1, words, stderr) != SK_OK || uv_loop_init(&site.loop) != 0)
        return CANNOT_START;
    config.server.max_connections = limits->connections == 0 ? config.server.max_connections : limits->connections;
    config.server.request_timeout_ms =
        limits->request_timeout_ms == 0 ? config.server.request_timeout_ms : limits->request_timeout_ms;
    site.server = sk_server_open(&site.loop, &config.server, &all);
    if (site.server == NULL)
        return CANNOT_START;
    run();
    sk_config_free(&config);
    return uv_loop_close(&site.loop) == 0 ? 0 : LEFT_OVER;
}

void site_answer(struct sk_request *request, unsigned status, const char *text)
{
    struct sk_response *response = sk_response_new("text/plain", text, strlen(text));
    if (site.draining)
        sk_response_header(response, "Connection", "close");
    sk_request_answer(request, status, response);
    sk_response_free(response);
}

// ---- in the test ----

void site_start(int (*serve)(void))
{
    socklen_t len = sizeof place;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    place.sin_port = 0;
    listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ck_assert(listen_fd >= 0 && bind(listen_fd, (struct sockaddr *)&place, sizeof place) == 0);
    ck_assert(listen(listen_fd, BACKLOG) == 0 && getsockname(listen_fd, (struct sockaddr *)&place, &len) == 0);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(serve());
    }
    (void)close(listen_fd);
}

int site_connect(int buffer)
{
    struct timeval limit = {.tv_sec = WAIT_DEADLINE_MS / 1000};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    if (buffer > 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    ck_assert_msg(connect(fd, (struct sockaddr *)&place, sizeof place) == 0, "%s", strerror(errno));
    return fd;
}

void site_signal(int signal)
{
    ck_assert_int_eq(kill(child, signal), 0);
}

void site_must_end(int signal)
{
    int status;
    site_signal(signal);
    WAIT_FOR(waitpid(child, &status, WNOHANG) == child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
}
