// What nodes of a cluster say of the slots: it is read if it can be, and nothing else is.
#include "fake_stores.h"
#include "slot_map.h"
#include "test.h"

static const struct sk_redis_host by = {"10.0.0.1", 7000};

TEST(redirections_are_told_apart)
{
    static const struct {
        const char *error;
        enum sk_redirect redirect;
    } cases[] = {
        {NULL, SK_REDIRECT_NONE},
        {"ERR unknown", SK_REDIRECT_NONE},
        {"MOVEDX", SK_REDIRECT_NONE},
        {"MOVED 1 a:1", SK_REDIRECT_MOVED},
        {"ASK 1 a:1", SK_REDIRECT_UNSTABLE},
        {"TRYAGAIN Multiple keys request during rehashing of slot", SK_REDIRECT_UNSTABLE},
        {"CLUSTERDOWN Hash slot not served", SK_REDIRECT_UNSTABLE},
        {"NOSCRIPT No matching script", SK_REDIRECT_NONE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_int_eq(sk_redirect_of(cases[i].error), cases[i].redirect);
}

TEST(moved_names_slot_and_node)
{
    static const struct {
        const char *error, *name;
        unsigned slot;
        int port;
    } cases[] = {
        {"MOVED 3999 127.0.0.1:6381", "127.0.0.1", 3999, 6381},
        {"MOVED 0 redis-2.example:1", "redis-2.example", 0, 1},
        {"MOVED 16383 ::1:6381", "::1", 16383, 6381},
        {"MOVED 1 :6381", "10.0.0.1", 1, 6381}, // its own host
        {"MOVED 1 ?:6381", "10.0.0.1", 1, 6381},
    };
    struct sk_moved moved;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert_msg(sk_moved_read(cases[i].error, &by, &moved), "%s", cases[i].error);
        ck_assert_uint_eq(moved.slot, cases[i].slot);
        ck_assert_str_eq(moved.to.name, cases[i].name);
        ck_assert_int_eq(moved.to.port, cases[i].port);
    }
}

TEST(an_odd_moved_is_not_read)
{
    static const char *const odd[] = {
        "MOVED ",
        "MOVED 1",
        "MOVED 1 ",
        "MOVED 16384 a:1",
        "MOVED -1 a:1",
        "MOVED x a:1",
        "MOVED 01 a:1",
        "MOVED  a:1",
        "MOVED :1",
        "MOVED 1 a",
        "MOVED 1 a:",
        "MOVED 1 a:0",
        "MOVED 1 a:65536",
        "MOVED 1 a:01",
        "MOVED 1 a:1 ",
        "MOVED 1 a b:1",
        "MOVED 1 ??:1",
        "MOVED 123456789012345678901 a:1", // as long as a number may be, with its end
        "MOVED 123456789012345678901234567890 a:1",
    };
    struct sk_moved moved;
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        ck_assert_msg(!sk_moved_read(odd[i], &by, &moved), "%s", odd[i]);
}

// ---- CLUSTER SLOTS ----

static unsigned of_slot[SK_SLOTS]; // ports
static struct sk_redis_host last;

static void note(void *arg, unsigned from, unsigned to, const struct sk_redis_host *at)
{
    (void)arg;
    for (unsigned slot = from; slot <= to; slot++)
        of_slot[slot] = (unsigned)at->port;
    last = *at;
}

TEST(a_map_is_read)
{
    static const struct sk_reply one[] = {TEXT("a"), NUMBER(1), TEXT("id")}, two[] = {NIL, NUMBER(2), TEXT("id"), NIL};
    static const struct sk_reply first[] = {NUMBER(0), NUMBER(5460), LIST_OF(one), LIST_OF(two)};
    static const struct sk_reply second[] = {NUMBER(5462), NUMBER(16383), LIST_OF(two)};
    static const struct sk_reply ranges[] = {LIST_OF(first), LIST_OF(second)}, none[] = {NIL};
    const struct sk_reply map = LIST_OF(ranges), empty = {.kind = REPLY_LIST, .items = none};
    ck_assert(sk_slots_read(&map, &by, note, NULL));
    ck_assert_uint_eq(of_slot[0], 1);
    ck_assert_uint_eq(of_slot[5460], 1);
    ck_assert_uint_eq(of_slot[5461], 0);
    ck_assert_uint_eq(of_slot[16383], 2);
    ck_assert_str_eq(last.name, "10.0.0.1");
    ck_assert(!sk_slots_read(&empty, &by, note, NULL));
}

TEST(an_odd_map_is_not_read)
{
    static const struct sk_reply good[] = {TEXT("a"), NUMBER(1)}, no_port[] = {TEXT("a")},
                                 port_0[] = {TEXT("a"), NUMBER(0)}, far[] = {TEXT("a"), NUMBER(65536)},
                                 below[] = {TEXT("a"), NUMBER(-1)}, odd[] = {TEXT("a b"), NUMBER(1)};
    static const struct sk_reply ranges[][3] = {
        {NUMBER(-1), NUMBER(1), LIST_OF(good)},    {NUMBER(2), NUMBER(1), LIST_OF(good)},
        {NUMBER(0), NUMBER(16384), LIST_OF(good)}, {TEXT("x"), NUMBER(1), LIST_OF(good)},
        {NUMBER(0), NUMBER(1), LIST_OF(no_port)},  {NUMBER(0), NUMBER(1), LIST_OF(port_0)},
        {NUMBER(0), NUMBER(1), LIST_OF(far)},      {NUMBER(0), NUMBER(1), LIST_OF(below)},
        {NUMBER(0), NUMBER(1), LIST_OF(odd)},      {NUMBER(0), NUMBER(1), NIL},
    };
    static const struct sk_reply error = ERROR("ERR"), text = TEXT("a");
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        const struct sk_reply range[] = {LIST_OF(ranges[i])}, map = LIST_OF(range);
        ck_assert_msg(!sk_slots_read(&map, &by, note, NULL), "%zu", i);
    }
    ck_assert(!sk_slots_read(&error, &by, note, NULL));
    ck_assert(!sk_slots_read(&text, &by, note, NULL));
    ck_assert(!sk_slots_read(NULL, &by, note, NULL));
}

SUITE(.begin = fake_stores_forget);
