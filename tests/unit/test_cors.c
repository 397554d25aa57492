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

struct page {
    const char *site, *origin, *host;
};
#define PAGE(site, origin, host) \
    {                            \
        site, origin, host       \
    }

static void must_be_foreign(const struct sk_cors *cors, bool foreign, const struct page *pages, size_t count)
{
    static const struct sk_request request = {.method = SK_METHOD_POST, .names = UINT64_MAX};
    for (size_t i = 0; i < count; i++) {
        site = pages[i].site;
        origin = pages[i].origin;
        host = pages[i].host;
        origins = 1;
        ck_assert_msg(sk_cors_is_foreign(cors, &request) == foreign, "%s: page %zu", foreign ? "foreign" : "ours", i);
    }
    origins = 2; // sent twice: the service must not choose one
    ck_assert(sk_cors_is_foreign(cors, &request));
}

TEST(pages_of_other_sites_are_foreign)
{
#define OWN  "https://www.example"
#define HOST "www.example"
#define EVIL "https://evil.example"
    static const struct page ours[] = {
        // not a browser
        PAGE(NULL, NULL, "shop.example"), PAGE(NULL, NULL, NULL),
        // no page can make its browser send these; one without a referrer sends null even to its own origin
        PAGE("same-origin", OWN, HOST), PAGE("same-origin", "null", HOST), PAGE("same-origin", EVIL, HOST),
        PAGE("none", NULL, HOST),
        // listed
        PAGE("cross-site", SHOP, HOST), PAGE("same-site", SHOP, HOST), PAGE(NULL, SHOP, HOST),
        // of the requested host, by whatever port and scheme: the gateway may or may not use TLS
        PAGE("same-site", OWN, HOST), PAGE("else", OWN, HOST), PAGE(NULL, "http://www.example", HOST),
        PAGE(NULL, OWN, "WWW.example"), PAGE(NULL, OWN, HOST ":443"), PAGE(NULL, "http://www.example", HOST ":80"),
        PAGE(NULL, OWN ":8443", HOST ":8443"), PAGE(NULL, "http://[::1]:8080", "[::1]:8080"), PAGE(NULL, OWN, HOST)};
    static const struct page foreign[] = {
        // of another site
        PAGE("cross-site", NULL, HOST), PAGE("cross-site", EVIL, HOST), PAGE("cross-site", "null", HOST),
        PAGE("cross-site", OWN, HOST), PAGE("same-site", NULL, HOST),
        PAGE("same-site", "https://user-page.example", HOST),
        // no browser sends these
        PAGE("", NULL, HOST), PAGE("Same-Origin", NULL, HOST),
        // no host, or not the requested one
        PAGE(NULL, "null", HOST), PAGE(NULL, "", ""), PAGE(NULL, "https://", ""), PAGE(NULL, OWN, NULL),
        PAGE(NULL, "http://www.example", HOST ":443"), PAGE(NULL, OWN, HOST ":8443"), PAGE(NULL, OWN ":8443", HOST),
        PAGE(NULL, OWN, HOST ".evil"), PAGE(NULL, OWN ".evil", HOST), PAGE(NULL, "https://evil-www.example", HOST),
        PAGE(NULL, "https://www", HOST), PAGE(NULL, "ftp://www.example", HOST), PAGE(NULL, HOST, HOST),
        // similar to a listed one
        PAGE(NULL, "https://m.shop.example", HOST)};
    struct sk_cors *cors = open_list(SHOP);
    must_be_foreign(cors, false, ours, sizeof ours / sizeof ours[0]);
    must_be_foreign(cors, true, foreign, sizeof foreign / sizeof foreign[0]);
    sk_cors_close(cors);
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
