// Order ids: their form, and that the ids of one generator strictly increase, whatever the clock does.
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "test.h"
#include "uuid.h"

enum { COUNTERS = 4096, MANY = 100000 };

static const uint64_t some_ms = UINT64_C(1700000000123);

static uint64_t time_of(const char *id)
{
    char hex[13] = {0};
    memcpy(hex, id, 8);
    memcpy(hex + 8, id + 9, 4);
    return strtoull(hex, NULL, 16);
}

TEST(ids_have_the_form_of_version_7)
{
    struct sk_uuid_gen gen = {0};
    uint64_t ones = 0, zeros = 0, before_ms = sk_wall_ms();
    char id[SK_UUID_SIZE], hex[17] = {0};
    for (int i = 0; i < MANY; i++) {
        sk_uuid_at(&gen, some_ms + (uint64_t)i / 7, id);
        ck_assert_uint_eq(strlen(id), SK_UUID_CHARS);
        ck_assert_msg(sk_uuid_valid(id), "not in the usual form: %s", id);
        ck_assert_msg(id[14] == '7', "version of %s", id);
        ck_assert_uint_eq(time_of(id), some_ms + (uint64_t)i / 7);
        memcpy(hex, id + 19, 4);
        memcpy(hex + 4, id + 24, 12);
        ones |= strtoull(hex, NULL, 16);
        zeros |= ~strtoull(hex, NULL, 16);
    }
    ck_assert_uint_eq(ones, UINT64_C(0xbfffffffffffffff)); // the variant, and 62 bits that vary
    ck_assert_uint_eq(zeros, UINT64_C(0x7fffffffffffffff));
    sk_uuid_next(&gen, id);
    ck_assert_uint_ge(time_of(id), before_ms);
    ck_assert_uint_le(time_of(id), sk_wall_ms());
}

// Half of the counter is reserved for bursts; only ids beyond it borrow time from the next ms.
TEST(a_full_counter_borrows_from_the_next_ms)
{
    struct sk_uuid_gen gen = {0};
    char id[SK_UUID_SIZE];
    for (int i = 0; i < 8 * COUNTERS; i++) {
        sk_uuid_at(&gen, some_ms, id);
        if (i < COUNTERS / 2)
            ck_assert_uint_eq(time_of(id), some_ms);
        ck_assert_uint_le(time_of(id), some_ms + (uint64_t)i / COUNTERS + 1);
    }
    ck_assert_uint_ge(time_of(id), some_ms + 7);
    // Once the clock has caught up, ids follow it again.
    sk_uuid_at(&gen, some_ms + 100, id);
    ck_assert_uint_eq(time_of(id), some_ms + 100);
}

TEST(ids_rise_while_the_clock_steps_back)
{
    static const uint64_t clock_ms[] = {
        1700000000000, 1699999999999, 1700000000000, 1, 0, 1699996400000, 1700000000001, 1, 1700000000001, 2, 3,
        1700003600000};
    struct sk_uuid_gen gen = {0};
    char last[SK_UUID_SIZE] = "", id[SK_UUID_SIZE];
    for (size_t step = 0; step < sizeof clock_ms / sizeof clock_ms[0]; step++) {
        for (int i = 0; i < 3 * COUNTERS; i++) {
            sk_uuid_at(&gen, clock_ms[step], id);
            ck_assert_str_gt(id, last);
            memcpy(last, id, sizeof last);
        }
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

TEST(generators_do_not_repeat_each_other)
{
    static char ids[2 * MANY][SK_UUID_SIZE];
    struct sk_uuid_gen one = {0}, other = {0};
    for (size_t i = 0; i < 2 * MANY; i++)
        sk_uuid_at(i % 2 == 0 ? &one : &other, some_ms + i / 1000, ids[i]);
    qsort(ids, 2 * MANY, SK_UUID_SIZE, by_text);
    for (size_t i = 1; i < 2 * MANY; i++)
        ck_assert_str_ne(ids[i - 1], ids[i]);
}

// The first is the usual form, which alone is valid.
TEST(ids_are_read_in_any_case_with_dashes_or_without)
{
    static const char id[] = "018bcfe5-6800-7000-8000-0123456789ab";
    static const char *const good[] = {id, "018BCFE5-6800-7000-8000-0123456789AB",
                                       "018bCFE5-6800-7000-8000-0123456789aB", "018bcfe56800700080000123456789ab",
                                       "018BCFE56800700080000123456789AB"};
    static const char *const bad[] = {
        "",
        "0",
        "018bcfe5-6800-7000-8000-0123456789a",
        "018bcfe5-6800-7000-8000-0123456789abc",
        "018bcfe5-6800-7000-8000-0123456789ag",
        "018bcfe5-6800-7000-8000-0123456789a\n",
        "018bcfe5-6800-7000-8000-0123456789a\xe1",
        "{018bcfe5-6800-7000-8000-0123456789ab}",
        "{18bcfe5-6800-7000-8000-0123456789ab}",
        "018bcfe56800700080000123456789a",
        "018bcfe56800700080000123456789abc",
        "018bcfe56800700080000123456789ag",
        "018bcfe5-680070008000-0123456789ab",   // some of the dashes
        "018bcfe5-68007000-8000-0123456789abc", // of 36
        "018bcfe5-6800-70008-000-0123456789ab",
        "018bcfe56800700080000123456789ab----",
        "018bcfe5-6800-7000-8000-01234567", // of 32
    };
    char read[SK_UUID_SIZE];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ck_assert_msg(sk_uuid_read(good[i], strlen(good[i]), read), "%s", good[i]);
        ck_assert_str_eq(read, id);
        ck_assert_int_eq(sk_uuid_valid(good[i]), i == 0);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!sk_uuid_read(bad[i], strlen(bad[i]), read) && !sk_uuid_valid(bad[i]), "taken: '%s'", bad[i]);
    ck_assert(sk_uuid_read("018bcfe5-6800-7000-8000-0123456789ab/pay", SK_UUID_CHARS, read));
    ck_assert(sk_uuid_valid("00000000-0000-0000-0000-000000000000"));
}
