// Streams, on a test server without a sale. It runs in a child process, and requests control it:
//
//   /stream      becomes a stream
//   /send/N      sends a text of N bytes to all streams; answers how many have accepted it
//   /end         ends all streams
//   /count       answers how many there are
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http.h"
#include "response.h"
#include "site.h"
#include "stack.h"
#include "test.h"
#include "wait.h"

enum { MANY = 200, SPARE = 20, TEXT_MAX = 100000, STUCK_MS = 1500, BODY_SIZE = 64, HEARD_SIZE = 1 << 20 };
enum { TEXT = 1000, TAKEN_MAX = 100, SMALL_BUFFER = 1, BIG = 60000 };

// ---- the server, in the child ----

static struct {
    uint64_t handles[MANY + SPARE];
    size_t count;
} streams;

static void must(bool holds)
{
    if (!holds)
        _exit(4);
}

static void answer(struct sk_request *request, long number)
{
    char body[BODY_SIZE];
    (void)snprintf(body, sizeof body, "%ld", number);
    site_answer(request, 200, body);
}

// Sends a text of this length: one letter repeated, and a line end.
static long send_to_all(size_t len)
{
    static char text[TEXT_MAX];
    long taken = 0;
    must(len > 0 && len <= sizeof text);
    memset(text, 'x', len);
    text[len - 1] = '\n';
    for (size_t i = streams.count; i-- > 0;) { // backwards: the last stream takes the place of a dropped one
        struct sk_request *request = sk_server_find_stream(site.server, streams.handles[i]);
        must(request != NULL);
        taken += sk_stream_send(request, text, len);
    }
    return taken;
}

static void end_all(void)
{
    for (size_t i = 0; i < streams.count; i++)
        sk_stream_end(sk_server_find_stream(site.server, streams.handles[i]));
    streams.count = 0;
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
        answer(request, (long)streams.count);
    }
}

static void on_expired(void *arg, struct sk_request *request)
{
    (void)arg;
    (void)request;
    must(false);
}

static void on_streams(void *arg, struct sk_request *request)
{
    (void)arg;
    must(streams.count < MANY + SPARE && sk_server_find_stream(site.server, request->handle) == request);
    streams.handles[streams.count++] = request->handle;
}

static void on_gone(void *arg, struct sk_request *request)
{
    size_t i = 0;
    (void)arg;
    while (i < streams.count && streams.handles[i] != request->handle)
        i++;
    must(i < streams.count);
    streams.handles[i] = streams.handles[--streams.count];
}

static int serve(void)
{
    static const struct sk_handler handler = {
        .handle = on_request, .expired = on_expired, .streams = on_streams, .gone = on_gone};
    int status =
        site_serve(&handler, &(struct site_limits){.connections = MANY + SPARE, .request_timeout_ms = STUCK_MS});
    must(streams.count == 0);
    return status;
}

// ---- the clients ----

static int fds[MANY], control;
static struct http_reply reply;
static char heard[HEARD_SIZE];

static void setup(void)
{
    site_start(serve);
    control = site_connect(0);
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
    int fd = site_connect(buffer);
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

// Reads what has arrived so far.
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

// Reads to the end; returns where the body begins. `cut`: the connection may be reset.
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

// Checks that all bytes form whole texts of this length; returns their number.
static size_t must_be_texts(const char *body, size_t len)
{
    size_t count = 0;
    for (; *body != '\0'; body += len, count++) {
        ck_assert_uint_eq(strspn(body, "x"), len - 1);
        ck_assert_int_eq(body[len - 1], '\n');
    }
    return count;
}

TEST(texts_come_until_the_end)
{
    enum { TEXTS = 3 }; // the kernel queues them while acknowledgements are delayed
    open_streams(MANY);
    int old = open_stream(0, "1.0");
    WAIT_FOR(tell("/count") == MANY + 1);
    for (int i = 0; i < TEXTS; i++)
        ck_assert_int_eq(tell_to_send(TEXT / 10), MANY + 1);
    ck_assert_int_eq(tell("/end"), 0);
    for (int i = 0; i < MANY; i++)
        ck_assert_uint_eq(must_be_texts(hear_all(fds[i], false), TEXT / 10), TEXTS);
    ck_assert_uint_eq(must_be_texts(hear_all(old, false), TEXT / 10), TEXTS);
    site_must_end(SIGTERM);
}

// A slow stream misses whole texts, never parts, without affecting others. If it stays slow it is dropped.
TEST_EACH(one_is_slow, 2)
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
    site_must_end(SIGTERM);
}

// A text larger than the buffers is sent in parts, and the end follows it.
TEST(a_long_text)
{
    int fd = open_stream(SMALL_BUFFER, "1.1");
    WAIT_FOR(tell("/count") == 1);
    ck_assert_int_eq(tell_to_send(BIG), 1);
    ck_assert_int_eq(tell_to_send(BIG), 0);
    ck_assert_int_eq(tell("/end"), 0);
    ck_assert_uint_eq(must_be_texts(hear_all(fd, false), BIG), 1);
    site_must_end(SIGTERM);
}

TEST(clients_hang_up)
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
    site_must_end(SIGTERM);
}

TEST(only_the_head)
{
    int fd = site_connect(0);
    ck_assert(http_send_text(fd, "HEAD /stream HTTP/1.1\r\nHost: test\r\n\r\n"));
    ck_assert_str_eq(hear_all(fd, false), "");
    ck_assert_ptr_nonnull(strstr(heard, "text/event-stream"));
    ck_assert_ptr_nonnull(strstr(heard, "X-Accel-Buffering: no\r\n")); // else nginx buffers events
    ck_assert_int_eq(tell("/count"), 0);
    site_must_end(SIGTERM);
}

// Draining and closing at once: all streams end after the data already sent.
TEST_EACH(the_end, 2)
{
    open_streams(MANY);
    ck_assert_int_eq(tell_to_send(TEXT), MANY);
    (void)close(control);
    site_signal(_i == 0 ? SIGTERM : SIGUSR1);
    for (int i = 0; i < MANY; i++)
        ck_assert_uint_eq(must_be_texts(hear_all(fds[i], false), TEXT), 1);
    site_must_end(0);
}

SUITE(.timeout_s = 60, .setup = setup);
