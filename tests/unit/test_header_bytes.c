// The check depends on where libmicrohttpd leaves the bytes of a head. So each head here passes through the real
// library, over a socket, and the check sees what it would see in the server.
#include <arpa/inet.h>
#include <microhttpd.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "header_bytes.h"
#include "test.h"

enum { HEAD_MAX = 4096, FIELDS_MAX = 8, RUNS_MAX = 1000 };

#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

struct place {
    size_t name, name_len, value, value_len; // offsets from the method on
};

static struct MHD_Daemon *library;
static struct sockaddr_in address;
static struct {
    bool called, good;
    const char *method;
    size_t target, target_len, version, head_len;
    struct sk_header_bytes check;
    struct place fields[FIELDS_MAX];
    size_t count;
} seen;

static void *on_target(void *arg, const char *target, struct MHD_Connection *connection)
{
    (void)arg;
    (void)connection;
    sk_header_bytes_target(&seen.check, target);
    return NULL;
}

static enum MHD_Result on_field(void *arg, enum MHD_ValueKind kind, const char *name, size_t name_len,
                                const char *value, size_t value_len)
{
    (void)arg;
    (void)kind;
    ck_assert_uint_lt(seen.count, FIELDS_MAX);
    seen.fields[seen.count++] =
        (struct place){(size_t)(name - seen.method), name_len, (size_t)(value - seen.method), value_len};
    sk_header_bytes_field(&seen.check, name, name_len, value, value_len);
    return MHD_YES;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_len, void **context)
{
    (void)arg;
    (void)upload;
    (void)context;
    *upload_len = 0;
    seen.called = true;
    seen.method = method;
    seen.target = (size_t)(url - method);
    seen.target_len = (size_t)(seen.check.target_end - url);
    seen.version = (size_t)(version - method);
    seen.head_len = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)->header_size;
    sk_header_bytes_begin(&seen.check, method, url, version);
    (void)MHD_get_connection_values_n(connection, MHD_HEADER_KIND, on_field, NULL);
    seen.good = sk_header_bytes_end(&seen.check, seen.head_len);
    return MHD_NO; // nothing more is needed
}

static size_t keep_escapes(void *arg, struct MHD_Connection *connection, char *text)
{
    (void)arg;
    (void)connection;
    return strlen(text);
}

static void setup(void)
{
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(fd, 16), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    library = MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, on_request, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
                               MHD_OPTION_URI_LOG_CALLBACK, on_target, NULL, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes,
                               NULL, MHD_OPTION_END);
    ck_assert_ptr_nonnull(library);
}

static void teardown(void)
{
    MHD_stop_daemon(library);
}

// Runs until the library has decided: it has called us, answered, or closed.
static bool is_good(const char *head, size_t n, size_t piece)
{
    char byte;
    memset(&seen, 0, sizeof seen);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    for (size_t at = 0; at < n; at += piece) {
        (void)send(fd, head + at, n - at < piece ? n - at : piece, MSG_NOSIGNAL); // it may already be rejected
        (void)MHD_run(library);
    }
    (void)shutdown(fd, SHUT_WR);
    ssize_t got = -1;
    for (int runs = 0; got < 0; runs++) {
        ck_assert_int_lt(runs, RUNS_MAX);
        (void)MHD_run(library);
        got = recv(fd, &byte, 1, seen.called ? 0 : MSG_DONTWAIT);
        if (seen.called)
            break;
    }
    (void)close(fd);
    return seen.called && seen.good;
}

static void place_must_be(const char *head, const struct place *place, const char *name, const char *value)
{
    ck_assert_uint_eq(place->name, (size_t)(strstr(head, name) - head));
    ck_assert_uint_eq(place->name_len, strlen(name));
    ck_assert_uint_eq(place->value, (size_t)(strstr(head, value) - head));
}

TEST(library_is_the_one_examined)
{
    ck_assert_str_eq(MHD_get_version(), "0.9.75");
}

TEST(lines_stay_where_they_were_received)
{
    static const char head[] =
        "GET /path?a=1&b+c HTTP/1.1\r\nHost: h\r\nX-Wide: \t a b \t\r\nCookie: c=d\r\nX-Empty:\r\n\r\n";
    ck_assert(is_good(head, sizeof head - 1, sizeof head));
    ck_assert_uint_eq(seen.target, 4);
    ck_assert_uint_eq(seen.target_len, strlen("/path?a=1&b+c"));
    ck_assert_uint_eq(seen.version, (size_t)(strstr(head, "HTTP/1.1") - head));
    ck_assert_uint_eq(seen.head_len, sizeof head - 1);
    ck_assert_uint_eq(seen.count, 4);
    place_must_be(head, &seen.fields[0], "Host", "h\r");
    place_must_be(head, &seen.fields[1], "X-Wide", "a b \t\r");
    ck_assert_uint_eq(seen.fields[1].value_len, strlen("a b \t"));
    place_must_be(head, &seen.fields[2], "Cookie", "c=d");
    place_must_be(head, &seen.fields[3], "X-Empty", "\r\n\r\n");
    ck_assert_uint_eq(seen.fields[3].value_len, 0);
}

#define HEAD(text)             \
    {                          \
        text, sizeof(text) - 1 \
    }
// Of GET, with more lines behind the first two, and with another target.
#define FIELDS(text) HEAD("GET / HTTP/1.1\r\nHost: h\r\n" text "\r\n")
#define TARGET(text) HEAD("GET " text " HTTP/1.1\r\nHost: h\r\n\r\n")

struct head {
    const char *text;
    size_t len;
};

static void all_must_be(bool good, const struct head *heads, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t piece = 1; piece <= heads[i].len; piece += heads[i].len - 1)
            ck_assert_msg(is_good(heads[i].text, heads[i].len, piece) == good, "head %zu in pieces of %zu: %s", i,
                          piece, heads[i].text);
    }
}

TEST(heads)
{
    static const struct head good[] = {
        // lines, targets and values
        FIELDS(""), HEAD("\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"), HEAD("GET / HTTP/1.0\r\n\r\n"), TARGET("/?a=b"),
        TARGET("/?"), TARGET("http://h/"), TARGET("/\xef\xbc\x91"), FIELDS("X:\r\nY: \t \r\n"),
        FIELDS("X: \xc3\xa9\x80\xff\r\n"), FIELDS("X: a:b\r\n"), FIELDS("X: a\r\nX: b\r\n"),
        HEAD("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\na\0b"),
        // indistinguishable from CR LF
        FIELDS("X: a\0\n")};
    static const struct head bad[] = {
        // NUL
        HEAD("GET / HTTP/1.1\r\nHost: h\0\r\n\r\n"), HEAD("GET / HTTP/1.1\r\nHost: h\0i\r\n\r\n"),
        HEAD("GET / HTTP/1.1\r\nHost:\0h\r\n\r\n"), HEAD("GET / HTTP/1.1\r\nHost: \0h\r\n\r\n"),
        HEAD("GET / HTTP/1.1\r\nHost: h\0i\r\nX: y\r\n\r\n"), HEAD("GET / HTTP/1.1\r\nHost\0: h\r\n\r\n"),
        HEAD("GET / HTTP/1.1\r\n\0Host: h\r\n\r\n"), FIELDS("\0\r\nX-User-Id: a\r\n"), FIELDS("\0X-User-Id: a\r\n"),
        HEAD("GET / HTTP/1.1\0\r\nHost: h\r\n\r\n"), TARGET("/\0"), TARGET("/\0x"), TARGET("/\0?x"), TARGET("/?\0"),
        TARGET("/?a\0b=c"), TARGET("\0/"), HEAD("GET\0 / HTTP/1.1\r\nHost: h\r\n\r\n"),
        HEAD("G\0T / HTTP/1.1\r\nHost: h\r\n\r\n"),
        // names
        FIELDS("X : y\r\n"), FIELDS(": y\r\n"), FIELDS("X\ty: y\r\n"), FIELDS("X\x80: y\r\n"), FIELDS("X(y): y\r\n"),
        // ends of lines
        HEAD("GET / HTTP/1.1\nHost: h\n\n"), HEAD("GET / HTTP/1.1\nHost: h\r\n\r\n"),
        HEAD("GET / HTTP/1.1\r\nHost: h\n\r\n"), HEAD("GET / HTTP/1.1\r\nHost: h\r\n\n"), FIELDS("X: a\0b\nY: c\n"),
        FIELDS("X: a\rb\r\n"), FIELDS("X: a\r\r\n"), HEAD("GET / HTTP/1.1\r\r\nHost: h\r\n\r\n"), FIELDS("\r"),
        // continued lines
        FIELDS("X: a\r\n b\r\n"), FIELDS("X: a\r\n\tb\r\nY: c\r\n"), FIELDS("X-User: a\r\n -Id\r\n"),
        FIELDS("X: a\r\n \r\n"), FIELDS("X: a\r\n \r\nY: b\r\n"), HEAD("GET / HTTP/1.1\r\n Host: h\r\nHost: h\r\n\r\n"),
        // the target
        TARGET(" /"), TARGET("/ "), TARGET("/ x"), TARGET("/?a=1, 2"), TARGET("/\t"), TARGET("/\x01"), TARGET("/\x7f"),
        TARGET("/\r"), TARGET("/?\x1f")};
    all_must_be(true, good, COUNT(good));
    all_must_be(false, bad, COUNT(bad));
}

// Every byte at every place of a value: a word has eight bytes, so the value has three words and two bytes.
TEST(every_byte_everywhere)
{
    static const char before[] = "GET / HTTP/1.1\r\nHost: h\r\nX: ", after[] = "\r\nY: z\r\n\r\n";
    enum { VALUE = 26 };
    for (int byte = 0; byte < 256; byte++) {
        bool allowed = byte == '\t' || (byte >= ' ' && byte != 0x7f);
        for (size_t at = 0; at < VALUE; at++) {
            char head[sizeof before + VALUE + sizeof after];
            memcpy(head, before, sizeof before - 1);
            memset(head + sizeof before - 1, 'v', VALUE);
            head[sizeof before - 1 + at] = (char)byte;
            memcpy(head + sizeof before - 1 + VALUE, after, sizeof after - 1);
            size_t n = sizeof before - 1 + VALUE + sizeof after - 1;
            ck_assert_msg(is_good(head, n, n) == allowed, "byte %d at %zu", byte, at);
        }
    }
}

SUITE(.timeout_s = 60, .setup = setup, .teardown = teardown);
