// The interface as an OpenAPI 3.1 document, made from the tables of routes and verdicts. The rest is in openapi/*.json,
// which is embedded. So the document cannot name a call, code or status that does not exist, nor leave one out.
#ifndef SK_API_OPENAPI_H
#define SK_API_OPENAPI_H

#include <stdio.h>

#include "document.h"
#include "status.h"

// Any thread. Appends the document.
void sk_openapi_put(struct sk_buf *out);

// The document, ready to be served. Borrows cors. NULL: out of memory. The loop's thread.
struct sk_document *sk_openapi_open(const struct sk_cors *cors);

// The document packed by gzip. The build makes the program print it, and links the program again with it
// (CMakeLists.txt). A program without it serves the document unpacked.
extern const unsigned char sk_openapi_packed[] __attribute__((weak));
extern const size_t sk_openapi_packed_len __attribute__((weak));

// Prints the document.
enum sk_status sk_openapi_print(FILE *out) SK_MUST_CHECK;

#endif
