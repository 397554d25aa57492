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
// The interface as an OpenAPI 3.1 document, made from the tables of routes and verdicts. The rest is in openapi/*.json,
// which is embedded. So the document cannot name a call, code or status that does not exist, nor leave one out.

// Any thread. Appends the document.
void sk_openapi_put(struct sk_buf *out);

// The document, ready to be served. Borrows cors. NULL: out of memory.
struct sk_document *sk_openapi_open(const struct sk_cors *cors);

// The document packed by gzip. The build makes the program print it, and links the program again with it
// (CMakeLists.txt). A program without it serves the document unpacked.
extern const unsigned char sk_openapi_packed[] __attribute__((weak));
extern const size_t sk_openapi_packed_len __attribute__((weak));

// Any thread. Prints the document.
enum sk_status sk_openapi_print(FILE *out) SK_MUST_CHECK;

// ---- instances ----
//
// Those of this deployment, from Redis: the living sessions, and what each has reported (instances.h).

// Answers the handle once: FOUND and the list; UNAVAILABLE; OVERLOADED.
void sk_list_instances(struct sk_control *control, uint64_t handle);

#endif
