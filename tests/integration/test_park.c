// Requests that are parked: ten thousand of them at a time, on a server of our own without a sale. It runs in a child
// process, for the descriptors of both ends would not fit into one. It is told what to do by requests:
//
//   /park/N      is parked, as number N, until woken: then its answer is "woken N"
//   /short/N     the same for SHORT_MS: then its answer is "expired N"
//   /wait/N      waits, until /move parks it
//   /at-once/N   is parked, and woken before its handler returns
//   /move        parks all that wait
//   /wake/N      wakes the oldest N; answers how many there were
//   /break       there is no memory for the answers of all that are parked
//   /count       answers how many wait or are parked
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "http.h"
#include "listener.h"
#include "log.h"
#include "server.h"
#include "stack.h"
#include "wait.h"

enum { MANY = 10000, SPARE = 100, TICKETS = 1 << 16, SHORT_MS = 400, HOUR_MS = 3600000, DESCRIPTORS = MANY + 1000 };
enum { BODY_SIZE = 64, REQUEST_SIZE = 128, BROKEN_OFF = 50, BACKLOG = 4096 };

// ---- the server, in the child ----

struct note {
    long number;
};

static struct {
    uv_loop_t loop;
    uv_prepare_t turn;
    uv_signal_t drain, close;
    struct sk_server *server;
    struct sk_config config;
    bool draining;
    uint64_t tickets[TICKETS]; // oldest first; some lead nowhere any more
    size_t first, end;
} park;

static int listen_fd;

int sk_listen(const char *address)
{
    (void)address;
    return listen_fd;
}

static long *number_of(struct sk_request *request)
{
    return &((struct note *)(void *)request->note.bytes)->number;
}

static void answer(struct sk_request *request, unsigned status, const char *word, long number)
{
    char body[BODY_SIZE];
    int n = snprintf(body, sizeof body, "%s %ld", word, number);
    struct sk_response *response = sk_response_new("text/plain", body, (size_t)n);
    if (park.draining)
        sk_response_header(response, "Connection", "close");
    sk_request_answer(request, status, response);
    sk_response_free(response);
}

static bool path_is(const struct sk_request *request, const char *start, long *number)
{
    size_t n = strlen(start);
    if (strncmp(request->path, start, n) != 0)
        return false;
    *number = strtol(request->path + n, NULL, 10);
    return true;
}

static void keep(struct sk_request *request, long number)
{
    *number_of(request) = number;
    ck_assert_uint_lt(park.end, TICKETS);
    park.tickets[park.end++] = request->ticket;
}

static long wake(long most)
{
    long count = 0;
    while (count < most && park.first < park.end) {
        struct sk_request *request = sk_server_find(park.server, park.tickets[park.first++]);
        if (request == NULL)
            continue;
        answer(request, 200, "woken", *number_of(request));
        count++;
    }
    return count;
}

static void for_all(void (*act)(struct sk_request *request))
{
    for (size_t i = park.first; i < park.end; i++) {
        struct sk_request *request = sk_server_find(park.server, park.tickets[i]);
        if (request != NULL)
            act(request);
    }
}

static void move(struct sk_request *request)
{
    sk_request_park(request, HOUR_MS);
}

static void answer_without_memory(struct sk_request *request)
{
    sk_request_answer(request, 200, NULL);
}

static void on_request(void *arg, struct sk_request *request)
{
    long number = 0;
    (void)arg;
    if (path_is(request, "/park/", &number)) {
        keep(request, number);
        sk_request_park(request, HOUR_MS);
    } else if (path_is(request, "/short/", &number)) {
        keep(request, number);
        sk_request_park(request, SHORT_MS);
    } else if (path_is(request, "/wait/", &number)) {
        keep(request, number);
        sk_request_wait(request, HOUR_MS);
    } else if (path_is(request, "/at-once/", &number)) {
        sk_request_park(request, HOUR_MS);
        answer(request, 200, "woken", number);
    } else if (path_is(request, "/wake/", &number)) {
        answer(request, 200, "count", wake(number));
    } else if (path_is(request, "/count", &number)) {
        answer(request, 200, "count", (long)sk_server_waiting(park.server));
    } else {
        for_all(path_is(request, "/move", &number) ? move : answer_without_memory);
        answer(request, 200, "done", 0);
    }
}

static void on_expired(void *arg, struct sk_request *request)
{
    (void)arg;
    answer(request, 504, "expired", *number_of(request));
}

static void on_streams(void *arg, struct sk_request *request)
{
    (void)arg;
    (void)request;
    _exit(5); // nothing streams
}

// It is still found by its ticket, for the last time.
static void on_gone(void *arg, struct sk_request *request)
{
    (void)arg;
    if (sk_server_find(park.server, request->ticket) != request)
        _exit(4);
}

static void on_malformed(void *arg, struct sk_request *request, enum sk_verdict verdict)
{
    (void)arg;
    sk_request_answer(request, sk_verdict_http_status(verdict), NULL);
}

static void on_turn(uv_prepare_t *turn)
{
    (void)turn;
    if (park.server == NULL)
        return;
    (void)sk_server_turn(park.server);
    if (park.draining && sk_server_waiting(park.server) == 0 && sk_server_sending(park.server) == 0)
        uv_stop(&park.loop);
}

static void on_signal(uv_signal_t *signal, int number)
{
    park.draining = true;
    if (number == SIGTERM)
        sk_server_drain(park.server);
    else
        uv_stop(signal->loop);
}

static int serve(void)
{
    char name[] = "park", *words[] = {name, NULL};
    enum sk_command command;
    struct sk_handler handler = {on_request, on_expired, on_malformed, on_streams, on_gone, NULL, NULL};
    struct rlimit limit;
    sk_log_set_level(SK_LOG_ERROR);
    if (setenv("SECKILL_DATABASE_URL", "none", 1) != 0 ||
        sk_config_read(&park.config, &command, 1, words, stderr) != SK_OK || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 2;
    limit.rlim_cur = DESCRIPTORS;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || uv_loop_init(&park.loop) != 0)
        return 2;
    park.config.max_connections = MANY + SPARE;
    park.server = sk_server_open(&park.loop, &park.config, &handler);
    if (park.server == NULL)
        return 2;
    (void)uv_prepare_init(&park.loop, &park.turn);
    (void)uv_prepare_start(&park.turn, on_turn);
    (void)uv_signal_init(&park.loop, &park.drain);
    (void)uv_signal_start(&park.drain, on_signal, SIGTERM);
    (void)uv_signal_init(&park.loop, &park.close);
    (void)uv_signal_start(&park.close, on_signal, SIGUSR1);
    (void)uv_run(&park.loop, UV_RUN_DEFAULT);
    sk_server_close(park.server);
    park.server = NULL;
    uv_close((uv_handle_t *)&park.turn, NULL);
    uv_close((uv_handle_t *)&park.drain, NULL);
    uv_close((uv_handle_t *)&park.close, NULL);
    (void)uv_run(&park.loop, UV_RUN_DEFAULT);
    sk_config_free(&park.config);
    return uv_loop_close(&park.loop) == 0 ? 0 : 3;
}

// ---- the clients ----

static struct sockaddr_in address = {.sin_family = AF_INET};
static pid_t child;
static int fds[MANY], control; // control: for what the server is told
static struct http_reply reply;

static void setup(void)
{
    socklen_t len = sizeof address;
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = DESCRIPTORS;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
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
}

static int come(void)
{
    struct timeval limit = {.tv_sec = WAIT_DEADLINE_MS / 1000};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    ck_assert_msg(connect(fd, (struct sockaddr *)&address, sizeof address) == 0, "%s", strerror(errno));
    return fd;
}

static void ask(int fd, const char *path, long number)
{
    char request[REQUEST_SIZE];
    (void)snprintf(request, sizeof request, "GET %s%ld HTTP/1.1\r\nHost: test\r\n\r\n", path, number);
    ck_assert(http_send_text(fd, request));
}

static void must_hear(int fd, int status, const char *word, long number)
{
    char body[BODY_SIZE];
    (void)snprintf(body, sizeof body, "%s %ld", word, number);
    ck_assert_msg(http_receive(fd, &reply), "no answer for %s", body);
    ck_assert_msg(strcmp(reply.body, body) == 0, "'%s', not '%s'", reply.body, body);
    ck_assert_int_eq(reply.status, status);
}

// What the server is told, on a connection of its own.
static long tell(const char *path, long number)
{
    ask(control, path, number);
    ck_assert(http_receive(control, &reply));
    return strtol(reply.body + strcspn(reply.body, " "), NULL, 10);
}

static void park_from(long first, long end)
{
    for (long i = first; i < end; i++) {
        fds[i] = come();
        ask(fds[i], "/park/", i);
    }
}

static void open_control(void)
{
    control = come();
}

static void park_many(void)
{
    open_control();
    park_from(0, MANY);
    WAIT_FOR(tell("/count", 0) == MANY);
}

static void must_end(int signal)
{
    int status;
    ck_assert_int_eq(kill(child, signal), 0);
    WAIT_FOR(waitpid(child, &status, WNOHANG) == child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
}

static void leave(long first, long end)
{
    for (long i = first; i < end; i++)
        (void)close(fds[i]);
}

START_TEST(all_are_answered_and_go_on)
{
    park_many();
    ck_assert_int_eq(tell("/wake/", MANY), MANY);
    for (long i = 0; i < MANY; i++) {
        must_hear(fds[i], 200, "woken", i);
        ask(fds[i], "/at-once/", -i); // also the first that is found answered when it is to be suspended
    }
    for (long i = 0; i < MANY; i++)
        must_hear(fds[i], 200, "woken", -i);
    ck_assert_int_eq(tell("/count", 0), 0);
    leave(0, MANY);
    must_end(SIGTERM);
}
END_TEST

// A few at a time: the others wait, and those who were answered come again and again.
START_TEST(some_are_answered)
{
    enum { ROUNDS = 40, EACH = 25 };
    long next = 0;
    park_many();
    for (long round = 0; round < ROUNDS; round++) {
        ck_assert_int_eq(tell("/wake/", EACH), EACH);
        for (long i = 0; i < EACH; i++, next++) {
            must_hear(fds[next], 200, "woken", next);
            ask(fds[next], "/park/", next);
        }
    }
    WAIT_FOR(tell("/count", 0) == MANY);
    char byte;
    for (long i = 0; i < MANY; i++)
        ck_assert_int_lt(recv(fds[i], &byte, 1, MSG_DONTWAIT), 0);
    leave(0, MANY);
    must_end(SIGTERM);
}
END_TEST

START_TEST(deadlines_come)
{
    enum { SHORT = 2000 };
    open_control();
    park_from(SHORT, MANY);
    for (long i = 0; i < SHORT; i++) {
        fds[i] = come();
        ask(fds[i], "/short/", i);
    }
    uint64_t asked_ms = sk_monotonic_ms();
    ask(fds[SHORT - 1], "/count", 0); // pipelined: waits for its turn
    must_hear(fds[SHORT - 1], 504, "expired", SHORT - 1);
    ck_assert_uint_ge(sk_monotonic_ms() + 1, asked_ms + SHORT_MS);
    for (long i = 0; i < SHORT - 1; i++)
        must_hear(fds[i], 504, "expired", i);
    must_hear(fds[SHORT - 1], 200, "count", MANY - SHORT);
    leave(0, MANY);
    must_end(SIGTERM);
}
END_TEST

// The server sees it, drops their requests, and has room for others.
START_TEST(clients_hang_up)
{
    enum { STAY = 1000 };
    struct linger reset = {.l_onoff = 1};
    park_many();
    for (long i = STAY; i < MANY; i++) {
        if (i % 3 == 0) // closing it will cut it off
            ck_assert_int_eq(setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
        if (i % 3 == 1) // nothing more will come, which is taken for having left
            ck_assert_int_eq(shutdown(fds[i], SHUT_WR), 0);
    }
    for (long i = STAY; i < MANY; i++)
        ck_assert(i % 3 != 1 || http_closed(fds[i]));
    leave(STAY, MANY);
    WAIT_FOR(tell("/count", 0) == STAY);
    park_from(STAY, MANY);
    WAIT_FOR(tell("/count", 0) == MANY);
    ck_assert_int_eq(tell("/wake/", 2L * MANY), MANY);
    for (long i = 0; i < MANY; i++)
        must_hear(fds[i], 200, "woken", i);
    leave(0, MANY);
    must_end(SIGTERM);
}
END_TEST

START_TEST(waiting_ones_are_parked)
{
    open_control();
    for (long i = 0; i < SPARE; i++) {
        fds[i] = come();
        ask(fds[i], "/wait/", i);
        ask(fds[i], "/at-once/", i); // pipelined
    }
    WAIT_FOR(tell("/count", 0) == SPARE);
    (void)tell("/move", 0);
    (void)close(fds[0]); // seen only of one that is parked
    WAIT_FOR(tell("/count", 0) == SPARE - 1);
    ck_assert_int_eq(tell("/wake/", SPARE), SPARE - 1);
    for (long i = 1; i < SPARE; i++) {
        must_hear(fds[i], 200, "woken", i);
        must_hear(fds[i], 200, "woken", i);
    }
    leave(1, SPARE);
    must_end(SIGTERM);
}
END_TEST

// Also of one that waits on a connection which was parked before, and whose bytes were all there already: then
// libmicrohttpd does not watch the socket, and would not see its end.
START_TEST(no_memory_for_answers)
{
    open_control();
    for (int waits = 0; waits < 2; waits++) {
        park_from(0, SPARE);
        for (long i = 0; waits && i < SPARE; i++)
            ask(fds[i], "/wait/", i);
        WAIT_FOR(tell("/count", 0) == SPARE);
        ck_assert_int_eq(tell("/wake/", waits ? SPARE : 0), waits ? SPARE : 0);
        for (long i = 0; waits && i < SPARE; i++)
            must_hear(fds[i], 200, "woken", i);
        WAIT_FOR(tell("/count", 0) == SPARE);
        (void)tell("/break", 0);
        for (long i = 0; i < SPARE; i++)
            ck_assert(!http_receive(fds[i], &reply) && reply.text[0] == '\0');
        leave(0, SPARE);
        ck_assert_int_eq(tell("/count", 0), 0);
    }
    must_end(SIGTERM);
}
END_TEST

// Draining, and closing at once: all are answered to the last one.
START_TEST(the_end)
{
    char value[HTTP_FIELD_SIZE];
    park_many();
    (void)close(control);
    leave(0, BROKEN_OFF); // in the middle of it
    ck_assert_int_eq(kill(child, _i == 0 ? SIGTERM : SIGUSR1), 0);
    for (long i = BROKEN_OFF; i < MANY; i++) {
        must_hear(fds[i], 504, "expired", i);
        ck_assert(http_header(&reply, "Connection", value) && strcmp(value, "close") == 0);
        ck_assert(http_closed(fds[i]));
    }
    leave(BROKEN_OFF, MANY);
    must_end(0);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("park");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, all_are_answered_and_go_on);
    tcase_add_test(tcase, some_are_answered);
    tcase_add_test(tcase, deadlines_come);
    tcase_add_test(tcase, clients_hang_up);
    tcase_add_test(tcase, waiting_ones_are_parked);
    tcase_add_test(tcase, no_memory_for_answers);
    tcase_add_loop_test(tcase, the_end, 0, 2);
    return harness_main(tcase, CK_FORK);
}
