// Written without printf, which costs more than the rest of such an answer.
#include "order_json.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "order.h"
#include "status.h"
#include "text.h"
#include "uuid.h"

static char *order_json_put(char *at, const char *text, size_t n)
{
    memcpy(at, text, n);
    return at + n;
}

#define PUT(at, literal)            order_json_put(at, literal, sizeof(literal) - 1)
#define PUT_TIME(at, name, unix_ms) order_json_put_time(at, ",\"" name "\":\"", sizeof(",\"" name "\":\"") - 1, unix_ms)

static char *order_json_put_number(char *at, uint64_t value)
{
    return at + sk_text_put_number(value, at);
}

// An unknown price or time is left out.
static char *order_json_put_price(char *at, const struct sk_price *price, unsigned quantity)
{
    if (price == NULL)
        return at;
    SK_ASSERT(price->cents >= 0);
    at = order_json_put_number(PUT(at, ",\"price_cents\":"), (uint64_t)price->cents);
    at = order_json_put_number(PUT(at, ",\"total_cents\":"), (uint64_t)price->cents * quantity);
    at = PUT(at, ",\"currency\":\"");
    at = order_json_put(at, price->currency, strnlen(price->currency, SK_CURRENCY_SIZE));
    return PUT(at, "\"");
}

static char *order_json_put_time(char *at, const char *name, size_t n, int64_t unix_ms)
{
    if (unix_ms == 0)
        return at;
    at = order_json_put(at, name, n);
    sk_text_put_time(unix_ms, at);
    return PUT(at + SK_TIME_SIZE - 1, "\"");
}

size_t sk_order_json(char out[SK_ORDER_JSON_SIZE], const struct sk_order_shown *order)
{
    enum { NAMES_MAX = 176, TIMES = 2 }; // names and punctuation
    _Static_assert(NAMES_MAX + SK_UUID_CHARS + SK_USER_MAX + 5 * SK_NUMBER_SIZE + SK_CURRENCY_SIZE + SK_STATUS_MAX +
                           TIMES * SK_TIME_SIZE <
                       SK_ORDER_JSON_SIZE - 1,
                   "the longest order, and one more character");
    SK_ASSERT(order->voucher_id >= 0 && strlen(order->status) <= SK_STATUS_MAX);
    char *at = PUT(out, "{\"id\":\"");
    at = order_json_put(at, order->id, strnlen(order->id, SK_UUID_CHARS));
    at = order_json_put_number(PUT(at, "\",\"voucher_id\":\""), (uint64_t)order->voucher_id);
    at = PUT(at, "\",\"user_id\":\"");
    at = order_json_put(at, order->user, strnlen(order->user, SK_USER_MAX));
    at = order_json_put_number(PUT(at, "\",\"quantity\":"), order->quantity);
    at = order_json_put_price(at, order->price, order->quantity);
    at = PUT(at, ",\"status\":\"");
    at = order_json_put(at, order->status, strlen(order->status));
    at = PUT(at, "\"");
    if (order->waits)
        at = order_json_put_number(PUT(at, ",\"place\":"), (uint64_t)order->place);
    at = PUT_TIME(at, "created_at", order->created_ms);
    at = PUT_TIME(at, "expires_at", order->expires_ms);
    at = PUT(at, "}");
    *at = '\0';
    return (size_t)(at - out);
}
