// A server of texts: what it shows, what it refuses, and that it ends while a client is connected.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test.h"
#include "text_server.h"

enum { ADDRESS_SIZE = 32, ANSWER_SIZE = 4096 };

static struct sk_text_server *server;
static struct sockaddr_in at;
static char address[ADDRESS_SIZE], answer[ANSWER_SIZE];

static bool show(void *arg, const char *path, struct sk_buf *out)
{
    if (strcmp(path, "/metrics") != 0)
        return false;
    sk_buf_printf(out, "%s 7\n", (const char *)arg);
    return true;
}

static int connected(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static void setup(void)
{
    static char name[] = "seven";
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ck_assert(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
              getsockname(fd, (struct sockaddr *)&at, &len) == 0);
    (void)close(fd);
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(at.sin_port));
    server = sk_text_server_open(address, show, name);
    ck_assert_ptr_nonnull(server);
}

static void teardown(void)
{
    sk_text_server_close(server);
}

static void ask(const char *request)
{
    int fd = connected();
    size_t len = 0;
    ssize_t n;
    ck_assert_int_eq(send(fd, request, strlen(request), 0), (ssize_t)strlen(request));
    while ((n = recv(fd, answer + len, sizeof answer - 1 - len, 0)) > 0)
        len += (size_t)n;
    answer[len] = '\0';
    (void)close(fd);
}

TEST(a_text_is_shown)
{
    ask("GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    ck_assert_msg(strncmp(answer, "HTTP/1.1 200 ", 13) == 0, "%s", answer);
    ck_assert_ptr_nonnull(strstr(answer, "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    ck_assert_str_eq(strstr(answer, "\r\n\r\n"), "\r\n\r\nseven 7\n");
}

TEST(nothing_else_is)
{
    ask("GET /other HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    ck_assert_msg(strncmp(answer, "HTTP/1.1 404 ", 13) == 0, "%s", answer);
    ask("POST /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc");
    ck_assert_msg(strncmp(answer, "HTTP/1.1 405 ", 13) == 0, "%s", answer);
}

TEST(it_ends_while_a_client_is_connected)
{
    int fd = connected();
    sk_text_server_close(server);
    server = NULL;
    char byte;
    ck_assert_int_le(recv(fd, &byte, 1, 0), 0);
    (void)close(fd);
}

TEST(an_address_that_is_wrong)
{
    ck_assert_ptr_null(sk_text_server_open("nowhere", show, NULL));
    sk_text_server_close(NULL);
}

SUITE(.setup = setup, .teardown = teardown);
