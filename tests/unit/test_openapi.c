// The OpenAPI document against the tables that it is made from, and its references against its own content.
// tests/contract checks that it is valid OpenAPI 3.1, and that the service conforms to it.
#include <ctype.h>
#include <jansson.h>
#include <string.h>

#include "about.h"
#include "moves.h"
#include "pages.h"
#include "route_table.h"
#include "test.h"

static json_t *document;
static bool seen[SK_VERDICT_COUNT];

static void setup(void)
{
    struct sk_buf text = {0};
    json_error_t error;
    sk_openapi_put(&text);
    ck_assert(!text.failed);
    document = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(document != NULL, "%s at %d: %.60s", error.text, error.position,
                  text.data + (error.position > 30 ? error.position - 30 : 0));
    sk_buf_free(&text);
}

static void teardown(void)
{
    json_decref(document);
}

// "#/a/b": no name here contains / or ~.
static const json_t *at(const char *pointer)
{
    const json_t *value = document;
    char part[64];
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

static const json_t *operation_of(const struct sk_route *route)
{
    static const char *const methods[] = {[SK_ROUTE_GET] = "get", [SK_ROUTE_POST] = "post", [SK_ROUTE_PATCH] = "patch"};
    const json_t *path = json_object_get(json_object_get(document, "paths"), route->pattern);
    return json_object_get(path, methods[route->method]);
}

static void references_lead_somewhere(const json_t *value)
{
    const char *name;
    json_t *member;
    size_t i;
    const char *reference = json_string_value(json_object_get(value, "$ref"));
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

static bool lists_code(const json_t *operation, unsigned status, const char *code)
{
    char number[16];
    (void)snprintf(number, sizeof number, "%u", status);
    const json_t *response = json_object_get(json_object_get(operation, "responses"), number);
    const json_t *content = json_object_get(json_object_get(response, "content"), "application/problem+json");
    const json_t *parts = json_object_get(json_object_get(content, "schema"), "allOf");
    const json_t *properties = json_object_get(json_array_get(parts, 1), "properties");
    const json_t *codes = json_object_get(json_object_get(properties, "code"), "enum");
    json_t *one;
    size_t i;
    json_array_foreach(codes, i, one)
    {
        if (strcmp(json_string_value(one), code) == 0)
            return true;
    }
    return false;
}

// Each success status has exactly one description.
static void successes_are_described(const struct sk_route *route, const json_t *operation)
{
    const char *gives = route->doc.gives;
    size_t named = 0, statuses = 0;
    for (const char *name = gives; *name != '\0'; name += strspn(name, " ")) {
        named += !isdigit((unsigned char)*name);
        name += strcspn(name, " ");
    }
    for (int i = 0; i < SK_VERDICT_COUNT; i++) {
        unsigned status = sk_verdict_http_status((enum sk_verdict)i);
        char number[16];
        if (status >= 300 || (sk_route_verdicts(route) & SK_VERDICT_BIT(i)) == 0)
            continue;
        (void)snprintf(number, sizeof number, "%u", status);
        ck_assert_ptr_nonnull(json_object_get(json_object_get(operation, "responses"), number));
        statuses++;
    }
    ck_assert_msg(named == statuses && named > 0, "%s: %zu names, %zu statuses", route->doc.id, named, statuses);
}

// No handler, pages for people, and demo-only routes.
static bool is_no_call(const struct sk_route *route)
{
    return route->handle == sk_handle_not_found || route->handle == sk_handle_page ||
           route->handle == sk_handle_demo_page || route->handle == sk_handle_demo_pay ||
           route->handle == sk_handle_to_dashboard;
}

TEST(every_call_is_there_with_its_codes)
{
    size_t calls = 0, found = 0;
    const char *pattern;
    json_t *path;
    for (size_t n = 0; n < sk_route_count; n++) {
        const struct sk_route *route = &sk_route_table[n];
        if (route->doc.id == NULL) {
            ck_assert_msg(is_no_call(route), "%s is not documented", route->pattern);
            continue;
        }
        const json_t *operation = operation_of(route);
        calls++;
        ck_assert_msg(operation != NULL, "%s is not in the document", route->pattern);
        ck_assert_str_eq(json_string_value(json_object_get(operation, "operationId")), route->doc.id);
        ck_assert_uint_gt(strlen(json_string_value(json_object_get(operation, "summary"))), 0);
        ck_assert_msg((route->body == SK_ROUTE_NO_BODY) || route->doc.takes != NULL, "%s takes a body", route->doc.id);
        successes_are_described(route, operation);
        for (int i = 0; i < SK_VERDICT_COUNT; i++) {
            bool can = (sk_route_verdicts(route) & SK_VERDICT_BIT(i)) != 0;
            unsigned status = sk_verdict_http_status((enum sk_verdict)i);
            seen[i] = seen[i] || can;
            if (status >= 400)
                ck_assert_int_eq(lists_code(operation, status, sk_verdict_code((enum sk_verdict)i)), can);
        }
    }
    json_object_foreach(json_object_get(document, "paths"), pattern, path) found += json_object_size(path);
    ck_assert_uint_eq(found, calls);
}

TEST(every_code_is_one_that_a_call_can_give)
{
    for (size_t n = 0; n < sk_route_count; n++) {
        for (int i = 0; i < SK_VERDICT_COUNT; i++)
            seen[i] = seen[i] || (sk_route_verdicts(&sk_route_table[n]) & SK_VERDICT_BIT(i)) != 0;
    }
    for (int i = 0; i < SK_VERDICT_COUNT; i++) {
        char pointer[128];
        const char *code = sk_verdict_code((enum sk_verdict)i);
        ck_assert_msg(seen[i], "no call can give %s: name it in route_table.c", code);
        (void)snprintf(pointer, sizeof pointer, "#/components/examples/%s", code);
        if (sk_verdict_http_status((enum sk_verdict)i) >= 400)
            ck_assert_ptr_nonnull(at(pointer));
    }
}

TEST(names_of_calls_are_unique)
{
    for (size_t n = 0; n < sk_route_count; n++) {
        for (size_t m = n + 1; m < sk_route_count && sk_route_table[n].doc.id != NULL; m++) {
            if (sk_route_table[m].doc.id != NULL)
                ck_assert_str_ne(sk_route_table[n].doc.id, sk_route_table[m].doc.id);
        }
    }
}

TEST(each_part_of_the_document_is_used)
{
    static const char *const kinds[] = {"schemas", "parameters", "headers", "requestBodies", "responses"};
    struct sk_buf text = {0};
    sk_openapi_put(&text);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const char *name;
        json_t *value;
        char reference[128];
        json_object_foreach(json_object_get(json_object_get(document, "components"), kinds[i]), name, value)
        {
            (void)snprintf(reference, sizeof reference, "\"#/components/%s/%s", kinds[i], name);
            ck_assert_msg(strstr(text.data, reference) != NULL || strcmp(name, "SaleEvent") == 0, "%s is not used",
                          reference);
        }
    }
    sk_buf_free(&text);
}

SUITE(.setup = setup, .teardown = teardown);
