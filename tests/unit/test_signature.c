// Signatures: those made by `openssl dgst -sha256 -hmac` are valid, only for their time, path and body.
#include <stdio.h>
#include <string.h>

#include "signature.h"
#include "test.h"

#define ZEROS16 "0000000000000000"
#define PATH    "/orders/018bcfe5-6800-7000-8000-0123456789ab/pay"
#define BODY    "{\"reference\":\"p-1\",\"amount_cents\":100,\"currency\":\"CNY\"}"

enum { NOW_S = 1700000000, TEXT_SIZE = 128 };

static const char secret[] = "0123456789abcdef", path[] = PATH, body[] = BODY,
                  signature[] = "44a20b41fe99cde82205fa10dd89f7e5f3723733e9eb43e20ff8316aa07f56dc";

static struct sk_signed said;

static void setup(void)
{
    said = (struct sk_signed){"1700000000", signature, path, body, sizeof body - 1};
}

TEST(what_openssl_signs_is_good)
{
    ck_assert(sk_signature_good(secret, &said, NOW_S));
    said.signature = "44A20B41FE99CDE82205FA10DD89F7E5F3723733E9EB43E20FF8316AA07F56DC";
    ck_assert(sk_signature_good(secret, &said, NOW_S));
    said = (struct sk_signed){"1700000000", "9e84acdcd9674f69ec929958e19f5d76e3569249878bd498acbf69faad972d78", "/p",
                              NULL, 0};
    ck_assert(sk_signature_good(secret, &said, NOW_S));
}

TEST(it_is_good_for_a_while)
{
    static const struct {
        int64_t now_s;
        bool good;
    } rows[] = {
        {NOW_S - 300, true}, {NOW_S + 300, true}, {NOW_S - 301, false}, {NOW_S + 301, false}, {NOW_S + 86400, false},
        {0, false},          {-1, false},         {INT64_MIN, false},   {INT64_MAX, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_msg(sk_signature_good(secret, &said, rows[i].now_s) == rows[i].good, "row %zu", i);
}

TEST(all_that_is_signed_counts)
{
    char text[] = PATH BODY, where[sizeof path];
    for (size_t i = 0; i < sizeof text; i++) { // the last byte is not signed
        text[i] = (char)(text[i] ^ 1);
        (void)snprintf(where, sizeof where, "%.*s", (int)sizeof path - 1, text);
        said.path = where;
        said.body = text + sizeof path - 1;
        ck_assert(sk_signature_good(secret, &said, NOW_S) == (i == sizeof text - 1));
        text[i] = (char)(text[i] ^ 1);
    }
    ck_assert(!sk_signature_good("0123456789abcdeg", &said, NOW_S));
    ck_assert(!sk_signature_good("0123456789abcdef0", &said, NOW_S));
    said.timestamp = "1700000001"; // recent, but not the signed one
    ck_assert(!sk_signature_good(secret, &said, NOW_S));
    setup();
    said.body_len--;
    ck_assert(!sk_signature_good(secret, &said, NOW_S));
}

// During a change there are two secrets, one a line: either may have signed.
TEST(either_of_two_secrets_is_good)
{
    ck_assert(sk_signature_good("0123456789abcdef\nfedcba9876543210", &said, NOW_S));
    ck_assert(sk_signature_good("fedcba9876543210\n0123456789abcdef", &said, NOW_S));
    ck_assert(sk_signature_good("fedcba9876543210\r\n0123456789abcdef\r\n", &said, NOW_S));
    ck_assert(!sk_signature_good("fedcba9876543210\n0123456789abcdee", &said, NOW_S));
    ck_assert(!sk_signature_good("fedcba9876543210\n\n", &said, NOW_S));
}

TEST(every_bit_of_it_counts)
{
    char text[sizeof signature];
    for (size_t i = 0; i < sizeof signature - 1; i++) {
        for (int digit = 0; digit < 16; digit++) {
            memcpy(text, signature, sizeof signature);
            text[i] = "0123456789abcdef"[digit];
            said.signature = text;
            ck_assert(sk_signature_good(secret, &said, NOW_S) == (text[i] == signature[i]));
        }
    }
}

TEST(what_is_no_signature_or_no_time)
{
    static const char *const signatures[] = {
        "",
        "4",
        "44a20b41fe99cde82205fa10dd89f7e5f3723733e9eb43e20ff8316aa07f56d",
        "44a20b41fe99cde82205fa10dd89f7e5f3723733e9eb43e20ff8316aa07f56dc0",
        "44a20b41fe99cde82205fa10dd89f7e5f3723733e9eb43e20ff8316aa07f56dc ",
        " 44a20b41fe99cde82205fa10dd89f7e5f3723733e9eb43e20ff8316aa07f56d",
        "g4a20b41fe99cde82205fa10dd89f7e5f3723733e9eb43e20ff8316aa07f56dc",
        "sha256=44a20b41fe99cde82205fa10dd89f7e5f3723733e9eb43e20ff8316aa07f56dc",
        "RKILQf6ZzegiBfoQ3Yn35fNyNzPp60PiD/gxaqB/Vtw=",
        ZEROS16 ZEROS16 ZEROS16 ZEROS16,
    };
    static const char *const timestamps[] = {// of another time, and no decimal number of it
                                             "",
                                             "0",
                                             "-1",
                                             "1700000000.0",
                                             "1700000000 ",
                                             " 1700000000",
                                             "+1700000000",
                                             "01700000000",
                                             "1.7e9",
                                             "0x6553f100",
                                             "1700000000000",
                                             "18446744073709551616",
                                             "x",
                                             "9223372036854775808"};
    for (size_t i = 0; i < sizeof signatures / sizeof signatures[0]; i++) {
        said.signature = signatures[i];
        ck_assert_msg(!sk_signature_good(secret, &said, NOW_S), "%s", signatures[i]);
    }
    setup();
    for (size_t i = 0; i < sizeof timestamps / sizeof timestamps[0]; i++) {
        said.timestamp = timestamps[i];
        ck_assert_msg(!sk_signature_good(secret, &said, NOW_S), "%s", timestamps[i]);
    }
}

SUITE(.setup = setup);
