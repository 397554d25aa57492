// GET /healthz, /readyz, /metrics and /openapi.json; and paths under /admin/vouchers that no call has.
#ifndef SK_API_ABOUT_H
#define SK_API_ABOUT_H

#include "call.h"

sk_handle sk_handle_health, sk_handle_ready, sk_handle_metrics, sk_handle_openapi, sk_handle_not_found;

#endif
