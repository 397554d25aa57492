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

#define ORDER "018bcfe5-6800-7000-8000-0123456789ab"
#define TOKEN "s3cret-of-16-chr"

enum { ALLOW_SIZE = 64 };

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

HANDLER(buy)
HANDLER(order)
HANDLER(orders)
HANDLER(cancel)
HANDLER(pay)
HANDLER(refund)
HANDLER(voucher)
HANDLER(events)
HANDLER(ticket)
HANDLER(vouchers)
HANDLER(create)
HANDLER(inspect)
HANDLER(rebuild)
HANDLER(change)
HANDLER(pause)
HANDLER(resume)
HANDLER(close)
HANDLER(stock)
HANDLER(settlement)
HANDLER(dead_letters)
HANDLER(admin_vouchers)
HANDLER(admin_orders)
HANDLER(admin_payments)
HANDLER(find_orders)
HANDLER(find_payment)
HANDLER(troubles)
HANDLER(me)
HANDLER(admin_events)
HANDLER(order_events)
HANDLER(requeue)
HANDLER(write_off)
HANDLER(metrics)
HANDLER(health)
HANDLER(ready)
HANDLER(not_found)
HANDLER(openapi)
HANDLER(instances)
HANDLER(page)
HANDLER(demo_pay)
HANDLER(to_dashboard)

// What the routes open: that it is there, and closed, is all that matters.
static int opened;

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

void sk_purchase_on_result(const struct sk_context *context, struct sk_request *request,
                           const struct sk_purchase_result *result)
{
    (void)context;
    (void)request;
    (void)result;
}

void sk_live_on_stream(const struct sk_context *context, struct sk_request *request)
{
    (void)context;
    (void)request;
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

size_t sk_request_header_values(const struct sk_request *request, const char *name, const char **values, size_t most)
{
    (void)request;
    (void)name;
    (void)values;
    (void)most;
    return 0;
}

bool sk_request_peer(const struct sk_request *request, struct sk_address *peer)
{
    (void)request;
    *peer = (struct sk_address){0};
    return true;
}

void sk_request_put_query(const struct sk_request *request, const char *but, struct sk_buf *out)
{
    (void)request;
    (void)but;
    (void)out;
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

bool sk_request_header_any(const struct sk_request *request, const char *name, bool (*matches)(const char *value))
{
    (void)request;
    (void)name;
    (void)matches;
    return false;
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

char *sk_response_value(struct sk_response *response, const char *name)
{
    static char value[SK_TRACEPARENT_SIZE];
    (void)response;
    (void)name;
    return value;
}

void sk_response_free(struct sk_response *response)
{
    (void)response;
}

struct sk_request *sk_server_find(struct sk_server *server, uint64_t handle)
{
    (void)server;
    (void)handle;
    return NULL;
}

struct sk_request *sk_server_find_stream(struct sk_server *server, uint64_t handle)
{
    (void)server;
    (void)handle;
    return NULL;
}

static bool crowded;

bool sk_server_crowded(const struct sk_server *server)
{
    ck_assert_ptr_nonnull(server);
    return crowded;
}

bool sk_stream_send(struct sk_request *request, const char *text, size_t len)
{
    (void)request;
    (void)text;
    (void)len;
    return false;
}

void sk_stream_end(struct sk_request *request)
{
    (void)request;
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
    sk_routes_close(routes);
    routes = sk_routes_open(&options);
    ck_assert_ptr_nonnull(routes);
    sk_routes_connect(routes, NULL, NULL);
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

TEST(each_route_has_its_handler_and_its_wait)
{
    enum { COMMIT = 7, STORES = 3100, RETURN = 6200, REBUILD = 63100, REPORT = 63100 };
    must_come_to(SK_METHOD_POST, "/seckill/7", "buy", COMMIT);
    must_come_to(SK_METHOD_GET, "/orders", "orders", STORES);
    must_come_to(SK_METHOD_GET, "/orders/" ORDER, "order", STORES);
    must_come_to(SK_METHOD_POST, "/orders/" ORDER "/cancel", "cancel", RETURN);
    must_come_to(SK_METHOD_POST, "/orders/" ORDER "/pay", "pay", STORES);
    must_come_to(SK_METHOD_POST, "/orders/" ORDER "/refund", "refund", RETURN);
    must_come_to(SK_METHOD_GET, "/vouchers", "vouchers", STORES);
    must_come_to(SK_METHOD_GET, "/vouchers/7", "voucher", STORES);
    must_come_to(SK_METHOD_GET, "/admin/vouchers", "admin_vouchers", STORES);
    must_come_to(SK_METHOD_GET, "/admin/orders", "admin_orders", STORES);
    must_come_to(SK_METHOD_GET, "/admin/orders/find", "find_orders", STORES);
    must_come_to(SK_METHOD_GET, "/admin/payments/find", "find_payment", STORES);
    must_come_to(SK_METHOD_GET, "/admin/troubles", "troubles", STORES);
    must_come_to(SK_METHOD_GET, "/admin/me", "me", 0);
    must_come_to(SK_METHOD_GET, "/admin/events", "order_events", STORES);
    must_come_to(SK_METHOD_GET, "/admin/instances", "instances", STORES);
    must_come_to(SK_METHOD_GET, "/admin/vouchers/7/audit", "admin_events", STORES);
    must_come_to(SK_METHOD_GET, "/vouchers/7/events", "events", STORES);
    must_come_to(SK_METHOD_GET, "/vouchers/events", "events", STORES);
    must_come_to(SK_METHOD_GET, "/vouchers/7/ticket", "ticket", STORES);
    must_come_to(SK_METHOD_POST, "/vouchers/7/ticket", "ticket", STORES);
    must_come_to(SK_METHOD_POST, "/admin/vouchers", "create", STORES);
    must_come_to(SK_METHOD_GET, "/admin/vouchers/7", "inspect", STORES);
    must_come_to(SK_METHOD_PATCH, "/admin/vouchers/7", "change", STORES);
    must_come_to(SK_METHOD_POST, "/admin/vouchers/7/pause", "pause", STORES);
    must_come_to(SK_METHOD_POST, "/admin/vouchers/7/resume", "resume", STORES);
    must_come_to(SK_METHOD_POST, "/admin/vouchers/7/close", "close", STORES);
    must_come_to(SK_METHOD_POST, "/admin/vouchers/7/stock", "stock", STORES);
    must_come_to(SK_METHOD_POST, "/admin/vouchers/7/reconcile", "rebuild", REBUILD);
    must_come_to(SK_METHOD_GET, "/admin/vouchers/7/settlement", "settlement", REPORT);
    must_come_to(SK_METHOD_GET, "/admin/vouchers/7/dead-letters", "dead_letters", STORES);
    must_come_to(SK_METHOD_POST, "/admin/vouchers/7/dead-letters/8/requeue", "requeue", STORES);
    must_come_to(SK_METHOD_POST, "/admin/vouchers/7/dead-letters/8/write-off", "write_off", STORES);
    must_come_to(SK_METHOD_GET, "/admin/vouchers/7/x", "not_found", 0);
    must_come_to(SK_METHOD_OTHER, "/admin/vouchers/7/", "not_found", 0);
    must_come_to(SK_METHOD_UNKNOWN, "/admin/vouchersx", "not_found", 0);
    must_come_to(SK_METHOD_GET, "/openapi.json", "openapi", 0);
    must_come_to(SK_METHOD_GET, "/healthz", "health", 0);
    must_come_to(SK_METHOD_GET, "/readyz", "ready", 0);
    must_come_to(SK_METHOD_GET, "/metrics", "metrics", 0);
}

// While nearly all connections are taken. What is refused ends its own.
TEST(the_last_connections_are_for_buyers_operators_and_probes)
{
    static const char *const others[] = {"/orders",     ("/orders/" ORDER),   "/vouchers",
                                         "/vouchers/7", "/vouchers/7/events", "/vouchers/events",
                                         "/metrics",    "/openapi.json",      "/nowhere"};
    static char server;
    sk_routes_connect(routes, (struct sk_server *)(void *)&server, NULL);
    crowded = true;
    must_come_to(SK_METHOD_POST, "/seckill/7", "buy", 7);
    must_come_to(SK_METHOD_GET, "/healthz", "health", 0);
    must_come_to(SK_METHOD_GET, "/readyz", "ready", 0);
    must_come_to(SK_METHOD_POST, "/admin/vouchers/7/pause", "pause", 3100);
    must_come_to(SK_METHOD_GET, "/admin/orders", "admin_orders", 3100);
    ck_assert(!asked.last);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        must_be_refused(SK_METHOD_GET, others[i], 503);
        ck_assert(asked.last);
    }
    must_be_refused(SK_METHOD_POST, "/orders/" ORDER "/cancel", 503);
    must_be_refused(SK_METHOD_POST, "/orders/" ORDER "/pay", 503);
    token = NULL;
    must_be_refused(SK_METHOD_POST, "/admin/vouchers/7/pause", 401);
    crowded = false;
    must_come_to(SK_METHOD_GET, "/vouchers", "vouchers", 3100);
}

// Anyone may listen, to one sale or several. Who says who it is counts as that user.
TEST(a_listener_is_known_if_it_says_so)
{
    static const char *const streams[] = {"/vouchers/7/events", "/vouchers/events"};
    for (size_t i = 0; i < sizeof streams / sizeof streams[0]; i++) {
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
    static const char *const theirs[] = {"/admin/vouchers",  "/admin/vouchers/7", "/admin/orders", "/admin/events",
                                         "/admin/instances", "/admin/ui",         "/metrics"};
    static const char *const ours[] = {"/orders",          "/vouchers",          "/vouchers/7",   "/vouchers/7/events",
                                       "/vouchers/events", "/vouchers/7/ticket", "/openapi.json", "/"};
    config.api.pages = 1;
    config.api.admin_listen = elsewhere;
    for (int operators = 0; operators < 2; operators++) {
        options.operators = operators != 0;
        open_again();
        for (size_t i = 0; i < sizeof theirs / sizeof theirs[0]; i++) {
            (void)ask(SK_METHOD_GET, theirs[i]);
            ck_assert_msg((handled[0] != '\0') == operators && (operators || status == 404), "%s", theirs[i]);
        }
        for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
            (void)ask(SK_METHOD_GET, ours[i]);
            ck_assert_msg((handled[0] != '\0') != operators && (!operators || status == 404), "%s", ours[i]);
        }
        (void)ask(SK_METHOD_POST, "/seckill/7");
        ck_assert_uint_eq(status, operators ? 404 : 0);
        (void)ask(SK_METHOD_POST, "/orders/" ORDER "/pay");
        ck_assert_uint_eq(status, operators ? 404 : 0);
        must_come_to(SK_METHOD_POST, "/orders/" ORDER "/refund", "refund", 6200);
        must_come_to(SK_METHOD_GET, "/healthz", "health", 0);
        must_come_to(SK_METHOD_GET, "/readyz", "ready", 0);
        must_come_to(SK_METHOD_GET, "/web/shop.css", "page", 0);
        must_come_to(SK_METHOD_GET, "/orders/" ORDER, "order", 3100);
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

// A path that is off is like one that never was, whatever the method.
TEST(pages_and_the_demo_may_be_off)
{
    static const char *const pages[] = {"/", "/web/shop.css", "/web/", "/web/../x", "/admin/ui"};
    static const char *const to_dashboard[] = {"/admin", "/admin/", "/admin/ui/"};
    static const char demo_pay[] = "/demo/orders/" ORDER "/pay";
    token = NULL;
    for (int on = 0; on < 4; on++) {
        bool has_pages = (on & 1) != 0, has_demo = (on & 2) != 0;
        open_with(has_pages, has_demo);
        for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
            if (has_pages)
                must_come_to(SK_METHOD_GET, pages[i], "page", 0);
            else
                must_be_refused(SK_METHOD_GET, pages[i], 404);
            must_be_refused(SK_METHOD_POST, pages[i], has_pages ? 405 : 404);
        }
        for (size_t i = 0; i < sizeof to_dashboard / sizeof to_dashboard[0]; i++) {
            if (has_pages)
                must_come_to(SK_METHOD_GET, to_dashboard[i], "to_dashboard", 0);
            else
                must_be_refused(SK_METHOD_GET, to_dashboard[i], 404);
        }
        if (has_pages && has_demo)
            must_come_to(SK_METHOD_GET, "/pay", "page", 0);
        else
            must_be_refused(SK_METHOD_GET, "/pay", 404);
        if (has_demo)
            must_come_to(SK_METHOD_POST, demo_pay, "demo_pay", 3100);
        else
            must_be_refused(SK_METHOD_POST, demo_pay, 404);
        must_be_refused(SK_METHOD_GET, demo_pay, has_demo ? 405 : 404);
    }
    user = NULL;
    must_be_refused(SK_METHOD_POST, demo_pay, 401);
    must_be_refused(SK_METHOD_POST, "/demo/orders/x/pay", 401);
    user = "alice";
    must_be_refused(SK_METHOD_POST, "/demo/orders/x/pay", 400);
    sent_type = NULL;
    must_be_refused(SK_METHOD_POST, demo_pay, 415);
}

TEST(pages_lead_nowhere_else)
{
    static const char *const paths[] = {"//",
                                        "/index.html",
                                        "/web",
                                        "/webx",
                                        "/admin/ui/x",
                                        "/admin/u",
                                        "/pay/",
                                        "/payx",
                                        "/demo",
                                        ("/demo/orders/" ORDER),
                                        "/demo/orders/../pay",
                                        "/./",
                                        "/.."};
    open_with(1, 1);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        must_be_refused(SK_METHOD_GET, paths[i], 404);
}

TEST(metrics_are_for_those_who_may_read)
{
    token = "Bearer reader-token-0001";
    must_come_to(SK_METHOD_GET, "/metrics", "metrics", 0);
    must_be_refused(SK_METHOD_POST, "/metrics", 405);
    token = "Bearer payments-token-01";
    must_be_refused(SK_METHOD_GET, "/metrics", 403);
    token = NULL;
    must_be_refused(SK_METHOD_GET, "/metrics", 401);
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
    static const char *const paths[] = {
        "/",           "",
        "*",           "/seckill",
        "/seckill/7/", "/seckill/7/8",
        "//seckill/7", "/SECKILL/7",
        "/seckill/.",  "/seckill/..",
        "/orders/..",  "/orders/" ORDER "/",
        "/vouchers/.", "/vouchersx",
        "/ordersx",    "/healthz/",
        "/readyz?",    "/admin",
        "/admin/",     "/admin/voucher",
    };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        must_be_refused(SK_METHOD_GET, paths[i], 404);
        must_be_refused(SK_METHOD_POST, paths[i], 404);
        must_be_refused(SK_METHOD_UNKNOWN, paths[i], 404);
    }
}

TEST(methods_that_are_not_allowed)
{
    static const struct {
        const char *path, *allow;
        enum sk_method other;
    } rows[] = {
        {"/seckill/7", "POST", SK_METHOD_GET},
        {"/orders", "GET, HEAD", SK_METHOD_POST},
        {"/orders/" ORDER, "GET, HEAD", SK_METHOD_POST},
        {"/orders/" ORDER "/cancel", "POST", SK_METHOD_GET},
        {"/orders/" ORDER "/pay", "POST", SK_METHOD_GET},
        {"/orders/" ORDER "/refund", "POST", SK_METHOD_GET},
        {"/vouchers", "GET, HEAD", SK_METHOD_POST},
        {"/vouchers/7", "GET, HEAD", SK_METHOD_POST},
        {"/vouchers/7/ticket", "GET, HEAD, POST", SK_METHOD_PATCH},
        {"/admin/vouchers", "GET, HEAD, POST", SK_METHOD_OTHER},
        {"/admin/orders", "GET, HEAD", SK_METHOD_POST},
        {"/admin/events", "GET, HEAD", SK_METHOD_POST},
        {"/admin/instances", "GET, HEAD", SK_METHOD_POST},
        {"/admin/vouchers/7/audit", "GET, HEAD", SK_METHOD_POST},
        {"/admin/vouchers/7", "GET, HEAD, PATCH", SK_METHOD_POST},
        {"/admin/vouchers/7/pause", "POST", SK_METHOD_GET},
        {"/admin/vouchers/7/stock", "POST", SK_METHOD_PATCH},
        {"/admin/vouchers/7/reconcile", "POST", SK_METHOD_GET},
        {"/admin/vouchers/7/settlement", "GET, HEAD", SK_METHOD_POST},
        {"/admin/vouchers/7/dead-letters", "GET, HEAD", SK_METHOD_POST},
        {"/admin/vouchers/7/dead-letters/8/requeue", "POST", SK_METHOD_GET},
        {"/admin/vouchers/7/dead-letters/8/write-off", "POST", SK_METHOD_GET},
        {"/healthz", "GET, HEAD", SK_METHOD_POST},
        {"/readyz", "GET, HEAD", SK_METHOD_POST},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        must_be_refused(rows[i].other, rows[i].path, 405);
        ck_assert_str_eq(allow, rows[i].allow);
        must_be_refused(SK_METHOD_OTHER, rows[i].path, 405);
        ck_assert_str_eq(allow, rows[i].allow);
        must_be_refused(SK_METHOD_OPTIONS, rows[i].path, 405);
        ck_assert_str_eq(allow, rows[i].allow);
        must_be_refused(SK_METHOD_UNKNOWN, rows[i].path, 501);
        ck_assert_str_eq(allow, rows[i].allow);
    }
}

TEST(bad_ids)
{
    must_be_refused(SK_METHOD_POST, "/seckill/", 400);
    must_be_refused(SK_METHOD_POST, "/seckill/x", 400);
    must_be_refused(SK_METHOD_POST, "/seckill/0", 400);
    must_be_refused(SK_METHOD_POST, "/seckill/7%00", 400);
    must_be_refused(SK_METHOD_POST, "/seckill/1234567890123456789012345678901234567890", 400);
    must_be_refused(SK_METHOD_GET, "/vouchers/", 400);
    must_be_refused(SK_METHOD_GET, "/vouchers/x", 400);
    must_be_refused(SK_METHOD_GET, "/orders/", 400);
    must_be_refused(SK_METHOD_GET, "/orders/x", 400);
    must_be_refused(SK_METHOD_GET, "/orders/" ORDER "0", 400);
    must_be_refused(SK_METHOD_POST, "/orders/x/cancel", 400);
    must_be_refused(SK_METHOD_POST, "/orders//cancel", 400);
    must_be_refused(SK_METHOD_POST, "/orders/" ORDER "0/pay", 400);
    must_be_refused(SK_METHOD_POST, "/orders/x/refund", 400);
    must_be_refused(SK_METHOD_GET, "/admin/vouchers/", 400);
    must_be_refused(SK_METHOD_GET, "/admin/vouchers/x", 400);
    must_be_refused(SK_METHOD_GET, "/admin/vouchers/x/y", 400);
    must_be_refused(SK_METHOD_POST, "/admin/vouchers/x/reconcile", 400);
    must_be_refused(SK_METHOD_POST, "/admin/vouchers/7/dead-letters/x/requeue", 404);
    must_be_refused(SK_METHOD_POST, "/admin/vouchers/7/dead-letters//requeue", 404);
}

TEST(what_is_checked_first)
{
    user = NULL;
    must_be_refused(SK_METHOD_POST, "/seckill/7", 401);
    must_be_refused(SK_METHOD_POST, "/seckill/x", 400);
    must_be_refused(SK_METHOD_GET, "/seckill/x", 405);
    must_be_refused(SK_METHOD_GET, "/orders/x", 400); // an admin's token
    token = NULL;
    must_be_refused(SK_METHOD_GET, "/orders/x", 401);
    token = "Bearer " TOKEN;
    must_be_refused(SK_METHOD_POST, "/orders/x", 405);
    must_be_refused(SK_METHOD_GET, "/orders", 401);
    must_be_refused(SK_METHOD_GET, "/vouchers/7/ticket", 401); // tickets are a user's
    must_be_refused(SK_METHOD_POST, "/vouchers/7/ticket", 401);
    must_be_refused(SK_METHOD_POST, "/vouchers/x/ticket", 400);
    sent_type = NULL;
    must_be_refused(SK_METHOD_POST, "/admin/vouchers", 415);
    token = "Bearer x";
    must_be_refused(SK_METHOD_POST, "/admin/vouchers", 401);
    must_be_refused(SK_METHOD_OTHER, "/admin/vouchers", 401);
    must_be_refused(SK_METHOD_GET, "/admin/vouchers/x", 401);
    must_be_refused(SK_METHOD_GET, "/admin/vouchers/7/x", 401);
    must_be_refused(SK_METHOD_GET, "/admin/vouchersx", 401);
    must_be_refused(SK_METHOD_GET, "/admin/orders", 401);
    must_be_refused(SK_METHOD_GET, "/admin/events", 401);
    must_be_refused(SK_METHOD_GET, "/admin/vouchers/7/audit", 401);
    must_be_refused(SK_METHOD_GET, "/admin/voucher", 404);
    token = "Bearer reader-token-0001";
    must_be_refused(SK_METHOD_POST, "/admin/vouchers/x/reconcile", 403);
    must_be_refused(SK_METHOD_OTHER, "/admin/vouchers/x/reconcile", 405);
    must_be_refused(SK_METHOD_GET, "/admin/vouchers/x", 400);
}

// Each move has its own caller, and nothing but that.
TEST(moves_have_callers)
{
    static const char *const moves[] = {"/orders/" ORDER "/cancel", "/orders/" ORDER "/pay",
                                        "/orders/" ORDER "/refund"};
    static const struct {
        const char *user, *token;
        unsigned refused[3]; // 0: it comes to its handler
        const char *by;
    } rows[] = {
        {"alice", NULL, {0, 401, 401}, ""},
        {NULL, NULL, {401, 401, 401}, ""},
        {NULL, "Bearer " TOKEN, {401, 0, 0}, "admin"},
        {NULL, "Bearer reader-token-0001", {401, 403, 403}, "reader"},
        {NULL, "Bearer operator-token-01", {401, 403, 0}, "operator"},
        {NULL, "Bearer payments-token-01", {401, 0, 403}, "shop"},
        {"alice", "Bearer payments-token-01", {0, 0, 403}, "shop"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int move = 0; move < 3; move++) {
            user = rows[i].user;
            token = rows[i].token;
            const struct sk_call *call = ask(SK_METHOD_POST, moves[move]);
            ck_assert_msg(status == rows[i].refused[move], "%s of row %d: %u", moves[move], (int)i, status);
            ck_assert_int_eq(handled[0] == '\0', rows[i].refused[move] != 0);
            if (move > 0 && status == 0)
                ck_assert_str_eq(call->by, rows[i].by);
        }
    }
    sent_type = "text/plain";
    token = "Bearer " TOKEN;
    user = "alice";
    must_be_refused(SK_METHOD_POST, moves[1], 415);
    must_be_refused(SK_METHOD_POST, moves[2], 415);
    must_come_to(SK_METHOD_POST, moves[0], "cancel", 6200); // it has no body
}

TEST(without_tokens_admin_calls_are_off)
{
    config = (struct sk_config){0};
    open_again();
    must_be_refused(SK_METHOD_GET, "/admin/vouchers/x", 403);
    must_be_refused(SK_METHOD_OTHER, "/admin/vouchers", 403);
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
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
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

TEST(tickets_and_origins_that_are_wrong_are_no_start)
{
    char secret[] = "short", origins[] = "*";
    config.identity = (struct sk_identity_options){.ticket_secret = secret};
    ck_assert_ptr_null(sk_routes_open(&options));
    config.identity = (struct sk_identity_options){.cors_origins = origins};
    ck_assert_ptr_null(sk_routes_open(&options));
}

TEST(tokens_that_are_wrong_are_no_start)
{
    char wrong[] = "reader read short";
    config.identity = (struct sk_identity_options){.admin_tokens = wrong};
    ck_assert_ptr_null(sk_routes_open(&options));
}

TEST(admins_have_roles)
{
    static const struct {
        const char *token, *by;
        bool reads, operates;
    } rows[] = {
        {"Bearer " TOKEN, "admin", true, true},
        {"Bearer reader-token-0001", "reader", true, false},
        {"Bearer operator-token-01", "operator", true, true},
        {"Bearer payments-token-01", "shop", false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        token = rows[i].token;
        if (rows[i].reads) {
            must_come_to(SK_METHOD_GET, "/admin/vouchers/7", "inspect", 3100);
            ck_assert_str_eq(sk_call_of(&asked)->by, rows[i].by);
            must_come_to(SK_METHOD_GET, "/admin/vouchers/7/x", "not_found", 0);
            must_come_to(SK_METHOD_GET, "/admin/orders", "admin_orders", 3100);
            must_come_to(SK_METHOD_GET, "/admin/events", "order_events", 3100);
            must_come_to(SK_METHOD_GET, "/admin/vouchers/7/audit", "admin_events", 3100);
        } else {
            must_be_refused(SK_METHOD_GET, "/admin/orders", 403);
            must_be_refused(SK_METHOD_GET, "/admin/events", 403);
            must_be_refused(SK_METHOD_GET, "/admin/vouchers/7/audit", 403);
            must_be_refused(SK_METHOD_GET, "/admin/vouchers/7", 403);
            must_be_refused(SK_METHOD_GET, "/admin/vouchers/7/x", 403);
        }
        if (rows[i].operates) {
            must_come_to(SK_METHOD_POST, "/admin/vouchers/7/reconcile", "rebuild", 63100);
            ck_assert_str_eq(sk_call_of(&asked)->by, rows[i].by);
        } else {
            must_be_refused(SK_METHOD_POST, "/admin/vouchers/7/reconcile", 403);
        }
        must_be_refused(SK_METHOD_PATCH, "/admin/vouchers/7/reconcile", 405);
    }
}

// A user who is named is the one who asks, whatever token stands beside.
TEST(who_may_read_may_see_an_order)
{
    const struct sk_call *call = ask(SK_METHOD_GET, "/orders/" ORDER);
    ck_assert_str_eq(handled, "order");
    ck_assert_str_eq(call->user, "alice");
    ck_assert_str_eq(call->by, "");
    user = NULL;
    call = ask(SK_METHOD_GET, "/orders/" ORDER);
    ck_assert_str_eq(handled, "order");
    ck_assert_str_eq(call->user, "");
    ck_assert_str_eq(call->by, "admin");
    must_be_refused(SK_METHOD_GET, "/orders", 401);
    must_be_refused(SK_METHOD_POST, "/seckill/7", 401);
    token = "Bearer payments-token-01";
    must_be_refused(SK_METHOD_GET, "/orders/" ORDER, 403);
    token = "Bearer x";
    must_be_refused(SK_METHOD_GET, "/orders/" ORDER, 401);
    token = "Bearer " TOKEN;
    user = "not a user";
    must_be_refused(SK_METHOD_GET, "/orders/" ORDER, 401);
    user = "";
    must_be_refused(SK_METHOD_GET, "/orders/" ORDER, 401);
}

static bool is_for_operators(const char *path)
{
    return strncmp(path, "/admin/", 7) == 0 || strstr(path, "/pay") != NULL || strstr(path, "/refund") != NULL;
}

TEST(users_may_have_tokens)
{
    static char verifier; // any will do
    static const struct {
        const char *token;
        enum sk_method method;
        const char *path;
        unsigned status; // 0: it comes to its handler
    } rows[] = {
        {"Bearer good.user.token", SK_METHOD_POST, "/seckill/7", 0},
        {"Bearer good.user.token", SK_METHOD_GET, "/orders", 0},
        {"Bearer good.user.token", SK_METHOD_GET, "/orders/" ORDER, 0},
        {"Bearer good.user.token", SK_METHOD_POST, "/orders/" ORDER "/cancel", 0},
        {"Bearer good.user.token", SK_METHOD_GET, "/vouchers", 0},
        {"Bearer good.user.token", SK_METHOD_GET, "/admin/vouchers", 401},
        {"Bearer good.user.token", SK_METHOD_POST, "/admin/vouchers", 401},
        {"Bearer good.user.token", SK_METHOD_OTHER, "/admin/vouchers", 401},
        {"Bearer good.user.token", SK_METHOD_POST, "/orders/" ORDER "/refund", 401},
        {"Bearer good.user.token", SK_METHOD_POST, "/orders/" ORDER "/pay", 401},
        {"Bearer other.user.token", SK_METHOD_POST, "/seckill/7", 401},
        {"Bearer other.user.token", SK_METHOD_GET, "/orders/" ORDER, 401},
        {"Bearer other.user.token", SK_METHOD_GET, "/admin/vouchers", 401},
        {"Bearer no.memory.now", SK_METHOD_POST, "/seckill/7", 503},
        {"Bearer " TOKEN, SK_METHOD_POST, "/seckill/7", 401},
        {"Bearer " TOKEN, SK_METHOD_GET, "/orders", 401},
        {"Bearer " TOKEN, SK_METHOD_GET, "/orders/" ORDER, 0}, // it may read
        {"Bearer payments-token-01", SK_METHOD_GET, "/orders/" ORDER, 403},
        {"Bearer " TOKEN, SK_METHOD_GET, "/admin/vouchers", 0},
        {NULL, SK_METHOD_POST, "/seckill/7", 401},
        {NULL, SK_METHOD_GET, "/orders/" ORDER, 401},
    };
    options.users = (struct sk_user_tokens *)(void *)&verifier;
    open_again();
    user = "alice"; // which counts for nothing
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        token = rows[i].token;
        user_tokens_checked = 0;
        const struct sk_call *call = ask(rows[i].method, rows[i].path);
        ck_assert_msg(status == rows[i].status, "row %zu: %u", i, status);
        // An operator's call computes no signature, whatever token it is sent.
        ck_assert_msg(user_tokens_checked == 0 || !is_for_operators(rows[i].path), "row %zu", i);
        ck_assert_msg((handled[0] == '\0') == (status != 0), "row %zu: %s", i, handled);
        ck_assert_msg(strcmp(call->user, "alice") != 0, "row %zu", i);
        if (status == 0 && i < 4)
            ck_assert_str_eq(call->user, "bob");
    }
    // Without admins, too, all that identifies no user gets the same answer.
    config.identity.admin_token = config.identity.admin_tokens = NULL;
    open_again();
    token = "Bearer other.user.token";
    must_be_refused(SK_METHOD_GET, "/orders/" ORDER, 401);
    must_be_refused(SK_METHOD_GET, "/admin/vouchers", 403); // they are off
}

TEST(a_change_may_be_meant_for_a_version)
{
    static const struct {
        const char *value;
        unsigned count;
        int64_t version; // below 0: refused
    } rows[] = {
        {NULL, 0, 0},
        {"*", 1, 0},
        {"\"1\"", 1, 1},
        {"\"9223372036854775807\"", 1, INT64_MAX},
        {"\"9223372036854775808\"", 1, -1},
        {"\"0\"", 1, -1},
        {"\"-1\"", 1, -1},
        {"\"01\"", 1, -1},
        {"\"1.0\"", 1, -1},
        {"\" 1\"", 1, -1},
        {"\"x\"", 1, -1},
        {"\"\"", 1, -1},
        {"\"", 1, -1},
        {"", 1, -1},
        {"1", 1, -1},
        {"\"1", 1, -1},
        {"1\"", 1, -1},
        {"'1'", 1, -1},
        {"W/\"1\"", 1, 1}, // as gateways rewrite our tag
        {"\"5-gzip\"", 1, 5},
        {"\"5-br\"", 1, 5},
        {"\"5--gzip\"", 1, 5},
        {"W/\"5-gzip\"", 1, 5},
        {"W/\"x\"", 1, -1},
        {"W/1", 1, -1},
        {"W/", 1, -1},
        {"w/\"1\"", 1, -1},
        {"\"x-gzip\"", 1, -1},
        {"\"-gzip\"", 1, -1},
        {"\"5gzip\"", 1, -1},
        {"\"5-gzip", 1, -1},
        {"\"5-a\"b\"", 1, -1},
        {"\"1-a\", W/\"2-a\"", 1, -1},
        {"\"1\", \"2\"", 1, -1},
        {"\"1\" ", 1, -1},
        {"*,*", 1, -1},
        {"\"1\"", 2, -1},
        {"*", 2, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if_match = rows[i].value;
        if_matches = rows[i].count;
        const struct sk_call *call = ask(SK_METHOD_POST, "/admin/vouchers/7/reconcile");
        ck_assert_msg(status == (rows[i].version < 0 ? 400 : 0), "%s: %u", rows[i].value, status);
        if (rows[i].version >= 0)
            ck_assert_int_eq(call->if_match, rows[i].version);
        must_come_to(SK_METHOD_GET, "/admin/vouchers/7", "inspect", 3100); // changes nothing, so it does not check
        ck_assert_int_eq(sk_call_of(&asked)->if_match, 0);
    }
}

static void must_name(enum sk_method method, const char *path, const char *first, const char *second, const char *error)
{
    parameters[0] = first;
    parameters[1] = first == NULL ? NULL : second;
    must_be_refused(method, path, 422);
    ck_assert_msg(strstr(answered, error) != NULL, "%s: %s", path, answered);
}

#define PARAMETER_ERROR(name, detail) "\"errors\":[{\"parameter\":\"" name "\",\"detail\":\"" detail "\"}]"

TEST(a_call_takes_its_own_parameters_once)
{
    static const char long_name[] = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
    char cut[128];
    parameters[0] = "limit";
    parameters[1] = "cursor";
    must_come_to(SK_METHOD_GET, "/vouchers", "vouchers", 3100);
    parameters[0] = parameters[1] = ""; // "?&"
    must_come_to(SK_METHOD_GET, "/vouchers", "vouchers", 3100);
    parameters[1] = NULL;
    parameters[0] = "voucher";
    must_come_to(SK_METHOD_GET, "/admin/orders", "admin_orders", 3100);
    parameters[1] = "state"; // both are in the document under longer names
    must_come_to(SK_METHOD_GET, "/admin/payments", "admin_payments", 3100);
    must_name(SK_METHOD_GET, "/admin/payments", "stateToRefund", NULL,
              PARAMETER_ERROR("stateToRefund", "is not known here"));
    must_name(SK_METHOD_GET, "/admin/payments", "state", "state", PARAMETER_ERROR("state", "is there twice"));
    must_name(SK_METHOD_GET, "/vouchers", "limit", "limit", PARAMETER_ERROR("limit", "is there twice"));
    must_name(SK_METHOD_GET, "/vouchers", "limit", "after", PARAMETER_ERROR("after", "is not known here"));
    must_name(SK_METHOD_GET, "/vouchers", "_", NULL, PARAMETER_ERROR("_", "is not known here")); // a cache-buster
    must_name(SK_METHOD_GET, "/vouchers", "Limit", NULL, PARAMETER_ERROR("Limit", "is not known here"));
    must_name(SK_METHOD_GET, "/vouchers", "limit cursor", NULL, PARAMETER_ERROR("limit%20cursor", "is not known here"));
    must_name(SK_METHOD_GET, "/vouchers", "lim", NULL, PARAMETER_ERROR("lim", "is not known here"));
    must_name(SK_METHOD_GET, "/vouchers", "\"\xff", NULL, PARAMETER_ERROR("%22%FF", "is not known here"));
    must_name(SK_METHOD_GET, "/vouchers/7", "x", NULL, PARAMETER_ERROR("x", "is not known here"));
    must_name(SK_METHOD_POST, "/seckill/7", "Prefer", NULL, PARAMETER_ERROR("Prefer", "is not known here"));
    must_name(SK_METHOD_POST, "/admin/vouchers", "voucher", NULL, PARAMETER_ERROR("voucher", "is not known here"));
    must_name(SK_METHOD_GET, "/healthz", "x", NULL, PARAMETER_ERROR("x", "is not known here"));
    (void)snprintf(cut, sizeof cut, PARAMETER_ERROR("%.64s", "is not known here"), long_name);
    must_name(SK_METHOD_GET, "/vouchers", long_name, NULL, cut);
    open_with(1, 0);
    must_come_to(SK_METHOD_GET, "/", "page", 0); // a link to a page may carry anything
    query_bad = true;
    must_name(SK_METHOD_GET, "/vouchers", NULL, NULL,
              PARAMETER_ERROR("", "the query has a malformed escape, or that of a control byte"));
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

TEST(a_bad_query_is_refused)
{
    query_bad = true;
    must_be_refused(SK_METHOD_GET, "/vouchers", 422);
    must_be_refused(SK_METHOD_GET, "/admin/vouchers/7", 422);
    must_be_refused(SK_METHOD_GET, "/nowhere", 404);
    must_be_refused(SK_METHOD_GET, "/vouchers/x", 400);
    must_be_refused(SK_METHOD_POST, "/seckill/7", 422);
    user = NULL;
    must_be_refused(SK_METHOD_GET, "/orders", 401);
}

TEST(json_is_asked_for)
{
    must_come_to(SK_METHOD_POST, "/admin/vouchers", "create", 3100);
    sent_type = "text/json";
    must_be_refused(SK_METHOD_POST, "/admin/vouchers", 415);
    sent_type = NULL;
    must_be_refused(SK_METHOD_POST, "/admin/vouchers", 415);
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
    must_come_to(SK_METHOD_GET, "/orders", "orders", 3100);
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
    must_come_to(SK_METHOD_GET, "/vouchers", "vouchers", 3100);
    ck_assert_int_eq(asked.limit.policy, SK_POLICY_NONE);
    must_be_refused(SK_METHOD_GET, "/nowhere", 404);
    must_be_refused(SK_METHOD_OTHER, "/seckill/7", 405);
    user = NULL;
    must_be_refused(SK_METHOD_POST, "/seckill/7", 401);
    must_be_refused(SK_METHOD_POST, "/seckill/7", 429);
    must_be_refused(SK_METHOD_GET, "/nowhere", 429);
    must_be_refused(SK_METHOD_GET, "/vouchers/7", 429);
    ck_assert_int_eq(asked.limit.policy, SK_POLICY_ADDRESS);
    ck_assert_uint_eq(asked.limit.left, 0);
    must_come_to(SK_METHOD_GET, "/healthz", "health", 0);
    must_come_to(SK_METHOD_GET, "/readyz", "ready", 0);
    must_come_to(SK_METHOD_GET, "/admin/vouchers", "admin_vouchers", 3100);
    must_come_to(SK_METHOD_POST, "/orders/" ORDER "/pay", "pay", 3100);
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
    must_be_refused(SK_METHOD_POST, "/orders/" ORDER "/refund", 429);
    must_be_refused(SK_METHOD_POST, "/orders/" ORDER "/pay", 429);
    token = "Bearer " TOKEN;
    must_be_refused(SK_METHOD_GET, "/admin/vouchers", 429); // nor is a right one checked
    must_be_refused(SK_METHOD_GET, "/orders/" ORDER, 429);
    user = "alice";
    must_come_to(SK_METHOD_POST, "/seckill/7", "buy", 7);
    ck_assert_uint_eq(sk_metrics_read(metrics, SK_METRIC_ADMIN_TOKENS_WRONG), 3);
    still_at_ms += 1000;
    must_come_to(SK_METHOD_GET, "/admin/vouchers", "admin_vouchers", 3100);
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
    must_be_refused(SK_METHOD_GET, "/readyz", 503);
    must_be_refused(SK_METHOD_GET, "/nowhere", 503);
    ck_assert_str_eq(handled, "");
}

SUITE(.setup = setup, .teardown = teardown);
