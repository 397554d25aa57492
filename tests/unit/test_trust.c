// Checks of values from Redis.

#include "fake_stores.h"
#include "test.h"
#include "trust.h"

TEST(numbers_have_a_range)
{
    static const struct {
        struct sk_reply reply;
        int64_t most;
        bool good;
    } rows[] = {
        {NUMBER(0), 5, true},
        {NUMBER(5), 5, true},
        {NUMBER(6), 5, false},
        {NUMBER(-1), 5, false},
        {TEXT("999999999999999"), SK_TRUST_MAX, true},
        {TEXT("1000000000000000"), SK_TRUST_MAX, false},
        {TEXT("9223372036854775807"), SK_TRUST_MAX, false},
        {TEXT("x"), SK_TRUST_MAX, false},
        {NIL, SK_TRUST_MAX, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t value = 77;
        ck_assert_msg(sk_trust_number(&rows[i].reply, rows[i].most, &value) == rows[i].good, "row %zu", i);
        ck_assert(rows[i].good || value == 0);
    }
}

TEST(ids_and_versions_have_a_form)
{
    static const struct {
        const char *text;
        bool id, version;
    } rows[] = {
        {"1-0", true, true},
        {"1790000000000-12", true, true},
        {"999999999999999-999999999999999", true, true},
        {"1000000000000000-0", true, false},
        {"1-1000000000000000", true, false},
        {"18446744073709551615-18446744073709551615", true, false},
        {"111111111111111111111-0", false, false},
        {"epoch-7", false, true},
        {"epoch-999999999999999", false, true},
        {"epoch-1000000000000000", false, false},
        {"epoch-", false, false},
        {"epoch--1", false, false},
        {"epoch-7-1", false, false},
        {"", false, false},
        {"-", false, false},
        {"1", false, false},
        {"1-", false, false},
        {"-1", false, false},
        {"1-1-1", false, false},
        {"1-1\n", false, false},
        {" 1-1", false, false},
        {"1-1 level=error", false, false},
        {"+1-1", false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ck_assert_msg(sk_trust_is_journal_id(rows[i].text) == rows[i].id, "id '%s'", rows[i].text);
        ck_assert_msg(sk_trust_is_version(rows[i].text) == rows[i].version, "version '%s'", rows[i].text);
    }
}

// Errors that pass by themselves do not count as damage.
TEST(damage_is_what_a_rebuild_mends)
{
    static const char *const passing[] = {"OOM command not allowed",
                                          "READONLY You can't",
                                          "BUSY Redis is busy",
                                          "LOADING Redis is loading",
                                          "MISCONF Redis is",
                                          "ERR wrong number",
                                          ""};
    ck_assert(sk_trust_is_damage("WRONGTYPE Operation against a key holding the wrong kind of value"));
    ck_assert(sk_trust_is_damage("ERR The stream has exhausted the last possible ID, unable to add more items"));
    for (size_t i = 0; i < sizeof passing / sizeof passing[0]; i++)
        ck_assert_msg(!sk_trust_is_damage(passing[i]), "%s", passing[i]);
}

TEST(an_order_id_has_a_form)
{
    static const struct {
        struct sk_reply reply;
        bool good;
        unsigned quantity;
    } rows[] = {
        {TEXT("00000000-0000-7000-8000-00000000000a"), true, 1},
        {TEXT("00000000-0000-7000-8000-00000000000a 3"), true, 3},
        {TEXT("00000000-0000-7000-8000-00000000000a 3 0123456789abcdef"), true, 3},
        {TEXT("00000000-0000-7000-8000-00000000000a 1001"), true, 1},
        {TEXT("00000000-0000-7000-8000-00000000000a x"), true, 1},
        {TEXT("00000000-0000-7000-8000-00000000000ax"), false, 1},
        {TEXT("00000000-0000-7000-8000-00000000000A"), false, 1},
        {TEXT("00000000-0000-7000-8000-0000000000000"), false, 1},
        {{.kind = REPLY_TEXT, .text = "00000000-0000-7000-8000-00000000000a\0", .len = 37}, false, 1},
        {TEXT("x"), false, 1},
        {TEXT(""), false, 1},
        {NUMBER(1), false, 1},
        {NIL, false, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char id[SK_UUID_SIZE] = "before";
        unsigned quantity;
        ck_assert_msg(sk_trust_order(&rows[i].reply, 7, id, &quantity) == rows[i].good, "row %zu", i);
        ck_assert_uint_eq(quantity, rows[i].quantity);
        ck_assert_str_eq(id, rows[i].good ? "00000000-0000-7000-8000-00000000000a" : "");
    }
}

SUITE(.teardown = fake_stores_forget);
