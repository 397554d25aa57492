// The field `traceparent`: accepted values, rejected ones, and those sent. The first rows come from the test suite of
// W3C Trace Context.
#include <string.h>

#include "test.h"
#include "traceparent.h"

#define TRACE "12345678901234567890123456789012"
#define SPAN  "1234567890123456"

TEST(what_is_taken_up)
{
    static const struct {
        const char *text;
        uint8_t flags;
    } rows[] = {
        {"00-" TRACE "-" SPAN "-01", 1},
        {"00-" TRACE "-" SPAN "-00", 0},
        {"00-" TRACE "-" SPAN "-03", 3},
        {"00-" TRACE "-" SPAN "-ff", 3}, // unknown flags are dropped
        {"00-" TRACE "-" SPAN "-fc", 0},
        // Future versions: additions are ignored, and only the known flag is used.
        {"cc-" TRACE "-" SPAN "-01", 1},
        {"cc-" TRACE "-" SPAN "-01-what-the-future-will-be-like", 1},
        {"01-" TRACE "-" SPAN "-03", 1},
        {"fe-" TRACE "-" SPAN "-fe-", 0},
        // Surrounding blanks do not belong to the value.
        {"  00-" TRACE "-" SPAN "-01", 1},
        {"\t00-" TRACE "-" SPAN "-01", 1},
        {"00-" TRACE "-" SPAN "-01 \t", 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sk_traceparent read;
        memset(&read, 'x', sizeof read);
        ck_assert_msg(sk_traceparent_read(rows[i].text, &read), "%s", rows[i].text);
        ck_assert_str_eq(read.trace_id, TRACE);
        ck_assert_str_eq(read.span_id, SPAN);
        ck_assert_uint_eq(read.flags, rows[i].flags);
    }
}

// Single bytes that are others: see below.
TEST(what_is_not)
{
    static const char *const rows[] = {
        "", "-", "   ", "00", "00-" TRACE "-" SPAN "-01.", "00-" TRACE "-" SPAN "-01-what-the-future-will-be-like",
        "00-" TRACE "-" SPAN "-01-", "cc-" TRACE "-" SPAN "-01.what-the-future-will-be-like",
        "ff-" TRACE "-" SPAN "-01", "FF-" TRACE "-" SPAN "-01",
        // Too long, and too short.
        "000-" TRACE "-" SPAN "-01", "0000-" TRACE "-" SPAN "-01", "0-" TRACE "-" SPAN "-01",
        "00-" TRACE "3-" SPAN "-01", "00-1234567890123456789012345678901-" SPAN "-01", "00-" TRACE "-" SPAN "7-01",
        "00-" TRACE "-123456789012345-01", "00-" TRACE "-" SPAN "-001", "00-" TRACE "-" SPAN "-1",
        "00-" TRACE "-" SPAN "-", "00-" TRACE "-" SPAN, "00 -" TRACE "-" SPAN "-01",
        // All zeros.
        "00-00000000000000000000000000000000-" SPAN "-01", "cc-00000000000000000000000000000000-" SPAN "-01",
        "00-" TRACE "-0000000000000000-01",
        // Two fields, joined by a proxy, and full-width digits.
        "00-" TRACE "-" SPAN "-01 00-" TRACE "-" SPAN "-01", "00-" TRACE "-" SPAN "-01,00-" TRACE "-" SPAN "-01",
        "\xef\xbc\x90\xef\xbc\x90-" TRACE "-" SPAN "-01"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sk_traceparent read = {.flags = 7};
        ck_assert_msg(!sk_traceparent_read(rows[i], &read), "%s", rows[i]);
        ck_assert_str_eq(read.trace_id, ""); // nothing of it is kept
        ck_assert_uint_eq(read.flags, 7);
    }
}

// Replaces each byte of a valid value by each other byte: a hexadecimal digit may replace a digit, nothing else is
// valid.
TEST(no_byte_may_be_another)
{
    static const char good[] = "00-" TRACE "-" SPAN "-01", digits[] = "0123456789abcdef";
    for (size_t at = 0; at < sizeof good - 1; at++) {
        for (int byte = 1; byte < 256; byte++) {
            char text[sizeof good];
            struct sk_traceparent read;
            memcpy(text, good, sizeof good);
            text[at] = (char)byte;
            bool taken = sk_traceparent_read(text, &read);
            // With another version it is also valid, except ff, which needs two bytes.
            bool may = good[at] == '-' ? byte == '-' : strchr(digits, byte) != NULL;
            ck_assert_msg(taken == may, "%s", text);
        }
    }
}

TEST(what_is_made)
{
    static const struct {
        uint64_t random[3];
        const char *text;
    } rows[] = {
        {{UINT64_C(0x0af7651916cd43dd), UINT64_C(0x8448eb211c80319c), UINT64_C(0xb7ad6b7169203331)},
         "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-02"},
        {{UINT64_MAX, UINT64_MAX, UINT64_MAX}, "00-ffffffffffffffffffffffffffffffff-ffffffffffffffff-02"},
        {{0, 0, 0}, "00-00000000000000000000000000000001-0000000000000001-02"}, // all zeros are not an id
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sk_traceparent made, read;
        char text[SK_TRACEPARENT_SIZE];
        sk_traceparent_make(&made, rows[i].random);
        sk_traceparent_put(&made, text);
        ck_assert_str_eq(text, rows[i].text);
        ck_assert(sk_traceparent_read(text, &read));
        ck_assert_str_eq(read.trace_id, made.trace_id);
        ck_assert_str_eq(read.span_id, made.span_id);
        ck_assert_uint_eq(read.flags, made.flags);
    }
}

TEST(a_later_version_is_given_on_as_00)
{
    struct sk_traceparent read;
    char text[SK_TRACEPARENT_SIZE];
    ck_assert(sk_traceparent_read("cc-" TRACE "-" SPAN "-ff-more", &read));
    sk_traceparent_new_span(&read, 0xabc);
    sk_traceparent_put(&read, text);
    ck_assert_str_eq(text, "00-" TRACE "-0000000000000abc-01");
}
