// Which form of a page is answered, with which headers, and when all answers share one response. Pages, responses and
// requests are fakes: libmicrohttpd shows a response's headers only to clients.
#include <stdio.h>
#include <string.h>

#include "cors.h"
#include "pages.h"
#include "test.h"

enum { FIELDS = 12, FIELD_SIZE = 400, RESPONSES = 64, TAG_SIZE = 32 };

#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

static const unsigned char text[] = "the page as it is", packed[] = "packed", script[] = "a script";
const struct sk_embedded_page sk_embedded_pages[] = {
    {"/web/a.js", "text/javascript; charset=utf-8", script, sizeof script, NULL, 0},
    {"/", "text/html; charset=utf-8", text, sizeof text, packed, sizeof packed},
};
const size_t sk_embedded_page_count = COUNT(sk_embedded_pages);

// ---- responses and requests ----

struct sk_response {
    const char *type, *body;
    size_t len;
    char names[FIELDS][FIELD_SIZE], values[FIELDS][FIELD_SIZE];
    int fields;
    bool used;
};

static struct sk_response responses[RESPONSES], *sent;
static int made, made_most; // made_most: the number of responses after which none can be made
static unsigned status;
static struct sk_pages *pages;
static struct sk_request asked;
static const char *accepts, *has; // request headers; NULL: not sent

struct sk_response *sk_response_of(const char *type, const char *body, size_t len)
{
    int i = 0;
    while (i < RESPONSES && responses[i].used)
        i++;
    ck_assert_int_lt(i, RESPONSES);
    if (made == made_most)
        return NULL;
    made++;
    responses[i] = (struct sk_response){.type = type, .body = body, .len = len, .used = true};
    return &responses[i];
}

struct sk_response *sk_response_new(const char *type, const char *body, size_t len)
{
    return sk_response_of(type, body, len);
}

void sk_response_header(struct sk_response *response, const char *name, const char *value)
{
    if (response == NULL)
        return;
    ck_assert_int_lt(response->fields, FIELDS);
    ck_assert_uint_lt(strlen(value), FIELD_SIZE);
    (void)snprintf(response->names[response->fields], FIELD_SIZE, "%s", name);
    (void)snprintf(response->values[response->fields++], FIELD_SIZE, "%s", value);
}

void sk_response_free(struct sk_response *response)
{
    if (response != NULL)
        response->used = false;
}

void sk_request_answer(struct sk_request *request, unsigned http_status, struct sk_response *response)
{
    ck_assert_ptr_eq(request, &asked);
    status = http_status;
    sent = response;
}

const char *sk_request_header(const struct sk_request *request, const char *name, unsigned *count)
{
    ck_assert_ptr_eq(request, &asked);
    const char *value = strcmp(name, "accept-encoding") == 0 ? accepts
                        : strcmp(name, "if-none-match") == 0 ? has
                                                             : NULL;
    if (count != NULL)
        *count = value != NULL;
    return value;
}

static int in_use(void)
{
    int count = 0;
    for (int i = 0; i < RESPONSES; i++)
        count += responses[i].used;
    return count;
}

static const char *field(const char *name)
{
    const char *value = NULL;
    for (int i = 0; i < sent->fields; i++) {
        if (strcmp(sent->names[i], name) != 0)
            continue;
        ck_assert_msg(value == NULL, "%s is there twice", name);
        value = sent->values[i];
    }
    return value == NULL ? "" : value;
}

static void ask(const char *path, bool keep_alive, unsigned with)
{
    asked = (struct sk_request){.path = path};
    sent = NULL;
    ck_assert(sk_pages_answer(pages, &asked, keep_alive));
    ck_assert_ptr_nonnull(sent);
    ck_assert_uint_eq(status, with);
}

static void setup(void)
{
    made = 0;
    made_most = -1;
    accepts = has = NULL;
    pages = sk_pages_open(SK_AUTH_GATEWAY, &(struct sk_api_options){0}, NULL, stderr);
    ck_assert_ptr_nonnull(pages);
}

static void teardown(void)
{
    sk_pages_close(pages);
    ck_assert_int_eq(in_use(), 0);
}

// ---- the tests ----

static void must_be_guarded(void)
{
    ck_assert_str_eq(field("Cache-Control"), "no-cache");
    ck_assert_str_eq(field("Vary"), "Accept-Encoding");
    ck_assert_str_eq(field("X-Content-Type-Options"), "nosniff");
    ck_assert_str_eq(field("Referrer-Policy"), "no-referrer");
    ck_assert_str_eq(field("Cross-Origin-Opener-Policy"), "same-origin");
    ck_assert_str_eq(field("Content-Security-Policy"),
                     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
                     "form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; img-src 'self'");
}

TEST(a_page_is_answered_as_it_is_or_packed)
{
    char tags[2][TAG_SIZE];
    for (int form = 0; form < 2; form++) {
        accepts = form == 0 ? NULL : "gzip, br";
        ask("/", true, 200);
        ck_assert_str_eq(sent->type, "text/html; charset=utf-8");
        ck_assert_ptr_eq(sent->body, form == 0 ? (const char *)text : (const char *)packed); // not copied
        ck_assert_uint_eq(sent->len, form == 0 ? sizeof text : sizeof packed);
        ck_assert_str_eq(field("Content-Encoding"), form == 0 ? "" : "gzip");
        must_be_guarded();
        ck_assert_uint_eq(strlen(field("ETag")), 18);
        (void)snprintf(tags[form], TAG_SIZE, "%s", field("ETag"));
    }
    ck_assert_str_ne(tags[0], tags[1]);
    ask("/web/a.js", true, 200); // packing would not make it shorter
    ck_assert_str_eq(sent->type, "text/javascript; charset=utf-8");
    ck_assert_ptr_eq(sent->body, (const char *)script);
    ck_assert_str_eq(field("Content-Encoding"), "");
}

TEST(who_has_it_does_not_take_it_again)
{
    static const struct {
        const char *format; // %s: the tag
        bool same;
    } rows[] = {
        {"%s", true},     {"*", true}, {"W/%s", true},   {"\"a\", %s, \"b\"", true},
        {"\"a\"", false}, {"", false}, {"\"*\"", false}, {"\"0123456789abcdef\"", false},
        {"%.17s", false},
    };
    char tags[2][TAG_SIZE], value[2 * TAG_SIZE];
    for (int form = 0; form < 2; form++) {
        accepts = form == 0 ? NULL : "gzip";
        has = NULL;
        ask("/", true, 200);
        (void)snprintf(tags[form], TAG_SIZE, "%s", field("ETag"));
        for (size_t i = 0; i < COUNT(rows); i++) {
            (void)snprintf(value, sizeof value, rows[i].format, tags[form]);
            has = value;
            ask("/", true, rows[i].same ? 304 : 200);
            ck_assert_str_eq(field("ETag"), tags[form]);
            must_be_guarded(); // a browser takes these headers from the 304
            ck_assert_uint_eq(asked.trace.bytes, rows[i].same ? 0 : sent->len);
            if (rows[i].same)
                ck_assert(sent->type == NULL && sent->len == 0 && field("Content-Encoding")[0] == '\0');
        }
    }
    accepts = "gzip";
    has = tags[0]; // the tag of the other encoding
    ask("/", true, 200);
}

TEST(answers_are_made_once)
{
    int before = made;
    for (int i = 0; i < 3; i++) {
        has = i == 2 ? "*" : NULL;
        ask("/", true, i == 2 ? 304 : 200);
        ck_assert_str_eq(field("Connection"), "");
    }
    ck_assert_int_eq(made, before);
    has = NULL;
    ask("/", false, 200); // this one closes its connection
    ck_assert_str_eq(field("Connection"), "close");
    must_be_guarded();
    ck_assert_int_eq(made, before + 1);
    ask("/", true, 200);
    ck_assert_str_eq(field("Connection"), "");
}

TEST(what_is_no_page_is_not_answered)
{
    static const char *const paths[] = {
        "",           "/x", "/web/",    "/web", "/web/a.jsx", "/web/A.js", "/web/a.js/", "/web/../", "/web/%2e%2e/a.js",
        "/web//a.js", "//", "/web/a.j", "/pay", "/admin/ui"}; // the fakes do not have these
    for (size_t i = 0; i < COUNT(paths); i++) {
        asked = (struct sk_request){.path = paths[i]};
        sent = NULL;
        ck_assert_msg(!sk_pages_answer(pages, &asked, true), "%s", paths[i]);
        ck_assert_ptr_null(sent);
    }
}

TEST(the_settings_are_told)
{
    for (int i = 0; i < 4; i++) {
        char wanted[TAG_SIZE * 4];
        sk_pages_close(pages);
        char login[] = "https://shop.example/login?to=x";
        struct sk_api_options options = {.demo = (i & 2) != 0, .login_url = (i & 2) != 0 ? login : NULL};
        pages = sk_pages_open((i & 1) != 0 ? SK_AUTH_TOKEN : SK_AUTH_GATEWAY, &options, NULL, stderr);
        ask("/web/settings.json", true, 200);
        (void)snprintf(wanted, sizeof wanted, "{\"auth\":\"%s\",\"demo\":%s,\"version\":\"%s\"%s,\"pictures\":[]}\n",
                       (i & 1) != 0 ? "token" : "gateway", (i & 2) != 0 ? "true" : "false", SK_VERSION,
                       (i & 2) != 0 ? ",\"login\":\"https://shop.example/login?to=x\"" : "");
        ck_assert_uint_eq(sent->len, strlen(wanted));
        ck_assert_int_eq(memcmp(sent->body, wanted, sent->len), 0);
        ck_assert_str_eq(sent->type, "application/json");
        must_be_guarded();
    }
}

TEST(pictures_come_from_listed_origins)
{
    struct sk_cors *origins = sk_cors_open_list("SECKILL_PICTURE_ORIGINS", "https://a.example, http://b:8000", stderr);
    ck_assert_ptr_nonnull(origins);
    sk_pages_close(pages);
    pages = sk_pages_open(SK_AUTH_GATEWAY, &(struct sk_api_options){0}, origins, stderr);
    sk_cors_close(origins);
    static const char end[] = "; img-src 'self' https://a.example http://b:8000";
    for (int i = 0; i < 2; i++) {
        ask(i == 0 ? "/" : "/web/settings.json", true, 200);
        const char *policy = field("Content-Security-Policy");
        ck_assert_str_eq(policy + strlen(policy) - strlen(end), end);
    }
    static const char listed[] = ",\"pictures\":[\"https://a.example\",\"http://b:8000\"]}\n";
    ck_assert_uint_gt(sent->len, strlen(listed));
    ck_assert_int_eq(memcmp(sent->body + sent->len - strlen(listed), listed, strlen(listed)), 0);
}

TEST(a_login_is_a_url)
{
    char texts[][24] = {"nowhere", "https://shop.example/\"", "javascript:alert(1)", ""};
    for (size_t i = 0; i < COUNT(texts); i++) {
        char *said = NULL;
        size_t len = 0;
        FILE *err = open_memstream(&said, &len);
        ck_assert_ptr_nonnull(err);
        ck_assert_msg(sk_pages_open(SK_AUTH_TOKEN, &(struct sk_api_options){.login_url = texts[i]}, NULL, err) == NULL,
                      "%s", texts[i]);
        ck_assert_int_eq(fclose(err), 0);
        ck_assert_ptr_nonnull(strstr(said, "SECKILL_LOGIN_URL: "));
        free(said);
    }
}

TEST(without_memory_there_is_no_start)
{
    int all = made;
    for (int most = 0; most < all; most++) {
        made = 0;
        made_most = most;
        ck_assert_ptr_null(sk_pages_open(SK_AUTH_GATEWAY, &(struct sk_api_options){0}, NULL, stderr));
    }
    made_most = made;
    asked = (struct sk_request){.path = "/"};
    ck_assert(sk_pages_answer(pages, &asked, false));
    ck_assert_ptr_null(sent); // this closes the connection
}

SUITE(.setup = setup, .teardown = teardown);
