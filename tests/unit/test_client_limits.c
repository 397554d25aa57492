// All limits of clients together: which address counts, what is reported, and which limits are off.
#include <stdio.h>
#include <string.h>

#include "address.h"
#include "client_limits.h"
#include "failing_memory.h"
#include "still_clock.h"
#include "test.h"

enum { SAID_SIZE = 256 };

static struct sk_identity_options options;
static struct sk_server_options server;
static struct sk_limits *limits;
static struct sk_request asked;
static const char *peer, *forwarded, *forwarded_for; // NULL: none
static char proxies[] = "10.0.0.0/8";

bool sk_request_peer(const struct sk_request *request, struct sk_address *address)
{
    ck_assert_ptr_eq(request, &asked);
    return peer != NULL && sk_address_parse(peer, strlen(peer), address);
}

size_t sk_request_header_values(const struct sk_request *request, const char *name, const char **values, size_t most)
{
    ck_assert_ptr_eq(request, &asked);
    ck_assert_uint_gt(most, 0);
    values[0] = strcmp(name, "forwarded") == 0 ? forwarded : forwarded_for;
    ck_assert(strcmp(name, "forwarded") == 0 || strcmp(name, "x-forwarded-for") == 0);
    return values[0] != NULL;
}

static void setup(void)
{
    options = (struct sk_identity_options){.reactors = 2};
    server = (struct sk_server_options){.max_connections = 2};
    peer = "192.0.2.1";
    forwarded = forwarded_for = NULL;
    asked = (struct sk_request){0};
}

static void teardown(void)
{
    sk_limits_close(limits);
    limits = NULL;
}

static void open_limits(void)
{
    limits = sk_limits_open(&options, &server, stderr);
    ck_assert_ptr_nonnull(limits);
}

static void must_be_limited(bool may, bool expected, enum sk_policy policy, unsigned left)
{
    ck_assert_int_eq(may, expected);
    ck_assert_int_eq(asked.limit.policy, policy);
    ck_assert_uint_eq(asked.limit.left, left);
}

TEST(nothing_is_limited_by_itself)
{
    open_limits();
    ck_assert(!sk_limits_rated(limits));
    ck_assert_ptr_null(sk_limits_policy(limits));
    ck_assert_ptr_null(sk_limits_peers(limits));
    for (int i = 0; i < 1000; i++) {
        must_be_limited(sk_limits_address(limits, &asked), true, SK_POLICY_NONE, 0);
        must_be_limited(sk_limits_user(limits, &asked, "alice"), true, SK_POLICY_NONE, 0);
        ck_assert(sk_rate_take(sk_limits_purchases(limits), 1));
    }
}

TEST(users_and_addresses_have_rates)
{
    options.user_rate = 2;
    options.address_rate = 3;
    open_limits();
    ck_assert(sk_limits_rated(limits));
    ck_assert_str_eq(sk_limits_policy(limits), "\"user\";q=2;w=1, \"address\";q=3;w=1");
    must_be_limited(sk_limits_address(limits, &asked), true, SK_POLICY_ADDRESS, 2);
    must_be_limited(sk_limits_user(limits, &asked, "alice"), true, SK_POLICY_USER, 1);
    asked = (struct sk_request){0};
    must_be_limited(sk_limits_address(limits, &asked), true, SK_POLICY_ADDRESS, 1);
    must_be_limited(sk_limits_user(limits, &asked, "bob"), true, SK_POLICY_USER, 1);
    asked = (struct sk_request){0};
    must_be_limited(sk_limits_address(limits, &asked), true, SK_POLICY_ADDRESS, 0);
    must_be_limited(sk_limits_user(limits, &asked, "carol"), true, SK_POLICY_ADDRESS, 0);
    asked = (struct sk_request){0};
    must_be_limited(sk_limits_address(limits, &asked), false, SK_POLICY_ADDRESS, 0);
    peer = "192.0.2.2";
    asked = (struct sk_request){0};
    must_be_limited(sk_limits_address(limits, &asked), true, SK_POLICY_ADDRESS, 2);
    must_be_limited(sk_limits_user(limits, &asked, "alice"), true, SK_POLICY_USER, 0);
    must_be_limited(sk_limits_user(limits, &asked, "alice"), false, SK_POLICY_USER, 0);
}

TEST(an_ipv6_client_has_64_bits)
{
    options.address_rate = 1;
    open_limits();
    peer = "2001:db8::1";
    ck_assert(sk_limits_address(limits, &asked));
    peer = "2001:db8::2";
    ck_assert(!sk_limits_address(limits, &asked));
    peer = "2001:db8:0:1::1";
    ck_assert(sk_limits_address(limits, &asked));
    peer = NULL; // a connection without an address has no limit
    ck_assert(sk_limits_address(limits, &asked));
    ck_assert(sk_limits_address(limits, &asked));
}

TEST(only_a_trusted_proxy_says_who_the_client_is)
{
    static const struct {
        char *proxies;
        const char *peer, *forwarded, *forwarded_for, *client;
    } rows[] = {
        {NULL, "192.0.2.1", "for=203.0.113.9", "203.0.113.9", "192.0.2.1"},
        {proxies, "192.0.2.1", NULL, NULL, "192.0.2.1"},
        {proxies, "192.0.2.1", NULL, "203.0.113.9", "192.0.2.1"}, // not one of the proxies
        {proxies, "10.1.2.3", NULL, "203.0.113.9", "203.0.113.9"},
        {proxies, "10.1.2.3", NULL, NULL, "10.1.2.3"},
        {proxies, "10.1.2.3", "for=203.0.113.8", NULL, "203.0.113.8"},
        {proxies, "10.1.2.3", "for=203.0.113.8", "198.51.100.1, 203.0.113.8", "203.0.113.8"}, // both agree
        // The client's own, passed on by a gateway that sets the other field.
        {proxies, "10.1.2.3", "for=198.51.100.1", "198.51.100.1, 203.0.113.8", "10.1.2.3"},
        {proxies, "10.1.2.3", "nonsense", "198.51.100.1, 203.0.113.8", "10.1.2.3"},
        {proxies, "10.1.2.3", "nonsense", "nonsense", "10.1.2.3"},
        {proxies, "10.1.2.3", "nonsense", NULL, "10.1.2.3"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sk_address client, expected;
        options.trusted_proxies = rows[i].proxies;
        peer = rows[i].peer;
        forwarded = rows[i].forwarded;
        forwarded_for = rows[i].forwarded_for;
        open_limits();
        ck_assert(sk_limits_client(limits, &asked, &client));
        ck_assert(sk_address_parse(rows[i].client, strlen(rows[i].client), &expected));
        ck_assert_msg(memcmp(&client, &expected, sizeof client) == 0, "row %zu: not %s", i, rows[i].client);
        teardown();
    }
}

TEST(connections_of_an_address)
{
    struct sk_address one, other, proxy;
    ck_assert(sk_address_parse("192.0.2.1", 9, &one) && sk_address_parse("192.0.2.2", 9, &other));
    ck_assert(sk_address_parse("10.0.0.1", 8, &proxy));
    options.address_connections = 2;
    options.trusted_proxies = proxies;
    open_limits();
    const struct sk_peers *peers = sk_limits_peers(limits);
    ck_assert(peers->connects(peers->arg, &one));
    ck_assert(peers->connects(peers->arg, &one));
    ck_assert(!peers->connects(peers->arg, &one));
    ck_assert(peers->connects(peers->arg, &other));
    for (int i = 0; i < 10; i++) // a gateway keeps many connections
        ck_assert(peers->connects(peers->arg, &proxy));
    for (int i = 0; i < 10; i++)
        peers->disconnects(peers->arg, &proxy);
    peers->disconnects(peers->arg, &one);
    ck_assert(peers->connects(peers->arg, &one));
    ck_assert(!peers->connects(peers->arg, &one));
}

TEST(without_memory_there_is_no_start)
{
    int failed = 0;
    options.user_rate = options.address_rate = options.address_connections = 1;
    do {
        sk_limits_close(limits);
        memory_has_failed = false;
        allocations_left = failed + 1;
        limits = sk_limits_open(&options, &server, stderr);
        allocations_left = 0;
        ck_assert_int_eq(limits == NULL, memory_has_failed);
        failed += memory_has_failed;
    } while (memory_has_failed);
    ck_assert_int_ge(failed, 4);
}

TEST(a_wrong_list_of_proxies_is_no_start)
{
    static char wrong[] = "10.0.0.0/8, 10.0.0.0/33, ::1";
    char said[SAID_SIZE] = "";
    options.trusted_proxies = wrong;
    FILE *err = fmemopen(said, sizeof said, "w");
    ck_assert_ptr_null(sk_limits_open(&options, &server, err));
    (void)fclose(err);
    ck_assert_str_eq(said, "seckill: SECKILL_TRUSTED_PROXIES: '10.0.0.0/33' is no address and no network, or one too "
                           "many\n");
}

// ---- long requests ----

static char loopback[] = "127.0.0.1:8080", everywhere[] = "0.0.0.0:8080";

static enum sk_long hold(const char *user)
{
    asked = (struct sk_request){0};
    return sk_limits_hold(limits, &asked, user);
}

TEST(long_requests_of_a_user_are_counted)
{
    server.listen = loopback;
    options.long_per_user = 2;
    open_limits();
    ck_assert_int_eq(hold("alice"), SK_LONG_MAY);
    struct sk_hold first = asked.hold;
    ck_assert_int_eq(hold("alice"), SK_LONG_MAY);
    ck_assert_int_eq(hold("alice"), SK_LONG_OF_USER);
    ck_assert(!asked.hold.of_user && !asked.hold.of_address);
    sk_limits_release(limits, &asked.hold); // it holds nothing
    ck_assert_int_eq(hold("alice"), SK_LONG_OF_USER);
    ck_assert_int_eq(hold("bob"), SK_LONG_MAY);
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(hold(""), SK_LONG_MAY); // the user is unknown
    sk_limits_release(limits, &first);
    ck_assert_int_eq(hold("alice"), SK_LONG_MAY);
    ck_assert_int_eq(hold("alice"), SK_LONG_OF_USER);
}

TEST(one_that_its_address_refuses_is_released_too)
{
    server.listen = everywhere;
    options.auth = SK_AUTH_TOKEN;
    options.long_per_user = options.long_per_address = 1;
    open_limits();
    ck_assert_int_eq(hold("alice"), SK_LONG_MAY);
    ck_assert_int_eq(hold("bob"), SK_LONG_OF_ADDRESS);
    ck_assert(asked.hold.of_user && !asked.hold.of_address);
    peer = "192.0.2.2";
    struct sk_hold refused = asked.hold;
    ck_assert_int_eq(hold("bob"), SK_LONG_OF_USER);
    sk_limits_release(limits, &refused);
    ck_assert_int_eq(hold("bob"), SK_LONG_MAY);
}

// An unlisted gateway looks like one client, but is not.
TEST(an_address_counts_where_it_is_known)
{
    static const struct {
        char *listen;
        enum sk_auth auth;
        char *proxies;
        const char *peer, *forwarded_for, *forwarded;
        bool known;
    } rows[] = {
        {loopback, SK_AUTH_GATEWAY, NULL, "127.0.0.1", "192.0.2.1", NULL, false},
        {everywhere, SK_AUTH_GATEWAY, NULL, "10.0.0.1", "192.0.2.1", NULL, false}, // SECKILL_GATEWAY_TRUSTED
        {everywhere, SK_AUTH_TOKEN, NULL, "192.0.2.1", NULL, NULL, true},
        {loopback, SK_AUTH_TOKEN, NULL, "127.0.0.1", NULL, NULL, false},
        {loopback, SK_AUTH_GATEWAY, proxies, "10.0.0.1", "192.0.2.1", NULL, true},
        {loopback, SK_AUTH_GATEWAY, proxies, "10.0.0.1", NULL, NULL, false}, // without the client's address
        {loopback, SK_AUTH_GATEWAY, proxies, "10.0.0.1", "10.0.0.2", NULL, false},
        {everywhere, SK_AUTH_GATEWAY, proxies, "192.0.2.1", "192.0.2.9", NULL, true},
        {loopback, SK_AUTH_GATEWAY, proxies, "10.0.0.1", "192.0.2.1", "for=192.0.2.2", true}, // for the gateway's own
        {loopback, SK_AUTH_GATEWAY, proxies, "10.0.0.1", "192.0.2.1", "for=_x", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        server.listen = rows[i].listen;
        options.auth = rows[i].auth;
        options.trusted_proxies = rows[i].proxies;
        options.long_per_address = 1;
        peer = rows[i].peer;
        forwarded_for = rows[i].forwarded_for;
        forwarded = rows[i].forwarded;
        open_limits();
        ck_assert_int_eq(hold(""), SK_LONG_MAY);
        ck_assert_msg(asked.hold.of_address == rows[i].known, "row %zu", i);
        ck_assert_int_eq(hold(""), rows[i].known ? SK_LONG_OF_ADDRESS : SK_LONG_MAY);
        teardown();
    }
}

SUITE(.setup = setup, .teardown = teardown);
