// One table. To add a call: a row here, a handler in handlers.h and handlers.c, its row in the README; the rest, also
// 405 and Allow, falls out of the table.
//
// A request is refused by the first that does not fit, in this order: the rate of its address (429), the path (404),
// the admin's token and its role (401, 403), the method (405, 501), a voucher's or a letter's id (400, 404), the user
// (401) and its rate (429), an order's id (400), the body's type (415), If-Match (400), the query (422).
#include "routes.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "auth.h"
#include "client_limits.h"
#include "failpoint.h"
#include "handlers.h"
#include "settlement_report.h"
#include "stream.h"

enum { REBUILD_MS = 60000, ID_SIZE = 24, ALLOW_SIZE = 32 };

enum route_method { GET, POST, PATCH, ANY }; // all but the last as sk_method
_Static_assert((int)GET == (int)SK_METHOD_GET && (int)POST == (int)SK_METHOD_POST && (int)PATCH == (int)SK_METHOD_PATCH,
               "methods of routes and requests");

// Who may call. The last three are roles of an admin's token; PAYMENTS also takes a signature instead, and is of all
// rows of its pattern.
enum route_caller {
    ANYONE,
    USER,
    USER_OR_READ, // without a user: a token that may read
    READ,
    OPERATE,
    PAYMENTS,
};
enum route_body { NO_BODY, JSON }; // without one: whatever comes is not read

// How long an answer may take.
enum route_wait {
    AT_ONCE,
    FOR_COMMIT,  // confirm_timeout_ms
    FOR_STORES,  // the longest way to ask them
    FOR_RETURN,  // the same, once more while an order is returned
    FOR_REBUILD, // the same, and a long journal to settle
    FOR_REPORT,  // the same, and many orders to count
    WAIT_COUNT
};

struct route {
    enum route_method method;
    enum route_caller caller;
    const char *pattern; // {name} stands for one part of the path, * at the end for everything
    enum route_body body;
    enum route_wait wait;
    sk_handle *handle;
};

// The first pattern that fits the path is the one; its methods follow each other.
static const struct route table[] = {
    {POST, USER, "/seckill/{voucher}", NO_BODY, FOR_COMMIT, sk_handle_buy},
    {GET, USER, "/orders", NO_BODY, FOR_STORES, sk_handle_orders},
    {GET, USER_OR_READ, "/orders/{order}", NO_BODY, FOR_STORES, sk_handle_order},
    {POST, USER, "/orders/{order}/cancel", NO_BODY, FOR_RETURN, sk_handle_cancel},
    {POST, PAYMENTS, "/orders/{order}/pay", JSON, FOR_STORES, sk_handle_pay},
    {POST, OPERATE, "/orders/{order}/refund", JSON, FOR_RETURN, sk_handle_refund},
    {GET, ANYONE, "/vouchers", NO_BODY, FOR_STORES, sk_handle_vouchers},
    {GET, ANYONE, "/vouchers/{voucher}", NO_BODY, FOR_STORES, sk_handle_voucher},
    {GET, ANYONE, "/vouchers/{voucher}/events", NO_BODY, FOR_STORES, sk_handle_events},
    {GET, READ, "/admin/vouchers", NO_BODY, FOR_STORES, sk_handle_admin_vouchers},
    {POST, OPERATE, "/admin/vouchers", JSON, FOR_STORES, sk_handle_create},
    {GET, READ, "/admin/vouchers/{voucher}", NO_BODY, FOR_STORES, sk_handle_inspect},
    {PATCH, OPERATE, "/admin/vouchers/{voucher}", JSON, FOR_STORES, sk_handle_change},
    {POST, OPERATE, "/admin/vouchers/{voucher}/pause", NO_BODY, FOR_STORES, sk_handle_pause},
    {POST, OPERATE, "/admin/vouchers/{voucher}/resume", NO_BODY, FOR_STORES, sk_handle_resume},
    {POST, OPERATE, "/admin/vouchers/{voucher}/close", NO_BODY, FOR_STORES, sk_handle_close},
    {POST, OPERATE, "/admin/vouchers/{voucher}/stock", JSON, FOR_STORES, sk_handle_stock},
    {POST, OPERATE, "/admin/vouchers/{voucher}/reconcile", NO_BODY, FOR_REBUILD, sk_handle_rebuild},
    {GET, READ, "/admin/vouchers/{voucher}/settlement", NO_BODY, FOR_REPORT, sk_handle_settlement},
    {GET, READ, "/admin/vouchers/{voucher}/dead-letters", NO_BODY, FOR_STORES, sk_handle_letters},
    {GET, READ, "/admin/vouchers/{voucher}/audit", NO_BODY, FOR_STORES, sk_handle_admin_events},
    {POST, OPERATE, "/admin/vouchers/{voucher}/dead-letters/{letter}/requeue", NO_BODY, FOR_STORES, sk_handle_requeue},
    {POST, OPERATE, "/admin/vouchers/{voucher}/dead-letters/{letter}/write-off", NO_BODY, FOR_STORES,
     sk_handle_write_off},
    // Without the token nothing is told about what there is.
    {ANY, READ, "/admin/vouchers/{voucher}/*", NO_BODY, AT_ONCE, sk_handle_not_found},
    {ANY, READ, "/admin/vouchers*", NO_BODY, AT_ONCE, sk_handle_not_found},
    {GET, READ, "/admin/orders", NO_BODY, FOR_STORES, sk_handle_admin_orders},
    {GET, READ, "/admin/events", NO_BODY, FOR_STORES, sk_handle_order_events},
    {GET, ANYONE, "/healthz", NO_BODY, AT_ONCE, sk_handle_health},
    {GET, ANYONE, "/readyz", NO_BODY, AT_ONCE, sk_handle_ready},
};

enum { ROUTES = sizeof table / sizeof table[0] };

enum path_id { VOUCHER_ID, LETTER_ID, ORDER_ID, ID_COUNT };

static const char *const id_names[ID_COUNT] = {"{voucher}", "{letter}", "{order}"};

struct path_part {
    const char *at; // NULL: the path has none of this kind
    size_t len;
};

struct match {
    const struct route *first; // the pattern's first row
    const struct route *route; // the method's row; NULL: not allowed
    struct path_part ids[ID_COUNT];
};

enum phase {
    PHASE_STARTING, // there is no shop yet; a client may be faster
    PHASE_SERVING,
    PHASE_DRAINING,
    PHASE_ENDED, // there is no shop any more
};

struct sk_routes {
    struct sk_context context;
    struct sk_answers *answers; // owned; as the context has it
    struct sk_tokens *tokens;   // owned
    struct sk_limits *limits;   // borrowed; NULL: no client has a rate
    struct sk_server *server;
    enum phase phase;
    uint64_t wait_ms[WAIT_COUNT];
};

static enum sk_verdict routes_admit(struct sk_routes *routes, struct sk_request *request, struct match *match);
static enum sk_verdict routes_admit_admin(const struct sk_routes *routes, struct sk_request *request,
                                          const struct match *match);
static enum sk_verdict routes_admit_user(const struct sk_routes *routes, struct sk_request *request,
                                         enum route_caller caller);
static enum sk_verdict routes_limit_address(const struct sk_routes *routes, struct sk_request *request,
                                            const struct route *first);
static enum sk_verdict routes_limit_user(const struct sk_routes *routes, struct sk_request *request,
                                         const struct route *route);
static bool routes_match(const struct sk_request *request, struct match *match);
static bool routes_fits(const char *pattern, const char *path, struct path_part ids[ID_COUNT]);
static const char *routes_take_id(const char *pattern, struct path_part part, struct path_part ids[ID_COUNT]);
static bool routes_read_number(struct path_part part, int64_t *id);
static bool routes_read_order(struct path_part part, char id[SK_UUID_SIZE]);
static bool routes_read_if_match(const struct sk_request *request, int64_t *version);
static void routes_refuse(struct sk_routes *routes, struct sk_request *request, const struct match *match,
                          enum sk_verdict verdict);

// ---- opening and closing ----

struct sk_routes *sk_routes_open(const struct sk_config *config, struct sk_limits *limits)
{
    struct sk_routes *routes = calloc(1, sizeof *routes);
    if (routes == NULL)
        return NULL;
    routes->answers = sk_answers_open();
    routes->tokens = sk_tokens_open(config, stderr);
    if (routes->answers == NULL || routes->tokens == NULL) {
        sk_routes_close(routes);
        return NULL;
    }
    if (limits != NULL && sk_limits_rated(limits)) {
        routes->limits = limits;
        sk_answers_limit(routes->answers, sk_limits_policy(limits));
    }
    routes->context.config = config;
    routes->context.answers = routes->answers;
    routes->wait_ms[FOR_COMMIT] = (uint64_t)config->confirm_timeout_ms;
    // Enough to ask PostgreSQL three times and Redis once. A question that takes longer is answered 503.
    routes->wait_ms[FOR_STORES] = (uint64_t)(config->redis_timeout_ms + 3 * config->pg_timeout_ms);
    routes->context.stores_ms = routes->wait_ms[FOR_STORES];
    routes->wait_ms[FOR_RETURN] = 2 * routes->wait_ms[FOR_STORES];
    routes->wait_ms[FOR_REBUILD] = routes->wait_ms[FOR_STORES] + REBUILD_MS;
    routes->wait_ms[FOR_REPORT] = routes->wait_ms[FOR_STORES] + SK_REPORT_MS;
    return routes;
}

void sk_routes_connect(struct sk_routes *routes, struct sk_server *server, struct sk_shop *shop)
{
    routes->server = server;
    routes->context.shop = shop;
    routes->phase = PHASE_SERVING;
    sk_answers_keep_alive(routes->answers, true);
}

void sk_routes_drain(struct sk_routes *routes)
{
    routes->phase = PHASE_DRAINING;
    routes->context.draining = true;
    sk_answers_keep_alive(routes->answers, false);
}

void sk_routes_end(struct sk_routes *routes)
{
    routes->phase = PHASE_ENDED;
    routes->context.shop = NULL;
    sk_answers_keep_alive(routes->answers, false);
}

void sk_routes_close(struct sk_routes *routes)
{
    if (routes == NULL)
        return;
    sk_answers_close(routes->answers);
    sk_tokens_close(routes->tokens);
    free(routes);
}

// ---- a request ----

void sk_routes_handle(void *arg, struct sk_request *request)
{
    struct sk_routes *routes = arg;
    struct match match = {0};
    SK_FAILPOINT("http.request");
    enum sk_verdict verdict = routes_admit(routes, request, &match);
    if (verdict != SK_VERDICT_FOUND) {
        routes_refuse(routes, request, &match, verdict);
        return;
    }
    // It waits from now on: the outcome may come before the handler returns.
    if (match.route->wait != AT_ONCE)
        sk_request_wait(request, routes->wait_ms[match.route->wait]);
    match.route->handle(&routes->context, request);
}

// FOUND: the request may go to its handler, and its call is filled in.
static enum sk_verdict routes_admit(struct sk_routes *routes, struct sk_request *request, struct match *match)
{
    struct sk_call *call = sk_call_of(request);
    if (routes->phase == PHASE_STARTING)
        return SK_VERDICT_UNAVAILABLE;
    if (routes->phase == PHASE_ENDED)
        return SK_VERDICT_SHUTTING_DOWN;
    bool known = routes_match(request, match);
    enum sk_verdict verdict = routes_limit_address(routes, request, match->first);
    if (verdict != SK_VERDICT_FOUND)
        return verdict;
    if (!known)
        return SK_VERDICT_NOT_FOUND;
    verdict = routes_admit_admin(routes, request, match);
    if (verdict != SK_VERDICT_FOUND)
        return verdict;
    if (match->route == NULL)
        return request->method == SK_METHOD_UNKNOWN ? SK_VERDICT_NOT_IMPLEMENTED : SK_VERDICT_METHOD_NOT_ALLOWED;
    if (!routes_read_number(match->ids[VOUCHER_ID], &call->voucher_id))
        return SK_VERDICT_BAD_VOUCHER_ID;
    if (!routes_read_number(match->ids[LETTER_ID], &call->letter_id))
        return SK_VERDICT_NOT_FOUND;
    verdict = routes_admit_user(routes, request, match->route->caller);
    if (verdict == SK_VERDICT_FOUND)
        verdict = routes_limit_user(routes, request, match->route);
    if (verdict != SK_VERDICT_FOUND)
        return verdict;
    if (!routes_read_order(match->ids[ORDER_ID], call->order_id))
        return SK_VERDICT_BAD_ORDER_ID;
    if (match->route->body == JSON && !sk_request_is_json(request))
        return SK_VERDICT_UNSUPPORTED_MEDIA_TYPE;
    if (match->route->caller == OPERATE && !routes_read_if_match(request, &call->if_match))
        return SK_VERDICT_BAD_REQUEST;
    return match->route->method == GET && request->query_bad ? SK_VERDICT_BAD_PARAMETER : SK_VERDICT_FOUND;
}

// Probes, admin calls and payments are the shop's own. What is not found counts, too.
static enum sk_verdict routes_limit_address(const struct sk_routes *routes, struct sk_request *request,
                                            const struct route *first)
{
    bool own = first != NULL && (first->caller >= READ || first->wait == AT_ONCE);
    return routes->limits == NULL || own ? SK_VERDICT_FOUND : sk_limits_address(routes->limits, request);
}

// Of purchases. The answers to all else say nothing of limits, unless one refuses them.
static enum sk_verdict routes_limit_user(const struct sk_routes *routes, struct sk_request *request,
                                         const struct route *route)
{
    if (routes->limits == NULL)
        return SK_VERDICT_FOUND;
    if (route->handle == sk_handle_buy)
        return sk_limits_user(routes->limits, request, sk_call_of(request)->user);
    request->limit.policy = SK_POLICY_NONE;
    return SK_VERDICT_FOUND;
}

// A method that the path does not have is refused to those only that have a token.
static enum sk_verdict routes_admit_admin(const struct sk_routes *routes, struct sk_request *request,
                                          const struct match *match)
{
    static const enum sk_role roles[] = {[READ] = SK_ROLE_READ, [OPERATE] = SK_ROLE_OPERATE};
    if (match->first->caller < READ)
        return SK_VERDICT_FOUND;
    if (match->first->caller == PAYMENTS)
        return sk_auth_payment(request, routes->tokens, routes->context.config->payment_secret,
                               sk_call_of(request)->by);
    enum sk_role role = match->route == NULL ? SK_ROLE_ANY : roles[match->route->caller];
    return sk_auth_admin(request, routes->tokens, role, sk_call_of(request)->by);
}

static enum sk_verdict routes_admit_user(const struct sk_routes *routes, struct sk_request *request,
                                         enum route_caller caller)
{
    struct sk_call *call = sk_call_of(request);
    if ((caller != USER && caller != USER_OR_READ) || sk_auth_user(request, call->user))
        return SK_VERDICT_FOUND;
    // One that identifies no user, or more than one, is none that a token makes good.
    if (caller == USER || sk_request_header(request, "x-user-id", NULL) != NULL ||
        sk_request_header(request, "authorization", NULL) == NULL)
        return SK_VERDICT_UNAUTHENTICATED;
    return sk_auth_admin(request, routes->tokens, SK_ROLE_READ, call->by);
}

static bool routes_match(const struct sk_request *request, struct match *match)
{
    size_t i = 0;
    while (i < ROUTES && !routes_fits(table[i].pattern, request->path, match->ids))
        i++;
    if (i == ROUTES)
        return false;
    match->first = &table[i];
    for (; i < ROUTES && strcmp(table[i].pattern, match->first->pattern) == 0; i++) {
        if (table[i].method == ANY || (int)table[i].method == (int)request->method)
            match->route = &table[i];
    }
    return true;
}

static bool routes_fits(const char *pattern, const char *path, struct path_part ids[ID_COUNT])
{
    memset(ids, 0, ID_COUNT * sizeof *ids);
    while (*pattern != '*') {
        if (*pattern == '{') {
            struct path_part part = {path, strcspn(path, "/")};
            pattern = routes_take_id(pattern, part, ids);
            if (pattern == NULL)
                return false;
            path += part.len;
        } else if (*pattern != *path) {
            return false;
        } else if (*pattern == '\0') {
            return true;
        } else {
            pattern++;
            path++;
        }
    }
    return true;
}

// Returns what follows the name in the pattern. NULL: "." or "..", which fits no route.
static const char *routes_take_id(const char *pattern, struct path_part part, struct path_part ids[ID_COUNT])
{
    if ((part.len == 1 && part.at[0] == '.') || (part.len == 2 && memcmp(part.at, "..", 2) == 0))
        return NULL;
    size_t len = strcspn(pattern, "}") + 1;
    for (size_t i = 0; i < ID_COUNT; i++) {
        if (strlen(id_names[i]) == len && memcmp(id_names[i], pattern, len) == 0)
            ids[i] = part;
    }
    return pattern + len;
}

// True if there is nothing to read.
static bool routes_read_number(struct path_part part, int64_t *id)
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

static bool routes_read_order(struct path_part part, char id[SK_UUID_SIZE])
{
    if (part.at == NULL)
        return true;
    if (part.len != SK_UUID_CHARS)
        return false;
    memcpy(id, part.at, part.len);
    id[part.len] = '\0';
    return sk_uuid_valid(id);
}

// What an ETag of ours said, "<number>"; `*` and none say nothing.
static bool routes_read_if_match(const struct sk_request *request, int64_t *version)
{
    unsigned count;
    const char *value = sk_request_header(request, "if-match", &count);
    if (count == 0 || (count == 1 && strcmp(value, "*") == 0))
        return true;
    size_t len = strlen(value);
    if (count != 1 || len < 2 || value[0] != '"' || value[len - 1] != '"')
        return false;
    return routes_read_number((struct path_part){value + 1, len - 2}, version);
}

static void routes_refuse(struct sk_routes *routes, struct sk_request *request, const struct match *match,
                          enum sk_verdict verdict)
{
    static const char *const names[] = {[GET] = "GET, HEAD", [POST] = "POST", [PATCH] = "PATCH"};
    char allow[ALLOW_SIZE] = "";
    if (verdict != SK_VERDICT_METHOD_NOT_ALLOWED && verdict != SK_VERDICT_NOT_IMPLEMENTED) {
        sk_answer_refusal(routes->answers, request, verdict);
        return;
    }
    for (const struct route *route = match->first;
         route < table + ROUTES && strcmp(route->pattern, match->first->pattern) == 0; route++) {
        size_t len = strlen(allow);
        (void)snprintf(allow + len, sizeof allow - len, "%s%s", len == 0 ? "" : ", ", names[route->method]);
    }
    sk_answer_allow(routes->answers, request, verdict, allow);
}

// ---- what comes later ----

void sk_routes_outcome(void *arg, uint64_t ticket, const struct sk_outcome *outcome)
{
    struct sk_routes *routes = arg;
    struct sk_request *request = sk_server_find(routes->server, ticket);
    if (request != NULL) // or it was answered with 202 before, or its client is gone
        sk_handle_outcome(&routes->context, request, outcome);
}

void sk_routes_expired(void *arg, struct sk_request *request)
{
    const struct sk_routes *routes = arg;
    sk_handle_expired(&routes->context, request);
}

void sk_routes_streams(void *arg, struct sk_request *request)
{
    const struct sk_routes *routes = arg;
    sk_handle_streams(&routes->context, request);
}

void sk_routes_gone(void *arg, struct sk_request *request)
{
    const struct sk_routes *routes = arg;
    sk_handle_gone(&routes->context, request);
}

bool sk_routes_send(void *arg, uint64_t ticket, const char *text, size_t len)
{
    const struct sk_routes *routes = arg;
    struct sk_request *request = sk_server_find_stream(routes->server, ticket);
    return request != NULL && sk_stream_send(request, text, len);
}

void sk_routes_end_stream(void *arg, uint64_t ticket)
{
    const struct sk_routes *routes = arg;
    struct sk_request *request = sk_server_find_stream(routes->server, ticket);
    if (request != NULL)
        sk_stream_end(request);
}

struct sk_response *sk_routes_malformed(void *arg, enum sk_verdict verdict)
{
    const struct sk_routes *routes = arg;
    return sk_answers_last(routes->answers, verdict);
}
