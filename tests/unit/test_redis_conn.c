// Replies on a connection to Redis, from bytes that come in any pieces. The socket is a stand-in.
#include "redis_conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

enum { HEARD_SIZE = 256 };

static struct sk_redis_conn *conn;
static const struct sk_socket_events *watching; // of the socket that is open; NULL: none
static void *events_owner;
static bool refused;
static char heard[HEARD_SIZE];       // what the owner was told
static const char *close_at, *fault; // the owner closes at this reply; finds fault with this one

// ---- the socket ----

struct sk_socket *sk_socket_open(uv_loop_t *loop, const struct sk_socket_target *target,
                                 const struct sk_socket_events *events, void *owner, const char **why)
{
    static char any;
    ck_assert(loop == NULL && strcmp(target->address, "10.0.0.1") == 0);
    if (refused) {
        *why = "refused";
        return NULL;
    }
    watching = events;
    events_owner = owner;
    return (struct sk_socket *)(void *)&any;
}

void sk_socket_close(struct sk_socket *sock)
{
    ck_assert(sock != NULL && watching != NULL);
    watching = NULL;
}

size_t sk_socket_write(struct sk_socket *sock, const char *bytes, size_t n)
{
    ck_assert(sock != NULL && memcmp(bytes, "PING", 4) == 0);
    return n - 1;
}

int sk_socket_fd(const struct sk_socket *sock)
{
    return sock == NULL ? -1 : 7;
}

// ---- the owner ----

static void hear(const void *owner, const char *what)
{
    size_t len = strlen(heard);
    ck_assert_ptr_eq(owner, heard);
    (void)snprintf(heard + len, sizeof heard - len, "%s;", what);
}

static void close_it(void)
{
    sk_redis_conn_close(conn);
    conn = NULL;
}

static void on_connected(void *owner)
{
    hear(owner, "connected");
}

static const char *on_reply(void *owner, struct sk_reply **reply)
{
    char word[16];
    (void)snprintf(word, sizeof word, "%s", sk_reply_text(*reply, NULL));
    hear(owner, word);
    if (close_at != NULL && strcmp(word, close_at) == 0)
        close_it();
    return fault != NULL && strcmp(word, fault) == 0 ? "a fault" : NULL;
}

static void on_writable(void *owner)
{
    hear(owner, "writable");
}

static void on_ended(void *owner, const char *why)
{
    hear(owner, why);
    close_it();
}

static const struct sk_redis_conn_events owner_events = {on_connected, on_reply, on_writable, on_ended};
static const struct sk_socket_target target = {.address = "10.0.0.1", .port = 6379};

static void open_it(void)
{
    const char *why = NULL;
    heard[0] = '\0';
    conn = sk_redis_conn_open(NULL, &target, &owner_events, heard, &why);
    ck_assert(conn != NULL || why != NULL);
}

static void teardown(void)
{
    close_it();
    ck_assert_ptr_null(watching);
}

// A piece of the replies arrives. The socket is borrowed for as long as it is open.
static void arrive(const char *bytes, size_t n)
{
    ck_assert_ptr_nonnull(watching);
    char *piece = malloc(n);
    memcpy(piece, bytes, n);
    watching->received(events_owner, piece, n);
    free(piece);
}

#define REPLIES "+one\r\n$3\r\ntwo\r\n+three\r\n"

TEST(replies_come_in_any_pieces)
{
    for (size_t at = 1; at < strlen(REPLIES); at++) {
        arrive(REPLIES, at);
        arrive(REPLIES + at, strlen(REPLIES) - at);
        ck_assert_str_eq(heard, "one;two;three;");
        close_it();
        open_it();
    }
}

TEST(its_owner_is_told_of_the_socket)
{
    watching->connected(events_owner);
    ck_assert_uint_eq(sk_redis_conn_write(conn, "PING", 4), 3);
    watching->writable(events_owner);
    ck_assert_int_eq(sk_redis_conn_fd(conn), 7);
    watching->ended(events_owner, "reset");
    ck_assert_str_eq(heard, "connected;writable;reset;");
}

// After that nothing is told.
TEST_EACH(an_owner_may_close_it_or_find_a_fault, 3)
{
    close_at = _i == 1 ? NULL : "two";
    fault = _i == 0 ? NULL : "two";
    arrive(REPLIES, strlen(REPLIES));
    ck_assert_str_eq(heard, _i == 1 ? "one;two;a fault;" : "one;two;"); // it tells nobody who has closed it already
    ck_assert_ptr_null(watching);
}

TEST(what_makes_no_sense_ends_it)
{
    arrive("+one\r\n?\r\n+two\r\n", 15);
    ck_assert_ptr_null(conn);
    ck_assert(strncmp(heard, "one;", 4) == 0 && strstr(heard, "two") == NULL);
}

TEST(so_does_a_reply_that_is_too_long)
{
    sk_redis_conn_limit(conn, 10);
    arrive("$20\r\n12345", 10);
    ck_assert_str_eq(heard, "");
    arrive("6", 1);
    ck_assert_str_eq(heard, "its reply is too long;");
    open_it();
    sk_redis_conn_limit(conn, 11);
    arrive("$5\r\n12345\r\n", 11);
    sk_redis_conn_limit(conn, 10); // counts from now on
    arrive("$5\r\n12345", 9);
    ck_assert_str_eq(heard, "12345;");
    sk_redis_conn_limit(conn, 0);
    arrive("\r\n+" REPLIES, 3 + strlen(REPLIES));
    ck_assert_str_eq(heard, "12345;12345;+one;two;three;");
}

TEST(a_connection_that_cannot_begin_says_why)
{
    const char *why = NULL;
    refused = true;
    ck_assert_ptr_null(sk_redis_conn_open(NULL, &target, &owner_events, heard, &why));
    ck_assert_str_eq(why, "refused");
}

SUITE(.setup = open_it, .teardown = teardown);
