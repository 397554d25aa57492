// base64url: each byte string has one encoding, and nothing else is accepted.
#include <string.h>

#include "base64url.h"
#include "test.h"

enum { ROOM = 64 };

static const struct {
    const char *bytes, *text;
} pairs[] = {
    // RFC 4648, 10, without padding
    {"", ""},
    {"f", "Zg"},
    {"fo", "Zm8"},
    {"foo", "Zm9v"},
    {"foob", "Zm9vYg"},
    {"fooba", "Zm9vYmE"},
    {"foobar", "Zm9vYmFy"},
    // the two that differ from base64
    {"\xfb\xff\xfe", "-__-"},
    {"\xff\xef", "_-8"},
};

TEST(what_is_put_can_be_read)
{
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        char text[ROOM];
        unsigned char bytes[ROOM];
        size_t size = strlen(pairs[i].bytes), len = 99;
        size_t chars = sk_base64url_put((const unsigned char *)pairs[i].bytes, size, text);
        ck_assert_uint_eq(chars, SK_BASE64URL_CHARS(size));
        ck_assert_uint_eq(chars, strlen(pairs[i].text));
        ck_assert_mem_eq(text, pairs[i].text, chars);
        ck_assert(sk_base64url_read(text, chars, bytes, size, &len));
        ck_assert_uint_eq(len, size);
        ck_assert_mem_eq(bytes, pairs[i].bytes, size);
        ck_assert(size == 0 || !sk_base64url_read(text, chars, bytes, size - 1, &len));
    }
}

TEST(nothing_else_is_read)
{
    unsigned char bytes[ROOM];
    size_t len;
    for (unsigned c = 0; c < 256; c++) {
        bool digit = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
        for (size_t at = 0; at < 4; at++) {
            char text[] = "AAAA";
            text[at] = (char)c;
            ck_assert_msg(sk_base64url_read(text, 4, bytes, ROOM, &len) == digit, "%u", c);
        }
    }
    // The same in a group that is not whole; lengths that cannot be; bits at the end that belong to no byte.
    static const char *const texts[] = {"Zm9v.g", "Zm9vZ.", ".m8", "Z.8", "Zm.", "Z",  "Zm9vZ",
                                        "Zg==",   "Zm9v=",  "Zh",  "Zn",  "Zm9", "Zm-"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        ck_assert_msg(!sk_base64url_read(texts[i], strlen(texts[i]), bytes, ROOM, &len), "%s", texts[i]);
    ck_assert(!sk_base64url_read("Zm9vZA", 5, bytes, ROOM, &len)); // what follows is not looked at
}
