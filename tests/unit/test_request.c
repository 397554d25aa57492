// What a handler receives of a request's query and method, over a socket, from the real server on a loop.
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "listener.h"
#include "log.h"
#include "server.h"
#include "test.h"

enum { TURNS_MAX = 1000, TEXT_SIZE = 512, REPLY_SIZE = 4096 };

static uv_loop_t loop;
static struct sk_server_options options;
static struct sk_server *server;
static struct sockaddr_un here;
static socklen_t here_len;

// What the handler saw of the last request and its parameter `a`.
static struct {
    bool handled, bad, sent, json;
    enum sk_method method;
    char path[TEXT_SIZE], value[TEXT_SIZE], again[TEXT_SIZE];
    unsigned count;
    char names[TEXT_SIZE]; // each with a blank behind it, up to the first `c`
    bool all;
} seen;

int sk_listen(const char *address)
{
    (void)address;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    sa_family_t family = AF_UNIX; // without a name: the kernel assigns one
    here_len = sizeof here;
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&family, sizeof family), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&here, &here_len), 0);
    return fd;
}

static bool on_name(void *arg, const char *name)
{
    size_t len = strlen(seen.names);
    ck_assert_ptr_eq(arg, &seen);
    (void)snprintf(seen.names + len, sizeof seen.names - len, "%s ", name);
    return strcmp(name, "c") != 0;
}

static void handle(void *arg, struct sk_request *request)
{
    struct sk_buf again = {0};
    (void)arg;
    const char *value = sk_request_query(request, "a", &seen.count);
    sk_request_put_query(request, "b", &again);
    seen.all = sk_request_query_all(request, on_name, &seen);
    seen.handled = true;
    seen.bad = request->query_bad;
    seen.method = request->method;
    seen.json = sk_request_is_json(request);
    seen.sent = value != NULL;
    ck_assert_ptr_eq(sk_request_query(request, "a", NULL), value);
    ck_assert_ptr_null(sk_request_query(request, "absent", NULL));
    (void)snprintf(seen.path, sizeof seen.path, "%s", request->path);
    (void)snprintf(seen.value, sizeof seen.value, "%s", value == NULL ? "" : value);
    (void)snprintf(seen.again, sizeof seen.again, "%s", again.data == NULL ? "" : again.data);
    sk_buf_free(&again);
    struct sk_response *response = sk_response_new("text/plain", "ok", 2);
    sk_request_answer(request, 200, response);
    sk_response_free(response);
}

static void on_expired(void *arg, struct sk_request *request)
{
    (void)arg;
    (void)request;
    ck_abort_msg("nothing waits here");
}

static void on_malformed(void *arg, struct sk_request *request, enum sk_malformed what)
{
    sk_request_answer(request, what == SK_MALFORMED_HEAD ? 400 : 413, arg);
}

static struct sk_response *malformed;

static void setup(void)
{
    static char address[] = "none";
    sk_log_set_level(SK_LOG_ERROR);
    options = (struct sk_server_options){.listen = address,
                                         .max_connections = 2,
                                         .body_max_bytes = 100,
                                         .header_max_bytes = 4096,
                                         .idle_timeout_ms = 60000,
                                         .request_timeout_ms = 60000};
    malformed = sk_response_new("text/plain", "malformed", 9);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    const struct sk_handler handler = {
        .handle = handle, .expired = on_expired, .malformed = on_malformed, .arg = malformed};
    server = sk_server_open(&loop, &options, &handler);
    ck_assert_ptr_nonnull(server);
}

static void teardown(void)
{
    sk_server_close(server);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    sk_response_free(malformed);
}

// Sends one request and reads its answer; returns the status. `field`: a header line with its CRLF, or "".
static long ask_with(const char *method, const char *target, const char *field)
{
    char text[TEXT_SIZE * 2], reply[REPLY_SIZE];
    ssize_t n = -1;
    memset(&seen, 0, sizeof seen);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&here, here_len), 0);
    int len = snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: h\r\n%s\r\n", method, target, field);
    ck_assert_int_eq(send(fd, text, (size_t)len, MSG_NOSIGNAL), len);
    for (int turns = 0; n < 0; turns++) {
        ck_assert_int_lt(turns, TURNS_MAX);
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        (void)sk_server_turn(server);
        n = recv(fd, reply, sizeof reply - 1, 0);
    }
    (void)close(fd);
    ck_assert_int_gt(n, 12);
    reply[n] = '\0';
    return strtol(reply + strlen("HTTP/1.1 "), NULL, 10);
}

static long ask(const char *method, const char *target)
{
    return ask_with(method, target, "");
}

TEST(parameters_are_told)
{
    static const struct {
        const char *query, *value; // NULL: it was not sent
        unsigned count;
        const char *again; // printed without `b`
    } rows[] = {
        {"", NULL, 0, ""},
        {"?", NULL, 0, ""},
        {"?a=1", "1", 1, "a=1&"},
        {"?a=", "", 1, "a=&"},
        {"?a", "", 1, "a&"},
        {"?b=1", NULL, 0, ""},
        {"?b=1&a=2&c=3", "2", 1, "a=2&c=3&"},
        {"?a=1&a=2", "2", 2, "a=1&a=2&"},
        {"?a=1&b&%61=2&b=", "2", 2, "a=1&a=2&"}, // names have escapes, too
        {"?A=1&aa=2&=3", NULL, 0, "A=1&aa=2&=3&"},
        {"?a=x+y%20z%2B", "x y z+", 1, "a=x%20y%20z%2B&"},
        {"?a=%25%32%35", "%25", 1, "a=%2525&"}, // decoded once
        {"?a=b=c", "b=c", 1, "a=b%3Dc&"},
        {"?a=%26%3D&b=%26", "&=", 1, "a=%26%3D&"},
        {"?a=1?2/3", "1?2/3", 1, "a=1%3F2%2F3&"},
        {"?a=%C3%A9\xc3\xa9", "\xc3\xa9\xc3\xa9", 1, "a=%C3%A9%C3%A9&"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char target[TEXT_SIZE];
        (void)snprintf(target, sizeof target, "/p%%61th%s", rows[i].query);
        ck_assert_int_eq(ask("GET", target), 200);
        ck_assert_msg(seen.count == rows[i].count, "%s: %u", rows[i].query, seen.count);
        ck_assert(!seen.bad);
        ck_assert_int_eq(seen.sent, rows[i].value != NULL);
        ck_assert_str_eq(seen.value, rows[i].value == NULL ? "" : rows[i].value);
        ck_assert_str_eq(seen.again, rows[i].again);
        ck_assert_str_eq(seen.path, "/p%61th"); // as it was sent
    }
}

TEST(names_are_told_in_order_until_one_is_enough)
{
    static const struct {
        const char *target, *names;
        bool all;
    } rows[] = {{"/?b=1&a&%61=2&=3", "b a a  ", true}, {"/?b=1&c=2&a", "b c ", false}, {"/?a&b=%", "", true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ck_assert_int_eq(ask("GET", rows[i].target), 200);
        ck_assert_str_eq(seen.names, rows[i].names);
        ck_assert_int_eq(seen.all, rows[i].all);
    }
}

TEST(a_bad_query_gives_nothing)
{
    static const char *const queries[] = {
        "a=%00",   "a=1%00", "a=1&b=%00", "a=1&%00", "%00=1&a=1", "a=%",  "a=%1",   "a=%zz",
        "a=1&b=%", "a=%0A",  "a=%0d%0ax", "a=%7F",   "a=1&c%",    "%a=1", "a=1&%=",
    };
    for (size_t i = 0; i < sizeof queries / sizeof queries[0]; i++) {
        char target[TEXT_SIZE];
        (void)snprintf(target, sizeof target, "/path%%00?%s", queries[i]);
        ck_assert_int_eq(ask("GET", target), 200);
        ck_assert_msg(seen.bad && !seen.sent && seen.count == 0, "%s", queries[i]);
        ck_assert_str_eq(seen.again, "");
        ck_assert_str_eq(seen.path, "/path%00");
        ck_assert_int_eq(ask("GET", "/?a=1"), 200); // without leftovers of the previous one
        ck_assert(!seen.bad && seen.sent);
    }
}

// In the absolute form the path begins later than the target.
TEST(an_absolute_target_has_a_query_as_well)
{
    ck_assert_int_eq(ask("GET", "http://h/path%00?a=%31"), 200);
    ck_assert_str_eq(seen.path, "/path%00");
    ck_assert_str_eq(seen.value, "1");
    ck_assert(!seen.bad);
    ck_assert_int_eq(ask("GET", "http://h%00?a=%31"), 200);
    ck_assert(!seen.bad);
    ck_assert_int_eq(ask("GET", "http://h?a=%00"), 200);
    ck_assert_str_eq(seen.path, "/");
    ck_assert(seen.bad);
}

TEST(methods_are_told_apart)
{
    static const struct {
        const char *name;
        enum sk_method method;
    } rows[] = {
        {"GET", SK_METHOD_GET},         {"HEAD", SK_METHOD_GET},      {"POST", SK_METHOD_POST},
        {"PATCH", SK_METHOD_PATCH},     {"PUT", SK_METHOD_OTHER},     {"DELETE", SK_METHOD_OTHER},
        {"OPTIONS", SK_METHOD_OPTIONS}, {"patch", SK_METHOD_UNKNOWN}, {"PATCHX", SK_METHOD_UNKNOWN},
        {"PATC", SK_METHOD_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ck_assert_int_eq(ask(rows[i].name, "/"), 200);
        ck_assert_msg(seen.method == rows[i].method, "%s", rows[i].name);
    }
}

TEST(json_is_told_apart)
{
#define TYPE(text) "Content-Type: " text "\r\n"
    static const struct {
        const char *field;
        bool json;
    } rows[] = {
        {TYPE("application/json"), true},
        {TYPE("APPLICATION/JSON"), true},
        {TYPE("application/json;charset=utf-8"), true},
        {TYPE("application/json ; x"), true},
        {TYPE("application/json\t; x"), true},
        {TYPE("\tapplication/json \t "), true},
        {TYPE("application/jsonx"), false},
        {TYPE("text/json"), false},
        {TYPE("application/json,text"), false},
        {TYPE(""), false},
        {"", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ck_assert_int_eq(ask_with("POST", "/", rows[i].field), 200);
        ck_assert_msg(seen.json == rows[i].json, "%s", rows[i].field);
    }
}

SUITE(.setup = setup, .teardown = teardown);
