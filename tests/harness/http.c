// Peeks before it reads, so that with pipelined replies it never reads past the current one. Supports only
// Content-Length bodies, since the service sends no others.
#include "http.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "text.h"
#include "wait.h"

enum { REQUEST_SIZE = 1 << 16, HOUR_S = 3600 };

// ---- pieces ----

int http_connect(const struct service *service)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)service_port(service))};
    struct timeval limit = {.tv_sec = WAIT_DEADLINE_MS / 1000};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

bool http_send(int fd, const void *bytes, size_t n)
{
    const char *at = bytes;
    while (n > 0) {
        ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);
        ck_assert_msg(sent >= 0 || errno != EAGAIN, "the service does not read");
        if (sent < 0)
            return false;
        at += sent;
        n -= (size_t)sent;
    }
    return true;
}

bool http_send_text(int fd, const char *text)
{
    return http_send(fd, text, strlen(text));
}

// Reads at most n bytes; 0 when the connection has ended.
static size_t receive(int fd, char *out, size_t n)
{
    ssize_t got = recv(fd, out, n, 0);
    ck_assert_msg(got >= 0 || errno != EAGAIN, "no answer before the deadline");
    return got > 0 ? (size_t)got : 0;
}

static bool receive_head(int fd, struct http_reply *reply, size_t *len)
{
    static const char end[] = "\r\n\r\n";
    *len = 0;
    while (*len < HTTP_REPLY_SIZE - 1) {
        // Takes at most the rest of the head.
        char *at = reply->text + *len, *from = reply->text + (*len < 3 ? 0 : *len - 3);
        ssize_t n = recv(fd, at, HTTP_REPLY_SIZE - 1 - *len, MSG_PEEK);
        const char *found = n <= 0 ? NULL : memmem(from, (size_t)(at + n - from), end, sizeof end - 1);
        size_t got = receive(fd, at, found != NULL ? (size_t)(found + 4 - at) : n > 0 ? (size_t)n : 1);
        *len += got;
        if (got == 0 || found != NULL) {
            reply->text[got == 0 ? *len : *len - 1] = '\0';
            return found != NULL;
        }
    }
    reply->text[*len] = '\0';
    return false;
}

bool http_receive(int fd, struct http_reply *reply)
{
    size_t head_len, body_len = 0;
    char value[HTTP_FIELD_SIZE];
    static const char start[] = "HTTP/1.1 ";
    reply->status = 0;
    reply->body = "";
    reply->body_len = 0;
    if (!receive_head(fd, reply, &head_len) || strncmp(reply->text, start, sizeof start - 1) != 0)
        return false;
    if (http_header(reply, "Content-Length", value))
        body_len = strtoul(value, NULL, 10);
    ck_assert_uint_lt(head_len + body_len, HTTP_REPLY_SIZE);
    char *body = reply->text + head_len;
    while (reply->body_len < body_len) {
        size_t n = receive(fd, body + reply->body_len, body_len - reply->body_len);
        if (n == 0)
            return false;
        reply->body_len += n;
    }
    body[body_len] = '\0';
    reply->body = body;
    reply->status = (int)strtol(reply->text + sizeof start - 1, NULL, 10);
    return true;
}

bool http_closed(int fd)
{
    char dropped[1024];
    while (receive(fd, dropped, sizeof dropped) > 0)
        ;
    return true;
}

// ---- requests ----

int http_raw(const struct service *service, const void *bytes, size_t n, struct http_reply *reply)
{
    int fd = http_connect(service);
    reply->status = 0;
    if (fd < 0)
        return 0;
    (void)http_send(fd, bytes, n); // a refusal may come before all is sent
    (void)http_receive(fd, reply);
    (void)close(fd);
    return reply->status;
}

int http_ask(const struct service *service, const char *method, const char *path, const char *headers, const char *body,
             struct http_reply *reply)
{
    static char request[REQUEST_SIZE];
    char length[48] = "";
    if (body != NULL)
        (void)snprintf(length, sizeof length, "Content-Length: %zu\r\n", strlen(body));
    int n = snprintf(request, sizeof request, "%s %s HTTP/1.1\r\nHost: test\r\n%s%s\r\n%s", method, path, headers,
                     length, body == NULL ? "" : body);
    ck_assert(n > 0 && n < REQUEST_SIZE);
    return http_raw(service, request, (size_t)n, reply);
}

static void user_header(char out[HTTP_FIELD_SIZE], const char *user)
{
    out[0] = '\0';
    if (user != NULL)
        (void)snprintf(out, HTTP_FIELD_SIZE, "X-User-Id: %s\r\n", user);
}

int http_get(const struct service *service, const char *path, const char *user, struct http_reply *reply)
{
    char headers[HTTP_FIELD_SIZE];
    user_header(headers, user);
    return http_ask(service, "GET", path, headers, NULL, reply);
}

static int buy(const struct service *service, const char *voucher, const char *user, const char *more,
               struct http_reply *reply)
{
    char path[HTTP_FIELD_SIZE], headers[HTTP_FIELD_SIZE], all[2 * HTTP_FIELD_SIZE];
    (void)snprintf(path, sizeof path, "/seckill/%s", voucher);
    user_header(headers, user);
    (void)snprintf(all, sizeof all, "%s%s", headers, more);
    return http_ask(service, "POST", path, all, NULL, reply);
}

int http_buy(const struct service *service, const char *voucher, const char *user, struct http_reply *reply)
{
    return buy(service, voucher, user, "", reply);
}

int http_buy_patiently(const struct service *service, const char *voucher, const char *user, struct http_reply *reply)
{
    WAIT_FOR(http_buy(service, voucher, user, reply) != 503);
    return reply->status;
}

void http_must_buy(const struct service *service, const char *voucher, const char *user)
{
    struct http_reply reply = {0};
    ck_assert_msg(http_buy_patiently(service, voucher, user, &reply) == 201, "%s: %d %s", user, reply.status,
                  reply.body);
}

int http_buy_async(const struct service *service, const char *voucher, const char *user, struct http_reply *reply)
{
    return buy(service, voucher, user, "Prefer: respond-async\r\n", reply);
}

int http_begin_buying(const struct service *service, const char *voucher, const char *user)
{
    char request[REQUEST_SIZE];
    int fd = http_connect(service);
    http_buy_text(voucher, user, request, sizeof request);
    ck_assert(http_send_text(fd, request));
    return fd;
}

void http_end_buying(int fd, int status)
{
    static struct http_reply reply;
    ck_assert(http_receive(fd, &reply));
    ck_assert_msg(reply.status == status, "%d %s", reply.status, reply.body);
    (void)close(fd);
}

void http_buy_text(const char *voucher, const char *user, char *out, size_t size)
{
    int n = snprintf(out, size, "POST /seckill/%s HTTP/1.1\r\nHost: test\r\nX-User-Id: %s\r\n\r\n", voucher, user);
    ck_assert(n > 0 && (size_t)n < size);
}

// ---- replies ----

bool http_header(const struct http_reply *reply, const char *name, char out[HTTP_FIELD_SIZE])
{
    size_t len = strlen(name);
    out[0] = '\0';
    for (const char *line = strstr(reply->text, "\r\n"); line != NULL; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, len) == 0 && line[len] == ':') {
            const char *value = line + len + 1 + strspn(line + len + 1, " ");
            (void)snprintf(out, HTTP_FIELD_SIZE, "%.*s", (int)strcspn(value, "\r"), value);
            return true;
        }
    }
    return false;
}

bool http_member(const struct http_reply *reply, const char *name, char out[HTTP_FIELD_SIZE])
{
    json_t *json = json_loads(reply->body, 0, NULL);
    const json_t *member = json_object_get(json, name);
    bool found = true;
    if (json_is_string(member))
        (void)snprintf(out, HTTP_FIELD_SIZE, "%s", json_string_value(member));
    else if (json_is_integer(member))
        (void)snprintf(out, HTTP_FIELD_SIZE, "%lld", (long long)json_integer_value(member));
    else
        found = false;
    if (!found)
        out[0] = '\0';
    json_decref(json);
    return found;
}

static bool header_is(const struct http_reply *reply, const char *name, const char *value)
{
    char found[HTTP_FIELD_SIZE];
    return http_header(reply, name, found) && strcmp(found, value) == 0;
}

static bool member_is(const struct http_reply *reply, const char *name, const char *value)
{
    char found[HTTP_FIELD_SIZE];
    return http_member(reply, name, found) && strcmp(found, value) == 0;
}

bool http_is_problem(const struct http_reply *reply, int status, const char *code)
{
    char number[16], title[HTTP_FIELD_SIZE], type[HTTP_FIELD_SIZE];
    (void)snprintf(number, sizeof number, "%d", status);
    if (reply->status != status || code == NULL)
        return reply->status == status;
    return header_is(reply, "Content-Type", "application/problem+json") && member_is(reply, "status", number) &&
           member_is(reply, "code", code) && http_member(reply, "title", title) && http_member(reply, "type", type);
}

void http_must_be_problem(const struct http_reply *reply, int status, const char *code)
{
    ck_assert_msg(http_is_problem(reply, status, code), "not %d %s but: %s\n%s", status, code == NULL ? "" : code,
                  reply->text, reply->body);
}

// ---- metrics ----

double http_sample(const struct service *service, const char *name)
{
    struct http_reply reply;
    char headers[256], line[HTTP_FIELD_SIZE];
    (void)snprintf(headers, sizeof headers, "Authorization: Bearer %s\r\n", stack_admin_token);
    ck_assert_int_eq(http_ask(service, "GET", "/metrics", headers, NULL, &reply), 200);
    (void)snprintf(line, sizeof line, "\n%s ", name);
    const char *at = strstr(reply.body, line);
    ck_assert_msg(at == NULL || strstr(at + 1, line) == NULL, "%s is there twice", name);
    return at == NULL ? -1 : strtod(at + strlen(line), NULL);
}

// ---- vouchers ----

static void put_time(int in_s, char out[SK_TIME_SIZE])
{
    sk_text_put_time(((int64_t)time(NULL) + in_s) * 1000, out);
}

void voucher_make(const struct service *service, const struct voucher_terms *terms, char id[VOUCHER_ID_SIZE])
{
    char body[512], headers[256], begin[SK_TIME_SIZE], end[SK_TIME_SIZE], value[HTTP_FIELD_SIZE];
    struct http_reply reply;
    bool now = terms->begin_in_s == 0 && terms->end_in_s == 0;
    put_time(now ? -1 : terms->begin_in_s, begin);
    put_time(now ? HOUR_S : terms->end_in_s, end);
    (void)snprintf(headers, sizeof headers, "Authorization: Bearer %s\r\nContent-Type: application/json\r\n",
                   stack_admin_token);
    (void)snprintf(body, sizeof body,
                   "{\"title\":\"Test\",\"stock\":%d,\"price_cents\":100,\"begin_at\":\"%s\",\"end_at\":\"%s\","
                   "\"allow_past\":true}",
                   terms->stock, begin, end);
    ck_assert_int_eq(http_ask(service, "POST", "/admin/vouchers", headers, body, &reply), 201);
    ck_assert(http_member(&reply, "id", value));
    (void)snprintf(id, VOUCHER_ID_SIZE, "%.*s", VOUCHER_ID_SIZE - 1, value);
}

void voucher_on_sale(const struct service *service, int stock, char id[VOUCHER_ID_SIZE])
{
    struct voucher_terms terms = {.stock = stock};
    voucher_make(service, &terms, id);
}
