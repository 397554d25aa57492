// What the service reports about itself: GET /healthz, /readyz, /metrics, /openapi.json, /admin/me and
// /admin/instances; and paths under /admin/vouchers that no call has.
//
// The loop's thread, as all functions, unless stated otherwise.
#ifndef SK_API_ABOUT_H
#define SK_API_ABOUT_H

#include <stdio.h>

#include "pages.h"

sk_handle sk_handle_health, sk_handle_ready, sk_handle_metrics, sk_handle_openapi, sk_handle_instances;
sk_handle sk_handle_not_found, sk_handle_me;

// ---- the OpenAPI document ----
//
// web/openapi.json: the interface as an OpenAPI 3.1 document. tests/unit/test_openapi.c holds it against the tables of
// routes and verdicts, so that it names no call, parameter, code or status that does not exist, and leaves none out.

// The document, ready to be served. Borrows cors. NULL: out of memory.
struct sk_document *sk_openapi_open(const struct sk_cors *cors);

// Any thread. Prints the document.
enum sk_status sk_openapi_print(FILE *out) SK_MUST_CHECK;

// ---- instances ----
//
// Those of this deployment, from Redis: the living sessions, and what each has reported (instances.h).

// Answers the handle once: FOUND and the list; UNAVAILABLE; OVERLOADED.
void sk_list_instances(struct sk_control *control, uint64_t handle);

#endif
