#include "order_json.h"

#include <inttypes.h>
#include <stdio.h>

#include "status.h"
#include "text.h"
#include "uuid.h"

static size_t order_json_put_time(char *out, size_t room, const char *name, int64_t unix_ms)
{
    char time[SK_TIME_SIZE];
    if (unix_ms == 0)
        return 0;
    sk_text_put_time(unix_ms, time);
    int n = snprintf(out, room, ",\"%s\":\"%s\"", name, time);
    SK_ASSERT(n > 0 && (size_t)n < room);
    return (size_t)n;
}

size_t sk_order_json(char out[SK_ORDER_JSON_SIZE], const struct sk_order_shown *order)
{
    int n = snprintf(
        out, SK_ORDER_JSON_SIZE,
        "{\"id\":\"%.*s\",\"voucher_id\":\"%" PRId64 "\",\"user_id\":\"%.*s\",\"quantity\":%u,\"status\":\"%s\"",
        SK_UUID_CHARS, order->id, order->voucher_id, SK_USER_MAX, order->user, order->quantity, order->status);
    SK_ASSERT(n > 0 && n < SK_ORDER_JSON_SIZE - 1);
    size_t len = (size_t)n;
    len += order_json_put_time(out + len, SK_ORDER_JSON_SIZE - len, "created_at", order->created_ms);
    len += order_json_put_time(out + len, SK_ORDER_JSON_SIZE - len, "expires_at", order->expires_ms);
    SK_ASSERT(len + 2 < SK_ORDER_JSON_SIZE);
    out[len++] = '}';
    out[len] = '\0';
    return len;
}
