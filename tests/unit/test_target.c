// The path of a target, and the escapes in its query: decoded correctly, and the whole query rejected if one is
// invalid.
#include <stdio.h>
#include <string.h>

#include "target.h"
#include "test.h"
#include "text.h"

enum { TEXT_SIZE = 64 };

TEST(a_target_has_a_path)
{
    static const struct {
        const char *target, *path;
    } rows[] = {
        {"http://host/seckill/1", "/seckill/1"},
        {"HTTP://host/seckill/1", "/seckill/1"},
        {"https://host:8443/seckill/1", "/seckill/1"},
        {"HttpS://[::1]:80/", "/"},
        {"http://host", "/"},
        {"http://host//seckill/1", "//seckill/1"},
        {"http://host/a@b:c", "/a@b:c"},
    };
    static const char *const wrong[] = {
        "http://",  "http:///seckill/1",     "http://:80/seckill/1", "http://user@host/seckill/1",
        "https://", "https://user:word@host"};
    static const char *const same[] = {"/", "/seckill/1", "//host/seckill/1", "/http://host/x",
                                       // in another form
                                       "*", "", "host:443", "seckill/1", "ftp://host/seckill/1", "http:/host/seckill/1",
                                       "http:host", "xhttp://host/seckill/1"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_pstr_eq(sk_target_path(rows[i].target), rows[i].path);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ck_assert_pstr_eq(sk_target_path(wrong[i]), NULL);
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        ck_assert_ptr_eq(sk_target_path(same[i]), same[i]);
}

TEST(escapes_are_undone)
{
    static const struct {
        const char *text, *plain;
    } rows[] = {
        {"", ""},
        {"abc", "abc"},
        {"%61", "a"},
        {"%61%62c%64", "abcd"},
        {"%2f%2F", "//"},
        {"100%25", "100%"},
        {"%2561", "%61"}, // decoded once
        {"%20", " "},
        {"%7e~", "~~"},
        {"%c3%A9\xc3\xa9", "\xc3\xa9\xc3\xa9"},
        {"%ff%80", "\xff\x80"},
        {"a b+c", "a b+c"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[TEXT_SIZE];
        size_t len = TEXT_SIZE;
        (void)snprintf(text, sizeof text, "%s", rows[i].text);
        ck_assert_msg(sk_url_unescape(text, &len), "%s", rows[i].text);
        ck_assert_str_eq(text, rows[i].plain);
        ck_assert_uint_eq(len, strlen(rows[i].plain));
    }
}

TEST(what_is_no_escape_is_refused_and_left_alone)
{
    static const char *const rows[] = {
        "%",      "%4",  "a%",    "a%4",   "%%",  "%g1", "%1g", "%zz", "%-1", "%+1",    "% 1",       "%0x",
        "%u0041", "%00", "a%00b", "%61%0", "%0a", "%0D", "%09", "%1f", "%7f", "%61%7F", "%\xff\x31", "\xc3%",
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[TEXT_SIZE];
        size_t len = TEXT_SIZE;
        (void)snprintf(text, sizeof text, "%s", rows[i]);
        ck_assert_msg(!sk_url_unescape(text, &len), "%s", rows[i]);
        ck_assert_str_eq(text, rows[i]);
        ck_assert_uint_eq(len, TEXT_SIZE);
    }
}

// Every byte can be read back, and the text contains no byte with a meaning in URLs or headers.
TEST(every_byte_comes_back)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~%";
    for (int byte = 1; byte < 256; byte++) {
        struct sk_buf out = {0};
        char text[] = {'x', (char)byte, 'y', '\0'};
        size_t len = 0;
        bool control = byte < ' ' || byte == 0x7f;
        sk_url_put(&out, text);
        ck_assert(!out.failed);
        ck_assert_uint_eq(strspn(out.data, plain), out.len);
        ck_assert_int_eq(sk_url_unescape(out.data, &len), !control);
        if (!control)
            ck_assert_str_eq(out.data, text);
        sk_buf_free(&out);
    }
}

TEST(what_needs_no_escape_has_none)
{
    struct sk_buf out = {0};
    sk_url_put(&out, "aZ09-._~ /?&=+\"<>\xc3");
    ck_assert_str_eq(out.data, "aZ09-._~%20%2F%3F%26%3D%2B%22%3C%3E%C3");
    sk_buf_free(&out);
}
