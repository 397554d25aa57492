// The text of a token: its three parts, and the required header and claims.
#include <string.h>

#include "identity.h"
#include "jwt.h"
#include "test.h"

#define REPEAT10(x) x x x x x x x x x x
#define A68         "AAAAAAAA" REPEAT10("AAAAAA")
#define EXP         "\"exp\":2000000000"
#define ISS         "\"iss\":\"https://id.example\""
#define AUD         "\"aud\":\"shop\""
#define SUB         "\"sub\":\"alice\""
#define ALL         EXP "," ISS "," AUD "," SUB
#define U64         "0123456789012345678901234567890123456789012345678901234567890123"

static const struct sk_siphash_key id_keys[SK_JWT_IDS] = {{{1, 2}}, {{3, 4}}};
static struct sk_jwt_expected expected = {"https://id.example", "shop", "sub", 0, id_keys};

static enum sk_jwt_result split(const char *header, const char *claims, struct sk_buf *text, struct sk_jwt *jwt)
{
    token_put_part(text, header, strlen(header));
    sk_buf_puts(text, ".");
    token_put_part(text, claims, strlen(claims));
    sk_buf_puts(text, ".AAAA");
    return sk_jwt_split(text->data, jwt);
}

static enum sk_jwt_result read_claims(const char *json, struct sk_jwt_claims *claims)
{
    struct sk_buf text = {0};
    struct sk_jwt jwt;
    ck_assert_int_eq(split("{}", json, &text, &jwt), SK_JWT_GOOD);
    enum sk_jwt_result result = sk_jwt_read_claims(&jwt, &expected, claims);
    sk_buf_free(&text);
    return result;
}

static enum sk_jwt_result read_header(const char *json, struct sk_jwt_header *header)
{
    struct sk_buf text = {0};
    struct sk_jwt jwt;
    ck_assert_int_eq(split(json, "{}", &text, &jwt), SK_JWT_GOOD);
    enum sk_jwt_result result = sk_jwt_read_header(&jwt, header);
    sk_buf_free(&text);
    return result;
}

TEST(a_token_has_three_parts)
{
    static const char *const wrong[] = {"",     "a",      ".",       "..",     "a.b",       "a..c", "a.b.",
                                        ".b.c", "a.b.c.", "a.b.c.d", "a.b..c", "a.b.c.d.e", "..."};
    struct sk_jwt jwt;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        ck_assert_msg(sk_jwt_split(wrong[i], &jwt) == SK_JWT_FORM, "%s", wrong[i]);
    ck_assert_int_eq(sk_jwt_split("a.b.c", &jwt), SK_JWT_GOOD);
    ck_assert_int_eq(sk_jwt_split("aa.bbb.cccc", &jwt), SK_JWT_GOOD);
    ck_assert_uint_eq(jwt.len, 11);
    ck_assert_uint_eq(jwt.header_len, 2);
    ck_assert_uint_eq(jwt.signed_len, 6);
}

TEST(a_token_has_a_most)
{
    static char text[SK_JWT_MAX_BYTES + 2];
    struct sk_jwt jwt;
    memset(text, 'a', SK_JWT_MAX_BYTES + 1);
    text[1] = text[3] = '.';
    ck_assert_int_eq(sk_jwt_split(text, &jwt), SK_JWT_FORM);
    text[SK_JWT_MAX_BYTES] = '\0';
    ck_assert_int_eq(sk_jwt_split(text, &jwt), SK_JWT_GOOD);
    ck_assert_uint_eq(jwt.len, SK_JWT_MAX_BYTES);
    text[3] = 'a';
    text[SK_JWT_MAX_BYTES - 2] = '.';
    ck_assert_int_eq(sk_jwt_split(text, &jwt), SK_JWT_GOOD);
    struct sk_jwt_claims claims; // of the maximum size
    ck_assert_int_eq(sk_jwt_read_claims(&jwt, &expected, &claims), SK_JWT_CLAIMS);
}

TEST(a_signature_is_base64url_and_short)
{
    static const struct {
        const char *text;
        size_t len; // 99: none
    } rows[] = {{"a.b.AAAA", 3},
                {"a.b.-_8", 2},
                {"a.b.A", 99},
                {"a.b.A+AA", 99},
                {"a.b.AA=", 99},
                {"a.b.AB", 99},
                {"a.b.AAAA ", 99},
                {"a.b." REPEAT10("AAAAAAAA") "AAAAAA", 64},
                // at most as long as that of the largest key
                {"a.b." REPEAT10(A68) "AAA", 512},
                {"a.b." REPEAT10(A68) "AAAA", 99}};
    unsigned char bytes[SK_JWS_SIGNATURE_MAX];
    size_t len = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sk_jwt jwt;
        ck_assert_int_eq(sk_jwt_split(rows[i].text, &jwt), SK_JWT_GOOD);
        ck_assert_msg(sk_jwt_signature(&jwt, bytes, &len) == (rows[i].len != 99), "row %zu", i);
        ck_assert(rows[i].len == 99 || len == rows[i].len);
    }
}

static void headers_must_be(enum sk_jwt_result result, const char *const *jsons)
{
    struct sk_jwt_header header;
    for (; *jsons != NULL; jsons++)
        ck_assert_msg(read_header(*jsons, &header) == result, "%s", *jsons);
}

TEST(headers_are_checked)
{
#define ALG "\"alg\":\"HS256\""
#define KID "\"kid\":\"k1\""
    static const char *const good[] = {
        "{" ALG "," KID "}",
        "{" ALG ",\"typ\":\"JWT\"," KID "}",
        " {\r\n\t\"alg\" : \"HS256\" , \"typ\":\"jwt\",\"kid\":\"k1\" }\n",
        "{" ALG ",\"typ\":\"at+jwt\"," KID "}",
        "{\"alg\":\"none\"," KID "}", // the key determines the algorithm
        "{" ALG "," KID ",\"jku\":\"https://evil.example\",\"cty\":\"x\"}",
        "{" ALG ",\"kid\":\"" U64 U64 "\"}",
        NULL,
    };
    static const char *const wrong[] = {
        // alg and kid
        "{" KID "}", "{" ALG "}", "{\"alg\":\"\"," KID "}", "{\"alg\":256," KID "}", "{\"alg\":[\"HS256\"]," KID "}",
        "{" ALG ",\"kid\":\"\"}", "{" ALG ",\"kid\":1}", "{" ALG ",\"kid\":null}", "{" ALG ",\"kid\":\"" U64 U64 "0\"}",
        // typ and crit
        "{" ALG "," KID ",\"typ\":\"secevent+jwt\"}", "{" ALG "," KID ",\"typ\":\"\"}", "{" ALG "," KID ",\"typ\":1}",
        "{" ALG "," KID ",\"typ\":null}", "{" ALG "," KID ",\"crit\":[\"b64\"],\"b64\":false}",
        "{" ALG "," KID ",\"crit\":[]}",
        // twice, and no object
        "{" ALG "," KID "," ALG "}", "{" ALG "," KID ",\"\\u006bid\":\"k2\"}", "{" ALG "," KID "} x",
        "{" ALG "," KID ",}", "[\"alg\",\"HS256\",\"kid\",\"k1\"]", "null", "x", NULL};
    struct sk_jwt_header header;
    headers_must_be(SK_JWT_GOOD, good);
    headers_must_be(SK_JWT_HEADER, wrong);
    ck_assert_int_eq(read_header(good[0], &header), SK_JWT_GOOD);
    ck_assert_str_eq(header.algorithm, "HS256");
    ck_assert_str_eq(header.kid, "k1");
}

static void claims_must_be(enum sk_jwt_result result, const char *const *jsons)
{
    struct sk_jwt_claims claims;
    for (; *jsons != NULL; jsons++)
        ck_assert_msg(read_claims(*jsons, &claims) == result, "%s: %d", *jsons, read_claims(*jsons, &claims));
}

// Good claims, with another value of one, or with more.
#define WITH_EXP(x) "{\"exp\":" x "," ISS "," AUD "," SUB "}"
#define WITH_ISS(x) "{" EXP ",\"iss\":" x "," AUD "," SUB "}"
#define WITH_AUD(x) "{" EXP "," ISS ",\"aud\":" x "," SUB "}"
#define WITH_SUB(x) "{" EXP "," ISS "," AUD ",\"sub\":" x "}"
#define AND(x)      "{" ALL "," x "}"

TEST(claims_are_checked)
{
    static const char *const good[] = {
        // spaces, more members, numbers, lists, escapes
        "{" ALL "}",
        " { " EXP " , " ISS " , \"aud\" : [ \"a\" , \"shop\" ] , " SUB " }\n",
        AND("\"nbf\":1,\"iat\":\"whatever\",\"jti\":null,\"roles\":[\"x\"],\"ok\":true"),
        AND("\"address\":{\"exp\":1}"),
        WITH_EXP("2000000000.5"),
        WITH_EXP("2e9"),
        WITH_EXP("9007199254740990"),
        WITH_EXP("999999999999999"),
        WITH_AUD("[\"shop\"]"),
        WITH_AUD("[\"a,b\",\"c]\",\"shop\",\"d\"]"),
        WITH_SUB("\"" U64 "\""),
        WITH_SUB("\"al\\u0069ce\""),
        AND("\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"j\":1,\"k\":1,\"l\":1"),
        "{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"j\":1,\"k\":1,\"l\":1," ALL "}",
        NULL};
    static const char *const wrong[] = {
        // one that is missing, or no object
        "{" ISS "," AUD "," SUB "}", "{" EXP "," AUD "," SUB "}", "{" EXP "," ISS "," SUB "}",
        "{" EXP "," ISS "," AUD "}", "{}", "[]", "\"x\"",
        // exp and nbf
        WITH_EXP("\"2000000000\""), WITH_EXP("null"), WITH_EXP("true"), WITH_EXP("[2000000000]"), WITH_EXP("-1"),
        WITH_EXP("9007199254740992"), WITH_EXP("9223372036854775807"), WITH_EXP("99999999999999999999"),
        WITH_EXP("1e999"), WITH_EXP("02000000000"), WITH_EXP("NaN"), AND("\"nbf\":\"1\""), AND("\"nbf\":null"),
        AND("\"nbf\":-5"),
        // iss and aud
        WITH_ISS("[\"https://id.example\"]"), WITH_ISS("null"), WITH_AUD("[\"shop\",1]"), WITH_AUD("[[\"shop\"]]"),
        WITH_AUD("{\"shop\":\"shop\"}"), WITH_AUD("null"), WITH_AUD("7"),
        // sub
        WITH_SUB("\"alice\\u0000\""), WITH_SUB("\"\\ud800\""), WITH_SUB("\"\xff\""), WITH_SUB("7"),
        WITH_SUB("[\"alice\"]"),
        // twice
        AND(SUB), AND("\"sub\":\"bob\""), AND("\"exp\":1"), AND("\"\\u0073ub\":\"bob\""), AND("\"x\":1,\"x\":2"),
        // more, and less, than an object
        "{" ALL "}}", "{" ALL, AND(""), "{" ALL "}{" ALL "}", "{'exp':1}", "{exp:1}", NULL};
    static const char *const issuer[] = {WITH_ISS("\"https://id.example/\""), WITH_ISS("\"https://id.exampl\""),
                                         WITH_ISS("\"\""), WITH_ISS("\"HTTPS://ID.EXAMPLE\""), NULL};
    static const char *const audience[] = {WITH_AUD("\"shops\""), WITH_AUD("\"\""), WITH_AUD("[]"),
                                           WITH_AUD("[\"shop2\",\"sho\",\"p\"]"), NULL};
    static const char *const subject[] = {WITH_SUB("\"\""),          WITH_SUB("\"" U64 "4\""),
                                          WITH_SUB("\"alice bob\""), WITH_SUB("\"auth0|alice\""),
                                          WITH_SUB("\"\xc3\xa4\""),  NULL};
    claims_must_be(SK_JWT_GOOD, good);
    claims_must_be(SK_JWT_CLAIMS, wrong);
    claims_must_be(SK_JWT_ISSUER, issuer);
    claims_must_be(SK_JWT_AUDIENCE, audience);
    claims_must_be(SK_JWT_SUBJECT, subject);
}

TEST(what_they_say)
{
    static const struct {
        const char *json, *user;
        int64_t exp_s, nbf_s;
    } rows[] = {
        {"{" ALL "}", "alice", 2000000000, 0},
        {"{" ALL ",\"nbf\":1999999999}", "alice", 2000000000, 1999999999},
        {"{\"exp\":17.9,\"nbf\":16.1," ISS "," AUD ",\"sub\":\"b\"}", "b", 17, 17}, // never longer than stated
        {"{\"exp\":0,\"nbf\":0," ISS "," AUD ",\"sub\":\"0\"}", "0", 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sk_jwt_claims claims;
        ck_assert_int_eq(read_claims(rows[i].json, &claims), SK_JWT_GOOD);
        ck_assert_str_eq(claims.user, rows[i].user);
        ck_assert_int_eq(claims.exp_s, rows[i].exp_s);
        ck_assert_int_eq(claims.nbf_s, rows[i].nbf_s);
    }
}

TEST(the_user_is_in_the_claim_that_is_set)
{
    static const struct {
        const char *claim, *json;
        enum sk_jwt_result result;
    } rows[] = {
        {"sub", "{" ALL ",\"oid\":\"bob\"}", SK_JWT_GOOD},
        {"oid", "{" EXP "," ISS "," AUD ",\"oid\":\"alice\",\"sub\":\"auth0|1\"}", SK_JWT_GOOD},
        {"https://shop.example/user", "{" EXP "," ISS "," AUD ",\"https://shop.example/user\":\"alice\"}", SK_JWT_GOOD},
        {"oid", "{" ALL "}", SK_JWT_CLAIMS},
        {"oid", "{" ALL ",\"oid\":7}", SK_JWT_CLAIMS},
        {"oid", "{" ALL ",\"oid\":\"a b\"}", SK_JWT_SUBJECT},
        {"oid", "{" ALL ",\"oid\":\"alice\",\"oid\":\"bob\"}", SK_JWT_CLAIMS},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sk_jwt_claims claims;
        expected.user = rows[i].claim;
        ck_assert_msg(read_claims(rows[i].json, &claims) == rows[i].result, "%s", rows[i].json);
        if (rows[i].result == SK_JWT_GOOD)
            ck_assert_str_eq(claims.user, "alice");
    }
}

TEST(a_lifetime_has_a_most)
{
    static const struct {
        const char *json;
        enum sk_jwt_result result;
        int64_t nbf_s;
    } rows[] = {
        {WITH_EXP("1000,\"iat\":900"), SK_JWT_GOOD, 900},
        {WITH_EXP("1000,\"iat\":899"), SK_JWT_LIFETIME, 0},
        {WITH_EXP("1000,\"iat\":900,\"nbf\":950"), SK_JWT_GOOD, 950},
        {WITH_EXP("1000,\"iat\":960,\"nbf\":950"), SK_JWT_GOOD, 960}, // not before it
        {WITH_EXP("1000"), SK_JWT_LIFETIME, 0},
        {WITH_EXP("1000,\"iat\":\"900\""), SK_JWT_LIFETIME, 0},
        {WITH_EXP("1000,\"iat\":null"), SK_JWT_LIFETIME, 0},
        {WITH_EXP("9007199254740990,\"iat\":9007199254740980"), SK_JWT_GOOD, 9007199254740980},
        {WITH_EXP("1000,\"iat\":2000"), SK_JWT_GOOD, 2000}, // never valid
    };
    expected.lifetime_s = 100;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sk_jwt_claims claims;
        ck_assert_msg(read_claims(rows[i].json, &claims) == rows[i].result, "%s", rows[i].json);
        if (rows[i].result == SK_JWT_GOOD)
            ck_assert_int_eq(claims.nbf_s, rows[i].nbf_s);
    }
}

TEST(ids_are_those_of_their_claim)
{
    struct sk_jwt_claims first, second;
    ck_assert_int_eq(read_claims("{" ALL ",\"jti\":\"alice\"}", &first), SK_JWT_GOOD);
    ck_assert_uint_eq(first.ids[SK_JWT_ID_JTI], sk_siphash(&id_keys[SK_JWT_ID_JTI], "alice", 5));
    ck_assert_uint_eq(first.ids[SK_JWT_ID_SUB], sk_siphash(&id_keys[SK_JWT_ID_SUB], "alice", 5));
    ck_assert_uint_ne(first.ids[SK_JWT_ID_JTI], first.ids[SK_JWT_ID_SUB]);
    ck_assert_int_eq(read_claims("{" ALL ",\"jti\":\"\\u0061lice\"}", &second), SK_JWT_GOOD);
    ck_assert_uint_eq(first.ids[SK_JWT_ID_JTI], second.ids[SK_JWT_ID_JTI]);
    ck_assert_int_eq(read_claims("{" ALL ",\"jti\":7}", &second), SK_JWT_GOOD);
    ck_assert_uint_eq(second.ids[SK_JWT_ID_JTI], 0);
}

TEST(deep_claims_do_not_hurt)
{
    enum { DEEP = 2900 };
    static char json[DEEP + 1];
    struct sk_jwt_claims claims;
    memset(json, '[', DEEP);
    static const char start[] = "{\"a\":";
    for (size_t i = 0; start[i] != '\0'; i++)
        json[i] = start[i];
    ck_assert_int_eq(read_claims(json, &claims), SK_JWT_CLAIMS);
}

TEST(times)
{
    static const struct {
        int64_t exp_s, nbf_s, leeway_s, now_s;
        enum sk_jwt_result result;
    } rows[] = {
        {1000, 0, 0, 999, SK_JWT_GOOD},
        {1000, 0, 0, 1000, SK_JWT_EXPIRED},
        {1000, 0, 30, 1029, SK_JWT_GOOD},
        {1000, 0, 30, 1030, SK_JWT_EXPIRED},
        {1000, 900, 0, 900, SK_JWT_GOOD},
        {1000, 900, 0, 899, SK_JWT_EARLY},
        {1000, 900, 30, 870, SK_JWT_GOOD},
        {1000, 900, 30, 869, SK_JWT_EARLY},
        {0, 0, 3600, 3599, SK_JWT_GOOD},
        {0, 0, 3600, 3600, SK_JWT_EXPIRED},
        {9007199254740991, 0, 3600, 1, SK_JWT_GOOD},
        {1000, 2000, 0, 1500, SK_JWT_EXPIRED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sk_jwt_claims claims = {.exp_s = rows[i].exp_s, .nbf_s = rows[i].nbf_s};
        ck_assert_msg(sk_jwt_check_times(&claims, rows[i].leeway_s, rows[i].now_s) == rows[i].result, "row %zu", i);
    }
}
