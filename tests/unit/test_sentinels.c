// Agreement among sentinels, with servers under the test's control: some are silent, some lie, some send what makes no
// sense.
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "sentinels.h"
#include "stub.h"
#include "test.h"

enum { SEATS = 3, TIMEOUT_MS = 300, LONG_MS = 600000, URL_SIZE = 256, LONG_REPLY = 8192 };

#define NAMES(port) "*2\r\n$9\r\n127.0.0.1\r\n$4\r\n" #port "\r\n"
#define A           NAMES(7001)
#define B           NAMES(7002)
#define C           NAMES(7003)
#define NONE        "*-1\r\n"

static uv_loop_t loop;
static struct stub stubs[SEATS];
static int open_stubs;
static const char *replies[SEATS]; // NULL: silent
static int asked[SEATS], logins[SEATS];
static struct sk_redis_url url;
static struct sk_sentinels *sentinels;
static int masters, closed; // how often these ran
static bool close_at_once;
static struct sk_redis_host master;

// ---- the sentinels ----

// A command comes with one write.
static size_t receive(struct stub *stub, const char *bytes, size_t n)
{
    int i = (int)(stub - stubs);
    if (strstr(bytes, "AUTH") != NULL) {
        ck_assert_ptr_nonnull(strstr(bytes, "secret"));
        logins[i]++;
        stub_say(stub, "+OK\r\n");
    }
    if (strstr(bytes, "GET-MASTER-ADDR-BY-NAME") != NULL) {
        ck_assert_ptr_nonnull(strstr(bytes, "main"));
        asked[i]++;
        if (replies[i] != NULL)
            stub_say(stub, replies[i]);
    }
    return n;
}

// ---- the client ----

static void on_master(void *arg, const struct sk_redis_host *named)
{
    (void)arg;
    masters++;
    master = *named;
    if (close_at_once)
        sk_sentinels_close(sentinels);
}

static void on_closed(void *arg)
{
    (void)arg;
    closed++;
}

static void open_sentinels(int count, uint32_t timeout_ms)
{
    char text[URL_SIZE] = "redis+sentinel://";
    size_t n = strlen(text);
    for (open_stubs = 0; open_stubs < count; open_stubs++) {
        stub_open(&stubs[open_stubs], &loop, receive);
        n += (size_t)snprintf(text + n, sizeof text - n, "%s127.0.0.1:%d", open_stubs == 0 ? "" : ",",
                              stubs[open_stubs].port);
    }
    (void)snprintf(text + n, sizeof text - n, "/main");
    ck_assert_int_eq(sk_redis_url_parse(text, &url), SK_OK);
    const struct sk_sentinels_options options = {&loop, &url, NULL, "secret", timeout_ms, on_master, on_closed, NULL};
    sentinels = sk_sentinels_open(&options);
    ck_assert_ptr_nonnull(sentinels);
}

static void all_reply(const char *one, const char *two, const char *three)
{
    replies[0] = one;
    replies[1] = two;
    replies[2] = three;
}

static void setup(void)
{
    ck_assert_int_eq(uv_loop_init(&loop), 0);
}

static void teardown(void)
{
    if (!close_at_once)
        sk_sentinels_close(sentinels);
    while (open_stubs > 0)
        stub_close(&stubs[--open_stubs]);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(closed, 1);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    sk_redis_url_free(&url);
}

// ---- the tests ----

static const struct {
    const char *replies[SEATS];
    int port;        // of the master that is named; 0: none
    const char *why; // there is none
} cases[] = {
    {{A, A, A}, 7001, NULL},
    {{A, A, B}, 7001, NULL}, // one lies
    {{A, B, B}, 7002, NULL}, // two do: the link finds out what kind of Redis that is
    {{NULL, B, B}, 7002, NULL},
    {{A, B, C}, 0, "the sentinels disagree"},
    {{A, B, NULL}, 0, "the sentinels disagree"},
    {{A, NULL, NULL}, 0, "too few sentinels answer"},
    {{A, NONE, NONE}, 0, "too few sentinels answer"},
    {{NONE, NONE, NONE}, 0, "no sentinel names a master"},
    {{NULL, NULL, NULL}, 0, "no sentinel names a master"},
};

TEST_EACH(more_than_half_must_agree, sizeof cases / sizeof *cases)
{
    memcpy(replies, cases[_i].replies, sizeof replies);
    open_sentinels(SEATS, LONG_MS);
    // Twice: what the first reply brings has been judged by then. A silent one is asked once.
    for (int i = 0; i < SEATS; i++)
        RUN_UNTIL(asked[i] >= (replies[i] == NULL ? 1 : 2));
    ck_assert_int_eq(masters, cases[_i].port != 0);
    if (cases[_i].port == 0)
        ck_assert_str_eq(sk_sentinels_why(sentinels), cases[_i].why);
    else
        ck_assert_int_eq(master.port, cases[_i].port);
    ck_assert_int_eq(logins[0], 1); // once for a connection
}

// The master changes when more than half have changed their mind. It stays when they go away.
TEST(a_master_stays_until_more_than_half_name_another)
{
    all_reply(A, A, A);
    open_sentinels(SEATS, TIMEOUT_MS);
    RUN_UNTIL(masters == 1 && asked[2] >= 2);
    replies[1] = B;
    int before = asked[1];
    RUN_UNTIL(asked[1] >= before + 3);
    ck_assert_int_eq(masters, 1);
    replies[2] = B;
    RUN_UNTIL(masters == 2);
    ck_assert_int_eq(master.port, 7002);
    all_reply(NULL, NULL, NULL); // all are silent: each loses its connection, and its vote
    RUN_UNTIL(strcmp(sk_sentinels_why(sentinels), "no sentinel names a master") == 0);
    RUN_UNTIL(stubs[0].clients >= 2 && stubs[1].clients >= 2 && stubs[2].clients >= 2);
    ck_assert_int_eq(masters, 2);
    all_reply(B, B, B);
    RUN_UNTIL(sk_sentinels_why(sentinels)[0] == 't'); // more than half answer again
    ck_assert_int_eq(masters, 2);
}

static char long_name[512], long_reply[LONG_REPLY];

// The only sentinel of the URL would be believed.
static const struct {
    const char *reply;
    bool costs_the_connection;
} hostile[] = {
    {"*2\r\n$0\r\n\r\n$4\r\n7001\r\n", false},
    {"*2\r\n$3\r\na b\r\n$4\r\n7001\r\n", false},
    {"*2\r\n$-1\r\n$4\r\n7001\r\n", false},
    {"*2\r\n$9\r\n127.0.0.1\r\n$1\r\n0\r\n", false},
    {"*2\r\n$9\r\n127.0.0.1\r\n$5\r\n65536\r\n", false},
    {"*2\r\n$9\r\n127.0.0.1\r\n$5\r\n7001x\r\n", false},
    {"*2\r\n$9\r\n127.0.0.1\r\n*1\r\n$4\r\n7001\r\n", false},
    {"*1\r\n$9\r\n127.0.0.1\r\n", false},
    {"*0\r\n", false},
    {"+127.0.0.1\r\n", false},
    {long_name, false},
    {"-NOAUTH Authentication required.\r\n", true},
    {"HTTP/1.1 400 Bad Request\r\n\r\n", true},
    {"*1048577\r\n", true},
    {NONE "+more\r\n", true},
    {long_reply, true},
};

TEST_EACH(a_hostile_reply_names_no_master, sizeof hostile / sizeof *hostile)
{
    (void)snprintf(long_name, sizeof long_name, "*2\r\n$%d\r\n%0*d\r\n$4\r\n7001\r\n", SK_REDIS_HOST_SIZE,
                   SK_REDIS_HOST_SIZE, 0);
    (void)snprintf(long_reply, sizeof long_reply, "$536870912\r\n%0*d", LONG_REPLY - 16, 0);
    replies[0] = hostile[_i].reply;
    open_sentinels(1, LONG_MS); // so that no time-out ends the connection
    if (hostile[_i].costs_the_connection)
        RUN_UNTIL(stubs[0].clients >= 2);
    else
        RUN_UNTIL(asked[0] >= 2);
    ck_assert_int_eq(masters, 0);
    ck_assert_int_eq(stubs[0].clients, hostile[_i].costs_the_connection ? 2 : 1);
    replies[0] = A;
    RUN_UNTIL(masters == 1); // one that mends its ways is believed
}

TEST(it_may_be_closed_when_a_master_is_named)
{
    close_at_once = true;
    all_reply(A, A, A);
    open_sentinels(SEATS, TIMEOUT_MS);
    RUN_UNTIL(closed == 1);
    ck_assert_int_eq(masters, 1);
}

SUITE(.timeout_s = 60, .setup = setup, .teardown = teardown);
