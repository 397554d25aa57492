// Streams, on a server of our own without a sale. It runs in a child process, and is told what to do by requests:
//
//   /stream      becomes a stream
//   /send/N      sends a text of N bytes to all streams; answers how many have taken it
//   /end         ends all streams
//   /count       answers how many there are
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "http.h"
#include "listener.h"
#include "log.h"
#include "server.h"
#include "stack.h"
#include "stream.h"
#include "wait.h"

enum {
    MANY = 200,
    SPARE = 20,
    TEXT_MAX = 100000,
    STUCK_MS = 1500,
    BODY_SIZE = 64,
    BACKLOG = 512,
    HEARD_SIZE = 1 << 20
};
enum { TEXT = 1000, TAKEN_MAX = 100, SMALL_BUFFER = 1, BIG = 60000 };

// ---- the server, in the child ----

static struct {
    uv_loop_t loop;
    uv_prepare_t turn;
    uv_signal_t drain, close;
    struct sk_server *server;
    struct sk_config config;
    bool draining;
    uint64_t streams[MANY + SPARE];
    size_t count;
} site;

static int listen_fd;

int sk_listen(const char *address)
{
    (void)address;
    return listen_fd;
}

static void must(bool holds)
{
    if (!holds)
        _exit(4);
}

static void answer(struct sk_request *request, long number)
{
    char body[BODY_SIZE];
    int n = snprintf(body, sizeof body, "%ld", number);
    struct sk_response *response = sk_response_new("text/plain", body, (size_t)n);
    if (site.draining)
        sk_response_header(response, "Connection", "close");
    sk_request_answer(request, 200, response);
    sk_response_free(response);
}

// A text of so many bytes: a letter again and again, and a line's end.
static long send_to_all(size_t len)
{
    static char text[TEXT_MAX];
    long taken = 0;
    must(len > 0 && len <= sizeof text);
    memset(text, 'x', len);
    text[len - 1] = '\n';
    for (size_t i = site.count; i-- > 0;) { // from the end: one that is dropped gives its place to the last one
        struct sk_request *request = sk_server_find_stream(site.server, site.streams[i]);
        must(request != NULL);
        taken += sk_stream_send(request, text, len);
    }
    return taken;
}

static void end_all(void)
{
    for (size_t i = 0; i < site.count; i++)
        sk_stream_end(sk_server_find_stream(site.server, site.streams[i]));
    site.count = 0;
}

static void on_request(void *arg, struct sk_request *request)
{
    (void)arg;
    if (strcmp(request->path, "/stream") == 0) {
        struct sk_response *head = sk_stream_new(request);
        sk_request_answer(request, 200, head);
        sk_response_free(head);
    } else if (strncmp(request->path, "/send/", 6) == 0) {
        answer(request, send_to_all(strtoul(request->path + 6, NULL, 10)));
    } else {
        if (strcmp(request->path, "/end") == 0)
            end_all();
        answer(request, (long)site.count);
    }
}

static void on_expired(void *arg, struct sk_request *request)
{
    (void)arg;
    (void)request;
    must(false);
}

static void on_malformed(void *arg, struct sk_request *request, enum sk_verdict verdict)
{
    (void)arg;
    sk_request_answer(request, sk_verdict_http_status(verdict), NULL);
}

static void on_streams(void *arg, struct sk_request *request)
{
    (void)arg;
    must(site.count < MANY + SPARE && sk_server_find_stream(site.server, request->ticket) == request);
    site.streams[site.count++] = request->ticket;
}

static void on_gone(void *arg, struct sk_request *request)
{
    size_t i = 0;
    (void)arg;
    while (i < site.count && site.streams[i] != request->ticket)
        i++;
    must(i < site.count);
    site.streams[i] = site.streams[--site.count];
}

static void on_turn(uv_prepare_t *turn)
{
    (void)turn;
    if (site.server == NULL)
        return;
    (void)sk_server_turn(site.server);
    if (site.draining && sk_server_waiting(site.server) == 0 && sk_server_sending(site.server) == 0)
        uv_stop(&site.loop);
}

static void on_signal(uv_signal_t *signal, int number)
{
    site.draining = true;
    if (number == SIGTERM)
        sk_server_drain(site.server);
    else
        uv_stop(signal->loop);
}

static int serve(void)
{
    char name[] = "site", *words[] = {name, NULL};
    enum sk_command command;
    struct sk_handler handler = {on_request, on_expired, on_malformed, on_streams, on_gone, NULL, NULL};
    sk_log_set_level(SK_LOG_ERROR);
    if (setenv("SECKILL_DATABASE_URL", "none", 1) != 0 ||
        sk_config_read(&site.config, &command, 1, words, stderr) != SK_OK || uv_loop_init(&site.loop) != 0)
        return 2;
    site.config.max_connections = MANY + SPARE;
    site.config.request_timeout_ms = STUCK_MS;
    site.server = sk_server_open(&site.loop, &site.config, &handler);
    if (site.server == NULL)
        return 2;
    (void)uv_prepare_init(&site.loop, &site.turn);
    (void)uv_prepare_start(&site.turn, on_turn);
    (void)uv_signal_init(&site.loop, &site.drain);
    (void)uv_signal_start(&site.drain, on_signal, SIGTERM);
    (void)uv_signal_init(&site.loop, &site.close);
    (void)uv_signal_start(&site.close, on_signal, SIGUSR1);
    (void)uv_run(&site.loop, UV_RUN_DEFAULT);
    sk_server_close(site.server);
    site.server = NULL;
    uv_close((uv_handle_t *)&site.turn, NULL);
    uv_close((uv_handle_t *)&site.drain, NULL);
    uv_close((uv_handle_t *)&site.close, NULL);
    (void)uv_run(&site.loop, UV_RUN_DEFAULT);
    sk_config_free(&site.config);
    return uv_loop_close(&site.loop) == 0 && site.count == 0 ? 0 : 3;
}

// ---- the clients ----

static struct sockaddr_in address = {.sin_family = AF_INET};
static pid_t child;
static int fds[MANY], control;
static struct http_reply reply;
static char heard[HEARD_SIZE];

static int come(int buffer)
{
    struct timeval limit = {.tv_sec = WAIT_DEADLINE_MS / 1000};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    if (buffer > 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ck_assert_msg(connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "%s", strerror(errno));
    return fd;
}

static void setup(void)
{
    socklen_t len = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = 0;
    listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ck_assert(listen_fd >= 0 && bind(listen_fd, (struct sockaddr *)&address, sizeof address) == 0);
    ck_assert(listen(listen_fd, BACKLOG) == 0 && getsockname(listen_fd, (struct sockaddr *)&address, &len) == 0);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(serve());
    }
    (void)close(listen_fd);
    control = come(0);
}

static long tell(const char *path)
{
    char request[BODY_SIZE * 2];
    (void)snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: test\r\n\r\n", path);
    ck_assert(http_send_text(control, request) && http_receive(control, &reply));
    return strtol(reply.body, NULL, 10);
}

static long tell_to_send(size_t len)
{
    char path[BODY_SIZE];
    (void)snprintf(path, sizeof path, "/send/%zu", len);
    return tell(path);
}

static int open_stream(int buffer, const char *version)
{
    char request[BODY_SIZE * 2];
    int fd = come(buffer);
    (void)snprintf(request, sizeof request, "GET /stream HTTP/%s\r\nHost: test\r\n\r\n", version);
    ck_assert(http_send_text(fd, request));
    return fd;
}

static void open_streams(int count)
{
    for (int i = 0; i < count; i++)
        fds[i] = open_stream(0, "1.1");
    WAIT_FOR(tell("/count") == count);
}

static size_t heard_len;

// What has come by now.
static bool hear_some(int fd)
{
    ssize_t n = recv(fd, heard + heard_len, HEARD_SIZE - 1 - heard_len, MSG_DONTWAIT);
    heard_len += n > 0 ? (size_t)n : 0;
    return n > 0;
}

static void skip_some(int fd)
{
    static char some[HEARD_SIZE];
    (void)recv(fd, some, sizeof some, MSG_DONTWAIT);
}

// The rest, until the end; where the body begins. `cut`: the connection may be reset.
static const char *hear_all(int fd, bool cut)
{
    ssize_t n;
    while ((n = recv(fd, heard + heard_len, HEARD_SIZE - 1 - heard_len, 0)) > 0)
        heard_len += (size_t)n;
    ck_assert(n == 0 || (cut && errno == ECONNRESET));
    heard[heard_len] = '\0';
    heard_len = 0;
    const char *body = strstr(heard, "\r\n\r\n");
    ck_assert_ptr_nonnull(body);
    ck_assert_ptr_null(strcasestr(heard, "transfer-encoding"));
    (void)close(fd);
    return body + 4;
}

// So many bytes of whole texts, each of this length.
static size_t must_be_texts(const char *body, size_t len)
{
    size_t count = 0;
    for (; *body != '\0'; body += len, count++) {
        ck_assert_uint_eq(strspn(body, "x"), len - 1);
        ck_assert_int_eq(body[len - 1], '\n');
    }
    return count;
}

static void must_end(int signal)
{
    int status;
    ck_assert_int_eq(kill(child, signal), 0);
    WAIT_FOR(waitpid(child, &status, WNOHANG) == child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
}

START_TEST(texts_come_until_the_end)
{
    enum { TEXTS = 3 }; // that the kernel keeps while the other end delays its acknowledgements
    open_streams(MANY);
    int old = open_stream(0, "1.0");
    WAIT_FOR(tell("/count") == MANY + 1);
    for (int i = 0; i < TEXTS; i++)
        ck_assert_int_eq(tell_to_send(TEXT / 10), MANY + 1);
    ck_assert_int_eq(tell("/end"), 0);
    for (int i = 0; i < MANY; i++)
        ck_assert_uint_eq(must_be_texts(hear_all(fds[i], false), TEXT / 10), TEXTS);
    ck_assert_uint_eq(must_be_texts(hear_all(old, false), TEXT / 10), TEXTS);
    must_end(SIGTERM);
}
END_TEST

// It misses texts, never a part of one, and the others miss nothing. It is dropped if it goes on like that.
START_TEST(one_is_slow)
{
    long taken = 0;
    int quick = open_stream(0, "1.1"), slow = open_stream(SMALL_BUFFER, "1.1");
    WAIT_FOR(tell("/count") == 2);
    for (long now = 2; now == 2; taken++) {
        ck_assert_int_lt(taken, TAKEN_MAX);
        now = tell_to_send(TEXT);
        skip_some(quick);
    }
    if (_i == 0) { // it reads on
        WAIT_FOR(!hear_some(slow) && tell_to_send(TEXT) == 2);
        ck_assert_int_eq(tell("/end"), 0);
        ck_assert_int_ge((long)must_be_texts(hear_all(slow, false), TEXT), taken - 1);
        (void)close(quick);
    } else {
        WAIT_FOR((skip_some(quick), tell_to_send(TEXT) == 1) && tell("/count") == 1);
        (void)hear_all(slow, true);
        ck_assert_int_eq(tell_to_send(TEXT), 1);
        ck_assert_int_eq(tell("/end"), 0);
        (void)close(quick);
    }
    must_end(SIGTERM);
}
END_TEST

// One that is longer than the buffers goes in parts; the end comes behind it.
START_TEST(a_long_text)
{
    int fd = open_stream(SMALL_BUFFER, "1.1");
    WAIT_FOR(tell("/count") == 1);
    ck_assert_int_eq(tell_to_send(BIG), 1);
    ck_assert_int_eq(tell_to_send(BIG), 0);
    ck_assert_int_eq(tell("/end"), 0);
    ck_assert_uint_eq(must_be_texts(hear_all(fd, false), BIG), 1);
    must_end(SIGTERM);
}
END_TEST

START_TEST(clients_hang_up)
{
    struct linger reset = {.l_onoff = 1};
    open_streams(MANY);
    for (int i = 0; i < MANY; i += 2) {
        if (i % 4 == 0)
            ck_assert_int_eq(setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
        (void)close(fds[i]);
    }
    WAIT_FOR(tell("/count") == MANY / 2);
    ck_assert_int_eq(tell_to_send(TEXT), MANY / 2);
    ck_assert_int_eq(tell("/end"), 0);
    for (int i = 1; i < MANY; i += 2)
        ck_assert_uint_eq(must_be_texts(hear_all(fds[i], false), TEXT), 1);
    must_end(SIGTERM);
}
END_TEST

START_TEST(only_the_head)
{
    int fd = come(0);
    ck_assert(http_send_text(fd, "HEAD /stream HTTP/1.1\r\nHost: test\r\n\r\n"));
    ck_assert_str_eq(hear_all(fd, false), "");
    ck_assert_ptr_nonnull(strstr(heard, "text/event-stream"));
    ck_assert_int_eq(tell("/count"), 0);
    must_end(SIGTERM);
}
END_TEST

// Draining, and closing at once: all end behind what was sent.
START_TEST(the_end)
{
    open_streams(MANY);
    ck_assert_int_eq(tell_to_send(TEXT), MANY);
    (void)close(control);
    ck_assert_int_eq(kill(child, _i == 0 ? SIGTERM : SIGUSR1), 0);
    for (int i = 0; i < MANY; i++)
        ck_assert_uint_eq(must_be_texts(hear_all(fds[i], false), TEXT), 1);
    must_end(0);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("stream");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, texts_come_until_the_end);
    tcase_add_loop_test(tcase, one_is_slow, 0, 2);
    tcase_add_test(tcase, a_long_text);
    tcase_add_test(tcase, clients_hang_up);
    tcase_add_test(tcase, only_the_head);
    tcase_add_loop_test(tcase, the_end, 0, 2);
    return harness_main(tcase, CK_FORK);
}
