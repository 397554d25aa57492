// Which addresses a listening socket serves: [::] is every address, also on a kernel without IPv6.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "listener.h"
#include "test.h"

// The kernel under test; the linker redirects socket() (--wrap; tests/CMakeLists.txt).
static int no_ipv6;             // the error of a socket of IPv6; 0: there is IPv6
static bool ipv6_alone = false; // net.ipv6.bindv6only=1

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
int __wrap_socket(int family, int type, int protocol);
int __real_socket(int family, int type, int protocol);

int __wrap_socket(int family, int type, int protocol)
{
    if (family == AF_INET6 && no_ipv6 != 0) {
        errno = no_ipv6;
        return -1;
    }
    int fd = __real_socket(family, type, protocol), on = 1;
    if (fd >= 0 && family == AF_INET6 && ipv6_alone)
        ck_assert_int_eq(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on), 0);
    return fd;
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

static in_port_t port_of(int fd)
{
    struct sockaddr_in6 in6;
    socklen_t size = sizeof in6;
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&in6, &size), 0);
    return in6.sin6_port; // at the same place in both families
}

static int family_of(int fd)
{
    int family;
    socklen_t size = sizeof family;
    ck_assert_int_eq(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size), 0);
    return family;
}

// Whether a client of that family gets through to the socket; 0, or the error.
static int connects(int fd, int family)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = port_of(fd)};
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT, .sin6_port = port_of(fd)};
    int client = __real_socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(client, 0);
    int done = family == AF_INET ? connect(client, (struct sockaddr *)&v4, sizeof v4)
                                 : connect(client, (struct sockaddr *)&v6, sizeof v6);
    int error = done == 0 ? 0 : errno;
    (void)close(client);
    return error;
}

// Whether this machine has the address ::1.
static bool has_ipv6(void)
{
    int fd = sk_listen("[::1]:0");
    if (fd >= 0)
        (void)close(fd);
    return fd >= 0;
}

TEST(any_address_is_of_both_families)
{
    for (int i = 0; i < 2; i++) {
        ipv6_alone = i == 1;
        int fd = sk_listen("[::]:0");
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(connects(fd, AF_INET), 0);
        if (has_ipv6())
            ck_assert_int_eq(connects(fd, AF_INET6), 0);
        (void)close(fd);
    }
}

TEST(any_address_of_ipv4_is_of_ipv4)
{
    int fd = sk_listen("0.0.0.0:0");
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connects(fd, AF_INET), 0);
    if (has_ipv6())
        ck_assert_int_eq(connects(fd, AF_INET6), ECONNREFUSED);
    (void)close(fd);
}

TEST(without_ipv6_any_address_is_of_ipv4)
{
    no_ipv6 = EAFNOSUPPORT;
    int fd = sk_listen("[::]:0");
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(family_of(fd), AF_INET);
    ck_assert_int_eq(connects(fd, AF_INET), 0);
    (void)close(fd);
}

TEST(nothing_else_is_replaced)
{
    no_ipv6 = EAFNOSUPPORT;
    ck_assert_int_eq(sk_listen("[::1]:0"), -1); // another address than the one asked for would be a surprise
    no_ipv6 = EMFILE;
    ck_assert_int_eq(sk_listen("[::]:0"), -1);
}

TEST(others_reach_all_but_loopback)
{
    static const struct {
        const char *address;
        bool reached;
    } rows[] = {
        {"127.0.0.1:1", false},
        {"127.9.9.9:1", false},
        {"128.0.0.1:1", true},
        {"0.0.0.0:1", true},
        {"[::1]:1", false},
        {"[::2]:1", true},
        {"[::]:1", true},
        {"[::ffff:127.0.0.1]:1", false},
        {"[::ffff:128.0.0.1]:1", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_msg(sk_listen_address_is_reachable(rows[i].address) == rows[i].reached, "%s", rows[i].address);
}
