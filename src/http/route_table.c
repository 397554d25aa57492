// To add a call: a row here, its handler in handlers.h, its row in the README; the rest, also 405 and Allow, falls out
// of the table.
#include "route_table.h"

#include <string.h>

_Static_assert((int)SK_ROUTE_GET == (int)SK_METHOD_GET && (int)SK_ROUTE_POST == (int)SK_METHOD_POST &&
                   (int)SK_ROUTE_PATCH == (int)SK_METHOD_PATCH,
               "methods of routes and requests");

static bool route_table_fits(const char *pattern, const char *path, struct sk_route_part ids[SK_ROUTE_ID_COUNT]);
static const char *route_table_take_id(const char *pattern, struct sk_route_part part,
                                       struct sk_route_part ids[SK_ROUTE_ID_COUNT]);

// Columns read better without the prefix.
#define GET          SK_ROUTE_GET
#define POST         SK_ROUTE_POST
#define PATCH        SK_ROUTE_PATCH
#define ANY          SK_ROUTE_ANY
#define ANYONE       SK_ROUTE_ANYONE
#define USER         SK_ROUTE_USER
#define USER_OR_READ SK_ROUTE_USER_OR_READ
#define READ         SK_ROUTE_READ
#define OPERATE      SK_ROUTE_OPERATE
#define PAYMENTS     SK_ROUTE_PAYMENTS
#define NO_BODY      SK_ROUTE_NO_BODY
#define JSON         SK_ROUTE_JSON
#define AT_ONCE      SK_ROUTE_AT_ONCE
#define FOR_COMMIT   SK_ROUTE_FOR_COMMIT
#define FOR_STORES   SK_ROUTE_FOR_STORES
#define FOR_RETURN   SK_ROUTE_FOR_RETURN
#define FOR_REBUILD  SK_ROUTE_FOR_REBUILD
#define FOR_REPORT   SK_ROUTE_FOR_REPORT

// The first pattern that fits the path is the one; its methods follow each other.
const struct sk_route sk_route_table[] = {
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

const size_t sk_route_count = sizeof sk_route_table / sizeof sk_route_table[0];

static const char *const id_names[SK_ROUTE_ID_COUNT] = {"{voucher}", "{letter}", "{order}"};

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

// Returns what follows the name in the pattern. NULL: "." or "..", which fits no route.
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
