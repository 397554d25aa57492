#include "order_json.h"

#include <inttypes.h>
#include <stdio.h>

#include "status.h"
#include "text.h"
#include "uuid.h"

size_t sk_order_json(char out[SK_ORDER_JSON_SIZE], const char *order_id, int64_t voucher_id, const char *user,
                     const char *status)
{
    int n = snprintf(out, SK_ORDER_JSON_SIZE,
                     "{\"id\":\"%.*s\",\"voucher_id\":\"%" PRId64 "\",\"user_id\":\"%.*s\",\"status\":\"%s\"}",
                     SK_UUID_CHARS, order_id, voucher_id, SK_USER_MAX, user, status);
    SK_ASSERT(n > 0 && n < SK_ORDER_JSON_SIZE - 1);
    return (size_t)n;
}
