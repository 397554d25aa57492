// The interface as an OpenAPI 3.1 document, made from the table of routes and the table of verdicts; what has no table
// stands in openapi/*.json, which is embedded. So the document cannot name a call, a code or a status that there is
// not, nor leave one out.
#ifndef SK_API_OPENAPI_H
#define SK_API_OPENAPI_H

#include <stdio.h>

#include "document.h"
#include "status.h"

// Any thread. Appends the document.
void sk_openapi_put(struct sk_buf *out);

// The document as it is served. Borrows cors. NULL: out of memory. The loop's thread.
struct sk_document *sk_openapi_open(const struct sk_cors *cors);

// The same, packed by gzip: the build has the program print it, and links it again (CMakeLists.txt). Programs without
// it serve the document as it is.
extern const unsigned char sk_openapi_packed[] __attribute__((weak));
extern const size_t sk_openapi_packed_len __attribute__((weak));

// Prints it.
enum sk_status sk_openapi_print(FILE *out) SK_MUST_CHECK;

#endif
