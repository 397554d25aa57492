// The client's address behind proxies: the client's own elements must never decide.
#include <stdio.h>
#include <string.h>

#include "forwarded.h"
#include "test.h"

#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])
#define PEER        "10.0.0.1"
#define TRUSTED     "10.0.0.0/8, 2001:db8:aaaa::/48"

struct row {
    const char *value, *client;
};

static struct sk_networks trusted;

static struct sk_address address(const char *text)
{
    struct sk_address made;
    ck_assert_msg(sk_address_parse(text, strlen(text), &made), "%s", text);
    return made;
}

static void setup(void)
{
    size_t len;
    ck_assert_ptr_null(sk_networks_parse(TRUSTED, &trusted, &len));
}

static void must_be(enum sk_forwarded form, const char *peer, const char *const *values, size_t count,
                    const char *client)
{
    struct sk_address from = address(peer), expected = address(client);
    struct sk_address found = sk_forwarded_client(form, &trusted, &from, values, count);
    ck_assert_msg(memcmp(&found, &expected, sizeof found) == 0, "%s: not %s", count == 0 ? "none" : values[count - 1],
                  client);
}

// `unnamed`: values that name no client.
static void must_be_all(enum sk_forwarded form, const struct row *rows, size_t count, const char *const *unnamed)
{
    for (size_t i = 0; i < count; i++)
        must_be(form, PEER, &rows[i].value, 1, rows[i].client);
    for (; *unnamed != NULL; unnamed++)
        must_be(form, PEER, unnamed, 1, PEER);
}

TEST(x_forwarded_for)
{
    static const struct row rows[] = {
        {"192.0.2.1", "192.0.2.1"},
        {"  192.0.2.1\t", "192.0.2.1"},
        {"192.0.2.1:4711", "192.0.2.1"},
        {"2001:db8::1", "2001:db8::1"},
        {"[2001:db8::1]", "2001:db8::1"},
        {"[2001:db8::1]:443", "2001:db8::1"},
        {"::ffff:192.0.2.1", "192.0.2.1"},
        {"203.0.113.9, 192.0.2.1", "192.0.2.1"}, // the client wrote the left one
        {"203.0.113.9,192.0.2.1", "192.0.2.1"},
        {"192.0.2.1, 10.0.0.2", "192.0.2.1"}, // two proxies
        {"192.0.2.1, 10.0.0.3, 2001:db8:aaaa::2, 10.0.0.2", "192.0.2.1"},
        {"203.0.113.9, 192.0.2.1, 10.0.0.2", "192.0.2.1"},
        {"10.0.0.3", "10.0.0.3"}, // a client in the proxies' network
        {"10.0.0.4, 10.0.0.3", "10.0.0.4"},
        {"192.0.2.1,", "192.0.2.1"}, // empty elements are skipped
        {"192.0.2.1, , ,\t,", "192.0.2.1"},
        {",192.0.2.1", "192.0.2.1"},
        {"nonsense, 192.0.2.1", "192.0.2.1"},
        {"\"quoted, 192.0.2.1", "192.0.2.1"}, // quotes have no meaning here
        {"192.0.2.1, unknown, 10.0.0.2", "10.0.0.2"},
    };
    static const char *const unnamed[] = {
        // nonsense, or a client that the proxy does not name
        "\"192.0.2.1\"",
        "",
        ",",
        "unknown",
        "192.0.2.1, unknown",
        "192.0.2.1, _hidden",
        "192.0.2.1 203.0.113.9",
        "192.0.2.1;203.0.113.9",
        "192.0.2.1:",
        "192.0.2.1:123456",
        "192.0.2.1:8o",
        "192.0.2.1:80:80",
        "192.0.2.256",
        "192.0.2.01",
        "192.0.2",
        "[192.0.2.1]",
        "[2001:db8::1",
        "[2001:db8::1]x",
        "[2001:db8::1]:",
        "2001:db8::1]",
        "[]",
        "[",
        "fe80::1%eth0",
        "localhost",
        "192.0.2.1\x80",
        "1111:2222:3333:4444:5555:6666:7777:8888:1111:2222:3333:4444:5555:6666:7777:8888",
        NULL};
    must_be_all(SK_FORWARDED_FOR, rows, COUNT(rows), unnamed);
}

TEST(forwarded)
{
    static const struct row rows[] = {
        {"for=192.0.2.1", "192.0.2.1"},
        {"FOR=192.0.2.1", "192.0.2.1"},
        {"for=\"192.0.2.1\"", "192.0.2.1"},
        {"for=\"192.0.2.1:4711\"", "192.0.2.1"},
        {"for=192.0.2.1:4711", "192.0.2.1"}, // without the required quotes
        {"for=\"[2001:db8::1]\"", "2001:db8::1"},
        {"for=\"[2001:db8::1]:4711\"", "2001:db8::1"},
        {"for=\"[2001:db8::1]:_port\"", "2001:db8::1"},
        {"For=\"\\[2001:db8::1\\]\"", "2001:db8::1"}, // a quoted pair
        {"for=192.0.2.1;proto=http;by=203.0.113.43", "192.0.2.1"},
        {"proto=https;host=\"a, b; for=203.0.113.9\";for=192.0.2.1", "192.0.2.1"},
        {"by=\"\\\",for=1.1.1.1\";for=192.0.2.1", "192.0.2.1"},
        {"for=192.0.2.1 ; proto=http", "192.0.2.1"},
        {"for=203.0.113.9, for=192.0.2.1", "192.0.2.1"},
        {"for=192.0.2.1,for=10.0.0.2", "192.0.2.1"},
        {"for=192.0.2.1, for=\"[2001:db8:aaaa::1]\";proto=http , for=\"10.0.0.2:99\"", "192.0.2.1"},
        {"for=10.0.0.9", "10.0.0.9"},
        {"for=\", for=192.0.2.1", "192.0.2.1"}, // the client left a quote open
        {"for=\"\\, for=192.0.2.1", "192.0.2.1"},
        {"for=\\\", for=192.0.2.1", "192.0.2.1"},
        {"\\, for=192.0.2.1", "192.0.2.1"},
        {"\"\\\\\\\", for=\"192.0.2.1\"", "192.0.2.1"},
        {"nonsense, for=192.0.2.1", "192.0.2.1"},
        {"for=192.0.2.1;ext=\"1111111111222222222233333333334444444444555555555566666666667777777777\"", "192.0.2.1"},
        {"for=192.0.2.1, for=unknown, for=10.0.0.2", "10.0.0.2"},
        {"for=192.0.2.1, for=_a;for=_b, for=10.0.0.2", "10.0.0.2"},
        {"for=192.0.2.1;", "192.0.2.1"},
    };
    static const char *const unnamed[] = {
        // the syntax of the other field, and no pair
        "", "192.0.2.1", "for", "for=", "for=\"\"", "for =192.0.2.1", "for= 192.0.2.1", "xfor=192.0.2.1",
        "forx=192.0.2.1", "proto=http", "by=192.0.2.1",
        // twice, not an address, or not closed
        "for=192.0.2.1;for=192.0.2.2", "for=unknown", "for=_gazonk", "for=\"_gazonk\"", "for=192.0.2.1, for=unknown",
        "for=\"192.0.2.1", "for=192.0.2.1\"", "for=\"192.0.2.1\"x", "for=192.0.2.1;;", ";for=192.0.2.1",
        "for=192.0.2.1=2", "for=192.0.2.1 proto=http", "for=[2001:db8::1", "for=\"[2001:db8::1]\\\"",
        "for=\"[fe80::1%25eth0]\"", "for=\"1111111111222222222233333333334444444444555555555566666666667777777777\"",
        NULL};
    must_be_all(SK_FORWARDED, rows, COUNT(rows), unnamed);
}

TEST(fields_that_are_sent_twice_are_one_list)
{
    static const char *const values[] = {"203.0.113.9", "192.0.2.1", "10.0.0.3, 10.0.0.2"};
    static const char *const pairs[] = {"for=\"", "for=192.0.2.1", "for=10.0.0.2"};
    static const char *const empty[] = {"192.0.2.1", "", ","};
    must_be(SK_FORWARDED_FOR, PEER, values, 3, "192.0.2.1");
    must_be(SK_FORWARDED_FOR, PEER, values, 1, "203.0.113.9");
    must_be(SK_FORWARDED, PEER, pairs, 3, "192.0.2.1");
    must_be(SK_FORWARDED_FOR, PEER, empty, 3, "192.0.2.1");
    must_be(SK_FORWARDED_FOR, PEER, NULL, 0, PEER);
    must_be(SK_FORWARDED, PEER, NULL, 0, PEER);
}

TEST(a_peer_that_is_not_trusted_is_the_client)
{
    static const char *const values[] = {"192.0.2.1, 10.0.0.2"}, *const pairs[] = {"for=192.0.2.1"};
    must_be(SK_FORWARDED_FOR, "198.51.100.7", values, 1, "198.51.100.7");
    must_be(SK_FORWARDED, "198.51.100.7", pairs, 1, "198.51.100.7");
    trusted.count = 0;
    must_be(SK_FORWARDED_FOR, PEER, values, 1, PEER);
}

TEST(hops_are_counted)
{
    char list[1024] = "192.0.2.1";
    const char *values[] = {list};
    for (int i = 1; i < SK_FORWARDED_HOPS_MAX; i++)
        (void)snprintf(list + strlen(list), 16, ",10.0.0.%d", i);
    must_be(SK_FORWARDED_FOR, PEER, values, 1, "192.0.2.1");
    (void)snprintf(list + strlen(list), 16, ",10.0.0.99");
    must_be(SK_FORWARDED_FOR, PEER, values, 1, "10.0.0.1");
}

SUITE(.setup = setup);
