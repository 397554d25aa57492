// Addresses as written by proxies and operators, networks, and which addresses count as one client.
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "address.h"
#include "test.h"

#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

static struct sk_address address(const char *text)
{
    struct sk_address made;
    ck_assert_msg(sk_address_parse(text, strlen(text), &made), "%s", text);
    return made;
}

TEST(addresses_have_one_form_that_is_written)
{
    static const struct {
        const char *text, *written;
        bool loopback;
    } rows[] = {
        {"192.0.2.1", "192.0.2.1", false},
        {"::ffff:192.0.2.1", "192.0.2.1", false},
        {"::FFFF:c000:0201", "192.0.2.1", false},
        {"0.0.0.0", "0.0.0.0", false},
        {"::ffff:255.255.255.255", "255.255.255.255", false},
        {"127.0.0.1", "127.0.0.1", true},
        {"127.255.255.254", "127.255.255.254", true},
        {"::ffff:127.0.0.1", "127.0.0.1", true},
        {"128.0.0.1", "128.0.0.1", false},
        {"0:0:0:0:0:0:0:1", "::1", true},
        {"0::0", "::", false},
        {"2001:DB8:0::0:1", "2001:db8::1", false},
        {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct sk_address one = address(rows[i].text), other = address(rows[i].written);
        char out[SK_ADDRESS_SIZE];
        ck_assert_msg(memcmp(&one, &other, sizeof one) == 0, "%s is not %s", rows[i].text, rows[i].written);
        sk_address_put(&one, out);
        ck_assert_str_eq(out, rows[i].written);
        ck_assert_msg(sk_address_is_loopback(&one) == rows[i].loopback, "%s", out);
    }
    struct sk_address cut;
    ck_assert(sk_address_parse("192.0.2.1, 10.0.0.1", 9, &cut)); // not beyond its length
}

// inet_pton() is strict; these are what could come past it, and one of each of its kinds.
TEST(bad_addresses)
{
    static const char *const rows[] = {"",
                                       "1.2.3",
                                       "01.2.3.4",
                                       "1.2.3.4 ",
                                       " 1.2.3.4",
                                       "1.2.3.4/32",
                                       "1.2.3.4:80",
                                       "unknown",
                                       "[::1]",
                                       "::1/128",
                                       "fe80::1%eth0",
                                       "::ffff:1.2.3.4.5",
                                       "1.2.3.4,5.6.7.8",
                                       "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc:dddd:eeee"};
    struct sk_address none;
    for (size_t i = 0; i < COUNT(rows); i++)
        ck_assert_msg(!sk_address_parse(rows[i], strlen(rows[i]), &none), "%s", rows[i]);
    ck_assert(!sk_address_parse("1.2.3.4\0x", 9, &none));
    ck_assert(!sk_address_parse("::1\0", 4, &none));
}

TEST(the_other_end_of_a_connection)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000201)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sk_address made, expected = address("192.0.2.1");
    ck_assert(sk_address_of((struct sockaddr *)&v4, &made));
    ck_assert_mem_eq(&made, &expected, sizeof made);
    ck_assert_int_eq(inet_pton(AF_INET6, "::ffff:192.0.2.1", &v6.sin6_addr), 1);
    ck_assert(sk_address_of((struct sockaddr *)&v6, &made)); // from a dual-stack socket
    ck_assert_mem_eq(&made, &expected, sizeof made);
    ck_assert(!sk_address_of((struct sockaddr *)&local, &made));
    ck_assert(!sk_address_of(NULL, &made));
}

static uint64_t key(const char *text)
{
    struct sk_address one = address(text);
    return sk_address_key(&one);
}

TEST(what_counts_as_one_client)
{
    ck_assert_uint_eq(key("192.0.2.1"), key("::ffff:192.0.2.1"));
    ck_assert_uint_ne(key("192.0.2.1"), key("192.0.2.2"));
    ck_assert_uint_eq(key("2001:db8:1:2::1"), key("2001:db8:1:2:ffff:ffff:ffff:ffff"));
    ck_assert_uint_ne(key("2001:db8:1:2::1"), key("2001:db8:1:3::1"));
    ck_assert_uint_ne(key("::1"), key("0.0.0.0"));
    ck_assert_uint_ne(key("::1"), key("0.0.0.1"));
}

TEST(networks_have_addresses)
{
    static const struct {
        const char *list, *address;
        bool has;
    } rows[] = {
        {"", "127.0.0.1", false},
        {" , ,", "127.0.0.1", false},
        {"127.0.0.1", "127.0.0.1", true},
        {"127.0.0.1", "127.0.0.2", false},
        {"127.0.0.1/32", "127.0.0.1", true},
        {"10.0.0.0/8", "10.255.255.255", true},
        {"10.0.0.0/8", "11.0.0.0", false},
        {"10.0.0.0/8", "9.255.255.255", false},
        {"192.0.2.128/25", "192.0.2.128", true},
        {"192.0.2.128/25", "192.0.2.127", false},
        {"128.0.0.0/1", "255.0.0.1", true},
        {"128.0.0.0/1", "127.0.0.1", false},
        {"::ffff:10.0.0.0/104", "10.1.2.3", true},
        {"::/1", "127.0.0.1", true},
        {"2001:db8::/32", "2001:db8:ffff::1", true},
        {"2001:db8::/32", "2001:db9::", false},
        {"2001:db8::/33", "2001:db8:8000::", false},
        {"::1", "127.0.0.1", false},
        {"10.0.0.0/8,\t192.168.0.0/16\n2001:db8::1", "192.168.3.4", true},
        {"10.0.0.0/8,\t192.168.0.0/16\n2001:db8::1", "2001:db8::1", true},
        {"10.0.0.0/8,\t192.168.0.0/16\n2001:db8::1", "2001:db8::2", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct sk_networks networks;
        struct sk_address searched = address(rows[i].address);
        size_t bad_len;
        ck_assert_ptr_null(sk_networks_parse(rows[i].list, &networks, &bad_len));
        ck_assert_msg(sk_networks_have(&networks, &searched) == rows[i].has, "%s has %s", rows[i].list,
                      rows[i].address);
    }
}

TEST(bad_networks_are_named)
{
    static const char *const rows[] = {
        "10.0.0.0/0",   "::/0",          "10.0.0.0/33",        "::1/129",
        "10.0.0.0/",    "10.0.0.0/08",   "10.0.0.0/+8",        "10.0.0.0/-1",
        "10.0.0.0/8/8", "10.0.0.1/8",    "192.0.2.129/25",     "2001:db8::1/64",
        "/8",           "gateway",       "10.0.0.0/255.0.0.0", "10.*",
        "[::1]",        "10.0.0.0/1000", "10.0.0.0-10.0.0.9",  "10.0.0.1;",
    };
    struct sk_networks networks;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char list[64];
        size_t len = 0;
        (void)snprintf(list, sizeof list, "127.0.0.1, %s,::1", rows[i]);
        const char *bad = sk_networks_parse(list, &networks, &len);
        ck_assert_msg(bad == list + 11 && len == strlen(rows[i]), "%s", rows[i]);
    }
}

TEST(there_is_room_for_so_many_networks)
{
    char list[SK_NETWORKS_MAX * 16 + 32] = "";
    struct sk_networks networks;
    size_t len;
    for (int i = 0; i < SK_NETWORKS_MAX; i++)
        (void)snprintf(list + strlen(list), 16, "10.0.0.%d ", i);
    ck_assert_ptr_null(sk_networks_parse(list, &networks, &len));
    ck_assert_uint_eq(networks.count, SK_NETWORKS_MAX);
    size_t full = strlen(list);
    (void)snprintf(list + full, 16, "10.0.1.1");
    ck_assert_ptr_eq(sk_networks_parse(list, &networks, &len), list + full);
}
