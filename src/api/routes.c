// A CORS preflight is answered first, whatever the path (cors.h). Any other request is matched with the table
// (route_table.c). The first check that fails refuses it, in this order: its address's rate (429), the path (404), the
// admin's token and its role (401, 403), the method (405, 501), a voucher's or dead letter's id (400, 404), the page
// that sends it (403), the user (401) and its rate (429), an order's id (400), the body's type (415), If-Match (400),
// the query (422).
#include "routes.h"

#include <stdio.h>
#include <string.h>

#include "about.h"
#include "address.h"
#include "admin_tokens.h"
#include "auth.h"
#include "client_limits.h"
#include "cors.h"
#include "failpoint.h"
#include "live.h"
#include "log.h"
#include "measure.h"
#include "pages.h"
#include "purchase.h"
#include "response.h"
#include "route_table.h"
#include "secrets.h"
#include "settlement_report.h"
#include "target.h"
#include "trace.h"
#include "verdict.h"

enum { REBUILD_MS = 60000, ID_SIZE = 24, ALLOW_SIZE = 32 };

struct sk_routes {
    struct sk_routes_options options;
    struct sk_context context;
    struct sk_answers *answers;       // owned; the context borrows it
    struct sk_tokens *tokens;         // owned, and so are the tickets: those of the start
    struct sk_secret_set checks;      // requests are checked with these: those of the start, or of `held`
    const struct sk_secret_set *held; // NULL: no secrets were read again
    uint64_t version;                 // of `held`
    struct sk_document *openapi;      // owned
    struct sk_pages *pages;           // owned; the context borrows it
    struct sk_tickets *tickets;
    struct sk_cors *cors;     // owned
    struct sk_cors *pictures; // origins of vouchers' pictures; owned
    struct sk_tracer *tracer; // owned
    struct sk_server *server; // NULL: nothing is connected yet
    uint64_t wait_ms[SK_ROUTE_WAIT_COUNT];
};

// ---- opening and closing ----

static bool routes_open_parts(struct sk_routes *routes)
{
    const struct sk_identity_options *identity = routes->options.identity;
    bool paged = routes->options.api->pages != 0;
    routes->tokens = sk_tokens_open(identity, stderr);
    routes->cors = sk_cors_open(identity->cors_origins, stderr);
    routes->openapi = sk_openapi_open(routes->cors);
    routes->pictures = sk_cors_open_list("SECKILL_PICTURE_ORIGINS", routes->options.api->picture_origins, stderr);
    routes->pages = paged ? sk_pages_open(identity->auth, routes->options.api, routes->pictures, stderr) : NULL;
    routes->tickets = sk_tickets_open(identity, stderr);
    if (routes->cors != NULL)
        routes->answers = sk_answers_open(routes->cors);
    routes->tracer = sk_tracer_open(routes->options.server);
    return routes->answers != NULL && routes->tokens != NULL && routes->openapi != NULL && routes->tickets != NULL &&
           routes->tracer != NULL && routes->pictures != NULL && (!paged || routes->pages != NULL);
}

static void routes_note_tickets(const struct sk_routes *routes)
{
    sk_metrics_set(routes->options.metrics, SK_METRIC_TICKETS_ON, sk_tickets_on(routes->context.tickets));
}

struct sk_routes *sk_routes_open(const struct sk_routes_options *options)
{
    struct sk_routes *routes = calloc(1, sizeof *routes);
    if (routes == NULL)
        return NULL;
    routes->options = *options;
    if (!routes_open_parts(routes)) {
        sk_routes_close(routes);
        return NULL;
    }
    const struct sk_identity_options *identity = options->identity;
    sk_tracer_write(routes->tracer, options->lane);
    if (options->limits != NULL && sk_limits_rated(options->limits))
        sk_answers_limit(routes->answers, sk_limits_policy(options->limits));
    routes->context = (struct sk_context){.options = &routes->options,
                                          .answers = routes->answers,
                                          .openapi = routes->openapi,
                                          .pages = routes->pages,
                                          .pictures = routes->pictures,
                                          .tickets = routes->tickets,
                                          .tokens = routes->tokens};
    routes->checks = (struct sk_secret_set){routes->tokens, routes->tickets, identity->payment_secret};
    // Time for three statements of PostgreSQL and one command of Redis. A slower call is answered 503.
    const struct sk_store_options *stores = options->stores;
    uint64_t stores_ms = (uint64_t)(stores->redis_timeout_ms + 3 * stores->pg_timeout_ms);
    routes->context.stores_ms = routes->wait_ms[SK_ROUTE_FOR_STORES] = stores_ms;
    routes->wait_ms[SK_ROUTE_FOR_COMMIT] = (uint64_t)options->api->confirm_timeout_ms;
    routes->wait_ms[SK_ROUTE_FOR_RETURN] = 2 * stores_ms;
    routes->wait_ms[SK_ROUTE_FOR_REBUILD] = stores_ms + REBUILD_MS;
    routes->wait_ms[SK_ROUTE_FOR_REPORT] = stores_ms + SK_REPORT_MS;
    routes_note_tickets(routes);
    return routes;
}

void sk_routes_connect(struct sk_routes *routes, struct sk_server *server, struct sk_control *control)
{
    routes->server = server;
    routes->context.control = control;
    sk_answers_keep_alive(routes->answers, true);
}

void sk_routes_turn(struct sk_routes *routes)
{
    const struct sk_secret_set *old = routes->held;
    if (routes->options.secrets == NULL || sk_secrets_version(routes->options.secrets) == routes->version)
        return;
    routes->held = sk_secrets_take(routes->options.secrets, &routes->version);
    routes->checks = *routes->held;
    routes->context.tickets = routes->held->tickets;
    routes->context.tokens = routes->held->tokens;
    routes_note_tickets(routes);
    if (old != NULL)
        sk_secrets_give_back(routes->options.secrets, old);
}

void sk_routes_drain(struct sk_routes *routes)
{
    routes->context.draining = true;
    sk_answers_keep_alive(routes->answers, false);
}

void sk_routes_end(struct sk_routes *routes)
{
    routes->context.control = NULL;
    sk_answers_keep_alive(routes->answers, false);
}

void sk_routes_close(struct sk_routes *routes)
{
    if (routes == NULL)
        return;
    if (routes->held != NULL)
        sk_secrets_give_back(routes->options.secrets, routes->held);
    sk_answers_close(routes->answers);
    sk_tokens_close(routes->tokens);
    sk_document_close(routes->openapi);
    sk_pages_close(routes->pages);
    sk_tickets_close(routes->tickets);
    sk_cors_close(routes->cors);
    sk_cors_close(routes->pictures);
    sk_tracer_close(routes->tracer);
    free(routes);
}

// ---- a request ----

// A route that the configuration turns off is not found.
static bool routes_serve(const struct sk_routes *routes, const struct sk_route *first)
{
    const struct sk_api_options *api = routes->options.api;
    enum sk_route_place elsewhere = routes->options.operators ? SK_PLACE_BUYERS : SK_PLACE_OPERATORS;
    if (api->admin_listen != NULL && first->place == elsewhere)
        return false;
    if ((first->flags & SK_ROUTE_OF_PAGES) != 0 && api->pages == 0)
        return false;
    return (first->flags & SK_ROUTE_OF_DEMO) == 0 || api->demo != 0;
}

// While nearly all connections are taken, the rest are for purchases, operators and probes. All other requests are
// refused, and their connections closed.
static bool routes_is_crowded_out(const struct sk_routes *routes, struct sk_request *request,
                                  const struct sk_match *match)
{
    if (routes->options.operators || !sk_server_crowded(routes->server) ||
        (match->first != NULL && (match->first->flags & SK_ROUTE_VITAL) != 0))
        return false;
    sk_metrics_add(routes->options.metrics, SK_METRIC_CROWDED, 1);
    request->last = true;
    return true;
}

// Unknown paths count, too.
static bool routes_limit_address(const struct sk_routes *routes, struct sk_request *request,
                                 const struct sk_route *first)
{
    enum sk_route_counts counts = first == NULL ? SK_ROUTE_COUNTS_TRIES : first->counts;
    if (routes->options.limits == NULL || counts == SK_ROUTE_COUNTS_NOTHING || counts == SK_ROUTE_COUNTS_FAILURES)
        return true;
    return counts == SK_ROUTE_COUNTS_TRIES ? sk_limits_address(routes->options.limits, request)
                                           : sk_limits_document(routes->options.limits, request);
}

// Only purchases and cancellations count. Other answers carry no limits, unless a limit refuses them.
static bool routes_limit_user(const struct sk_routes *routes, struct sk_request *request, const struct sk_route *route)
{
    if (routes->options.limits == NULL)
        return true;
    if ((route->flags & SK_ROUTE_RATED) != 0)
        return sk_limits_user(routes->options.limits, request, sk_call_of(request)->user);
    request->limit.policy = SK_POLICY_NONE;
    return true;
}

static enum sk_verdict routes_verdict(enum sk_caller auth)
{
    static const enum sk_verdict verdicts[] = {
        [SK_CALLER_KNOWN] = SK_VERDICT_OK,
        [SK_CALLER_UNKNOWN] = SK_VERDICT_UNAUTHENTICATED,
        [SK_CALLER_FORBIDDEN] = SK_VERDICT_FORBIDDEN,
        [SK_CALLER_BAD_SIGNATURE] = SK_VERDICT_BAD_SIGNATURE,
        [SK_CALLER_ADMIN_OFF] = SK_VERDICT_ADMIN_OFF,
        [SK_CALLER_NO_MEM] = SK_VERDICT_OVERLOADED,
    };
    return verdicts[auth];
}

// Counts wrong tokens and signatures: guesses, or secrets that were not updated. A missing token is no guess.
static void routes_note_failed_auth(const struct sk_routes *routes, const struct sk_request *request,
                                    enum sk_caller auth)
{
    struct sk_limits *limits = routes->options.limits;
    bool signature = auth == SK_CALLER_BAD_SIGNATURE;
    bool token = auth == SK_CALLER_UNKNOWN && sk_request_header(request, "authorization", NULL) != NULL;
    struct sk_address client;
    char address[SK_ADDRESS_SIZE] = "none";
    if (!signature && !token)
        return;
    sk_metrics_add(routes->options.metrics, signature ? SK_METRIC_SIGNATURES_WRONG : SK_METRIC_ADMIN_TOKENS_WRONG, 1);
    if (limits != NULL)
        sk_limits_failed(limits, request);
    if (limits == NULL ? sk_request_peer(request, &client) : sk_limits_client(limits, request, &client))
        sk_address_put(&client, address);
    sk_log(SK_LOG_WARN, signature ? "a payment's signature is wrong" : "an admin's token is wrong",
           "address=%s route=%s", address, request->route);
}

// A method that the path does not have is reported only to callers with a token. A user's token is not one here, and
// its signature is not computed, so nobody can make us do that by sending it again and again.
static enum sk_verdict routes_admit_admin(const struct sk_routes *routes, struct sk_request *request,
                                          const struct sk_match *match)
{
    static const enum sk_role roles[] = {[SK_ROUTE_READ] = SK_ROLE_READ,
                                         [SK_ROUTE_OPERATE] = SK_ROLE_OPERATE,
                                         [SK_ROUTE_REFUNDS] = SK_ROLE_REFUNDS,
                                         [SK_ROUTE_SCRAPER] = SK_ROLE_METRICS};
    struct sk_call *call = sk_call_of(request);
    bool open = match->first->caller == SK_ROUTE_SCRAPER && routes->options.api->metrics_open != 0;
    if (match->first->caller < SK_ROUTE_READ || open)
        return SK_VERDICT_OK;
    if (routes->options.limits != NULL && !sk_limits_may_fail(routes->options.limits, request))
        return SK_VERDICT_RATE_LIMITED;
    enum sk_caller auth;
    if (match->first->caller == SK_ROUTE_PAYMENTS)
        auth = sk_auth_payment(request, routes->checks.tokens, routes->checks.payment_secret, call->by);
    else
        auth = sk_auth_admin(request, routes->checks.tokens,
                             match->route == NULL ? SK_ROLE_ANY : roles[match->route->caller], call->by);
    routes_note_failed_auth(routes, request, auth);
    return routes_verdict(auth);
}

// Whether only a gateway can name the user of such a call: no token of the client's would help. A value of X-User-Id
// that identifies no user, or several values, cannot be made good by a token.
static bool routes_gateway_names(const struct sk_routes *routes, const struct sk_request *request,
                                 enum sk_route_caller caller)
{
    if (routes->options.users != NULL || routes->options.operators)
        return false;
    return caller == SK_ROUTE_USER ||
           (caller == SK_ROUTE_USER_OR_READ && (sk_request_header(request, "x-user-id", NULL) != NULL ||
                                                sk_request_header(request, "authorization", NULL) == NULL));
}

static enum sk_verdict routes_admit_user(const struct sk_routes *routes, struct sk_request *request,
                                         enum sk_route_caller caller)
{
    struct sk_call *call = sk_call_of(request);
    if (caller != SK_ROUTE_USER && caller != SK_ROUTE_USER_OR_READ)
        return SK_VERDICT_OK;
    enum sk_caller auth =
        routes->options.operators ? SK_CALLER_UNKNOWN : sk_auth_user(request, routes->options.users, call->user);
    if (auth != SK_CALLER_UNKNOWN || caller == SK_ROUTE_USER)
        return routes_verdict(auth);
    if (routes_gateway_names(routes, request, caller))
        return SK_VERDICT_UNAUTHENTICATED;
    if (routes->options.limits != NULL && !sk_limits_may_fail(routes->options.limits, request))
        return SK_VERDICT_RATE_LIMITED;
    auth = sk_auth_admin(request, routes->checks.tokens, SK_ROLE_READ, call->by);
    if (routes->options.users == NULL) // else it may have been a user's token
        routes_note_failed_auth(routes, request, auth);
    return routes_verdict(routes->options.users != NULL && auth == SK_CALLER_ADMIN_OFF ? SK_CALLER_UNKNOWN : auth);
}

// True also if there is nothing to read.
static bool routes_read_number(struct sk_route_part part, int64_t *id)
{
    char text[ID_SIZE];
    if (part.at == NULL)
        return true;
    if (part.len >= sizeof text)
        return false;
    memcpy(text, part.at, part.len);
    text[part.len] = '\0';
    return sk_text_voucher_id(text, id);
}

// Reads the version of our ETag, "<number>"; `*` or no If-Match leave it unchanged. Gateways that compress answers
// rewrite the tag to W/"5" or "5-gzip". A version is the same in each coding, so these count as "5".
static bool routes_read_if_match(const struct sk_request *request, int64_t *version)
{
    unsigned count;
    const char *tag = sk_request_header(request, "if-match", &count);
    if (count == 0 || (count == 1 && strcmp(tag, "*") == 0))
        return true;
    if (strncmp(tag, "W/", 2) == 0)
        tag += 2;
    const char *end = tag[0] == '"' ? strchr(tag + 1, '"') : NULL;
    if (count != 1 || end == NULL || end[1] != '\0')
        return false;
    return routes_read_number((struct sk_route_part){tag + 1, strcspn(tag + 1, "-\"")}, version);
}

// OK: the request may go to its handler, and its call is filled in.
static enum sk_verdict routes_admit(struct sk_routes *routes, struct sk_request *request, struct sk_match *match)
{
    struct sk_call *call = sk_call_of(request);
    if (routes->server == NULL) // a client may be early
        return SK_VERDICT_UNAVAILABLE;
    if (routes->context.control == NULL)
        return SK_VERDICT_SHUTTING_DOWN;
    bool known = sk_route_match(request->method, request->path, match) && routes_serve(routes, match->first);
    if (!known)
        *match = (struct sk_match){0};
    request->route = known ? match->first->pattern : NULL;
    request->row = match->route == NULL ? 0 : (unsigned)(match->route - sk_route_table) + 1;
    if (routes_is_crowded_out(routes, request, match))
        return SK_VERDICT_OVERLOADED;
    if (!routes_limit_address(routes, request, match->first))
        return SK_VERDICT_RATE_LIMITED;
    if (!known)
        return SK_VERDICT_NOT_FOUND;
    enum sk_verdict verdict = routes_admit_admin(routes, request, match);
    if (verdict != SK_VERDICT_OK)
        return verdict;
    if (match->route == NULL)
        return request->method == SK_METHOD_UNKNOWN ? SK_VERDICT_NOT_IMPLEMENTED : SK_VERDICT_METHOD_NOT_ALLOWED;
    if (!routes_read_number(match->ids[SK_ROUTE_VOUCHER], &call->voucher_id))
        return SK_VERDICT_BAD_VOUCHER_ID;
    if (!routes_read_number(match->ids[SK_ROUTE_DEAD_LETTER], &call->dead_letter_id))
        return SK_VERDICT_NOT_FOUND;
    // Behind a gateway a cookie may identify the user, and a browser sends it for any page. It does not send a token.
    if (routes->options.users == NULL && sk_route_is_unsafe(match->route) && sk_cors_is_foreign(routes->cors, request))
        return SK_VERDICT_CROSS_SITE;
    verdict = routes_admit_user(routes, request, match->route->caller);
    // A caller of a call open to anyone, who authenticates, is counted as that user.
    if ((match->route->flags & SK_ROUTE_MAY_NAME_USER) != 0 &&
        sk_auth_user(request, routes->options.users, call->user) != SK_CALLER_KNOWN)
        call->user[0] = '\0';
    if (verdict != SK_VERDICT_OK)
        return verdict;
    if (!routes_limit_user(routes, request, match->route))
        return SK_VERDICT_RATE_LIMITED;
    const struct sk_route_part *order = &match->ids[SK_ROUTE_ORDER];
    if (order->at != NULL && !sk_uuid_read(order->at, order->len, call->order_id)) // handlers see the usual form only
        return SK_VERDICT_BAD_ORDER_ID;
    if (match->route->body == SK_ROUTE_JSON)
        verdict = sk_call_body_type(request);
    if (verdict != SK_VERDICT_OK)
        return verdict;
    if (match->route->caller == SK_ROUTE_OPERATE && !routes_read_if_match(request, &call->if_match))
        return SK_VERDICT_BAD_REQUEST;
    return SK_VERDICT_OK;
}

// The names of a query, as far as they were read.
struct query_read {
    const struct sk_request *request;
    const struct sk_route *route;
    const char *odd; // the first that is wrong; NULL: none
    bool twice;      // it is known, and was sent more than once
};

static bool routes_on_parameter(void *arg, const char *name)
{
    struct query_read *read = arg;
    unsigned count = 0;
    bool known = name[0] == '\0' || sk_route_has_parameter(read->route, name); // "?" and "&&" name nothing
    if (known && name[0] != '\0')
        (void)sk_request_query(read->request, name, &count);
    read->twice = count > 1;
    if (known && !read->twice)
        return true;
    read->odd = name;
    return false;
}

// Whether the query has only parameters of the call, each once. A wrong name would give the client another list than it
// asked for, and a cache a second copy. Pages are no calls: a link to one may carry anything. False: it was refused.
static bool routes_query_good(const struct sk_routes *routes, struct sk_request *request, const struct sk_route *route)
{
    char shown[SK_FIELDS_NAME_MAX + 1];
    struct sk_buf escaped = {0};
    struct query_read read = {.request = request, .route = route};
    if (!request->has_query)
        return true;
    if (request->query_bad)
        return sk_answer_parameter(routes->answers, request, "",
                                   "the query has a malformed escape, or that of a control byte");
    if (route->query == NULL || sk_request_query_all(request, routes_on_parameter, &read))
        return true;
    sk_url_put(&escaped, read.odd);
    (void)snprintf(shown, sizeof shown, "%s", escaped.failed ? "" : escaped.data);
    sk_buf_free(&escaped);
    return sk_answer_parameter(routes->answers, request, shown, read.twice ? "is there twice" : "is not known here");
}

// Refuses a caller with the reason, where naming it helps nobody to become another caller. False: it does not.
static bool routes_refuse_caller(const struct sk_routes *routes, struct sk_request *request,
                                 const struct sk_match *match, enum sk_verdict verdict)
{
    struct sk_answer answer = {.verdict = verdict};
    if (verdict == SK_VERDICT_UNAUTHENTICATED && match->route != NULL &&
        routes_gateway_names(routes, request, match->route->caller)) {
        answer.challenge = "Gateway";
        answer.detail = sk_auth_user_fault(request);
    } else if (verdict == SK_VERDICT_BAD_SIGNATURE) {
        answer.detail = sk_auth_payment_fault(request, routes->checks.payment_secret);
    } else {
        return false;
    }
    sk_answer_send(routes->answers, request, &answer);
    return true;
}

static void routes_refuse(struct sk_routes *routes, struct sk_request *request, const struct sk_match *match,
                          enum sk_verdict verdict)
{
    static const char *const names[] = {
        [SK_ROUTE_GET] = "GET, HEAD", [SK_ROUTE_POST] = "POST", [SK_ROUTE_PATCH] = "PATCH"};
    char allow[ALLOW_SIZE] = "";
    if (routes_refuse_caller(routes, request, match, verdict))
        return;
    if (verdict != SK_VERDICT_METHOD_NOT_ALLOWED && verdict != SK_VERDICT_NOT_IMPLEMENTED) {
        sk_answer_refusal(routes->answers, request, verdict);
        return;
    }
    for (const struct sk_route *route = match->first; route != NULL; route = sk_route_next_method(route)) {
        size_t len = strlen(allow);
        (void)snprintf(allow + len, sizeof allow - len, "%s%s", len == 0 ? "" : ", ", names[route->method]);
    }
    sk_answer_allow(routes->answers, request, verdict, allow);
}

static void routes_dispatch(struct sk_routes *routes, struct sk_request *request)
{
    struct sk_match match = {0};
    SK_FAILPOINT("http.request");
    sk_measure_began(routes->options.measure, request);
    if (request->method == SK_METHOD_OPTIONS && sk_answer_preflight(routes->answers, request))
        return;
    enum sk_verdict verdict = routes_admit(routes, request, &match);
    if (verdict != SK_VERDICT_OK) {
        routes_refuse(routes, request, &match, verdict);
        return;
    }
    if (!routes_query_good(routes, request, match.route))
        return;
    // The request waits from now on: the answer may come before the handler returns.
    if (match.route->wait != SK_ROUTE_AT_ONCE)
        sk_request_wait(request, routes->wait_ms[match.route->wait]);
    match.route->handle(&routes->context, request);
}

void sk_routes_handle(void *arg, struct sk_request *request)
{
    struct sk_routes *routes = arg;
    sk_trace_begin(routes->tracer, request);
    const char *before = sk_trace_enter(request);
    routes_dispatch(routes, request);
    sk_trace_leave(before);
}

// ---- results, answers and streams ----

void sk_routes_result(void *arg, uint64_t handle, const struct sk_purchase_result *result)
{
    struct sk_routes *routes = arg;
    struct sk_request *request = sk_server_find(routes->server, handle);
    if (request == NULL) // it was answered with 202, or its client is gone
        return;
    const char *before = sk_trace_enter(request);
    sk_purchase_on_result(&routes->context, request, result);
    sk_trace_leave(before);
}

void sk_routes_answer(void *arg, uint64_t handle, const struct sk_answer *answer)
{
    struct sk_routes *routes = arg;
    struct sk_request *request = sk_server_find(routes->server, handle);
    if (request == NULL) // its client is gone
        return;
    sk_on_answer *on_answer = sk_call_of(request)->on_answer;
    const char *before = sk_trace_enter(request);
    if (on_answer != NULL)
        on_answer(&routes->context, request, answer);
    else
        sk_answer_send(routes->answers, request, answer);
    sk_trace_leave(before);
}

void sk_routes_expired(void *arg, struct sk_request *request)
{
    const struct sk_routes *routes = arg;
    sk_handle *on_expired = sk_call_of(request)->on_expired;
    const char *before = sk_trace_enter(request);
    if (on_expired != NULL)
        on_expired(&routes->context, request);
    else
        sk_answer_refusal(routes->answers, request, SK_VERDICT_UNAVAILABLE);
    sk_trace_leave(before);
}

void sk_routes_streams(void *arg, struct sk_request *request)
{
    const struct sk_routes *routes = arg;
    sk_live_on_stream(&routes->context, request);
}

void sk_routes_gone(void *arg, struct sk_request *request)
{
    const struct sk_routes *routes = arg;
    sk_handle *on_gone = sk_call_of(request)->on_gone;
    if (on_gone != NULL && routes->context.control != NULL) // else it has forgotten all requests
        on_gone(&routes->context, request);
}

void sk_routes_released(void *arg, const struct sk_hold *hold)
{
    const struct sk_routes *routes = arg;
    if (routes->options.limits != NULL)
        sk_limits_release(routes->options.limits, hold);
}

bool sk_routes_send(void *arg, uint64_t handle, const char *text, size_t len)
{
    const struct sk_routes *routes = arg;
    struct sk_request *request = sk_server_find_stream(routes->server, handle);
    return request != NULL && sk_stream_send(request, text, len);
}

void sk_routes_end_stream(void *arg, uint64_t handle)
{
    const struct sk_routes *routes = arg;
    struct sk_request *request = sk_server_find_stream(routes->server, handle);
    if (request != NULL)
        sk_stream_end(request);
}

void sk_routes_malformed(void *arg, struct sk_request *request, enum sk_malformed what)
{
    const struct sk_routes *routes = arg;
    sk_trace_begin(routes->tracer, request);
    sk_measure_began(routes->options.measure, request);
    request->last = true;
    sk_answer_refusal(routes->answers, request,
                      what == SK_MALFORMED_HEAD ? SK_VERDICT_BAD_REQUEST : SK_VERDICT_BODY_TOO_LARGE);
}
