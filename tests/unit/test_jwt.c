// The text of a token: its three parts, and the required header and claims.
#include <stdlib.h>
#include <string.h>

#include "base64url.h"
#include "buf.h"
#include "jwt.h"
#include "test.h"

#define REPEAT10(x) x x x x x x x x x x
#define A68      \
    "AAAAAAAA"   \
    "AAAAAAAAAA" \
    "AAAAAAAAAA" \
    "AAAAAAAAAA" \
    "AAAAAAAAAA" \
    "AAAAAAAAAA" \
    "AAAAAAAAAA"
#define EXP "\"exp\":2000000000"
#define ISS "\"iss\":\"https://id.example\""
#define AUD "\"aud\":\"shop\""
#define SUB "\"sub\":\"alice\""
#define ALL EXP "," ISS "," AUD "," SUB
#define U64 "0123456789012345678901234567890123456789012345678901234567890123"

static const struct sk_siphash_key id_keys[SK_JWT_IDS] = {{{1, 2}}, {{3, 4}}};
static struct sk_jwt_expected expected = {"https://id.example", "shop", "sub", 0, id_keys};

static void put_part(struct sk_buf *buf, const char *json)
{
    size_t len = strlen(json);
    char *text = calloc(1, SK_BASE64URL_CHARS(len) + 1);
    ck_assert_ptr_nonnull(text);
    sk_buf_add(buf, text, sk_base64url_put((const unsigned char *)json, len, text));
    free(text);
}

static enum sk_jwt_result split(const char *header, const char *claims, struct sk_buf *text, struct sk_jwt *jwt)
{
    put_part(text, header);
    sk_buf_puts(text, ".");
    put_part(text, claims);
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
    static const struct {
        const char *text;
        enum sk_jwt_result result;
    } rows[] = {
        {"a.b.c", SK_JWT_GOOD},  {"aa.bbb.cccc", SK_JWT_GOOD}, {"", SK_JWT_FORM},       {"a", SK_JWT_FORM},
        {".", SK_JWT_FORM},      {"..", SK_JWT_FORM},          {"a.b", SK_JWT_FORM},    {"a..c", SK_JWT_FORM},
        {"a.b.", SK_JWT_FORM},   {".b.c", SK_JWT_FORM},        {"a.b.c.", SK_JWT_FORM}, {"a.b.c.d", SK_JWT_FORM},
        {"a.b..c", SK_JWT_FORM}, {"a.b.c.d.e", SK_JWT_FORM},   {"...", SK_JWT_FORM},
    };
    struct sk_jwt jwt;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_msg(sk_jwt_split(rows[i].text, &jwt) == rows[i].result, "%s", rows[i].text);
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
    } rows[] = {
        {"a.b.AAAA", 3},
        {"a.b.-_8", 2},
        {"a.b.A", 99},
        {"a.b.A+AA", 99},
        {"a.b.AA=", 99},
        {"a.b.AB", 99},
        {"a.b.AAAA ", 99},
        {"a.b." REPEAT10("AAAAAAAA") "AAAAAA", 64},
        {"a.b." REPEAT10(A68) "AAA", 512},
        {"a.b." REPEAT10(A68) "AAAA", 99},
    };
    unsigned char bytes[SK_JWS_SIGNATURE_MAX];
    size_t len = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sk_jwt jwt;
        ck_assert_int_eq(sk_jwt_split(rows[i].text, &jwt), SK_JWT_GOOD);
        ck_assert_msg(sk_jwt_signature(&jwt, bytes, &len) == (rows[i].len != 99), "row %zu", i);
        ck_assert(rows[i].len == 99 || len == rows[i].len);
    }
}

TEST(headers_are_checked)
{
    static const struct {
        const char *json;
        enum sk_jwt_result result;
    } rows[] = {
        {"{\"alg\":\"HS256\",\"kid\":\"k1\"}", SK_JWT_GOOD},
        {"{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"k1\"}", SK_JWT_GOOD},
        {" {\r\n\t\"alg\" : \"HS256\" , \"typ\":\"jwt\",\"kid\":\"k1\" }\n", SK_JWT_GOOD},
        {"{\"alg\":\"HS256\",\"typ\":\"at+jwt\",\"kid\":\"k1\"}", SK_JWT_GOOD},
        {"{\"alg\":\"none\",\"kid\":\"k1\"}", SK_JWT_GOOD}, // the key determines the algorithm
        {"{\"alg\":\"HS256\",\"kid\":\"k1\",\"jku\":\"https://evil.example\",\"cty\":\"x\"}", SK_JWT_GOOD},
        {"{\"kid\":\"k1\"}", SK_JWT_HEADER},
        {"{\"alg\":\"HS256\"}", SK_JWT_HEADER},
        {"{\"alg\":\"\",\"kid\":\"k1\"}", SK_JWT_HEADER},
        {"{\"alg\":\"HS256\",\"kid\":\"\"}", SK_JWT_HEADER},
        {"{\"alg\":256,\"kid\":\"k1\"}", SK_JWT_HEADER},
        {"{\"alg\":[\"HS256\"],\"kid\":\"k1\"}", SK_JWT_HEADER},
        {"{\"alg\":\"HS256\",\"kid\":1}", SK_JWT_HEADER},
        {"{\"alg\":\"HS256\",\"kid\":null}", SK_JWT_HEADER},
        {"{\"alg\":\"HS256\",\"kid\":\"" U64 U64 "\"}", SK_JWT_GOOD},
        {"{\"alg\":\"HS256\",\"kid\":\"" U64 U64 "0\"}", SK_JWT_HEADER},
        {"{\"alg\":\"HS256\",\"kid\":\"k1\",\"typ\":\"secevent+jwt\"}", SK_JWT_HEADER},
        {"{\"alg\":\"HS256\",\"kid\":\"k1\",\"typ\":\"JOSE\"}", SK_JWT_HEADER},
        {"{\"alg\":\"HS256\",\"kid\":\"k1\",\"typ\":1}", SK_JWT_HEADER},
        {"{\"alg\":\"HS256\",\"kid\":\"k1\",\"crit\":[\"b64\"],\"b64\":false}", SK_JWT_HEADER},
        {"{\"alg\":\"HS256\",\"kid\":\"k1\",\"crit\":[]}", SK_JWT_HEADER},
        {"{\"alg\":\"HS256\",\"kid\":\"k1\",\"alg\":\"HS256\"}", SK_JWT_HEADER},
        {"{\"alg\":\"HS256\",\"kid\":\"k1\",\"kid\":\"k2\"}", SK_JWT_HEADER},
        {"{\"alg\":\"HS256\",\"kid\":\"k1\",\"\\u006bid\":\"k2\"}", SK_JWT_HEADER},
        {"{\"alg\":\"HS256\",\"kid\":\"k1\"} x", SK_JWT_HEADER},
        {"{\"alg\":\"HS256\",\"kid\":\"k1\",}", SK_JWT_HEADER},
        {"[\"alg\",\"HS256\",\"kid\",\"k1\"]", SK_JWT_HEADER},
        {"null", SK_JWT_HEADER},
        {"x", SK_JWT_HEADER},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sk_jwt_header header;
        ck_assert_msg(read_header(rows[i].json, &header) == rows[i].result, "%s", rows[i].json);
    }
    struct sk_jwt_header header;
    ck_assert_int_eq(read_header(rows[0].json, &header), SK_JWT_GOOD);
    ck_assert_str_eq(header.algorithm, "HS256");
    ck_assert_str_eq(header.kid, "k1");
}

TEST(claims_are_checked)
{
    static const struct {
        const char *json;
        enum sk_jwt_result result;
    } rows[] = {
        {"{" ALL "}", SK_JWT_GOOD},
        {" { " EXP " , " ISS " , \"aud\" : [ \"a\" , \"shop\" ] , " SUB " }\n", SK_JWT_GOOD},
        {"{" ALL ",\"nbf\":1,\"iat\":\"whatever\",\"jti\":null,\"roles\":[\"x\"],\"ok\":true}", SK_JWT_GOOD},
        {"{" ALL ",\"address\":{\"exp\":1}}", SK_JWT_GOOD},
        {"{" ISS "," AUD "," SUB "}", SK_JWT_CLAIMS},
        {"{" EXP "," AUD "," SUB "}", SK_JWT_CLAIMS},
        {"{" EXP "," ISS "," SUB "}", SK_JWT_CLAIMS},
        {"{" EXP "," ISS "," AUD "}", SK_JWT_CLAIMS},
        {"{}", SK_JWT_CLAIMS},
        {"[]", SK_JWT_CLAIMS},
        {"\"x\"", SK_JWT_CLAIMS},
        {"", SK_JWT_CLAIMS},
        // exp and nbf
        {"{\"exp\":\"2000000000\"," ISS "," AUD "," SUB "}", SK_JWT_CLAIMS},
        {"{\"exp\":null," ISS "," AUD "," SUB "}", SK_JWT_CLAIMS},
        {"{\"exp\":true," ISS "," AUD "," SUB "}", SK_JWT_CLAIMS},
        {"{\"exp\":[2000000000]," ISS "," AUD "," SUB "}", SK_JWT_CLAIMS},
        {"{\"exp\":-1," ISS "," AUD "," SUB "}", SK_JWT_CLAIMS},
        {"{\"exp\":2000000000.5," ISS "," AUD "," SUB "}", SK_JWT_GOOD},
        {"{\"exp\":2e9," ISS "," AUD "," SUB "}", SK_JWT_GOOD},
        {"{\"exp\":9007199254740990," ISS "," AUD "," SUB "}", SK_JWT_GOOD},
        {"{\"exp\":9007199254740992," ISS "," AUD "," SUB "}", SK_JWT_CLAIMS},
        {"{\"exp\":999999999999999," ISS "," AUD "," SUB "}", SK_JWT_GOOD},
        {"{\"exp\":9223372036854775807," ISS "," AUD "," SUB "}", SK_JWT_CLAIMS},
        {"{\"exp\":99999999999999999999," ISS "," AUD "," SUB "}", SK_JWT_CLAIMS},
        {"{\"exp\":1e999," ISS "," AUD "," SUB "}", SK_JWT_CLAIMS},
        {"{\"exp\":02000000000," ISS "," AUD "," SUB "}", SK_JWT_CLAIMS},
        {"{\"exp\":NaN," ISS "," AUD "," SUB "}", SK_JWT_CLAIMS},
        {"{" ALL ",\"nbf\":\"1\"}", SK_JWT_CLAIMS},
        {"{" ALL ",\"nbf\":null}", SK_JWT_CLAIMS},
        {"{" ALL ",\"nbf\":-5}", SK_JWT_CLAIMS},
        // iss
        {"{" EXP ",\"iss\":\"https://id.example/\"," AUD "," SUB "}", SK_JWT_ISSUER},
        {"{" EXP ",\"iss\":\"https://id.exampl\"," AUD "," SUB "}", SK_JWT_ISSUER},
        {"{" EXP ",\"iss\":\"\"," AUD "," SUB "}", SK_JWT_ISSUER},
        {"{" EXP ",\"iss\":\"HTTPS://ID.EXAMPLE\"," AUD "," SUB "}", SK_JWT_ISSUER},
        {"{" EXP ",\"iss\":[\"https://id.example\"]," AUD "," SUB "}", SK_JWT_CLAIMS},
        {"{" EXP ",\"iss\":null," AUD "," SUB "}", SK_JWT_CLAIMS},
        // aud
        {"{" EXP "," ISS ",\"aud\":\"shops\"," SUB "}", SK_JWT_AUDIENCE},
        {"{" EXP "," ISS ",\"aud\":\"\"," SUB "}", SK_JWT_AUDIENCE},
        {"{" EXP "," ISS ",\"aud\":[]," SUB "}", SK_JWT_AUDIENCE},
        {"{" EXP "," ISS ",\"aud\":[\"shop2\",\"sho\",\"p\"]," SUB "}", SK_JWT_AUDIENCE},
        {"{" EXP "," ISS ",\"aud\":[\"shop\"]," SUB "}", SK_JWT_GOOD},
        {"{" EXP "," ISS ",\"aud\":[\"a,b\",\"c]\",\"shop\",\"d\"]," SUB "}", SK_JWT_GOOD},
        {"{" EXP "," ISS ",\"aud\":[\"shop\",1]," SUB "}", SK_JWT_CLAIMS},
        {"{" EXP "," ISS ",\"aud\":[[\"shop\"]]," SUB "}", SK_JWT_CLAIMS},
        {"{" EXP "," ISS ",\"aud\":{\"shop\":\"shop\"}," SUB "}", SK_JWT_CLAIMS},
        {"{" EXP "," ISS ",\"aud\":null," SUB "}", SK_JWT_CLAIMS},
        {"{" EXP "," ISS ",\"aud\":7," SUB "}", SK_JWT_CLAIMS},
        // sub
        {"{" EXP "," ISS "," AUD ",\"sub\":\"\"}", SK_JWT_SUBJECT},
        {"{" EXP "," ISS "," AUD ",\"sub\":\"" U64 "\"}", SK_JWT_GOOD},
        {"{" EXP "," ISS "," AUD ",\"sub\":\"" U64 "4\"}", SK_JWT_SUBJECT},
        {"{" EXP "," ISS "," AUD ",\"sub\":\"alice bob\"}", SK_JWT_SUBJECT},
        {"{" EXP "," ISS "," AUD ",\"sub\":\"auth0|alice\"}", SK_JWT_SUBJECT},
        {"{" EXP "," ISS "," AUD ",\"sub\":\"al\\u0069ce\"}", SK_JWT_GOOD},
        {"{" EXP "," ISS "," AUD ",\"sub\":\"alice\\u0000\"}", SK_JWT_CLAIMS},
        {"{" EXP "," ISS "," AUD ",\"sub\":\"\\ud800\"}", SK_JWT_CLAIMS},
        {"{" EXP "," ISS "," AUD ",\"sub\":\"\xff\"}", SK_JWT_CLAIMS},
        {"{" EXP "," ISS "," AUD ",\"sub\":\"\xc3\xa4\"}", SK_JWT_SUBJECT},
        {"{" EXP "," ISS "," AUD ",\"sub\":7}", SK_JWT_CLAIMS},
        {"{" EXP "," ISS "," AUD ",\"sub\":[\"alice\"]}", SK_JWT_CLAIMS},
        // twice
        {"{" ALL "," SUB "}", SK_JWT_CLAIMS},
        {"{" ALL ",\"sub\":\"bob\"}", SK_JWT_CLAIMS},
        {"{" ALL ",\"exp\":1}", SK_JWT_CLAIMS},
        {"{" ALL ",\"\\u0073ub\":\"bob\"}", SK_JWT_CLAIMS},
        {"{" ALL ",\"x\":1,\"x\":2}", SK_JWT_CLAIMS},
        // more, and less, than an object
        {"{" ALL "}}", SK_JWT_CLAIMS},
        {"{" ALL "", SK_JWT_CLAIMS},
        {"{" ALL ",}", SK_JWT_CLAIMS},
        {"{" ALL "}{" ALL "}", SK_JWT_CLAIMS},
        {"{'exp':1}", SK_JWT_CLAIMS},
        {"{exp:1}", SK_JWT_CLAIMS},
        // many members
        {"{" ALL ",\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"j\":1,\"k\":1,\"l\":1}",
         SK_JWT_GOOD},
        {"{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"j\":1,\"k\":1,\"l\":1,\"m\":1," ALL
         "}",
         SK_JWT_GOOD},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sk_jwt_claims claims;
        if (rows[i].json[0] == '\0')
            continue; // an empty part is not a token
        ck_assert_msg(read_claims(rows[i].json, &claims) == rows[i].result, "%s: %d", rows[i].json,
                      read_claims(rows[i].json, &claims));
    }
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
        {"{\"exp\":1000,\"iat\":900," ISS "," AUD "," SUB "}", SK_JWT_GOOD, 900},
        {"{\"exp\":1000,\"iat\":899," ISS "," AUD "," SUB "}", SK_JWT_LIFETIME, 0},
        {"{\"exp\":1000,\"iat\":900,\"nbf\":950," ISS "," AUD "," SUB "}", SK_JWT_GOOD, 950},
        {"{\"exp\":1000,\"iat\":960,\"nbf\":950," ISS "," AUD "," SUB "}", SK_JWT_GOOD, 960}, // not before it
        {"{\"exp\":1000," ISS "," AUD "," SUB "}", SK_JWT_LIFETIME, 0},
        {"{\"exp\":1000,\"iat\":\"900\"," ISS "," AUD "," SUB "}", SK_JWT_LIFETIME, 0},
        {"{\"exp\":1000,\"iat\":null," ISS "," AUD "," SUB "}", SK_JWT_LIFETIME, 0},
        {"{\"exp\":9007199254740990,\"iat\":9007199254740980," ISS "," AUD "," SUB "}", SK_JWT_GOOD, 9007199254740980},
        {"{\"exp\":1000,\"iat\":2000," ISS "," AUD "," SUB "}", SK_JWT_GOOD, 2000}, // never valid
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
