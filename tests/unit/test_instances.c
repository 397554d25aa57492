// The list of living instances: data from Redis is shown only in a valid form, and a session's own data is read back.
#define CONTROL_HAS_PHASES
#include "fake_control.h"

#include "about.h"
#include "instances.h"
#include "test.h"

#define ONE "018bcfe5-6800-7000-8000-000000000001"
#define TWO "018bcfe5-6800-7000-8000-000000000002"

#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

static void list(void)
{
    sk_list_instances(&control, 1);
    ck_assert_int_eq(fake_redis.asked[fake_redis.answered].what, SK_SCRIPT_LIST_INSTANCES);
    ck_assert_str_eq(arguments_of(&fake_redis.asked[fake_redis.answered]),
                     "seckill:{shared}:sessions seckill:{shared}:instances");
}

static void must_list(const struct sk_reply *reply, const char *instances)
{
    char wanted[TOLD_DOCUMENT_SIZE];
    list();
    redis_answers(reply);
    (void)snprintf(wanted, sizeof wanted, "{\"server_time\":\"2026-01-01T00:00:00.000Z\",\"instances\":[%s]}",
                   instances);
    must_be_shown(1, wanted);
}

#define NOW NUMBER(INT64_C(1767225600000))

TEST(instances_are_listed)
{
    static const struct sk_reply items[] = {
        NOW, TEXT(ONE), NUMBER(2500), TEXT("0.1.0+scopes 1767225500000 3000 a-1:8080"), TEXT(TWO), NUMBER(9), TEXT("")};
    static const struct sk_reply none[] = {NOW};
    const struct sk_reply reply = LIST_OF(items), nobody = LIST_OF(none);
    must_list(&reply, "{\"id\":\"" ONE "\",\"name\":\"a-1:8080\",\"version\":\"0.1.0\",\"started_at\":"
                      "\"2025-12-31T23:58:20.000Z\",\"ttl_ms\":3000,\"renewed_ago_ms\":500},"
                      "{\"id\":\"" TWO "\"}");
    must_list(&nobody, "");
}

TEST(what_is_damaged_is_not_shown)
{
    static const struct sk_reply items[] = {NOW,
                                            TEXT("\"}"),
                                            NUMBER(5),
                                            TEXT("0.1.0 1 3000 a:1"), // not a session
                                            TEXT(ONE),
                                            TEXT("soon"),
                                            TEXT(""), // nor is this
                                            NUMBER(7),
                                            NUMBER(7),
                                            TEXT(""), // nor this
                                            TEXT(TWO),
                                            NUMBER(5000),
                                            TEXT("0.1.0 1 3000 a:1"), // renewed in the future: shown as now
                                            TEXT(ONE),
                                            NUMBER(5),
                                            TEXT("x \"y\" 1 z"),
                                            TEXT(ONE)}; // the last row is incomplete
    const struct sk_reply reply = LIST_OF(items);
    must_list(&reply, "{\"id\":\"" TWO "\",\"name\":\"a:1\",\"version\":\"0.1.0\",\"started_at\":"
                      "\"1970-01-01T00:00:00.001Z\",\"ttl_ms\":3000,\"renewed_ago_ms\":0},{\"id\":\"" ONE "\"}");
}

TEST(without_redis_nothing_is_known)
{
    static const struct sk_reply items[] = {TEXT("x")}, error = ERROR("ERR"), number = NUMBER(1);
    const struct sk_reply odd = LIST_OF(items);
    const struct sk_reply *const replies[] = {NULL, &error, &number, &odd};
    for (size_t i = 0; i < COUNT(replies); i++) {
        list();
        redis_answers(replies[i]);
        must_be_told(1, SK_VERDICT_UNAVAILABLE);
    }
    fake_redis.down = true;
    sk_list_instances(&control, 1);
    must_be_told(1, SK_VERDICT_UNAVAILABLE);
}

TEST(what_a_session_tells_is_read)
{
    static const struct {
        const char *text;
        bool good;
    } rows[] = {
        {"0.1.0 1767225500000 3000 a-1:8080", true},
        {"1.0~rc1+b2 0 0 [::1]:8080", false},
        {"1.0~rc1+b2 0 0 ::1:8080", true},
        {"", false},
        {"0.1.0", false},
        {"0.1.0 1 2", false},
        {"0.1.0 1 2 ", false},
        {"0.1.0 1 2 a b", false},
        {" 0.1.0 1 2 a", false},
        {"0.1.0  1 2 a", false},
        {"0.1.0 -1 2 a", false},
        {"0.1.0 1 2.5 a", false},
        {"0.1.0 1 4294967296 a", false},
        {"0.1.0 253402300800000 1 a", false},
        {"0.1.0 1 2 a\"", false},
        {"0.1.0 1 2 \xc3\xa4", false},
        {"0.1.0\n1 2 a", false},
    };
    char longest[3 * SK_INSTANCE_WORD_MAX];
    struct sk_instance read;
    for (size_t i = 0; i < COUNT(rows); i++)
        ck_assert_msg(sk_instances_read(rows[i].text, &read) == rows[i].good, "%s", rows[i].text);
    for (int more = 0; more < 2; more++) {
        int n = snprintf(longest, sizeof longest, "1 2 3 ");
        memset(longest + n, 'a', SK_INSTANCE_WORD_MAX + (size_t)more);
        longest[n + SK_INSTANCE_WORD_MAX + more] = '\0';
        ck_assert(sk_instances_read(longest, &read) == (more == 0));
    }
}

SUITE(.setup = control_setup, .teardown = control_teardown);
