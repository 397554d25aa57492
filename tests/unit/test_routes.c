// Which handler a request comes to, with which ids; and by what it is refused if more than one thing is wrong with it.
//
// The handlers are replaced here by ones that tell who they are, and the server's functions by ones that keep what they
// are given.
#include <string.h>

#include "about.h"
#include "address.h"
#include "admin_lists.h"
#include "client_limits.h"
#include "config.h"
#include "creation.h"
#include "live.h"
#include "moves.h"
#include "operation.h"
#include "order_lookup.h"
#include "pages.h"
#include "purchase.h"
#include "response.h"
#include "route_table.h"
#include "routes.h"
#include "settlement_report.h"
#include "still_clock.h"
#include "test.h"
#include "ticket_calls.h"
#include "user_orders.h"
#include "vouchers.h"

#define ORDER        "018bcfe5-6800-7000-8000-0123456789ab"
#define TOKEN        "s3cret-of-16-chr"
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum { ALLOW_SIZE = 64, PATH_SIZE = 128, STORES = 3100 }; // ms of a call that asks the stores

static char the_token[] = TOKEN;
static char the_tokens[] = "reader read reader-token-0001\n"
                           "operator operate operator-token-01\n"
                           "shop payments payments-token-01\n";
static struct sk_config config;
static struct sk_routes_options options; // of its parts
static struct sk_routes *routes;
static struct sk_limits *limits; // NULL: none
static struct sk_request asked;
static const char *user, *token, *sent_type, *if_match; // the fields of the request; NULL: not sent
static unsigned if_matches;
static const char *origin, *asked_method; // of a browser; NULL: not sent
static const char method_asked[] = "access-control-request-method";
static const char *handled;
static uint64_t waits_ms;
static char allow[ALLOW_SIZE];
static bool query_bad;
enum { PARAMETERS_MAX = 4, BODY_SIZE = 640 };
static const char *parameters[PARAMETERS_MAX];  // names in the query
static char answered[BODY_SIZE], challenge[16]; // of the answer, if it was made for this request
static unsigned status;

#define HANDLER(name)                                                                   \
    void sk_handle_##name(const struct sk_context *context, struct sk_request *request) \
    {                                                                                   \
        (void)context;                                                                  \
        ck_assert_ptr_eq(request, &asked);                                              \
        handled = #name;                                                                \
    }

// clang-format off
HANDLER(buy) HANDLER(order) HANDLER(orders) HANDLER(cancel) HANDLER(pay) HANDLER(extend) HANDLER(refund) HANDLER(voucher)
HANDLER(events) HANDLER(ticket) HANDLER(vouchers) HANDLER(create) HANDLER(inspect) HANDLER(rebuild) HANDLER(change)
HANDLER(pause) HANDLER(resume) HANDLER(hold_expiry) HANDLER(release_expiry) HANDLER(close) HANDLER(stock) HANDLER(settlement) HANDLER(dead_letters)
HANDLER(admin_vouchers) HANDLER(admin_orders) HANDLER(admin_payments) HANDLER(find_orders) HANDLER(find_payment)
HANDLER(troubles) HANDLER(me) HANDLER(admin_events) HANDLER(order_events) HANDLER(requeue) HANDLER(write_off)
HANDLER(metrics) HANDLER(health) HANDLER(ready) HANDLER(not_found) HANDLER(openapi) HANDLER(instances) HANDLER(page)
HANDLER(demo_pay) HANDLER(to_dashboard) HANDLER(webhooks)

// What the routes open: that it is there, and closed, is all that matters.
static int opened;
// clang-format on

struct sk_document *sk_openapi_open(const struct sk_cors *cors)
{
    (void)cors;
    opened++;
    return (struct sk_document *)(void *)&opened;
}

void sk_document_close(struct sk_document *document)
{
    opened -= document != NULL;
}

struct sk_pages *sk_pages_open(enum sk_auth auth, const struct sk_api_options *api, const struct sk_cors *pictures,
                               FILE *err)
{
    (void)auth;
    (void)api;
    (void)pictures;
    (void)err;
    opened++;
    return (struct sk_pages *)(void *)&opened;
}

void sk_pages_close(struct sk_pages *pages)
{
    opened -= pages != NULL;
}

const char *sk_request_header(const struct sk_request *request, const char *name, unsigned *count)
{
    const char *value = strcmp(name, "x-user-id") == 0       ? user
                        : strcmp(name, "authorization") == 0 ? token
                        : strcmp(name, "content-type") == 0  ? sent_type
                        : strcmp(name, "if-match") == 0      ? if_match
                        : strcmp(name, "origin") == 0        ? origin
                        : strcmp(name, method_asked) == 0    ? asked_method
                                                             : NULL;
    (void)request;
    if (count != NULL)
        *count = value == NULL ? 0 : value == if_match ? if_matches : 1;
    return value;
}

bool sk_request_peer(const struct sk_request *request, struct sk_address *peer)
{
    (void)request;
    *peer = (struct sk_address){0};
    return true;
}

const char *sk_request_query(const struct sk_request *request, const char *name, unsigned *count)
{
    (void)request;
    *count = 0;
    for (size_t i = 0; parameters[i] != NULL; i++)
        *count += strcmp(parameters[i], name) == 0;
    return "";
}

bool sk_request_query_all(const struct sk_request *request, bool (*on_name)(void *arg, const char *name), void *arg)
{
    size_t i = 0;
    (void)request;
    while (parameters[i] != NULL && on_name(arg, parameters[i]))
        i++;
    return parameters[i] == NULL;
}

bool sk_request_is_json(const struct sk_request *request)
{
    (void)request;
    return sent_type != NULL && strcmp(sent_type, "application/json") == 0;
}

void sk_request_wait(struct sk_request *request, uint64_t ms)
{
    (void)request;
    waits_ms = ms;
}

void sk_request_answer(struct sk_request *request, unsigned http_status, struct sk_response *response)
{
    (void)request;
    (void)response;
    status = http_status;
}

struct sk_response *sk_response_new(const char *type, const char *body, size_t len)
{
    static char response; // any will do
    (void)type;
    (void)snprintf(answered, sizeof answered, "%.*s", (int)len, body);
    return (struct sk_response *)(void *)&response;
}

struct sk_response *sk_response_of(const char *type, const char *body, size_t len)
{
    return sk_response_new(type, body, len);
}

void sk_response_header(struct sk_response *response, const char *name, const char *value)
{
    (void)response;
    if (strcmp(name, "Allow") == 0)
        (void)snprintf(allow, sizeof allow, "%s", value);
    if (strcmp(name, "WWW-Authenticate") == 0)
        (void)snprintf(challenge, sizeof challenge, "%s", value);
}

void sk_response_free(struct sk_response *response)
{
    (void)response;
}

static bool crowded;

bool sk_server_crowded(const struct sk_server *server)
{
    ck_assert_ptr_nonnull(server);
    return crowded;
}

static int user_tokens_checked;

// The verifier's place: one token is good.
enum sk_jwt_result sk_user_tokens_check(struct sk_user_tokens *users, const char *text, int64_t now_s,
                                        char id[SK_USER_SIZE])
{
    (void)users;
    (void)now_s;
    user_tokens_checked++;
    if (strcmp(text, "no.memory.now") == 0)
        return SK_JWT_NO_MEM;
    if (strcmp(text, "good.user.token") != 0)
        return SK_JWT_SIGNATURE;
    memcpy(id, "bob", sizeof "bob");
    return SK_JWT_GOOD;
}

// With the options as they are now.
static void open_again(void)
{
    static char server; // its address will do, for the control plane, too
    sk_routes_close(routes);
    routes = sk_routes_open(&options);
    ck_assert_ptr_nonnull(routes);
    sk_routes_connect(routes, (struct sk_server *)(void *)&server, (struct sk_control *)(void *)&server);
}

static void setup(void)
{
    config = (struct sk_config){.identity = {.admin_token = the_token, .admin_tokens = the_tokens},
                                .api = {.confirm_timeout_ms = 7},
                                .stores = {.redis_timeout_ms = 100, .pg_timeout_ms = 1000}};
    options = (struct sk_routes_options){.api = &config.api,
                                         .identity = &config.identity,
                                         .stores = &config.stores,
                                         .server = &config.server,
                                         .limits = limits};
    routes = NULL;
    open_again();
    user = "alice";
    token = "Bearer " TOKEN;
    sent_type = "application/json";
}

static void limit(int64_t user_rate, int64_t address_rate)
{
    config.identity.user_rate = user_rate;
    config.identity.address_rate = address_rate;
    config.identity.reactors = config.server.max_connections = 1;
    options.limits = limits = sk_limits_open(&config.identity, &config.server, stderr);
    ck_assert_ptr_nonnull(limits);
    open_again();
}

static void teardown(void)
{
    sk_routes_close(routes);
    ck_assert_int_eq(opened, 0);
    sk_limits_close(limits);
}

static const struct sk_call *ask(enum sk_method method, const char *path)
{
    asked = (struct sk_request){.method = method, .path = path, .has_query = true, .query_bad = query_bad};
    handled = "";
    status = 0;
    waits_ms = 0;
    allow[0] = answered[0] = challenge[0] = '\0';
    sk_routes_handle(routes, &asked);
    return sk_call_of(&asked);
}

static void must_come_to(enum sk_method method, const char *path, const char *handler, uint64_t ms)
{
    (void)ask(method, path);
    ck_assert_msg(strcmp(handled, handler) == 0, "%s: %s, not %s; %u", path, handled, handler, status);
    ck_assert_uint_eq(status, 0);
    ck_assert_uint_eq(waits_ms, ms);
}

static void must_be_refused(enum sk_method method, const char *path, unsigned with)
{
    (void)ask(method, path);
    ck_assert_msg(strcmp(handled, "") == 0, "%s: %s", path, handled);
    ck_assert_msg(status == with, "%s: %u, not %u", path, status, with);
}

// The next of some texts with this character between them, as out[]. False: that was the last one.
static bool next_of(const char **texts, char between, char out[PATH_SIZE])
{
    const char *text = *texts, *end = text == NULL ? NULL : strchr(text, between);
    size_t len = text == NULL ? 0 : end == NULL ? strlen(text) : (size_t)(end - text);
    ck_assert_uint_lt(len, PATH_SIZE);
    (void)snprintf(out, PATH_SIZE, "%.*s", (int)len, text == NULL ? "" : text);
    *texts = end == NULL ? NULL : end + 1;
    return text != NULL;
}

// Asks for all of these ("POST/seckill/7 GET/orders"). 0: each comes to its handler.
static void all_must_get(unsigned with, const char *requests)
{
    static const char *const methods[] = {
        [SK_METHOD_GET] = "GET",     [SK_METHOD_POST] = "POST",       [SK_METHOD_PATCH] = "PATCH",
        [SK_METHOD_OTHER] = "OTHER", [SK_METHOD_OPTIONS] = "OPTIONS", [SK_METHOD_UNKNOWN] = "UNKNOWN"};
    char one[PATH_SIZE];
    while (next_of(&requests, ' ', one)) {
        size_t method = 0;
        while (strncmp(one, methods[method], strlen(methods[method])) != 0)
            ck_assert_uint_lt(++method, COUNT(methods));
        (void)ask((enum sk_method)method, one + strlen(methods[method]));
        ck_assert_msg((handled[0] == '\0') == (with != 0) && status == with, "%s: %s, %u", one, handled, status);
    }
}

// A pattern's handlers, and what its other methods are told.
TEST(each_route_has_its_handlers_and_its_wait)
{
    enum { COMMIT = 7, RETURN = 6200, LONG = 63100 };
    static const enum sk_method methods[] = {SK_METHOD_GET, SK_METHOD_POST, SK_METHOD_PATCH};
    static const enum sk_method others[] = {SK_METHOD_OTHER, SK_METHOD_OPTIONS, SK_METHOD_UNKNOWN};
    static const struct {
        const char *path;
        uint64_t ms;
        const char *handlers[3]; // of the methods; NULL: not allowed
        const char *allow;
    } rows[] = {
        {"/seckill/7", COMMIT, {NULL, "buy"}, "POST"},
        {"/orders", STORES, {"orders"}, "GET, HEAD"},
        {"/orders/" ORDER, STORES, {"order"}, "GET, HEAD"},
        {"/orders/" ORDER "/cancel", RETURN, {NULL, "cancel"}, "POST"},
        {"/orders/" ORDER "/pay", STORES, {NULL, "pay"}, "POST"},
        {"/orders/" ORDER "/refund", RETURN, {NULL, "refund"}, "POST"},
        {"/vouchers", STORES, {"vouchers"}, "GET, HEAD"},
        {"/vouchers/events", STORES, {"events"}, "GET, HEAD"},
        {"/vouchers/7", STORES, {"voucher"}, "GET, HEAD"},
        {"/vouchers/7/events", STORES, {"events"}, "GET, HEAD"},
        {"/vouchers/7/ticket", STORES, {"ticket", "ticket"}, "GET, HEAD, POST"},
        {"/admin/vouchers", STORES, {"admin_vouchers", "create"}, "GET, HEAD, POST"},
        {"/admin/vouchers/7", STORES, {"inspect", NULL, "change"}, "GET, HEAD, PATCH"},
        {"/admin/vouchers/7/pause", STORES, {NULL, "pause"}, "POST"},
        {"/admin/vouchers/7/resume", STORES, {NULL, "resume"}, "POST"},
        {"/admin/vouchers/7/close", STORES, {NULL, "close"}, "POST"},
        {"/admin/vouchers/7/stock", STORES, {NULL, "stock"}, "POST"},
        {"/admin/vouchers/7/reconcile", LONG, {NULL, "rebuild"}, "POST"},
        {"/admin/vouchers/7/settlement", LONG, {"settlement"}, "GET, HEAD"},
        {"/admin/vouchers/7/dead-letters", STORES, {"dead_letters"}, "GET, HEAD"},
        {"/admin/vouchers/7/dead-letters/8/requeue", STORES, {NULL, "requeue"}, "POST"},
        {"/admin/vouchers/7/dead-letters/8/write-off", STORES, {NULL, "write_off"}, "POST"},
        {"/admin/vouchers/7/audit", STORES, {"admin_events"}, "GET, HEAD"},
        {"/admin/orders", STORES, {"admin_orders"}, "GET, HEAD"},
        {"/admin/orders/find", STORES, {"find_orders"}, "GET, HEAD"},
        {"/admin/payments", STORES, {"admin_payments"}, "GET, HEAD"},
        {"/admin/payments/find", STORES, {"find_payment"}, "GET, HEAD"},
        {"/admin/troubles", STORES, {"troubles"}, "GET, HEAD"},
        {"/admin/webhooks", STORES, {"webhooks"}, "GET, HEAD"},
        {"/admin/events", STORES, {"order_events"}, "GET, HEAD"},
        {"/admin/instances", STORES, {"instances"}, "GET, HEAD"},
        {"/admin/me", 0, {"me"}, "GET, HEAD"},
        {"/openapi.json", 0, {"openapi"}, "GET, HEAD"},
        {"/healthz", 0, {"health"}, "GET, HEAD"},
        {"/readyz", 0, {"ready"}, "GET, HEAD"},
        {"/metrics", 0, {"metrics"}, "GET, HEAD"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        for (size_t m = 0; m < 2 * COUNT(methods); m++) {
            enum sk_method method = m < COUNT(methods) ? methods[m] : others[m - COUNT(methods)];
            if (m < COUNT(methods) && rows[i].handlers[m] != NULL) {
                must_come_to(method, rows[i].path, rows[i].handlers[m], rows[i].ms);
            } else {
                must_be_refused(method, rows[i].path, method == SK_METHOD_UNKNOWN ? 501 : 405);
                ck_assert_str_eq(allow, rows[i].allow);
            }
        }
    }
    must_come_to(SK_METHOD_GET, "/admin/vouchers/7/x", "not_found", 0);
    must_come_to(SK_METHOD_OTHER, "/admin/vouchers/7/", "not_found", 0);
    must_come_to(SK_METHOD_UNKNOWN, "/admin/vouchersx", "not_found", 0);
}

// While nearly all connections are taken. What is refused ends its own.
TEST(the_last_connections_are_for_buyers_operators_and_probes)
{
    crowded = true;
    all_must_get(0, "POST/seckill/7 GET/healthz GET/readyz POST/admin/vouchers/7/pause GET/admin/orders");
    ck_assert(!asked.last);
    all_must_get(503, "GET/orders GET/orders/" ORDER " GET/vouchers GET/vouchers/7 GET/vouchers/7/events "
                      "GET/vouchers/events GET/metrics GET/openapi.json GET/nowhere");
    ck_assert(asked.last);
    all_must_get(503, "POST/orders/" ORDER "/cancel POST/orders/" ORDER "/pay");
    token = NULL;
    must_be_refused(SK_METHOD_POST, "/admin/vouchers/7/pause", 401);
    crowded = false;
    must_come_to(SK_METHOD_GET, "/vouchers", "vouchers", STORES);
}

// Anyone may listen, to one sale or several. Who says who it is counts as that user.
TEST(a_listener_is_known_if_it_says_so)
{
    static const char *const streams[] = {"/vouchers/7/events", "/vouchers/events"};
    for (size_t i = 0; i < COUNT(streams); i++) {
        options.users = NULL;
        open_again();
        user = "alice";
        ck_assert_str_eq(ask(SK_METHOD_GET, streams[i])->user, "alice");
        user = NULL;
        ck_assert_str_eq(ask(SK_METHOD_GET, streams[i])->user, "");
        user = "no user";
        ck_assert_str_eq(ask(SK_METHOD_GET, streams[i])->user, "");
        ck_assert_str_eq(handled, "events");
        options.users = (struct sk_user_tokens *)(void *)&allow;
        open_again();
        user = "alice";
        token = "Bearer good.user.token";
        ck_assert_str_eq(ask(SK_METHOD_GET, streams[i])->user, "bob");
        token = "Bearer bad.user.token";
        ck_assert_str_eq(ask(SK_METHOD_GET, streams[i])->user, "");
        ck_assert_str_eq(handled, "events");
    }
}

// Each row of the table is at one of the two listeners, or at both.
TEST(operators_may_have_a_listener_of_their_own)
{
    static char elsewhere[] = "127.0.0.1:8081";
    config.api.pages = 1;
    config.api.admin_listen = elsewhere;
    for (int operators = 0; operators < 2; operators++) {
        options.operators = operators != 0;
        open_again();
        all_must_get(operators ? 0 : 404, "GET/admin/vouchers GET/admin/vouchers/7 GET/admin/orders GET/admin/events "
                                          "GET/admin/instances GET/admin/ui GET/metrics");
        all_must_get(operators ? 404 : 0, "GET/orders GET/vouchers GET/vouchers/7 GET/vouchers/7/events "
                                          "GET/vouchers/events GET/vouchers/7/ticket GET/openapi.json GET/");
        all_must_get(operators ? 404 : 0, "POST/seckill/7 POST/orders/" ORDER "/pay");
        all_must_get(0, "POST/orders/" ORDER "/refund GET/healthz GET/readyz GET/web/shop.css GET/orders/" ORDER);
        ck_assert_str_eq(sk_call_of(&asked)->user, operators ? "" : "alice");
    }
    token = NULL;
    must_be_refused(SK_METHOD_GET, "/orders/" ORDER, 401); // X-User-Id says nothing
}

static void open_with(int64_t pages, int64_t demo)
{
    config.api.pages = pages;
    config.api.demo = demo;
    open_again();
}

TEST(pages_and_the_demo_may_be_off)
{
    static const char demo_pay[] = "/demo/orders/" ORDER "/pay";
    token = NULL;
    for (int on = 0; on < 4; on++) {
        bool has_pages = (on & 1) != 0, has_demo = (on & 2) != 0;
        open_with(has_pages, has_demo);
        all_must_get(has_pages ? 0 : 404,
                     "GET/ GET/web/shop.css GET/web/ GET/web/../x GET/admin/ui GET/admin GET/admin/ GET/admin/ui/");
        all_must_get(has_pages ? 405 : 404, "POST/ POST/web/shop.css POST/web/ POST/web/../x POST/admin/ui");
        all_must_get(has_pages && has_demo ? 0 : 404, "GET/pay");
        all_must_get(has_demo ? 0 : 404, "POST/demo/orders/" ORDER "/pay");
        must_be_refused(SK_METHOD_GET, demo_pay, has_demo ? 405 : 404);
    }
    must_come_to(SK_METHOD_GET, "/", "page", 0);
    must_come_to(SK_METHOD_GET, "/web/shop.css", "page", 0);
    must_come_to(SK_METHOD_GET, "/admin/ui", "page", 0);
    must_come_to(SK_METHOD_GET, "/admin", "to_dashboard", 0);
    must_come_to(SK_METHOD_GET, "/admin/", "to_dashboard", 0);
    must_come_to(SK_METHOD_GET, "/admin/ui/", "to_dashboard", 0);
    must_come_to(SK_METHOD_GET, "/pay", "page", 0);
    must_come_to(SK_METHOD_POST, demo_pay, "demo_pay", STORES);
    user = NULL;
    all_must_get(401, "POST/demo/orders/" ORDER "/pay POST/demo/orders/x/pay");
    user = "alice";
    must_be_refused(SK_METHOD_POST, "/demo/orders/x/pay", 400);
    sent_type = NULL;
    must_be_refused(SK_METHOD_POST, demo_pay, 415);
}

TEST(pages_lead_nowhere_else)
{
    open_with(1, 1);
    all_must_get(404, "GET// GET/index.html GET/web GET/webx GET/admin/ui/x GET/admin/u GET/pay/ GET/payx GET/demo "
                      "GET/demo/orders/" ORDER " GET/demo/orders/../pay GET/./ GET/..");
}

TEST(metrics_may_be_open_to_anyone)
{
    must_be_refused(SK_METHOD_POST, "/metrics", 405);
    token = NULL;
    must_be_refused(SK_METHOD_POST, "/metrics", 401);
    config.api.metrics_open = 1;
    must_come_to(SK_METHOD_GET, "/metrics", "metrics", 0);
    must_be_refused(SK_METHOD_POST, "/metrics", 405);
    must_be_refused(SK_METHOD_GET, "/admin/vouchers", 401); // nothing else is open
}

// By which its answer is counted: that of its row; 0 if it fits none.
TEST(a_request_knows_its_row)
{
    (void)ask(SK_METHOD_POST, "/seckill/7");
    ck_assert_ptr_eq(sk_route_table[asked.row - 1].handle, sk_handle_buy);
    (void)ask(SK_METHOD_PATCH, "/admin/vouchers/7");
    ck_assert_ptr_eq(sk_route_table[asked.row - 1].handle, sk_handle_change);
    (void)ask(SK_METHOD_OTHER, "/admin/vouchers/7/x");
    ck_assert_int_eq(sk_route_table[asked.row - 1].method, SK_ROUTE_ANY);
    (void)ask(SK_METHOD_GET, "/seckill/7"); // 405
    ck_assert_uint_eq(asked.row, 0);
    (void)ask(SK_METHOD_GET, "/made/up");
    ck_assert_uint_eq(asked.row, 0);
    user = NULL;
    (void)ask(SK_METHOD_POST, "/seckill/7"); // 401, of this row
    ck_assert_uint_ne(asked.row, 0);
}

TEST(ids_and_callers_are_read)
{
    const struct sk_call *call = ask(SK_METHOD_POST, "/admin/vouchers/9223372036854775807/dead-letters/12/requeue");
    ck_assert_int_eq(call->voucher_id, INT64_MAX);
    ck_assert_int_eq(call->dead_letter_id, 12);
    ck_assert_str_eq(call->user, "");
    call = ask(SK_METHOD_GET, "/orders/" ORDER);
    ck_assert_str_eq(call->order_id, ORDER);
    ck_assert_str_eq(call->user, "alice");
    call = ask(SK_METHOD_POST, "/seckill/5");
    ck_assert_int_eq(call->voucher_id, 5);
    ck_assert_str_eq(call->user, "alice");
    ck_assert_str_eq(call->order_id, "");
}

TEST(paths_that_lead_nowhere)
{
    const char *paths = " / * /seckill /seckill/7/ /seckill/7/8 //seckill/7 /SECKILL/7 /seckill/. /seckill/.. "
                        "/orders/.. /orders/" ORDER "/ /ordersx /vouchers/. /vouchersx /healthz/ /readyz? "
                        "/admin /admin/ /admin/voucher"; // the first is empty
    char path[PATH_SIZE];
    while (next_of(&paths, ' ', path)) {
        must_be_refused(SK_METHOD_GET, path, 404);
        must_be_refused(SK_METHOD_POST, path, 404);
        must_be_refused(SK_METHOD_UNKNOWN, path, 404);
    }
}

TEST(bad_ids)
{
    all_must_get(400, "GET/vouchers/ GET/vouchers/x GET/orders/ GET/orders/x GET/orders/" ORDER "0 GET/admin/vouchers/ "
                      "GET/admin/vouchers/x GET/admin/vouchers/x/y POST/seckill/ POST/seckill/x POST/seckill/0 "
                      "POST/seckill/7%00 POST/seckill/1234567890123456789012345678901234567890 POST/orders/x/cancel "
                      "POST/orders//cancel POST/orders/" ORDER "0/pay POST/orders/x/refund "
                      "POST/admin/vouchers/x/reconcile");
    all_must_get(404, "POST/admin/vouchers/7/dead-letters/x/requeue POST/admin/vouchers/7/dead-letters//requeue");
}

TEST(what_is_checked_first)
{
    user = NULL;
    must_be_refused(SK_METHOD_POST, "/seckill/7", 401);
    all_must_get(400, "POST/seckill/x POST/vouchers/x/ticket");
    must_be_refused(SK_METHOD_GET, "/seckill/x", 405);
    must_be_refused(SK_METHOD_GET, "/orders/x", 400); // an admin's token
    token = NULL;
    must_be_refused(SK_METHOD_GET, "/orders/x", 401);
    token = "Bearer " TOKEN;
    must_be_refused(SK_METHOD_POST, "/orders/x", 405);
    must_be_refused(SK_METHOD_GET, "/vouchers/7/ticket", 401); // tickets are a user's
    must_be_refused(SK_METHOD_POST, "/vouchers/7/ticket", 401);
    sent_type = NULL;
    must_be_refused(SK_METHOD_POST, "/admin/vouchers", 415);
    token = "Bearer x";
    all_must_get(401, "POST/admin/vouchers OTHER/admin/vouchers GET/admin/vouchers/x GET/admin/vouchersx "
                      "GET/admin/orders GET/admin/events GET/admin/vouchers/7/audit");
    must_be_refused(SK_METHOD_GET, "/admin/voucher", 404);
    token = "Bearer reader-token-0001";
    must_be_refused(SK_METHOD_POST, "/admin/vouchers/x/reconcile", 403);
    must_be_refused(SK_METHOD_OTHER, "/admin/vouchers/x/reconcile", 405);
    must_be_refused(SK_METHOD_GET, "/admin/vouchers/x", 400);
    token = "Bearer payments-token-01";
    all_must_get(403, "GET/admin/orders GET/admin/events GET/admin/vouchers/7/audit");
    query_bad = true;
    must_be_refused(SK_METHOD_GET, "/vouchers", 422);
    must_be_refused(SK_METHOD_GET, "/nowhere", 404);
    must_be_refused(SK_METHOD_GET, "/vouchers/x", 400);
    must_be_refused(SK_METHOD_GET, "/orders", 401);
    user = "alice";
    must_be_refused(SK_METHOD_POST, "/seckill/7", 422);
}

// What stands for all calls of a kind: who may call it.
enum { OF_USERS, OF_BOTH, OF_ADMINS, CALLS = 11 };
static const struct {
    enum sk_method method;
    const char *path;
    int of;
} calls[CALLS] = {
    {SK_METHOD_POST, "/orders/" ORDER "/cancel", OF_USERS},
    {SK_METHOD_GET, "/orders", OF_USERS},
    {SK_METHOD_POST, "/seckill/7", OF_USERS},
    {SK_METHOD_GET, "/orders/" ORDER, OF_BOTH},
    {SK_METHOD_POST, "/orders/" ORDER "/pay", OF_ADMINS},
    {SK_METHOD_POST, "/orders/" ORDER "/refund", OF_ADMINS},
    {SK_METHOD_GET, "/metrics", OF_ADMINS},
    {SK_METHOD_GET, "/admin/vouchers/7", OF_ADMINS},
    {SK_METHOD_GET, "/admin/vouchers/7/x", OF_ADMINS},
    {SK_METHOD_POST, "/admin/vouchers/7/reconcile", OF_ADMINS},
    {SK_METHOD_PATCH, "/admin/vouchers/7/reconcile", OF_ADMINS},
};

struct caller {
    const char *user, *token; // as sent
    unsigned status[CALLS];   // 0: it comes to its handler
    const char *named, *by;   // as whom, where users may call; and else
};

static void each_must_get(const struct caller *callers, size_t count)
{
    for (size_t i = 0; i < count * CALLS; i++) {
        const struct caller *caller = &callers[i / CALLS];
        size_t of = i % CALLS;
        user = caller->user;
        token = caller->token;
        user_tokens_checked = 0;
        const struct sk_call *call = ask(calls[of].method, calls[of].path);
        ck_assert_msg(status == caller->status[of], "%zu: %s: %u", i / CALLS, calls[of].path, status);
        ck_assert_int_eq(handled[0] == '\0', status != 0);
        // An operator's call computes no signature, whatever token it is sent.
        ck_assert(calls[of].of != OF_ADMINS || user_tokens_checked == 0);
        if (status != 0)
            continue;
        bool of_user = calls[of].of == OF_USERS || (calls[of].of == OF_BOTH && caller->named != NULL);
        ck_assert_str_eq(call->user, of_user ? caller->named : "");
        ck_assert_str_eq(call->by, of_user ? "" : caller->by);
    }
}

// A user who is named is the one who asks, whatever token stands beside.
TEST(calls_have_callers)
{
    static const struct caller callers[] = {
        {NULL, NULL, {401, 401, 401, 401, 401, 401, 401, 401, 401, 401, 401}, NULL, NULL},
        {NULL, "Bearer x", {401, 401, 401, 401, 401, 401, 401, 401, 401, 401, 401}, NULL, NULL},
        {"alice", NULL, {0, 0, 0, 0, 401, 401, 401, 401, 401, 401, 401}, "alice", NULL},
        {NULL, "Bearer " TOKEN, {401, 401, 401, 0, 0, 0, 0, 0, 0, 0, 405}, NULL, "admin"},
        {NULL, "Bearer reader-token-0001", {401, 401, 401, 0, 403, 403, 0, 0, 0, 403, 405}, NULL, "reader"},
        {NULL, "Bearer operator-token-01", {401, 401, 401, 0, 403, 0, 0, 0, 0, 0, 405}, NULL, "operator"},
        {NULL, "Bearer payments-token-01", {401, 401, 401, 403, 0, 403, 403, 403, 403, 403, 405}, NULL, "shop"},
        {"alice", "Bearer payments-token-01", {0, 0, 0, 0, 0, 403, 403, 403, 403, 403, 405}, "alice", "shop"},
        {"alice", "Bearer " TOKEN, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 405}, "alice", "admin"},
        {"not a user", "Bearer " TOKEN, {401, 401, 401, 401, 0, 0, 0, 0, 0, 0, 405}, NULL, "admin"},
        {"", "Bearer " TOKEN, {401, 401, 401, 401, 0, 0, 0, 0, 0, 0, 405}, NULL, "admin"},
    };
    each_must_get(callers, COUNT(callers));
    sent_type = "text/plain";
    user = "alice";
    all_must_get(415, "POST/orders/" ORDER "/pay POST/orders/" ORDER "/refund");
    must_come_to(SK_METHOD_POST, "/orders/" ORDER "/cancel", "cancel", 6200); // it has no body
}

TEST(without_tokens_admin_calls_are_off)
{
    config = (struct sk_config){0};
    open_again();
    all_must_get(403, "GET/admin/vouchers/x OTHER/admin/vouchers");
    user = NULL;
    must_be_refused(SK_METHOD_GET, "/orders/" ORDER, 403);
    token = NULL;
    must_be_refused(SK_METHOD_GET, "/orders/" ORDER, 401);
}

// A page of a listed origin is told what it may send, wherever it leads; any other OPTIONS is a method like others.
TEST(browsers_ask_first)
{
    static const char *const paths[] = {"/seckill/7", "/seckill/x", "/nowhere", "/admin/vouchers", "*"};
    static const unsigned refused[] = {405, 405, 404, 401, 404};
    static char origins[] = "https://shop.example";
    config.identity.cors_origins = origins;
    options.limits = NULL;
    open_again();
    user = token = NULL;
    for (size_t i = 0; i < COUNT(paths); i++) {
        origin = "https://shop.example";
        asked_method = "POST";
        must_be_refused(SK_METHOD_OPTIONS, paths[i], 204);
        asked_method = NULL;
        must_be_refused(SK_METHOD_OPTIONS, paths[i], refused[i]);
        origin = "https://other.example";
        asked_method = "POST";
        must_be_refused(SK_METHOD_OPTIONS, paths[i], refused[i]);
        origin = NULL;
        must_be_refused(SK_METHOD_OPTIONS, paths[i], refused[i]);
    }
    origin = "https://shop.example";
    must_be_refused(SK_METHOD_OTHER, "/seckill/7", 405);
}

TEST(secrets_and_origins_that_are_wrong_are_no_start)
{
    char secret[] = "short", origins[] = "*", tokens[] = "reader read short";
    const struct sk_identity_options wrong[] = {
        {.ticket_secret = secret}, {.cors_origins = origins}, {.admin_tokens = tokens}};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        config.identity = wrong[i];
        ck_assert_ptr_null(sk_routes_open(&options));
    }
}

TEST(users_may_have_tokens)
{
    static char verifier; // any will do
    static const struct caller callers[] = {
        // alice counts for nothing
        {"alice", NULL, {401, 401, 401, 401, 401, 401, 401, 401, 401, 401, 401}, NULL, NULL},
        {"alice", "Bearer good.user.token", {0, 0, 0, 0, 401, 401, 401, 401, 401, 401, 401}, "bob", NULL},
        {"alice", "Bearer other.user.token", {401, 401, 401, 401, 401, 401, 401, 401, 401, 401, 401}, NULL, NULL},
        {"alice", "Bearer no.memory.now", {503, 503, 503, 503, 401, 401, 401, 401, 401, 401, 401}, NULL, NULL},
        {"alice", "Bearer " TOKEN, {401, 401, 401, 0, 0, 0, 0, 0, 0, 0, 405}, NULL, "admin"},
        {"alice", "Bearer payments-token-01", {401, 401, 401, 403, 0, 403, 403, 403, 403, 403, 405}, NULL, "shop"},
    };
    options.users = (struct sk_user_tokens *)(void *)&verifier;
    open_again();
    each_must_get(callers, COUNT(callers));
    // Without admins, too, all that identifies no user gets the same answer.
    config.identity.admin_token = config.identity.admin_tokens = NULL;
    open_again();
    token = "Bearer other.user.token";
    must_be_refused(SK_METHOD_GET, "/orders/" ORDER, 401);
    must_be_refused(SK_METHOD_GET, "/admin/vouchers", 403); // they are off
}

static const struct sk_call *ask_if_match(const char *value, unsigned count, unsigned with)
{
    if_match = value;
    if_matches = count;
    must_come_to(SK_METHOD_GET, "/admin/vouchers/7", "inspect", STORES); // changes nothing, so it does not check
    ck_assert_int_eq(sk_call_of(&asked)->if_match, 0);
    const struct sk_call *call = ask(SK_METHOD_POST, "/admin/vouchers/7/reconcile");
    ck_assert_msg(status == with, "%s: %u", value, status);
    return call;
}

TEST(a_change_may_be_meant_for_a_version)
{
    static const struct {
        const char *value;
        int64_t version;
    } good[] = {{NULL, 0},         {"*", 0},        {"\"1\"", 1},       {"\"9223372036854775807\"", INT64_MAX},
                {"W/\"1\"", 1}, // as gateways rewrite our tag
                {"\"5-gzip\"", 5}, {"\"5-br\"", 5}, {"\"5--gzip\"", 5}, {"W/\"5-gzip\"", 5}};
    const char *bad =
        "|1|\"|'1'|1\"|\"1|\"\"|\"x\"|\"0\"|\"-1\"|\"01\"|\"1.0\"|\" 1\"|\"1\" |*,*|\"1\", \"2\"|\"1-a\", W/\"2-a\"|"
        "\"9223372036854775808\"|W/|W/1|W/\"x\"|w/\"1\"|\"5gzip\"|\"5-gzip|\"5-a\"b\"|\"x-gzip\"|\"-gzip\"";
    char value[PATH_SIZE];
    for (size_t i = 0; i < COUNT(good); i++)
        ck_assert_int_eq(ask_if_match(good[i].value, good[i].value != NULL, 0)->if_match, good[i].version);
    while (next_of(&bad, '|', value))
        (void)ask_if_match(value, 1, 400);
    (void)ask_if_match("\"1\"", 2, 400);
    (void)ask_if_match("*", 2, 400);
}

// Refused, with an error that names it so.
static void must_name(enum sk_method method, const char *path, const char *parameter, const char *detail)
{
    char error[BODY_SIZE];
    must_be_refused(method, path, 422);
    (void)snprintf(error, sizeof error, "\"errors\":[{\"parameter\":\"%s\",\"detail\":\"%s\"}]", parameter, detail);
    ck_assert_msg(strstr(answered, error) != NULL, "%s: %s", path, answered);
}

TEST(a_call_takes_its_own_parameters_once)
{
    static const char long_name[] = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
    static const struct {
        const char *path, *names[2], *handler;
    } good[] = {{"/vouchers", {"limit", "cursor"}, "vouchers"},
                {"/vouchers", {"", ""}, "vouchers"}, // "?&"
                {"/admin/orders", {"voucher"}, "admin_orders"},
                {"/admin/payments", {"voucher", "state"}, "admin_payments"}}; // in the document under longer names
    static const struct {
        enum sk_method method;
        const char *path, *names[2], *shown;
    } bad[] = {{SK_METHOD_GET, "/admin/payments", {"stateToRefund"}, "stateToRefund"},
               {SK_METHOD_GET, "/vouchers", {"limit", "after"}, "after"},
               {SK_METHOD_GET, "/vouchers", {"_"}, "_"}, // a cache-buster
               {SK_METHOD_GET, "/vouchers", {"Limit"}, "Limit"},
               {SK_METHOD_GET, "/vouchers", {"limit cursor"}, "limit%20cursor"},
               {SK_METHOD_GET, "/vouchers", {"lim"}, "lim"},
               {SK_METHOD_GET, "/vouchers", {"\"\xff"}, "%22%FF"},
               {SK_METHOD_GET, "/vouchers", {long_name}, long_name + sizeof long_name - 1 - 64}, // cut
               {SK_METHOD_GET, "/vouchers/7", {"x"}, "x"},
               {SK_METHOD_POST, "/seckill/7", {"Prefer"}, "Prefer"},
               {SK_METHOD_POST, "/admin/vouchers", {"voucher"}, "voucher"},
               {SK_METHOD_GET, "/healthz", {"x"}, "x"}};
    for (size_t i = 0; i < COUNT(good); i++) {
        memcpy((void *)parameters, (const void *)good[i].names, sizeof good[i].names);
        must_come_to(SK_METHOD_GET, good[i].path, good[i].handler, STORES);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        memcpy((void *)parameters, (const void *)bad[i].names, sizeof bad[i].names);
        must_name(bad[i].method, bad[i].path, bad[i].shown, "is not known here");
    }
    parameters[0] = parameters[1] = "state";
    must_name(SK_METHOD_GET, "/admin/payments", "state", "is there twice");
    parameters[0] = parameters[1] = "limit";
    must_name(SK_METHOD_GET, "/vouchers", "limit", "is there twice");
    open_with(1, 0);
    must_come_to(SK_METHOD_GET, "/", "page", 0); // a link to a page may carry anything
    query_bad = true;
    must_name(SK_METHOD_GET, "/vouchers", "", "the query has a malformed escape, or that of a control byte");
}

// A token of the client's would not help where the gateway names the user.
TEST(a_challenge_is_what_helps)
{
    user = token = NULL;
    must_be_refused(SK_METHOD_POST, "/seckill/7", 401);
    ck_assert_str_eq(challenge, "Gateway");
    ck_assert_ptr_nonnull(strstr(answered, "\"detail\":\"X-User-Id is missing"));
    must_be_refused(SK_METHOD_GET, "/orders/" ORDER, 401);
    ck_assert_str_eq(challenge, "Gateway");
    // A user of a wrong form is named, not repeated, and no token helps.
    user = "a@b";
    token = "Bearer " TOKEN;
    must_be_refused(SK_METHOD_GET, "/orders/" ORDER, 401);
    ck_assert_str_eq(challenge, "Gateway");
    ck_assert_ptr_nonnull(strstr(answered, "\"detail\":\"X-User-Id is not 1 to 64 of A-Za-z0-9_.-\""));
    ck_assert_ptr_null(strstr(answered, "a@b"));
    user = token = NULL;
    must_be_refused(SK_METHOD_GET, "/admin/vouchers", 401);
    ck_assert_str_eq(challenge, ""); // the one made at the start: Bearer
    token = "Bearer wrong";
    must_be_refused(SK_METHOD_GET, "/orders/" ORDER, 401);
    ck_assert_str_eq(challenge, "");
    token = NULL;
    options.operators = true; // there no gateway names a user
    open_again();
    must_be_refused(SK_METHOD_GET, "/orders/" ORDER, 401);
    ck_assert_str_eq(challenge, "");
}

// Of purchases alone, and only of those of the user who made them.
TEST(a_user_has_a_rate)
{
    limit(2, 0);
    must_come_to(SK_METHOD_POST, "/seckill/7", "buy", 7);
    ck_assert_int_eq(asked.limit.policy, SK_POLICY_USER);
    ck_assert_uint_eq(asked.limit.left, 1);
    must_be_refused(SK_METHOD_POST, "/seckill/x", 400); // is no try
    must_come_to(SK_METHOD_POST, "/seckill/8", "buy", 7);
    must_be_refused(SK_METHOD_POST, "/seckill/7", 429);
    must_come_to(SK_METHOD_GET, "/orders", "orders", STORES);
    ck_assert_int_eq(asked.limit.policy, SK_POLICY_NONE);
    user = "bob";
    must_come_to(SK_METHOD_POST, "/seckill/7", "buy", 7);
    user = NULL;
    must_be_refused(SK_METHOD_POST, "/seckill/7", 401);
}

// Of all that clients ask for: also for nothing, and without a name.
TEST(an_address_has_a_rate)
{
    limit(0, 5);
    must_come_to(SK_METHOD_POST, "/seckill/7", "buy", 7);
    ck_assert_int_eq(asked.limit.policy, SK_POLICY_ADDRESS);
    must_come_to(SK_METHOD_GET, "/vouchers", "vouchers", STORES);
    ck_assert_int_eq(asked.limit.policy, SK_POLICY_NONE);
    must_be_refused(SK_METHOD_GET, "/nowhere", 404);
    must_be_refused(SK_METHOD_OTHER, "/seckill/7", 405);
    user = NULL;
    must_be_refused(SK_METHOD_POST, "/seckill/7", 401);
    all_must_get(429, "POST/seckill/7 GET/nowhere GET/vouchers/7");
    ck_assert_int_eq(asked.limit.policy, SK_POLICY_ADDRESS);
    ck_assert_uint_eq(asked.limit.left, 0);
    all_must_get(0, "GET/healthz GET/readyz GET/admin/vouchers POST/orders/" ORDER "/pay");
}

// A page is some thirty of them at once.
TEST(an_address_has_a_rate_of_documents)
{
    limit(0, 3);
    for (int i = 0; i < 30; i++) {
        must_come_to(SK_METHOD_GET, "/openapi.json", "openapi", 0);
        ck_assert_int_eq(asked.limit.policy, SK_POLICY_NONE);
    }
    must_be_refused(SK_METHOD_GET, "/openapi.json", 429);
    ck_assert_int_eq(asked.limit.policy, SK_POLICY_ADDRESS);
    ck_assert_uint_eq(asked.limit.left, 0);
    must_come_to(SK_METHOD_POST, "/seckill/7", "buy", 7); // which counts apart
    must_come_to(SK_METHOD_GET, "/healthz", "health", 0);
}

// Whoever sends wrong ones is not listened to for a while; that is no buyer's affair.
TEST(an_address_has_a_rate_of_wrong_tokens)
{
    static char secret[] = "secret-of-16-byt";
    config.identity.payment_secret = secret;
    struct sk_metrics *metrics = options.metrics = sk_metrics_open();
    limit(0, 3);
    token = NULL;
    for (int i = 0; i < 10; i++) // none is sent: nothing was guessed
        must_be_refused(SK_METHOD_GET, "/admin/vouchers", 401);
    token = "Bearer a-guess-at-a-token";
    for (int i = 0; i < 2; i++)
        must_be_refused(SK_METHOD_GET, "/admin/vouchers", 401);
    user = NULL;
    must_be_refused(SK_METHOD_GET, "/orders/" ORDER, 401); // a way to guess, too
    ck_assert_uint_eq(sk_metrics_read(metrics, SK_METRIC_ADMIN_TOKENS_WRONG), 3);
    must_be_refused(SK_METHOD_GET, "/admin/vouchers", 429);
    ck_assert_int_eq(asked.limit.policy, SK_POLICY_ADDRESS);
    all_must_get(429, "POST/orders/" ORDER "/refund POST/orders/" ORDER "/pay");
    token = "Bearer " TOKEN;
    must_be_refused(SK_METHOD_GET, "/admin/vouchers", 429); // nor is a right one checked
    must_be_refused(SK_METHOD_GET, "/orders/" ORDER, 429);
    user = "alice";
    must_come_to(SK_METHOD_POST, "/seckill/7", "buy", 7);
    ck_assert_uint_eq(sk_metrics_read(metrics, SK_METRIC_ADMIN_TOKENS_WRONG), 3);
    still_at_ms += 1000;
    must_come_to(SK_METHOD_GET, "/admin/vouchers", "admin_vouchers", STORES);
    sk_metrics_close(metrics);
    config.identity.payment_secret = NULL;
}

TEST(before_and_after_there_is_a_sale)
{
    struct sk_routes *early = sk_routes_open(&options);
    asked = (struct sk_request){.path = "/healthz"};
    handled = "";
    sk_routes_handle(early, &asked);
    ck_assert_uint_eq(status, 503);
    sk_routes_close(early);
    sk_routes_drain(routes);
    must_come_to(SK_METHOD_GET, "/readyz", "ready", 0);
    sk_routes_end(routes);
    all_must_get(503, "GET/readyz GET/nowhere");
    ck_assert_str_eq(handled, "");
}

SUITE(.setup = setup, .teardown = teardown);
