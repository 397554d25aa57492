// A request is answered in one of three ways: at once from a response made at start, at once with one made
// for it, or later, when the sale's outcome comes for its ticket.
#include "routes.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "auth.h"
#include "failpoint.h"
#include "problem.h"
#include "terms.h"

enum { RETRY_AFTER_MS = 1000, RECONCILE_MS = 60000, KEY_MAX = 255 };

enum phase {
    PHASE_STARTING, // there is no sale yet; a client may be faster
    PHASE_SERVING,
    PHASE_DRAINING,
    PHASE_ENDED, // there is no sale any more
};

struct sk_routes {
    const struct sk_config *config;
    struct sk_server *server;
    struct sk_shop *sale; // there while serving and draining
    enum phase phase;
    sk_response *refusals[SK_VERDICT_COUNT]; // as they are most often; owned
    sk_response *closing[SK_VERDICT_COUNT];  // the same, for the end of a connection; owned
    sk_response *ok, *ok_closing;            // owned
    uint64_t inquiry_ms, reconcile_ms;
};

// ---- answering ----

static void refuse(struct sk_routes *routes, struct sk_request *request, enum sk_verdict verdict)
{
    sk_response *response = routes->phase == PHASE_SERVING ? routes->refusals[verdict] : routes->closing[verdict];
    sk_request_answer(request, sk_verdict_http_status(verdict), response);
}

// Answers with a response made for this request alone.
static void answer(struct sk_routes *routes, struct sk_request *request, enum sk_verdict verdict, sk_response *response)
{
    if (routes->phase != PHASE_SERVING)
        sk_response_header(response, "Connection", "close");
    sk_request_answer(request, sk_verdict_http_status(verdict), response);
    sk_response_free(response);
}

static void answer_order(struct sk_routes *routes, struct sk_request *request, enum sk_verdict verdict)
{
    bool accepted = verdict == SK_VERDICT_ACCEPTED;
    sk_response *response =
        sk_order_response(request->order_id, request->voucher_id, request->user, accepted ? "pending" : "unpaid");
    if (accepted && request->respond_async)
        sk_response_header(response, "Preference-Applied", "respond-async");
    answer(routes, request, verdict, response);
}

static void answer_document(struct sk_routes *routes, struct sk_request *request, const struct sk_outcome *outcome)
{
    sk_response *response = sk_response_new("application/json", outcome->document, strlen(outcome->document));
    answer(routes, request, outcome->verdict, response);
}

static void answer_outcome(struct sk_routes *routes, struct sk_request *request, const struct sk_outcome *outcome)
{
    switch (outcome->verdict) {
    case SK_VERDICT_PLACED:
    case SK_VERDICT_ACCEPTED:
        answer_order(routes, request, outcome->verdict);
        break;
    case SK_VERDICT_FOUND:
        answer_document(routes, request, outcome);
        break;
    case SK_VERDICT_CREATED:
        answer(routes, request, outcome->verdict, sk_voucher_response(outcome->voucher_id, outcome->document));
        break;
    default:
        if (outcome->order_id == NULL && outcome->retry_after_ms == 0)
            refuse(routes, request, outcome->verdict);
        else
            answer(routes, request, outcome->verdict,
                   sk_problem(outcome->verdict, outcome->order_id, outcome->retry_after_ms));
    }
}

void sk_routes_outcome(void *arg, uint64_t ticket, const struct sk_outcome *outcome)
{
    struct sk_routes *routes = arg;
    struct sk_request *request = sk_server_find(routes->server, ticket);
    if (request == NULL)
        return; // answered with 202 before, or its client is gone
    if (outcome->verdict == SK_VERDICT_ACCEPTED) {
        (void)snprintf(request->order_id, sizeof request->order_id, "%s", outcome->order_id);
        if (!request->respond_async)
            return; // the commit, or the deadline, answers
    }
    answer_outcome(routes, request, outcome);
}

void sk_routes_expired(void *arg, struct sk_request *request)
{
    struct sk_routes *routes = arg;
    if (request->order_id[0] != '\0')
        answer_order(routes, request, SK_VERDICT_ACCEPTED);
    else
        answer(routes, request, SK_VERDICT_UNAVAILABLE, sk_problem(SK_VERDICT_UNAVAILABLE, NULL, RETRY_AFTER_MS));
}

sk_response *sk_routes_malformed(void *arg, enum sk_verdict verdict)
{
    struct sk_routes *routes = arg;
    return routes->closing[verdict];
}

// ---- routes ----

static void not_allowed(struct sk_routes *routes, struct sk_request *request, const char *allow)
{
    enum sk_verdict verdict =
        request->method == SK_UNKNOWN_METHOD ? SK_VERDICT_NOT_IMPLEMENTED : SK_VERDICT_METHOD_NOT_ALLOWED;
    sk_response *response = sk_problem(verdict, NULL, 0);
    sk_response_header(response, "Allow", allow);
    answer(routes, request, verdict, response);
}

static const char *identify(struct sk_routes *routes, struct sk_request *request)
{
    request->user = sk_auth_user(request);
    if (request->user == NULL)
        refuse(routes, request, SK_VERDICT_UNAUTHENTICATED);
    return request->user;
}

static void place(struct sk_routes *routes, struct sk_request *request, const char *id)
{
    struct sk_outcome outcome;
    if (request->method != SK_POST) {
        not_allowed(routes, request, "POST");
        return;
    }
    if (!sk_text_voucher_id(id, &request->voucher_id)) {
        refuse(routes, request, SK_VERDICT_BAD_VOUCHER_ID);
        return;
    }
    const char *user = identify(routes, request);
    if (user == NULL)
        return;
    if (routes->phase != PHASE_SERVING)
        refuse(routes, request, SK_VERDICT_SHUTTING_DOWN);
    else if (sk_shop_place(routes->sale, request->voucher_id, user, request->ticket, request->respond_async, &outcome))
        sk_request_wait(request, (uint64_t)routes->config->confirm_timeout_ms);
    else
        answer_outcome(routes, request, &outcome);
}

static bool is_get(struct sk_routes *routes, struct sk_request *request)
{
    if (request->method == SK_GET)
        return true;
    not_allowed(routes, request, "GET, HEAD");
    return false;
}

static void show_order(struct sk_routes *routes, struct sk_request *request, const char *id)
{
    const char *user = is_get(routes, request) ? identify(routes, request) : NULL;
    if (user == NULL)
        return;
    if (!sk_uuid_valid(id)) {
        refuse(routes, request, SK_VERDICT_BAD_ORDER_ID);
        return;
    }
    sk_request_wait(request, routes->inquiry_ms);
    sk_inquiry_order(sk_shop_inquiries(routes->sale), id, user, request->ticket);
}

static void show_orders(struct sk_routes *routes, struct sk_request *request)
{
    const char *user = is_get(routes, request) ? identify(routes, request) : NULL;
    if (user == NULL)
        return;
    sk_request_wait(request, routes->inquiry_ms);
    sk_inquiry_orders(sk_shop_inquiries(routes->sale), user, request->ticket);
}

static void show_vouchers(struct sk_routes *routes, struct sk_request *request)
{
    if (!is_get(routes, request))
        return;
    sk_request_wait(request, routes->inquiry_ms);
    sk_inquiry_vouchers(sk_shop_inquiries(routes->sale), request->ticket);
}

static void show_voucher(struct sk_routes *routes, struct sk_request *request, const char *id)
{
    if (!is_get(routes, request))
        return;
    if (!sk_text_voucher_id(id, &request->voucher_id)) {
        refuse(routes, request, SK_VERDICT_BAD_VOUCHER_ID);
        return;
    }
    sk_request_wait(request, routes->inquiry_ms);
    sk_inquiry_voucher(sk_shop_inquiries(routes->sale), request->voucher_id, request->ticket);
}

static bool is_json(const char *content_type)
{
    static const char json[] = "application/json";
    if (content_type == NULL || strncasecmp(content_type, json, sizeof json - 1) != 0)
        return false;
    char after = content_type[sizeof json - 1];
    return after == '\0' || after == ';' || after == ' ';
}

// Idempotency-Key: none, or one of 1 to 255 visible ASCII characters.
static bool is_good_key(const struct sk_request *request)
{
    const char *key = request->idempotency_key;
    size_t n = 0;
    if (request->idempotency_key_count == 0)
        return true;
    while (key[n] > ' ' && key[n] <= '~' && n <= KEY_MAX)
        n++;
    return request->idempotency_key_count == 1 && key[n] == '\0' && n >= 1 && n <= KEY_MAX;
}

static void create_voucher(struct sk_routes *routes, struct sk_request *request)
{
    struct sk_terms terms;
    struct sk_terms_body read;
    if (!is_json(request->content_type)) {
        refuse(routes, request, SK_VERDICT_UNSUPPORTED_MEDIA_TYPE);
        return;
    }
    if (!is_good_key(request)) {
        refuse(routes, request, SK_VERDICT_BAD_IDEMPOTENCY_KEY);
        return;
    }
    enum sk_verdict verdict = sk_terms_read(request->body.data, request->body.len, &terms, &read);
    if (verdict == SK_VERDICT_FOUND) {
        sk_request_wait(request, routes->inquiry_ms);
        sk_create_voucher(sk_shop_creations(routes->sale), request->idempotency_key, &terms, request->ticket);
    } else if (read.errors != NULL) {
        answer(routes, request, verdict, sk_problem_with_errors(verdict, read.errors));
    } else {
        refuse(routes, request, verdict);
    }
    sk_terms_free(&read);
}

static bool is_post(struct sk_routes *routes, struct sk_request *request)
{
    if (request->method == SK_POST)
        return true;
    not_allowed(routes, request, "POST");
    return false;
}

// Reads the id at the start of a path; returns what follows it, or NULL if it is none.
static const char *leading_id(const char *path, int64_t *id)
{
    char text[24];
    size_t n = strcspn(path, "/");
    if (n >= sizeof text)
        return NULL;
    memcpy(text, path, n);
    text[n] = '\0';
    return sk_text_voucher_id(text, id) ? path + n : NULL;
}

// /admin/vouchers/{id}/dead-letters and what follows
static void admin_letters(struct sk_routes *routes, struct sk_request *request, const char *rest)
{
    struct sk_repairs *repairs = sk_shop_repairs(routes->sale);
    if (*rest == '\0') {
        if (!is_get(routes, request))
            return;
        sk_request_wait(request, routes->inquiry_ms);
        sk_repair_list(repairs, request->voucher_id, request->ticket);
        return;
    }
    int64_t letter;
    const char *action = *rest == '/' ? leading_id(rest + 1, &letter) : NULL;
    bool requeue = action != NULL && strcmp(action, "/requeue") == 0;
    if (!requeue && (action == NULL || strcmp(action, "/write-off") != 0)) {
        refuse(routes, request, SK_VERDICT_NOT_FOUND);
    } else if (is_post(routes, request)) {
        sk_request_wait(request, routes->inquiry_ms);
        if (requeue)
            sk_repair_requeue(repairs, request->voucher_id, letter, request->ticket);
        else
            sk_repair_write_off(repairs, request->voucher_id, letter, request->ticket);
    }
}

// /admin/vouchers/{id} and what follows
static void admin_voucher(struct sk_routes *routes, struct sk_request *request, const char *path)
{
    static const char letters[] = "/dead-letters";
    const char *rest = leading_id(path, &request->voucher_id);
    if (rest == NULL) {
        refuse(routes, request, SK_VERDICT_BAD_VOUCHER_ID);
    } else if (*rest == '\0') {
        if (!is_get(routes, request))
            return;
        sk_request_wait(request, routes->inquiry_ms);
        sk_inquiry_inspect(sk_shop_inquiries(routes->sale), request->voucher_id, request->ticket);
    } else if (strcmp(rest, "/reconcile") == 0) {
        if (!is_post(routes, request))
            return;
        sk_request_wait(request, routes->reconcile_ms);
        sk_repair_reconcile(sk_shop_repairs(routes->sale), request->voucher_id, request->ticket);
    } else if (strncmp(rest, letters, sizeof letters - 1) == 0) {
        admin_letters(routes, request, rest + sizeof letters - 1);
    } else {
        refuse(routes, request, SK_VERDICT_NOT_FOUND);
    }
}

static void admin_vouchers(struct sk_routes *routes, struct sk_request *request, const char *rest)
{
    enum sk_verdict allowed = sk_auth_admin(request, routes->config->admin_token);
    if (allowed != SK_VERDICT_FOUND)
        refuse(routes, request, allowed);
    else if (*rest == '\0' && request->method == SK_POST)
        create_voucher(routes, request);
    else if (*rest == '\0' && request->method != SK_GET)
        not_allowed(routes, request, "GET, HEAD, POST");
    else if (*rest == '\0')
        show_vouchers(routes, request);
    else if (*rest != '/')
        refuse(routes, request, SK_VERDICT_NOT_FOUND);
    else
        admin_voucher(routes, request, rest + 1);
}

static void health(struct sk_routes *routes, struct sk_request *request, bool well)
{
    if (!is_get(routes, request))
        return;
    if (well)
        sk_request_answer(request, 200, routes->phase == PHASE_SERVING ? routes->ok : routes->ok_closing);
    else
        answer(routes, request, SK_VERDICT_UNAVAILABLE, sk_problem(SK_VERDICT_UNAVAILABLE, NULL, RETRY_AFTER_MS));
}

// The rest of the path after `prefix`, if it is one segment (or none); else NULL. Dot segments lead to
// other places, and to none of ours.
static const char *segment(const char *path, const char *prefix)
{
    size_t n = strlen(prefix);
    if (strncmp(path, prefix, n) != 0)
        return NULL;
    const char *rest = path + n;
    return strchr(rest, '/') == NULL && strcmp(rest, ".") != 0 && strcmp(rest, "..") != 0 ? rest : NULL;
}

void sk_routes_handle(void *arg, struct sk_request *request)
{
    static const char admin[] = "/admin/vouchers";
    struct sk_routes *routes = arg;
    const char *path = request->path, *rest;
    SK_FAILPOINT("http.request");
    if (routes->phase == PHASE_STARTING)
        refuse(routes, request, SK_VERDICT_UNAVAILABLE);
    else if (routes->phase == PHASE_ENDED)
        refuse(routes, request, SK_VERDICT_SHUTTING_DOWN);
    else if ((rest = segment(path, "/seckill/")) != NULL)
        place(routes, request, rest);
    else if (strcmp(path, "/orders") == 0)
        show_orders(routes, request);
    else if ((rest = segment(path, "/orders/")) != NULL)
        show_order(routes, request, rest);
    else if (strcmp(path, "/vouchers") == 0)
        show_vouchers(routes, request);
    else if ((rest = segment(path, "/vouchers/")) != NULL)
        show_voucher(routes, request, rest);
    else if (strncmp(path, admin, sizeof admin - 1) == 0)
        admin_vouchers(routes, request, path + sizeof admin - 1);
    else if (strcmp(path, "/healthz") == 0)
        health(routes, request, true);
    else if (strcmp(path, "/readyz") == 0)
        health(routes, request, routes->phase == PHASE_SERVING && sk_shop_ready(routes->sale));
    else
        refuse(routes, request, SK_VERDICT_NOT_FOUND);
}

// ---- opening and closing ----

struct sk_routes *sk_routes_open(const struct sk_config *config)
{
    static const char ok[] = "{\"status\":\"ok\"}\n";
    struct sk_routes *routes = calloc(1, sizeof *routes);
    if (routes == NULL)
        return NULL;
    routes->config = config;
    // The longest road of an inquiry asks PostgreSQL three times and Redis once.
    routes->inquiry_ms = (uint64_t)(config->redis_timeout_ms + 3 * config->pg_timeout_ms);
    routes->reconcile_ms = routes->inquiry_ms + RECONCILE_MS; // its journal may be long
    bool complete = true;
    for (int i = 0; i < SK_VERDICT_COUNT; i++) {
        uint64_t retry = sk_verdict_http_status((enum sk_verdict)i) == 503 ? RETRY_AFTER_MS : 0;
        routes->refusals[i] = sk_problem((enum sk_verdict)i, NULL, retry);
        routes->closing[i] = sk_problem((enum sk_verdict)i, NULL, retry);
        sk_response_header(routes->closing[i], "Connection", "close");
        complete = complete && routes->refusals[i] != NULL && routes->closing[i] != NULL;
    }
    routes->ok = sk_response_new("application/json", ok, sizeof ok - 1);
    routes->ok_closing = sk_response_new("application/json", ok, sizeof ok - 1);
    sk_response_header(routes->ok_closing, "Connection", "close");
    if (!complete || routes->ok == NULL || routes->ok_closing == NULL) {
        sk_routes_close(routes);
        return NULL;
    }
    return routes;
}

void sk_routes_connect(struct sk_routes *routes, struct sk_server *server, struct sk_shop *sale)
{
    routes->server = server;
    routes->sale = sale;
    routes->phase = PHASE_SERVING;
}

void sk_routes_drain(struct sk_routes *routes)
{
    routes->phase = PHASE_DRAINING;
}

void sk_routes_end(struct sk_routes *routes)
{
    routes->phase = PHASE_ENDED;
    routes->sale = NULL;
}

void sk_routes_close(struct sk_routes *routes)
{
    if (routes == NULL)
        return;
    for (int i = 0; i < SK_VERDICT_COUNT; i++) {
        sk_response_free(routes->refusals[i]);
        sk_response_free(routes->closing[i]);
    }
    sk_response_free(routes->ok);
    sk_response_free(routes->ok_closing);
    free(routes);
}
