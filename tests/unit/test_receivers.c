// The file of receivers: what it may have, what is refused, and which events a receiver wants.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "receivers.h"
#include "test.h"

#define SECRET       "\"secrets\":[\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"]"
#define KEY          "\"key\":\"whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=\""
#define URL          "\"url\":\"https://shop.example/hook\""
#define ONE(members) "{\"receivers\":[{" members "}]}"

static char path[] = "/tmp/seckill-receivers.XXXXXX";
static struct sk_receivers *receivers;
static char why[SK_RECEIVERS_WHY_SIZE];

static void setup(void)
{
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    (void)close(fd);
}

static void teardown(void)
{
    sk_receivers_close(receivers);
    (void)unlink(path);
}

static bool reads(const char *text)
{
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
    sk_receivers_close(receivers);
    why[0] = '\0';
    receivers = sk_receivers_open(path, why);
    return receivers != NULL;
}

TEST(all_that_it_may_have)
{
    ck_assert_msg(reads("{\"receivers\":[{\"name\":\"shop\"," URL "," SECRET "},"
                        "{\"name\":\"b\",\"url\":\"http://127.0.0.1:9/x?y=z\"," KEY ",\"events\":[\"order.*\"],"
                        "\"page\":1,\"from\":\"first\",\"ca\":\"/dev/null\"}]}"),
                  "%s", why);
    ck_assert_uint_eq(receivers->count, 2);
    const struct sk_receiver *shop = sk_receivers_find(receivers, "shop"), *b = sk_receivers_find(receivers, "b");
    ck_assert_ptr_eq(shop, &receivers->each[0]);
    ck_assert_ptr_eq(b, sk_receivers_find(receivers, "http://127.0.0.1:9/x?y=z"));
    ck_assert_ptr_null(sk_receivers_find(receivers, "sho"));
    ck_assert_str_eq(shop->url, "https://shop.example/hook");
    ck_assert(shop->encrypted && !shop->from_first && shop->ca == NULL && shop->keys.count == 1);
    ck_assert_uint_eq(shop->page, SK_RECEIVER_PAGE_DEFAULT);
    ck_assert(!b->encrypted && b->from_first && b->keys.count == 0 && b->keys.key != NULL);
    ck_assert_str_eq(b->ca, "/dev/null");
    ck_assert_uint_eq(b->page, 1);
}

TEST(what_is_refused)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "line 1: '[' or '{' expected near end of file"},
        {"[]", "is not an object with a list of 1 to 16 `receivers` and nothing else"},
        {"{\"receivers\":[]}", "is not an object with a list of 1 to 16 `receivers` and nothing else"},
        {"{\"receivers\":[{\"name\":\"a\"," URL "," SECRET "}],\"x\":1}",
         "is not an object with a list of 1 to 16 `receivers` and nothing else"},
        {"{\"receivers\":[1]}", "receivers[0]: it is no object"},
        {ONE(URL "," SECRET), "receivers[0]: `name` and `url` are required"},
        {ONE("\"name\":\"a\"," SECRET), "receivers[0], a: `name` and `url` are required"},
        {ONE("\"name\":\"a\"," URL), "receivers[0], a: `secrets` or `key` is required"},
        {ONE("\"name\":\"a b\"," URL "," SECRET), "receivers[0], a b: `name` is 1 to 64 of A-Z a-z 0-9 _ . -"},
        {ONE("\"name\":1," URL "," SECRET), "receivers[0]: `name` is 1 to 64 of A-Z a-z 0-9 _ . -"},
        {ONE("\"name\":\"a\"," URL "," SECRET ",\"pages\":1"),
         "receivers[0], a: it has a member that is none of name, url, secrets, key, events, page, from, ca"},
        {ONE("\"name\":\"a\"," URL ",\"secrets\":[]"), "receivers[0], a: `secrets` is no list, or empty"},
        {ONE("\"name\":\"a\"," URL ",\"secrets\":\"whsec_x\""), "receivers[0], a: `secrets` is no list, or empty"},
        {ONE("\"name\":\"a\"," URL ",\"secrets\":[\"x\"]"),
         "receivers[0], a: each of `secrets` is a text that begins with whsec_"},
        {ONE("\"name\":\"a\"," URL ",\"secrets\":[\"whsec_x\"]"),
         "receivers[0], a: a secret is whsec_ and the base64 of 24 to 64 bytes"},
        {ONE("\"name\":\"a\"," URL ",\"key\":\"whsec_x\""), "receivers[0], a: `key` is a text that begins with whsk_"},
        {ONE("\"name\":\"a\"," URL "," SECRET ",\"page\":0"), "receivers[0], a: `page` is no number from 1 to 100"},
        {ONE("\"name\":\"a\"," URL "," SECRET ",\"page\":101"), "receivers[0], a: `page` is no number from 1 to 100"},
        {ONE("\"name\":\"a\"," URL "," SECRET ",\"page\":\"1\""), "receivers[0], a: `page` is no number from 1 to 100"},
        {ONE("\"name\":\"a\"," URL "," SECRET ",\"from\":\"last\""),
         "receivers[0], a: `from` is neither \"now\" nor \"first\""},
        {ONE("\"name\":\"a\"," URL "," SECRET ",\"ca\":\"/nowhere\""),
         "receivers[0], a: `ca` is no file that can be read"},
        {ONE("\"name\":\"a\"," URL "," SECRET ",\"events\":[]"),
         "receivers[0], a: `events` is no list of 1 to 32 names"},
        {ONE("\"name\":\"a\"," URL "," SECRET ",\"events\":[\"order\"]"),
         "receivers[0], a: each of `events` is a name as order.placed, or order.*"},
        {ONE("\"name\":\"a\"," URL "," SECRET ",\"events\":[\"orders.placed\"]"),
         "receivers[0], a: each of `events` is a name as order.placed, or order.*"},
        {ONE("\"name\":\"a\"," URL "," SECRET ",\"events\":[\"order.\"]"),
         "receivers[0], a: each of `events` is a name as order.placed, or order.*"},
        {ONE("\"name\":\"a\"," URL "," SECRET ",\"events\":[\"order.p*\"]"),
         "receivers[0], a: each of `events` is a name as order.placed, or order.*"},
        {ONE("\"name\":\"a\",\"name\":\"b\"," URL "," SECRET), "line 1: duplicate object key near '\"name\"'"},
        {"{\"receivers\":[{\"name\":\"a\"," URL "," SECRET "},{\"name\":\"a\"," URL "," SECRET "}]}",
         "receivers[1], a: there are two of this name"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ck_assert_msg(!reads(rows[i].text), "row %zu is taken", i);
        ck_assert_msg(strcmp(why, rows[i].why) == 0, "row %zu: %s", i, why);
    }
    ck_assert_ptr_null(sk_receivers_open("/nowhere/at/all", why));
    ck_assert_str_eq(why, "cannot be opened: No such file or directory");
}

TEST(where_it_may_be)
{
    static const char form[] = ONE("\"name\":\"a\",\"url\":\"%s\"," SECRET);
    static const struct {
        const char *url, *why; // NULL: it is taken
    } rows[] = {
        {"https://shop.example", NULL},
        {"https://10.1.2.3:8443/a/b?c=d", NULL},
        {"http://localhost/hook", NULL},
        {"http://127.1.2.3:80/", NULL},
        {"http://[::1]:9099/hook", NULL},
        {"http://shop.example/hook",
         "`url` is http, and not of this machine: events have users' ids in them, so it must be https"},
        {"http://localhost.shop.example/",
         "`url` is http, and not of this machine: events have users' ids in them, so it must be https"},
        {"http://10.0.0.1/",
         "`url` is http, and not of this machine: events have users' ids in them, so it must be https"},
        {"https://user:password@shop.example/", "`url` has a user: a receiver checks the signature"},
        {"https://user@shop.example/", "`url` has a user: a receiver checks the signature"},
        {"ftp://shop.example/", "`url` is neither https nor http"},
        {"file:///etc/passwd", "`url` is no URL"},
        {"shop.example", "`url` is no URL"},
        {"", "`url` is no URL"},
        {"https://shop.example/a b", "`url` is no URL of at most 1024 characters"},
        {"https://", "`url` is no URL"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[512];
        (void)snprintf(text, sizeof text, form, rows[i].url);
        bool taken = reads(text);
        ck_assert_msg(taken == (rows[i].why == NULL), "row %zu: %s", i, why);
        if (!taken)
            ck_assert_msg(strcmp(strchr(why, ':') + 2, rows[i].why) == 0, "row %zu: %s", i, why);
    }
}

TEST(what_it_wants)
{
    static const struct {
        const char *events, *kind;
        bool placed, paid, owed, ended; // order.placed, order.paid, payment.to_refund, sale.ended
    } rows[] = {
        {"", NULL, true, true, true, true},
        {",\"events\":[\"order.placed\"]", "placed", true, false, false, false},
        {",\"events\":[\"order.paid\"]", "moves", false, true, false, false},
        {",\"events\":[\"payment.*\",\"order.paid\"]", "moves", false, true, true, false},
        {",\"events\":[\"sale.*\"]", "sales", false, false, false, true},
        {",\"events\":[\"sale.sold_out\"]", "sales", false, false, false, false},
        {",\"events\":[\"order.*\"]", NULL, true, true, false, false},
        {",\"events\":[\"order.paid\",\"order.*\"]", NULL, true, true, false, false},
        {",\"events\":[\"sale.*\",\"order.placed\"]", NULL, true, false, false, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[512];
        (void)snprintf(text, sizeof text, ONE("\"name\":\"a\"," URL "," SECRET "%s"), rows[i].events);
        ck_assert_msg(reads(text), "row %zu: %s", i, why);
        const struct sk_receiver *one = &receivers->each[0];
        const char *kind = sk_receiver_kind(one);
        ck_assert_msg(kind == rows[i].kind || (kind != NULL && rows[i].kind != NULL && strcmp(kind, rows[i].kind) == 0),
                      "row %zu: %s", i, kind == NULL ? "all" : kind);
        ck_assert_msg(sk_receiver_wants(one, "order.placed") == rows[i].placed &&
                          sk_receiver_wants(one, "order.paid") == rows[i].paid &&
                          sk_receiver_wants(one, "payment.to_refund") == rows[i].owed &&
                          sk_receiver_wants(one, "sale.ended") == rows[i].ended,
                      "row %zu", i);
    }
}

SUITE(.setup = setup, .teardown = teardown);
