// The limits of clients together: which address counts, what is told of them, and which are off.
#include <stdio.h>
#include <string.h>

#include "address.h"
#include "client_limits.h"
#include "failing_memory.h"
#include "stack.h"
#include "still_clock.h"

enum { SAID_SIZE = 256 };

static struct sk_config config;
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
    config = (struct sk_config){.reactors = 2, .max_connections = 2};
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
    limits = sk_limits_open(&config, stderr);
    ck_assert_ptr_nonnull(limits);
}

static void client_must_be(const char *expected)
{
    struct sk_address client, other;
    ck_assert(sk_limits_client(limits, &asked, &client));
    ck_assert(sk_address_parse(expected, strlen(expected), &other));
    ck_assert_msg(memcmp(&client, &other, sizeof client) == 0, "not %s", expected);
}

static void must_be_limited(enum sk_verdict verdict, enum sk_verdict expected, enum sk_policy policy, unsigned left)
{
    ck_assert_int_eq(verdict, expected);
    ck_assert_int_eq(asked.limit.policy, policy);
    ck_assert_uint_eq(asked.limit.left, left);
}

START_TEST(nothing_is_limited_by_itself)
{
    open_limits();
    ck_assert(!sk_limits_rated(limits));
    ck_assert_ptr_null(sk_limits_policy(limits));
    ck_assert_ptr_null(sk_limits_peers(limits));
    for (int i = 0; i < 1000; i++) {
        must_be_limited(sk_limits_address(limits, &asked), SK_VERDICT_FOUND, SK_POLICY_NONE, 0);
        must_be_limited(sk_limits_user(limits, &asked, "alice"), SK_VERDICT_FOUND, SK_POLICY_NONE, 0);
        ck_assert(sk_rate_take(sk_limits_purchases(limits), 1));
    }
}
END_TEST

START_TEST(users_and_addresses_have_rates)
{
    config.user_rate = 2;
    config.address_rate = 3;
    open_limits();
    ck_assert(sk_limits_rated(limits));
    ck_assert_str_eq(sk_limits_policy(limits), "\"user\";q=2;w=1, \"address\";q=3;w=1");
    must_be_limited(sk_limits_address(limits, &asked), SK_VERDICT_FOUND, SK_POLICY_ADDRESS, 2);
    must_be_limited(sk_limits_user(limits, &asked, "alice"), SK_VERDICT_FOUND, SK_POLICY_USER, 1);
    asked = (struct sk_request){0};
    must_be_limited(sk_limits_address(limits, &asked), SK_VERDICT_FOUND, SK_POLICY_ADDRESS, 1);
    must_be_limited(sk_limits_user(limits, &asked, "bob"), SK_VERDICT_FOUND, SK_POLICY_USER, 1);
    asked = (struct sk_request){0};
    must_be_limited(sk_limits_address(limits, &asked), SK_VERDICT_FOUND, SK_POLICY_ADDRESS, 0);
    must_be_limited(sk_limits_user(limits, &asked, "carol"), SK_VERDICT_FOUND, SK_POLICY_ADDRESS, 0);
    asked = (struct sk_request){0};
    must_be_limited(sk_limits_address(limits, &asked), SK_VERDICT_RATE_LIMITED, SK_POLICY_ADDRESS, 0);
    peer = "192.0.2.2";
    asked = (struct sk_request){0};
    must_be_limited(sk_limits_address(limits, &asked), SK_VERDICT_FOUND, SK_POLICY_ADDRESS, 2);
    must_be_limited(sk_limits_user(limits, &asked, "alice"), SK_VERDICT_FOUND, SK_POLICY_USER, 0);
    must_be_limited(sk_limits_user(limits, &asked, "alice"), SK_VERDICT_RATE_LIMITED, SK_POLICY_USER, 0);
}
END_TEST

START_TEST(an_ipv6_client_has_64_bits)
{
    config.address_rate = 1;
    open_limits();
    peer = "2001:db8::1";
    ck_assert_int_eq(sk_limits_address(limits, &asked), SK_VERDICT_FOUND);
    peer = "2001:db8::2";
    ck_assert_int_eq(sk_limits_address(limits, &asked), SK_VERDICT_RATE_LIMITED);
    peer = "2001:db8:0:1::1";
    ck_assert_int_eq(sk_limits_address(limits, &asked), SK_VERDICT_FOUND);
    peer = NULL; // a connection without an address has no limit
    ck_assert_int_eq(sk_limits_address(limits, &asked), SK_VERDICT_FOUND);
    ck_assert_int_eq(sk_limits_address(limits, &asked), SK_VERDICT_FOUND);
}
END_TEST

START_TEST(a_client_cannot_say_who_it_is)
{
    open_limits();
    forwarded = "for=203.0.113.9";
    forwarded_for = "203.0.113.9";
    client_must_be("192.0.2.1");
}
END_TEST

START_TEST(a_trusted_proxy_says_who_the_client_is)
{
    config.trusted_proxies = proxies;
    open_limits();
    client_must_be("192.0.2.1");
    forwarded_for = "203.0.113.9";
    client_must_be("192.0.2.1"); // not one of them
    peer = "10.1.2.3";
    client_must_be("203.0.113.9");
    forwarded_for = NULL;
    client_must_be("10.1.2.3");
    forwarded = "for=203.0.113.8";
    client_must_be("203.0.113.8");
    forwarded_for = "198.51.100.1, 203.0.113.8"; // both say the same
    client_must_be("203.0.113.8");
    forwarded = "for=198.51.100.1"; // the client's own, passed on by a gateway that sets the other field
    client_must_be("10.1.2.3");
    forwarded = "nonsense";
    client_must_be("10.1.2.3");
    forwarded_for = "nonsense";
    client_must_be("10.1.2.3");
    forwarded_for = NULL;
    client_must_be("10.1.2.3");
}
END_TEST

START_TEST(connections_of_an_address)
{
    struct sk_address one, other, proxy;
    ck_assert(sk_address_parse("192.0.2.1", 9, &one) && sk_address_parse("192.0.2.2", 9, &other));
    ck_assert(sk_address_parse("10.0.0.1", 8, &proxy));
    config.address_connections = 2;
    config.trusted_proxies = proxies;
    open_limits();
    const struct sk_peers *peers = sk_limits_peers(limits);
    ck_assert(peers->connects(peers->arg, &one));
    ck_assert(peers->connects(peers->arg, &one));
    ck_assert(!peers->connects(peers->arg, &one));
    ck_assert(peers->connects(peers->arg, &other));
    for (int i = 0; i < 10; i++) // a gateway keeps many
        ck_assert(peers->connects(peers->arg, &proxy));
    for (int i = 0; i < 10; i++)
        peers->disconnects(peers->arg, &proxy);
    peers->disconnects(peers->arg, &one);
    ck_assert(peers->connects(peers->arg, &one));
    ck_assert(!peers->connects(peers->arg, &one));
}
END_TEST

START_TEST(without_memory_there_is_no_start)
{
    int failed = 0;
    config.user_rate = config.address_rate = config.address_connections = 1;
    do {
        sk_limits_close(limits);
        memory_has_failed = false;
        allocations_left = failed + 1;
        limits = sk_limits_open(&config, stderr);
        allocations_left = 0;
        ck_assert_int_eq(limits == NULL, memory_has_failed);
        failed += memory_has_failed;
    } while (memory_has_failed);
    ck_assert_int_ge(failed, 4);
}
END_TEST

START_TEST(a_wrong_list_of_proxies_is_no_start)
{
    static char wrong[] = "10.0.0.0/8, 10.0.0.0/33, ::1";
    char said[SAID_SIZE] = "";
    config.trusted_proxies = wrong;
    FILE *err = fmemopen(said, sizeof said, "w");
    ck_assert_ptr_null(sk_limits_open(&config, err));
    (void)fclose(err);
    ck_assert_str_eq(said, "seckill: SECKILL_TRUSTED_PROXIES: '10.0.0.0/33' is no address and no network, or one too "
                           "many\n");
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("limits");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, nothing_is_limited_by_itself);
    tcase_add_test(tcase, users_and_addresses_have_rates);
    tcase_add_test(tcase, an_ipv6_client_has_64_bits);
    tcase_add_test(tcase, a_client_cannot_say_who_it_is);
    tcase_add_test(tcase, a_trusted_proxy_says_who_the_client_is);
    tcase_add_test(tcase, connections_of_an_address);
    tcase_add_test(tcase, without_memory_there_is_no_start);
    tcase_add_test(tcase, a_wrong_list_of_proxies_is_no_start);
    return harness_main(tcase, CK_FORK);
}
