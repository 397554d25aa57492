// To add a call: add a row here, its handler in the header of its subject, its operation in web/openapi.json, and its
// row in docs/http.md. The table provides the rest, including 405 and Allow.
#include "route_table.h"

#include <string.h>

#include "about.h"
#include "admin_lists.h"
#include "creation.h"
#include "live.h"
#include "moves.h"
#include "operation.h"
#include "order_lookup.h"
#include "pages.h"
#include "purchase.h"
#include "settlement_report.h"
#include "ticket_calls.h"
#include "user_orders.h"
#include "vouchers.h"

_Static_assert((int)SK_ROUTE_GET == (int)SK_METHOD_GET && (int)SK_ROUTE_POST == (int)SK_METHOD_POST &&
                   (int)SK_ROUTE_PATCH == (int)SK_METHOD_PATCH,
               "methods of routes and requests");

// Columns read better without the prefix.
#define GET          SK_ROUTE_GET
#define POST         SK_ROUTE_POST
#define PATCH        SK_ROUTE_PATCH
#define ANY          SK_ROUTE_ANY
#define PROBER       SK_ROUTE_PROBER
#define ANYONE       SK_ROUTE_ANYONE
#define USER         SK_ROUTE_USER
#define USER_OR_READ SK_ROUTE_USER_OR_READ
#define READ         SK_ROUTE_READ
#define OPERATE      SK_ROUTE_OPERATE
#define REFUNDS      SK_ROUTE_REFUNDS
#define PAYMENTS     SK_ROUTE_PAYMENTS
#define SCRAPER      SK_ROUTE_SCRAPER
#define NO_BODY      SK_ROUTE_NO_BODY
#define JSON         SK_ROUTE_JSON
#define AT_ONCE      SK_ROUTE_AT_ONCE
#define FOR_COMMIT   SK_ROUTE_FOR_COMMIT
#define FOR_STORES   SK_ROUTE_FOR_STORES
#define FOR_RETURN   SK_ROUTE_FOR_RETURN
#define FOR_REBUILD  SK_ROUTE_FOR_REBUILD
#define FOR_REPORT   SK_ROUTE_FOR_REPORT

#define UNCOUNTED     SK_ROUTE_COUNTS_NOTHING
#define TRIES         SK_ROUTE_COUNTS_TRIES
#define DOCUMENTS     SK_ROUTE_COUNTS_DOCUMENTS
#define FAILURES      SK_ROUTE_COUNTS_FAILURES
#define BUYERS        SK_PLACE_BUYERS
#define BOTH          SK_PLACE_BOTH
#define OPERATORS     SK_PLACE_OPERATORS
#define VITAL         SK_ROUTE_VITAL
#define RATED         SK_ROUTE_RATED
#define A_PURCHASE    SK_ROUTE_A_PURCHASE
#define MAY_NAME_USER SK_ROUTE_MAY_NAME_USER
#define OF_PAGES      SK_ROUTE_OF_PAGES
#define OF_DEMO       SK_ROUTE_OF_DEMO

#define V(name) SK_VERDICT_BIT(SK_VERDICT_##name)

// Verdicts that come together.
#define VOUCHER   (V(FOUND) | V(UNKNOWN_VOUCHER))
#define MOVED     (V(FOUND) | V(NOT_FOUND) | V(ARCHIVED) | V(PENDING) | V(WRONG_STATE))
#define KEY       (V(BAD_IDEMPOTENCY_KEY) | V(IDEMPOTENCY_KEY_REUSED))
#define BODY_TYPE (V(UNSUPPORTED_MEDIA_TYPE) | V(UNSUPPORTED_ENCODING))
#define MEMBERS   (V(BAD_JSON) | V(INVALID))
#define OPERATED  (VOUCHER | KEY | V(VERSION_CHANGED) | V(WRONG_STATE) | V(INTERNAL))

// clang-format off
#define NOT_A_CALL NULL, 0

// The first pattern that matches the path wins; its methods are adjacent.
const struct sk_route sk_route_table[] = {
    {POST, USER, "/seckill/{voucher}", NO_BODY, FOR_COMMIT, TRIES, BUYERS, VITAL | RATED | A_PURCHASE, sk_handle_buy,
     "", V(PLACED) | V(ACCEPTED) | V(WAITING) | V(SOLD_OUT) | V(WAITLIST_FULL) | V(ALREADY_ORDERED) | V(NOT_STARTED) | V(ENDED) | V(PAUSED) | V(NOT_ENOUGH)
         | V(TOO_MANY_ORDERS) | V(OFFER_CHANGED) | V(TICKET_REQUIRED) | V(TICKET_INVALID) | V(TICKETS_OFF)
         | V(UNKNOWN_VOUCHER) | V(ARCHIVED) | V(LOADING) | V(INTERNAL) | MEMBERS | KEY | BODY_TYPE},
    {GET, USER, "/orders", NO_BODY, FOR_STORES, TRIES, BUYERS, 0, sk_handle_orders, "limit cursor", V(FOUND)},
    {GET, USER_OR_READ, "/orders/{order}", NO_BODY, FOR_STORES, TRIES, BOTH, 0, sk_handle_order,
     "wait while", V(FOUND) | V(NOT_FOUND) | V(ARCHIVED) | V(PENDING)},
    {POST, USER, "/orders/{order}/cancel", NO_BODY, FOR_RETURN, TRIES, BUYERS, RATED, sk_handle_cancel, "", MOVED | V(LOADING)},
    {POST, PAYMENTS, "/orders/{order}/pay", JSON, FOR_STORES, FAILURES, BUYERS, 0, sk_handle_pay,
     "", V(FOUND) | V(NOT_FOUND) | V(ARCHIVED) | V(PENDING) | V(ALREADY_PAID) | V(REFERENCE_USED) | V(WRONG_AMOUNT)},
    {POST, PAYMENTS, "/orders/{order}/extend", JSON, FOR_STORES, FAILURES, BUYERS, 0, sk_handle_extend,
     "", MOVED | V(ALREADY_EXTENDED) | V(EXTENSION_OFF) | V(REFERENCE_USED)},
    {POST, REFUNDS, "/orders/{order}/refund", JSON, FOR_RETURN, FAILURES, BOTH, 0, sk_handle_refund, "", MOVED | V(LOADING) | V(UNKNOWN_PAYMENT)},
    {GET, ANYONE, "/vouchers", NO_BODY, FOR_STORES, TRIES, BUYERS, 0, sk_handle_vouchers, "limit cursor", V(FOUND)},
    {GET, ANYONE, "/vouchers/events", NO_BODY, FOR_STORES, TRIES, BUYERS, MAY_NAME_USER, sk_handle_events, "ids", VOUCHER},
    {GET, ANYONE, "/vouchers/{voucher}", NO_BODY, FOR_STORES, TRIES, BUYERS, 0, sk_handle_voucher, "", VOUCHER},
    {GET, ANYONE, "/vouchers/{voucher}/events", NO_BODY, FOR_STORES, TRIES, BUYERS, MAY_NAME_USER, sk_handle_events, "", VOUCHER},
    {GET, USER, "/vouchers/{voucher}/ticket", NO_BODY, FOR_STORES, TRIES, BUYERS, 0, sk_handle_ticket, "", VOUCHER | V(ENDED) | V(TICKETS_OFF)},
    {POST, USER, "/vouchers/{voucher}/ticket", NO_BODY, FOR_STORES, TRIES, BUYERS, 0, sk_handle_ticket,
     "", VOUCHER | V(ENDED) | V(TICKETS_OFF) | V(WORK_REQUIRED) | V(WORK_INVALID) | MEMBERS | BODY_TYPE},
    {GET, READ, "/admin/vouchers", NO_BODY, FOR_STORES, FAILURES, OPERATORS, VITAL, sk_handle_admin_vouchers, "state title limit cursor", V(FOUND)},
    {POST, OPERATE, "/admin/vouchers", JSON, FOR_STORES, FAILURES, OPERATORS, VITAL, sk_handle_create, "", V(CREATED) | V(INTERNAL) | V(SCOPES_OFF) | KEY},
    {GET, READ, "/admin/vouchers/{voucher}", NO_BODY, FOR_STORES, FAILURES, OPERATORS, VITAL, sk_handle_inspect, "", VOUCHER},
    {PATCH, OPERATE, "/admin/vouchers/{voucher}", JSON, FOR_STORES, FAILURES, OPERATORS, VITAL, sk_handle_change, "", OPERATED | V(STARTED)},
    {POST, OPERATE, "/admin/vouchers/{voucher}/pause", NO_BODY, FOR_STORES, FAILURES, OPERATORS, VITAL, sk_handle_pause, "", OPERATED},
    {POST, OPERATE, "/admin/vouchers/{voucher}/resume", NO_BODY, FOR_STORES, FAILURES, OPERATORS, VITAL, sk_handle_resume, "", OPERATED},
    {POST, OPERATE, "/admin/vouchers/{voucher}/close", NO_BODY, FOR_STORES, FAILURES, OPERATORS, VITAL, sk_handle_close, "", OPERATED},
    {POST, OPERATE, "/admin/vouchers/{voucher}/hold-expiry", NO_BODY, FOR_STORES, FAILURES, OPERATORS, VITAL, sk_handle_hold_expiry, "", VOUCHER},
    {POST, OPERATE, "/admin/vouchers/{voucher}/release-expiry", NO_BODY, FOR_STORES, FAILURES, OPERATORS, VITAL, sk_handle_release_expiry, "", VOUCHER},
    {POST, OPERATE, "/admin/vouchers/{voucher}/stock", JSON, FOR_STORES, FAILURES, OPERATORS, VITAL, sk_handle_stock,
     "", OPERATED | V(BELOW_SOLD) | V(LOADING)},
    {POST, OPERATE, "/admin/vouchers/{voucher}/reconcile", NO_BODY, FOR_REBUILD, FAILURES, OPERATORS, VITAL, sk_handle_rebuild,
     "", VOUCHER | V(ARCHIVED) | V(LOADING)},
    {GET, READ, "/admin/vouchers/{voucher}/settlement", NO_BODY, FOR_REPORT, FAILURES, OPERATORS, VITAL, sk_handle_settlement,
     "format", VOUCHER | V(INTERNAL)},
    {GET, READ, "/admin/vouchers/{voucher}/dead-letters", NO_BODY, FOR_STORES, FAILURES, OPERATORS, VITAL, sk_handle_dead_letters,
     "limit cursor", V(FOUND)},
    {GET, READ, "/admin/vouchers/{voucher}/audit", NO_BODY, FOR_STORES, FAILURES, OPERATORS, VITAL, sk_handle_admin_events, "limit cursor", V(FOUND)},
    {POST, OPERATE, "/admin/vouchers/{voucher}/dead-letters/{letter}/requeue", NO_BODY, FOR_STORES, FAILURES, OPERATORS, VITAL, sk_handle_requeue,
     "", V(FOUND) | V(UNREADABLE)},
    {POST, OPERATE, "/admin/vouchers/{voucher}/dead-letters/{letter}/write-off", NO_BODY, FOR_STORES, FAILURES, OPERATORS, VITAL, sk_handle_write_off,
     "", V(FOUND)},
    // Without a token these do not reveal which calls exist.
    {ANY, READ, "/admin/vouchers/{voucher}/*", NO_BODY, AT_ONCE, FAILURES, OPERATORS, VITAL, sk_handle_not_found, NOT_A_CALL},
    {ANY, READ, "/admin/vouchers*", NO_BODY, AT_ONCE, FAILURES, OPERATORS, VITAL, sk_handle_not_found, NOT_A_CALL},
    {GET, READ, "/admin/orders", NO_BODY, FOR_STORES, FAILURES, OPERATORS, VITAL, sk_handle_admin_orders,
     "voucher status from to limit cursor", V(FOUND)},
    {GET, READ, "/admin/orders/find", NO_BODY, FOR_STORES, FAILURES, OPERATORS, VITAL, sk_handle_find_orders, "user limit cursor", V(FOUND)},
    {GET, READ, "/admin/payments/find", NO_BODY, FOR_STORES, FAILURES, OPERATORS, VITAL, sk_handle_find_payment, "reference", V(FOUND)},
    {GET, READ, "/admin/payments", NO_BODY, FOR_STORES, FAILURES, OPERATORS, VITAL, sk_handle_admin_payments, "voucher state limit cursor", V(FOUND)},
    {GET, READ, "/admin/events", NO_BODY, FOR_STORES, FAILURES, OPERATORS, VITAL, sk_handle_order_events, "limit after last wait only", V(FOUND)},
    {GET, READ, "/admin/troubles", NO_BODY, FOR_STORES, FAILURES, OPERATORS, VITAL, sk_handle_troubles, "", V(FOUND)},
    {POST, OPERATE, "/admin/hold-expiry", NO_BODY, FOR_STORES, FAILURES, OPERATORS, VITAL, sk_handle_hold_expiry, "", V(FOUND)},
    {POST, OPERATE, "/admin/release-expiry", NO_BODY, FOR_STORES, FAILURES, OPERATORS, VITAL, sk_handle_release_expiry, "", V(FOUND)},
    {GET, READ, "/admin/webhooks", NO_BODY, FOR_STORES, FAILURES, OPERATORS, VITAL, sk_handle_webhooks, "", V(FOUND)},
    {GET, READ, "/admin/me", NO_BODY, AT_ONCE, FAILURES, OPERATORS, VITAL, sk_handle_me, "", V(FOUND) | V(OVERLOADED)},
    {GET, READ, "/admin/instances", NO_BODY, FOR_STORES, FAILURES, OPERATORS, VITAL, sk_handle_instances, "", V(FOUND)},
    {GET, ANYONE, "/openapi.json", NO_BODY, AT_ONCE, DOCUMENTS, BUYERS, 0, sk_handle_openapi, "", V(FOUND)},
    {GET, PROBER, "/healthz", NO_BODY, AT_ONCE, UNCOUNTED, BOTH, VITAL, sk_handle_health, "", V(FOUND)},
    {GET, PROBER, "/readyz", NO_BODY, AT_ONCE, UNCOUNTED, BOTH, VITAL, sk_handle_ready, "", V(FOUND)},
    {GET, SCRAPER, "/metrics", NO_BODY, AT_ONCE, FAILURES, OPERATORS, 0, sk_handle_metrics, "", V(FOUND) | V(OVERLOADED)},
    // The built-in pages.
    {GET, ANYONE, "/", NO_BODY, AT_ONCE, DOCUMENTS, BUYERS, OF_PAGES, sk_handle_page, NOT_A_CALL},
    {GET, ANYONE, "/web/*", NO_BODY, AT_ONCE, DOCUMENTS, BOTH, OF_PAGES, sk_handle_page, NOT_A_CALL},
    {GET, ANYONE, "/admin/ui", NO_BODY, AT_ONCE, DOCUMENTS, OPERATORS, VITAL | OF_PAGES, sk_handle_page, NOT_A_CALL},
    {GET, ANYONE, "/admin", NO_BODY, AT_ONCE, DOCUMENTS, OPERATORS, VITAL | OF_PAGES, sk_handle_to_dashboard, NOT_A_CALL},
    {GET, ANYONE, "/admin/", NO_BODY, AT_ONCE, DOCUMENTS, OPERATORS, VITAL | OF_PAGES, sk_handle_to_dashboard, NOT_A_CALL},
    {GET, ANYONE, "/admin/ui/", NO_BODY, AT_ONCE, DOCUMENTS, OPERATORS, VITAL | OF_PAGES, sk_handle_to_dashboard, NOT_A_CALL},
    {GET, ANYONE, "/pay", NO_BODY, AT_ONCE, DOCUMENTS, BUYERS, OF_PAGES | OF_DEMO, sk_handle_page, NOT_A_CALL},
    {POST, USER, "/demo/orders/{order}/pay", JSON, FOR_STORES, TRIES, BUYERS, OF_DEMO, sk_handle_demo_pay, NOT_A_CALL},
};
// clang-format on

_Static_assert(sizeof sk_route_table / sizeof sk_route_table[0] < SK_METRICS_ROUTES, "each route is measured");

const size_t sk_route_count = sizeof sk_route_table / sizeof sk_route_table[0];

static const char *const id_names[SK_ROUTE_ID_COUNT] = {"{voucher}", "{letter}", "{order}"};

// Returns the pattern after the name. NULL: the part is "." or "..", which matches no route.
static const char *route_table_take_id(const char *pattern, struct sk_route_part part,
                                       struct sk_route_part ids[SK_ROUTE_ID_COUNT])
{
    if ((part.len == 1 && part.at[0] == '.') || (part.len == 2 && memcmp(part.at, "..", 2) == 0))
        return NULL;
    size_t len = strcspn(pattern, "}") + 1;
    for (size_t i = 0; i < SK_ROUTE_ID_COUNT; i++) {
        if (strlen(id_names[i]) == len && memcmp(id_names[i], pattern, len) == 0)
            ids[i] = part;
    }
    return pattern + len;
}

static bool route_table_fits(const char *pattern, const char *path, struct sk_route_part ids[SK_ROUTE_ID_COUNT])
{
    memset(ids, 0, SK_ROUTE_ID_COUNT * sizeof *ids);
    while (*pattern != '*') {
        if (*pattern == '{') {
            struct sk_route_part part = {path, strcspn(path, "/")};
            pattern = route_table_take_id(pattern, part, ids);
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

bool sk_route_match(enum sk_method method, const char *path, struct sk_match *match)
{
    const struct sk_route *route = sk_route_table, *end = sk_route_table + sk_route_count;
    while (route < end && !route_table_fits(route->pattern, path, match->ids))
        route++;
    if (route == end)
        return false;
    match->first = route;
    match->route = NULL;
    for (; route != NULL; route = sk_route_next_method(route)) {
        if (route->method == ANY || (int)route->method == (int)method)
            match->route = route;
    }
    return true;
}

const struct sk_route *sk_route_next_method(const struct sk_route *route)
{
    const struct sk_route *next = route + 1;
    bool same = next < sk_route_table + sk_route_count && strcmp(next->pattern, route->pattern) == 0;
    return same ? next : NULL;
}

bool sk_route_has_parameter(const struct sk_route *route, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = route->query; *at != '\0'; at += strspn(at, " ")) {
        size_t part = strcspn(at, " ");
        if (part == len && memcmp(at, name, len) == 0)
            return true;
        at += part;
    }
    return false;
}

bool sk_route_is_unsafe(const struct sk_route *route)
{
    return route->caller == USER && route->method != GET;
}

uint64_t sk_route_verdicts(const struct sk_route *route)
{
    static const uint64_t of_callers[] = {
        [USER] = V(UNAUTHENTICATED),
        [USER_OR_READ] = V(UNAUTHENTICATED) | V(FORBIDDEN) | V(ADMIN_OFF),
        [READ] = V(UNAUTHENTICATED) | V(FORBIDDEN) | V(ADMIN_OFF),
        [OPERATE] = V(UNAUTHENTICATED) | V(FORBIDDEN) | V(ADMIN_OFF),
        [REFUNDS] = V(UNAUTHENTICATED) | V(FORBIDDEN) | V(ADMIN_OFF),
        [SCRAPER] = V(UNAUTHENTICATED) | V(FORBIDDEN) | V(ADMIN_OFF),
        [PAYMENTS] = V(UNAUTHENTICATED) | V(FORBIDDEN) | V(ADMIN_OFF) | V(BAD_SIGNATURE),
    };
    static const uint64_t of_ids[SK_ROUTE_ID_COUNT] = {[SK_ROUTE_VOUCHER] = V(BAD_VOUCHER_ID),
                                                       [SK_ROUTE_DEAD_LETTER] = V(NOT_FOUND),
                                                       [SK_ROUTE_ORDER] = V(BAD_ORDER_ID)};
    // Malformed requests, other methods on the path, and requests during start and shutdown.
    uint64_t verdicts = V(BAD_REQUEST) | V(BAD_PARAMETER) | V(BODY_TOO_LARGE) | V(METHOD_NOT_ALLOWED) |
                        V(NOT_IMPLEMENTED) | V(UNAVAILABLE) | V(SHUTTING_DOWN);
    for (int i = 0; i < SK_ROUTE_ID_COUNT; i++)
        verdicts |= strstr(route->pattern, id_names[i]) != NULL ? of_ids[i] : 0;
    verdicts |= of_callers[route->caller];
    verdicts |= sk_route_is_unsafe(route) ? V(CROSS_SITE) : 0;
    verdicts |= route->body == JSON ? BODY_TYPE | MEMBERS : 0;
    verdicts |= route->wait != AT_ONCE || (route->flags & VITAL) == 0 ? V(OVERLOADED) : 0;
    verdicts |= route->counts != UNCOUNTED ? V(RATE_LIMITED) : 0;
    return verdicts | route->verdicts;
}
