// Suspended requests: ten thousand at a time, on a test server without a sale. It runs in a child process, since one
// process has too few descriptors for both ends. Requests control it:
//
//   /park/N      is suspended, as number N, until woken: then its answer is "woken N"
//   /short/N     the same for SHORT_MS: then its answer is "expired N"
//   /wait/N      waits, until /move suspends it
//   /at-once/N   is suspended, and woken before its handler returns
//   /move        suspends all that wait
//   /wake/N      wakes the oldest N; answers how many there were
//   /break       makes memory for all suspended answers fail
//   /count       answers how many wait or are suspended
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http.h"
#include "site.h"
#include "stack.h"
#include "test.h"
#include "wait.h"

enum { MANY = 10000, SPARE = 100, HANDLES = 1 << 16, SHORT_MS = 400, HOUR_MS = 3600000, DESCRIPTORS = MANY + 1000 };
enum { BODY_SIZE = 64, REQUEST_SIZE = 128, BROKEN_OFF = 50 };

// ---- the server, in the child ----

struct note {
    long number;
};

static struct {
    uint64_t handles[HANDLES]; // oldest first; some are stale
    size_t first, end;
} park;

static long *number_of(struct sk_request *request)
{
    return &((struct note *)(void *)request->note.bytes)->number;
}

static void answer(struct sk_request *request, unsigned status, const char *word, long number)
{
    char body[BODY_SIZE];
    (void)snprintf(body, sizeof body, "%s %ld", word, number);
    site_answer(request, status, body);
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
    ck_assert_uint_lt(park.end, HANDLES);
    park.handles[park.end++] = request->handle;
}

static long wake(long most)
{
    long count = 0;
    while (count < most && park.first < park.end) {
        struct sk_request *request = sk_server_find(site.server, park.handles[park.first++]);
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
        struct sk_request *request = sk_server_find(site.server, park.handles[i]);
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
        answer(request, 200, "count", (long)sk_server_waiting(site.server));
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
    _exit(5); // nothing streams here
}

// The request can be found by its handle one last time.
static void on_gone(void *arg, struct sk_request *request)
{
    (void)arg;
    if (sk_server_find(site.server, request->handle) != request)
        _exit(4);
}

static int serve(void)
{
    static const struct sk_handler handler = {
        .handle = on_request, .expired = on_expired, .streams = on_streams, .gone = on_gone};
    return site_serve(&handler, &(struct site_limits){.connections = MANY + SPARE});
}

// ---- the clients ----

static int fds[MANY], control; // control: the connection for commands
static struct http_reply reply;

static void setup(void)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = DESCRIPTORS;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    site_start(serve);
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

// Sends a command to the server, on its own connection.
static long tell(const char *path, long number)
{
    ask(control, path, number);
    ck_assert(http_receive(control, &reply));
    return strtol(reply.body + strcspn(reply.body, " "), NULL, 10);
}

static void park_from(long first, long end)
{
    for (long i = first; i < end; i++) {
        fds[i] = site_connect(0);
        ask(fds[i], "/park/", i);
    }
}

static void open_control(void)
{
    control = site_connect(0);
}

static void park_many(void)
{
    open_control();
    park_from(0, MANY);
    WAIT_FOR(tell("/count", 0) == MANY);
}

static void leave(long first, long end)
{
    for (long i = first; i < end; i++)
        (void)close(fds[i]);
}

TEST(all_are_answered_and_go_on)
{
    park_many();
    ck_assert_int_eq(tell("/wake/", MANY), MANY);
    for (long i = 0; i < MANY; i++) {
        must_hear(fds[i], 200, "woken", i);
        ask(fds[i], "/at-once/", -i); // also the first one that is already answered when it is to be suspended
    }
    for (long i = 0; i < MANY; i++)
        must_hear(fds[i], 200, "woken", -i);
    ck_assert_int_eq(tell("/count", 0), 0);
    leave(0, MANY);
    site_must_end(SIGTERM);
}

// A few are answered at a time and return, while the others keep waiting.
TEST(some_are_answered)
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
    site_must_end(SIGTERM);
}

TEST(deadlines_come)
{
    enum { SHORT = 2000 };
    open_control();
    park_from(SHORT, MANY);
    for (long i = 0; i < SHORT; i++) {
        fds[i] = site_connect(0);
        ask(fds[i], "/short/", i);
    }
    uint64_t asked_ms = sk_monotonic_ms();
    ask(fds[SHORT - 1], "/count", 0); // pipelined: answered after the first
    must_hear(fds[SHORT - 1], 504, "expired", SHORT - 1);
    ck_assert_uint_ge(sk_monotonic_ms() + 1, asked_ms + SHORT_MS);
    for (long i = 0; i < SHORT - 1; i++)
        must_hear(fds[i], 504, "expired", i);
    must_hear(fds[SHORT - 1], 200, "count", MANY - SHORT);
    leave(0, MANY);
    site_must_end(SIGTERM);
}

// The server notices, drops their requests, and has room for others.
TEST(clients_hang_up)
{
    enum { STAY = 1000 };
    struct linger reset = {.l_onoff = 1};
    park_many();
    for (long i = STAY; i < MANY; i++) {
        if (i % 3 == 0) // closing it resets the connection
            ck_assert_int_eq(setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
        if (i % 3 == 1) // half-closed, which the server treats as closed
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
    site_must_end(SIGTERM);
}

TEST(waiting_ones_are_parked)
{
    open_control();
    for (long i = 0; i < SPARE; i++) {
        fds[i] = site_connect(0);
        ask(fds[i], "/wait/", i);
        ask(fds[i], "/at-once/", i); // pipelined
    }
    WAIT_FOR(tell("/count", 0) == SPARE);
    (void)tell("/move", 0);
    (void)close(fds[0]); // noticed only if it is suspended
    WAIT_FOR(tell("/count", 0) == SPARE - 1);
    ck_assert_int_eq(tell("/wake/", SPARE), SPARE - 1);
    for (long i = 1; i < SPARE; i++) {
        must_hear(fds[i], 200, "woken", i);
        must_hear(fds[i], 200, "woken", i);
    }
    leave(1, SPARE);
    site_must_end(SIGTERM);
}

// Includes a request that waits on a connection that was suspended before, and whose bytes have all been read.
// libmicrohttpd then does not watch the socket and would not notice its end.
TEST(no_memory_for_answers)
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
    site_must_end(SIGTERM);
}

// Both draining and closing at once answer every request.
TEST_EACH(the_end, 2)
{
    char value[HTTP_FIELD_SIZE];
    park_many();
    (void)close(control);
    leave(0, BROKEN_OFF); // during the shutdown
    site_signal(_i == 0 ? SIGTERM : SIGUSR1);
    for (long i = BROKEN_OFF; i < MANY; i++) {
        must_hear(fds[i], 504, "expired", i);
        ck_assert(http_header(&reply, "Connection", value) && strcmp(value, "close") == 0);
        ck_assert(http_closed(fds[i]));
    }
    leave(BROKEN_OFF, MANY);
    site_must_end(0);
}

SUITE(.timeout_s = 120, .setup = setup);
