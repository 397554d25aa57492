#include "order_json.h"

#include <inttypes.h>

void sk_order_json(struct sk_buf *out, const char *order_id, int64_t voucher_id, const char *user, const char *status)
{
    sk_buf_printf(out, "{\"id\":\"%s\",\"voucher_id\":\"%" PRId64 "\",\"user_id\":\"%s\",\"status\":\"%s\"}", order_id,
                  voucher_id, user, status);
}
