// Which server is at the other end of a Redis connection.
#include <stdio.h>

#include "keys.h"
#include "redis_info.h"
#include "test.h"

#define ID    "0123456789abcdef0123456789abcdef01234567"
#define NEVER "0000000000000000000000000000000000000000"

TEST(run_id_and_role_are_found)
{
    static const struct {
        const char *info;
        bool read, replica;
    } rows[] = {
        {"# Server\r\nrun_id:" ID "\r\n# Replication\r\nrole:master\r\n", true, false},
        {"role:master\r\nrun_id:" ID, true, false},
        {"run_id:" ID "\r\nrole:slave\r\n", true, true},
        {"run_id:" ID "\r\nrole:masterful\r\n", true, true},
        {"run_id:" ID "\r\nrole:\r\n", true, true},
        {"run_id:" ID "\r\n", false, false},
        {"role:master\r\n", false, false},
        {"run_id:" ID "0\r\nrole:master\r\n", false, false},
        {"run_id:0123\r\nrole:master\r\n", false, false},
        {"x_run_id:" ID "\r\nrole:master\r\n", false, false},
        {"run_id" ID "\r\nrole:master\r\n", false, false},
        {"", false, false},
        {"\r\n\r\n", false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sk_redis_info info = {0};
        ck_assert_msg(sk_redis_info_read(rows[i].info, &info) == rows[i].read, "row %zu", i);
        if (rows[i].read) {
            ck_assert_str_eq(info.run, SK_PROTOCOL "-" ID);
            ck_assert_msg(info.replica == rows[i].replica, "row %zu", i);
        }
    }
}

// A server that was replaced and came back has its run id, and may lack its last commands.
TEST(a_promotion_makes_another_run)
{
    static const char head[] = "run_id:" ID "\r\nrole:master\r\n";
    static const struct {
        const char *second, *promotion;
    } rows[] = {
        {"", ""},
        {"master_replid2:" NEVER "\r\n", ""},
        {"master_replid2:0\r\n", ""},
        {"master_replid2:\r\n", ""},
        {"master_replid2:" ID "\r\n", "0123456789abcdef"},
        {"master_replid:" ID "\r\nmaster_replid2:" NEVER "\r\n", ""},
        {"master_replid2:7\r\n", "7"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[256], run[SK_RUN_SIZE];
        struct sk_redis_info info = {0}, role = {0};
        (void)snprintf(text, sizeof text, "%s%s", head, rows[i].second);
        (void)snprintf(run, sizeof run, SK_PROTOCOL "-" ID "%s%s", rows[i].promotion[0] == '\0' ? "" : "-",
                       rows[i].promotion);
        ck_assert_msg(sk_redis_info_read(text, &info) && sk_redis_info_role(text, &role), "row %zu", i);
        ck_assert_str_eq(info.run, run);
        ck_assert_str_eq(info.promotion, rows[i].promotion);
        ck_assert_str_eq(role.promotion, rows[i].promotion);
        ck_assert_str_eq(role.run, "");
    }
}

TEST(a_value_is_found_by_its_whole_name)
{
    static const char info[] = "# Memory\r\nused_memory_rss:7\r\nused_memory:123\r\nempty:\r\nlast:x";
    char value[4];
    ck_assert(sk_redis_info_value(info, "used_memory", value, sizeof value));
    ck_assert_str_eq(value, "123");
    ck_assert(sk_redis_info_value(info, "empty", value, sizeof value));
    ck_assert_str_eq(value, "");
    ck_assert(sk_redis_info_value(info, "last", value, sizeof value));
    ck_assert_str_eq(value, "x");
    ck_assert(sk_redis_info_value("long:abcdef\r\n", "long", value, sizeof value));
    ck_assert_str_eq(value, "abc"); // cut
    ck_assert(!sk_redis_info_value(info, "memory", value, sizeof value));
    ck_assert_str_eq(value, "");
    ck_assert(!sk_redis_info_value("", "used_memory", value, sizeof value));
}
