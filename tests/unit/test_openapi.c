// web/openapi.json against the tables of routes and verdicts, and its references against its own content.
// tests/contract checks that it is valid OpenAPI 3.1, and that the service conforms to it.
#include <jansson.h>
#include <string.h>

#include "pages.h"
#include "route_table.h"
#include "test.h"

enum { NAME_SIZE = 128, NAMES_SIZE = 1024 };

static const struct sk_embedded_page *const file = &sk_embedded_openapi;
static json_t *document;

static void setup(void)
{
    json_error_t error;
    document = json_loadb((const char *)file->text, file->len, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(document != NULL, "%s in line %d", error.text, error.line);
}

static void teardown(void)
{
    json_decref(document);
}

// "#/a/b/c": no name here contains / or ~. NULL: there is no such value.
static const json_t *at(const char *pointer)
{
    const json_t *value = document;
    char part[NAME_SIZE];
    ck_assert_msg(pointer[0] == '#', "%s", pointer);
    pointer++;
    while (*pointer == '/' && value != NULL) {
        size_t len = strcspn(pointer + 1, "/");
        ck_assert_uint_lt(len, sizeof part);
        (void)snprintf(part, sizeof part, "%.*s", (int)len, pointer + 1);
        value = json_object_get(value, part);
        pointer += len + 1;
    }
    return value;
}

// The value, or what it refers to.
static const json_t *meant(const json_t *value)
{
    const char *reference = json_string_value(json_object_get(value, "$ref"));
    return reference == NULL ? value : at(reference);
}

static const char *text_of(const json_t *object, const char *member)
{
    const char *text = json_string_value(json_object_get(object, member));
    return text == NULL ? "" : text;
}

static bool lists(const json_t *array, const char *text)
{
    json_t *one;
    size_t i;
    json_array_foreach(array, i, one)
    {
        if (strcmp(json_string_value(one), text) == 0)
            return true;
    }
    return false;
}

// ---- references ----

static void references_lead_somewhere(const json_t *value)
{
    const char *name, *reference = json_string_value(json_object_get(value, "$ref"));
    json_t *member;
    size_t i;
    if (reference != NULL)
        ck_assert_msg(at(reference) != NULL, "%s leads nowhere", reference);
    json_object_foreach((json_t *)value, name, member) references_lead_somewhere(member);
    json_array_foreach(value, i, member) references_lead_somewhere(member);
}

TEST(every_reference_leads_somewhere)
{
    references_lead_somewhere(document);
    ck_assert_ptr_null(at("#/components/schemas/Nothing"));
}

// Clients use SaleEvent: it describes what is within a text.
TEST(each_part_of_the_document_is_used)
{
    static const char *const kinds[] = {"schemas", "parameters", "headers", "requestBodies", "responses", "examples"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const char *name;
        json_t *value;
        char reference[NAME_SIZE];
        json_object_foreach(json_object_get(json_object_get(document, "components"), kinds[i]), name, value)
        {
            (void)snprintf(reference, sizeof reference, "\"#/components/%s/%s\"", kinds[i], name);
            ck_assert_msg(memmem(file->text, file->len, reference, strlen(reference)) != NULL ||
                              strcmp(name, "SaleEvent") == 0,
                          "%s is not used", reference);
        }
    }
}

TEST(the_version_is_the_programs)
{
    ck_assert_str_eq(text_of(json_object_get(document, "info"), "version"), SK_VERSION);
}

// ---- calls ----

static const char *const methods[] = {[SK_ROUTE_GET] = "get", [SK_ROUTE_POST] = "post", [SK_ROUTE_PATCH] = "patch"};

static const json_t *operation_of(const struct sk_route *route)
{
    const json_t *path = json_object_get(json_object_get(document, "paths"), route->pattern);
    const json_t *operation = json_object_get(path, methods[route->method]);
    ck_assert_msg(operation != NULL, "%s %s is not in the document", methods[route->method], route->pattern);
    return operation;
}

// The next row that is a call; NULL: the first one, and after the last.
static const struct sk_route *call_after(const struct sk_route *route)
{
    const struct sk_route *end = sk_route_table + sk_route_count;
    route = route == NULL ? sk_route_table : route + 1;
    while (route < end && route->query == NULL)
        route++;
    return route < end ? route : NULL;
}

TEST(every_call_is_there_once)
{
    json_t *names = json_object();
    size_t calls = 0, found = 0;
    const char *pattern;
    json_t *path;
    for (const struct sk_route *route = call_after(NULL); route != NULL; route = call_after(route)) {
        const json_t *operation = operation_of(route);
        const char *name = text_of(operation, "operationId");
        ck_assert_uint_gt(strlen(text_of(operation, "summary")), 0);
        ck_assert_uint_gt(strlen(name), 0);
        ck_assert_msg(json_object_get(names, name) == NULL, "two are named %s", name);
        ck_assert_int_eq(json_object_set_new(names, name, json_true()), 0);
        calls++;
    }
    json_object_foreach(json_object_get(document, "paths"), pattern, path) found += json_object_size(path);
    ck_assert_uint_eq(found, calls);
    json_decref(names);
}

// All schemes send Authorization. A generated client sends what its one callback gives for every scheme of a call, so
// what the gateway sets and what is computed for a request are parameters, and `{}` stands for them.
static const struct {
    const char *security, *headers;
} of_callers[] = {
    [SK_ROUTE_PROBER] = {"[]", ""},
    [SK_ROUTE_ANYONE] = {"[]", ""},
    [SK_ROUTE_USER] = {"[{},{\"userToken\":[]}]", "X-User-Id "},
    [SK_ROUTE_USER_OR_READ] = {"[{},{\"userToken\":[]},{\"adminToken\":[\"read\"]}]", "X-User-Id "},
    [SK_ROUTE_READ] = {"[{\"adminToken\":[\"read\"]}]", ""},
    [SK_ROUTE_OPERATE] = {"[{\"adminToken\":[\"operate\"]}]", ""},
    [SK_ROUTE_REFUNDS] = {"[{\"adminToken\":[\"refunds\"]}]", ""},
    [SK_ROUTE_PAYMENTS] = {"[{\"adminToken\":[\"payments\"]},{}]", "X-Seckill-Timestamp X-Seckill-Signature "},
    [SK_ROUTE_SCRAPER] = {"[{\"adminToken\":[\"metrics\"]}]", ""},
};

// The names of those in this part of a request, each followed by a blank.
static void names_of(const json_t *parameters, const char *in, char names[NAMES_SIZE])
{
    json_t *one;
    size_t i, len = 0;
    names[0] = '\0';
    json_array_foreach(parameters, i, one)
    {
        const json_t *parameter = meant(one);
        if (strcmp(text_of(parameter, "in"), in) == 0)
            len += (size_t)snprintf(names + len, NAMES_SIZE - len, "%s ", text_of(parameter, "name"));
        ck_assert_uint_lt(len, NAMES_SIZE);
    }
}

TEST(each_call_has_its_callers_and_parameters)
{
    char names[NAMES_SIZE], expected[NAMES_SIZE];
    for (const struct sk_route *route = call_after(NULL); route != NULL; route = call_after(route)) {
        const json_t *parameters = json_object_get(operation_of(route), "parameters");
        char *security = json_dumps(json_object_get(operation_of(route), "security"), JSON_COMPACT);
        size_t len = 0;
        ck_assert_str_eq(security, of_callers[route->caller].security);
        free(security);
        names_of(parameters, "query", names);
        (void)snprintf(expected, sizeof expected, "%s%s", route->query, route->query[0] == '\0' ? "" : " ");
        ck_assert_str_eq(names, expected);
        names_of(parameters, "path", names);
        expected[0] = '\0';
        for (const char *part = route->pattern; (part = strchr(part, '{')) != NULL; part++)
            len +=
                (size_t)snprintf(expected + len, sizeof expected - len, "%.*s ", (int)strcspn(part + 1, "}"), part + 1);
        ck_assert_str_eq(names, expected);
        names_of(parameters, "header", names);
        ck_assert_msg(strstr(names, of_callers[route->caller].headers) != NULL, "%s: %s", route->pattern, names);
        ck_assert_msg(strstr(names, "traceparent ") != NULL, "%s: %s", route->pattern, names);
        ck_assert_msg(route->body == SK_ROUTE_NO_BODY || json_object_get(operation_of(route), "requestBody") != NULL,
                      "%s takes a body", route->pattern);
    }
}

// ---- answers ----

static const json_t *response_of(const struct sk_route *route, unsigned status)
{
    char number[16];
    (void)snprintf(number, sizeof number, "%u", status);
    return meant(json_object_get(json_object_get(operation_of(route), "responses"), number));
}

static bool lists_code(const json_t *response, const char *code)
{
    const json_t *content = json_object_get(json_object_get(response, "content"), "application/problem+json");
    const json_t *parts = json_object_get(json_object_get(content, "schema"), "allOf");
    const json_t *properties = json_object_get(json_array_get(parts, 1), "properties");
    bool listed = lists(json_object_get(json_object_get(properties, "code"), "enum"), code);
    char quoted[NAME_SIZE];
    (void)snprintf(quoted, sizeof quoted, "`%s`", code);
    ck_assert_int_eq(listed, json_object_get(json_object_get(content, "examples"), code) != NULL);
    ck_assert_int_eq(listed, strstr(text_of(response, "description"), quoted) != NULL);
    return listed;
}

TEST(each_call_has_its_codes)
{
    for (const struct sk_route *route = call_after(NULL); route != NULL; route = call_after(route)) {
        for (int i = 0; i < SK_VERDICT_COUNT; i++) {
            bool can = (sk_route_verdicts(route) & SK_VERDICT_BIT(i)) != 0;
            unsigned status = sk_verdict_http_status((enum sk_verdict)i);
            const char *code = sk_verdict_code((enum sk_verdict)i);
            if (status >= 400)
                ck_assert_msg(lists_code(response_of(route, status), code) == can, "%s: %s", route->pattern, code);
            else
                ck_assert_msg(!can || response_of(route, status) != NULL, "%s: %u", route->pattern, status);
        }
    }
}

// With the headers that clients act on.
static const struct {
    const char *status, *header;
} of_statuses[] = {{"401", "WWW-Authenticate"}, {"405", "Allow"}, {"429", "Retry-After"}, {"429", "RateLimit"},
                   {"429", "RateLimit-Policy"}, {"501", "Allow"}, {"503", "Retry-After"}};

TEST(each_call_has_its_statuses_and_their_headers)
{
    for (const struct sk_route *route = call_after(NULL); route != NULL; route = call_after(route)) {
        const char *number;
        json_t *response;
        json_object_foreach(json_object_get(operation_of(route), "responses"), number, response)
        {
            const json_t *headers = json_object_get(meant(response), "headers");
            bool known = strcmp(number, "304") == 0 || strcmp(number, "204") == 0; // which come without a code
            for (int i = 0; i < SK_VERDICT_COUNT; i++)
                known |= (sk_route_verdicts(route) & SK_VERDICT_BIT(i)) != 0 &&
                         sk_verdict_http_status((enum sk_verdict)i) == strtoul(number, NULL, 10);
            ck_assert_msg(known, "%s: %s", route->pattern, number);
            ck_assert_msg(json_object_get(headers, "traceparent") != NULL, "%s: %s", route->pattern, number);
            ck_assert_msg(number[0] < '4' || json_object_get(headers, "Cache-Control") != NULL, "%s: %s",
                          route->pattern, number);
            for (size_t i = 0; i < sizeof of_statuses / sizeof of_statuses[0]; i++)
                ck_assert_msg(strcmp(number, of_statuses[i].status) != 0 ||
                                  json_object_get(headers, of_statuses[i].header) != NULL,
                              "%s: %s without %s", route->pattern, number, of_statuses[i].header);
        }
    }
}

// ---- codes ----

TEST(each_code_is_one_that_a_call_can_give_and_has_its_example)
{
    uint64_t given = 0;
    size_t problems = 0;
    const json_t *codes = at("#/components/schemas/ProblemCode");
    for (const struct sk_route *route = call_after(NULL); route != NULL; route = call_after(route))
        given |= sk_route_verdicts(route);
    for (int i = 0; i < SK_VERDICT_COUNT; i++) {
        enum sk_verdict verdict = (enum sk_verdict)i;
        char pointer[NAME_SIZE], type[NAME_SIZE];
        const char *code = sk_verdict_code(verdict);
        ck_assert_msg((given & SK_VERDICT_BIT(i)) != 0, "no call can give %s: name it in route_table.c", code);
        if (sk_verdict_http_status(verdict) < 400)
            continue;
        (void)snprintf(pointer, sizeof pointer, "#/components/examples/%s/value", code);
        (void)snprintf(type, sizeof type, SK_PROBLEM_TYPE "%s", code);
        ck_assert_msg(at(pointer) != NULL, "%s", pointer);
        ck_assert_str_eq(text_of(at(pointer), "type"), type);
        ck_assert_str_eq(text_of(at(pointer), "title"), sk_verdict_title(verdict));
        ck_assert_str_eq(text_of(at(pointer), "code"), code);
        ck_assert_int_eq(json_integer_value(json_object_get(at(pointer), "status")), sk_verdict_http_status(verdict));
        ck_assert_msg(lists(json_object_get(codes, "enum"), code), "%s", code);
        problems++;
    }
    ck_assert_uint_eq(json_array_size(json_object_get(codes, "enum")), problems);
    ck_assert_uint_eq(json_object_size(at("#/components/examples")), problems);
}

SUITE(.setup = setup, .teardown = teardown);
