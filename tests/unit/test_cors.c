// The list of origins: which texts are origins, which requests match one, and which headers answers get.
//
// Fakes replace the functions of responses and requests and keep their arguments.
#include <stdio.h>
#include <string.h>

#include "cors.h"
#include "test.h"

#define SHOP "https://shop.example"

enum { FIELDS = 16, LIST_SIZE = 512 };

struct sk_response {
    const char *names[FIELDS], *values[FIELDS];
    int fields;
};

static struct sk_response the_response;
static const char *origin, *asked_method, *site, *host; // of the request; NULL: not sent
static unsigned origins;
static char said[160];

struct sk_response *sk_response_new(const char *type, const char *body, size_t len)
{
    ck_assert_ptr_null(type);
    (void)body;
    ck_assert_uint_eq(len, 0);
    the_response = (struct sk_response){.fields = 0};
    return &the_response;
}

void sk_response_header(struct sk_response *response, const char *name, const char *value)
{
    ck_assert_int_lt(response->fields, FIELDS);
    response->names[response->fields] = name;
    response->values[response->fields++] = value;
}

const char *sk_request_header(const struct sk_request *request, const char *name, unsigned *count)
{
    static const struct {
        const char *name, **value;
    } fields[] = {{"origin", &origin},
                  {"access-control-request-method", &asked_method},
                  {"sec-fetch-site", &site},
                  {"host", &host}};
    size_t i = 0;
    (void)request;
    while (strcmp(fields[i].name, name) != 0)
        ck_assert_uint_lt(++i, sizeof fields / sizeof fields[0]);
    if (count != NULL)
        *count = *fields[i].value == NULL ? 0 : fields[i].value == &origin ? origins : 1;
    return *fields[i].value;
}

static const char *field(const char *name)
{
    for (int i = 0; i < the_response.fields; i++) {
        if (strcmp(the_response.names[i], name) == 0)
            return the_response.values[i];
    }
    return NULL;
}

static struct sk_cors *open_list(const char *list)
{
    FILE *err = fmemopen(said, sizeof said, "w");
    said[0] = '\0';
    struct sk_cors *cors = sk_cors_open(list, err);
    (void)fclose(err);
    return cors;
}

static unsigned origin_of(const struct sk_cors *cors, const char *value)
{
    static const struct sk_request request;
    origin = value;
    origins = 1;
    return sk_cors_origin_of(cors, &request);
}

// ---- the list ----

TEST(origins_are_read)
{
    static const char *const good[] = {SHOP, "http://localhost:3000", "http://127.0.0.1:1", "http://10.0.0.1:65535",
                                       "http://[::1]", SHOP ":8443", "http://shop.example:443", SHOP ":80",
                                       "http://[2001:db8::1]:8080", "capacitor://localhost",
                                       "chrome-extension://abcdefghijklmnop", "https://xn--bcher-kva.example",
                                       // an underscore, and no port
                                       "https://a_b.example", "http://shop.example"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct sk_cors *cors = open_list(good[i]);
        ck_assert_msg(cors != NULL, "%s: %s", good[i], said);
        ck_assert_uint_eq(sk_cors_count(cors), 1);
        ck_assert_uint_eq(origin_of(cors, good[i]), 1);
        sk_cors_close(cors);
    }
}

TEST(what_no_browser_sends_is_no_start)
{
    static const char *const wrong[] = {
        // no origin
        "", " , ", "*", "null", "shop.example", "https://", "https:shop.example", "https//shop.example",
        "://shop.example", "1http://shop.example", "https://*.shop.example",
        // more than an origin, or another spelling
        "https://shop.example/", "https://shop.example/path", "https://shop.example?x", "https://shop.example#x",
        "https://user@shop.example", "https://Shop.example", "HTTPS://shop.example", "https://b\xc3\xbc.example",
        // ports
        "https://shop.example:", "https://shop.example:0", "https://shop.example:65536", "https://shop.example:08443",
        "https://shop.example:x", "https://shop.example:443", "http://shop.example:80",
        // addresses
        "http://[]", "http://[::1", "http://[::1]x", "http://[::g]",
        // lists
        SHOP " " SHOP, SHOP ";http://other.example", SHOP ",*", SHOP ",,https://other.example/"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ck_assert_msg(open_list(wrong[i]) == NULL, "'%s' is accepted", wrong[i]);
        ck_assert_msg(strncmp(said, "seckill: SECKILL_CORS_ORIGINS: origin ", 38) == 0, "%s", said);
        ck_assert_ptr_eq(strchr(said, '\n'), said + strlen(said) - 1);
    }
}

TEST(there_are_sixteen_at_most)
{
    char list[LIST_SIZE] = "", longest[SK_CORS_ORIGIN_SIZE + 1], last[32];
    size_t n = 0;
    for (int i = 1; i <= SK_CORS_ORIGINS_MAX; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%shttps://s%d.example", i % 2 == 0 ? ",\t" : " ", i);
    struct sk_cors *cors = open_list(list);
    ck_assert_uint_eq(sk_cors_count(cors), SK_CORS_ORIGINS_MAX);
    for (unsigned i = 1; i <= SK_CORS_ORIGINS_MAX; i++) {
        (void)snprintf(last, sizeof last, "https://s%u.example", i);
        ck_assert_uint_eq(origin_of(cors, last), i);
    }
    sk_cors_close(cors);
    (void)snprintf(list + n, sizeof list - n, " https://one-more.example");
    ck_assert_ptr_null(open_list(list));
    memset(longest, 'a', sizeof longest);
    memcpy(longest, SHOP, sizeof SHOP - 1);
    longest[SK_CORS_ORIGIN_SIZE - 1] = '\0';
    cors = open_list(longest);
    ck_assert_ptr_nonnull(cors);
    sk_cors_close(cors);
    longest[SK_CORS_ORIGIN_SIZE - 1] = 'a';
    longest[SK_CORS_ORIGIN_SIZE] = '\0';
    ck_assert_ptr_null(open_list(longest));
}

TEST(none_are_none)
{
    struct sk_cors *cors = open_list(NULL);
    ck_assert_uint_eq(sk_cors_count(cors), 0);
    ck_assert_uint_eq(origin_of(cors, SHOP), 0);
    sk_cors_close(cors);
    sk_cors_close(NULL);
}

// ---- requests ----

TEST(only_the_very_origin_counts)
{
    static const struct sk_request request;
    static const char *const others[] = {// similar, longer and shorter ones
                                         "",
                                         "null",
                                         "*",
                                         "https://shop.example:443",
                                         "https://shop.example/",
                                         "http://shop.example",
                                         "https://shop.exampl",
                                         "https://shop.example.evil.example",
                                         "https://evilshop.example",
                                         "https://Shop.example",
                                         SHOP " " SHOP,
                                         SHOP ","};
    struct sk_cors *cors = open_list("https://m.shop.example " SHOP);
    ck_assert_uint_eq(origin_of(cors, SHOP), 2);
    ck_assert_uint_eq(origin_of(cors, "https://m.shop.example"), 1);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        ck_assert_msg(origin_of(cors, others[i]) == 0, "%s", others[i]);
    ck_assert_uint_eq(origin_of(cors, NULL), 0);
    origin = SHOP;
    origins = 2; // one of two fields
    ck_assert_uint_eq(sk_cors_origin_of(cors, &request), 0);
    sk_cors_close(cors);
}

TEST(pages_of_other_sites_are_foreign)
{
    static const struct {
        const char *site, *origin, *host;
        bool foreign;
    } rows[] = {
        {NULL, NULL, "shop.example", false}, // not a browser
        {NULL, NULL, NULL, false},
        {"same-origin", "https://www.example", "www.example", false},
        {"same-origin", "null", "www.example", false}, // pages without referrer send null even to their own origin
        {"same-origin", "https://evil.example", "www.example", false}, // no page can make its browser send this
        {"none", NULL, "www.example", false},
        {"cross-site", NULL, "www.example", true},
        {"cross-site", "https://evil.example", "www.example", true},
        {"cross-site", "null", "www.example", true},
        {"cross-site", "https://www.example", "www.example", true},
        {"cross-site", SHOP, "www.example", false}, // listed
        {"same-site", SHOP, "www.example", false},
        {NULL, SHOP, "www.example", false},
        {"same-site", NULL, "www.example", true},
        {"same-site", "https://user-page.example", "www.example", true},
        {"same-site", "https://www.example", "www.example", false},
        {"", NULL, "www.example", true}, // no browser sends this
        {"Same-Origin", NULL, "www.example", true},
        {"else", "https://www.example", "www.example", false},
        {NULL, "null", "www.example", true},
        {NULL, "", "", true},
        {NULL, "https://", "", true},
        {NULL, "https://www.example", NULL, true},
        {NULL, "https://www.example", "www.example", false},
        {NULL, "http://www.example", "www.example", false}, // the gateway may or may not use TLS
        {NULL, "https://www.example", "WWW.example", false},
        {NULL, "https://www.example", "www.example:443", false},
        {NULL, "http://www.example", "www.example:80", false},
        {NULL, "http://www.example", "www.example:443", true},
        {NULL, "https://www.example", "www.example:8443", true},
        {NULL, "https://www.example:8443", "www.example:8443", false},
        {NULL, "https://www.example:8443", "www.example", true},
        {NULL, "http://[::1]:8080", "[::1]:8080", false},
        {NULL, "https://www.example", "www.example.evil", true},
        {NULL, "https://www.example.evil", "www.example", true},
        {NULL, "https://evil-www.example", "www.example", true},
        {NULL, "https://www", "www.example", true},
        {NULL, "ftp://www.example", "www.example", true},
        {NULL, "www.example", "www.example", true},
        {NULL, "https://m.shop.example", "www.example", true}, // similar to a listed one
    };
    static const struct sk_request request = {.method = SK_METHOD_POST, .names = UINT64_MAX};
    struct sk_cors *cors = open_list(SHOP);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        site = rows[i].site;
        origin = rows[i].origin;
        host = rows[i].host;
        origins = 1;
        ck_assert_msg(sk_cors_is_foreign(cors, &request) == rows[i].foreign, "row %zu", i);
    }
    site = NULL;
    host = "www.example";
    origin = "https://www.example";
    origins = 2; // sent twice: the service must not choose one
    ck_assert(sk_cors_is_foreign(cors, &request));
    sk_cors_close(cors);
    site = host = NULL;
}

TEST(a_preflight_is_options_that_asks_for_a_method)
{
    for (int method = SK_METHOD_GET; method <= SK_METHOD_UNKNOWN; method++) {
        struct sk_request request = {.method = (enum sk_method)method};
        asked_method = "POST";
        ck_assert(sk_cors_is_preflight(&request) == (method == SK_METHOD_OPTIONS));
        asked_method = NULL;
        ck_assert(!sk_cors_is_preflight(&request));
    }
}

// ---- answers ----

TEST(answers_are_marked_for_their_origin)
{
    struct sk_cors *cors = open_list("https://m.shop.example " SHOP);
    the_response = (struct sk_response){.fields = 0};
    sk_cors_mark(cors, 2, &the_response);
    ck_assert_str_eq(field("Access-Control-Allow-Origin"), SHOP);
    ck_assert_str_eq(field("Vary"), "Origin");
    ck_assert_str_eq(field("Access-Control-Allow-Credentials"), "true");
    static const char *const exposed[] = {"Location", "Retry-After",      "ETag",           "Link", "RateLimit",
                                          "Allow",    "RateLimit-Policy", "Idempotency-Key"};
    for (size_t i = 0; i < sizeof exposed / sizeof exposed[0]; i++)
        ck_assert_msg(strstr(field("Access-Control-Expose-Headers"), exposed[i]) != NULL, "%s", exposed[i]);
    // Other origins get no access, and Vary tells caches that the origin counts.
    the_response = (struct sk_response){.fields = 0};
    sk_cors_mark(cors, 0, &the_response);
    ck_assert_int_eq(the_response.fields, 1);
    ck_assert_str_eq(field("Vary"), "Origin");
    sk_cors_close(cors);
}

TEST(a_preflight_is_told_all_that_may_be_sent)
{
    static const char *const headers[] = {"Authorization", "Content-Type", "Idempotency-Key",
                                          "If-Match",      "Prefer",       "X-Seckill-Ticket",
                                          "X-User-Id",     "traceparent",  "If-None-Match"};
    struct sk_cors *cors = open_list(SHOP);
    ck_assert_ptr_eq(sk_cors_preflight(cors, 1), &the_response);
    ck_assert_str_eq(field("Access-Control-Allow-Origin"), SHOP);
    ck_assert_str_eq(field("Access-Control-Allow-Methods"), "GET, HEAD, POST, PATCH");
    ck_assert_str_eq(field("Access-Control-Max-Age"), "7200");
    ck_assert_str_eq(field("Vary"), "Origin");
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        ck_assert_msg(strstr(field("Access-Control-Allow-Headers"), headers[i]) != NULL, "%s", headers[i]);
    sk_cors_close(cors);
}
