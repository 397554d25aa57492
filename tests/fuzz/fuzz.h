// What the targets share. A target is handed unchecked bytes and must come back, clean under the
// sanitizers; MUST() says what else has to hold.
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"

#define MUST(condition) SK_ASSERT(condition)

// libFuzzer calls these; the first, if there is one, once before all others.
// NOLINTBEGIN(readability-identifier-naming)
int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
// NOLINTEND(readability-identifier-naming)

// A copy in a block of its very size, so that reading past its end is seen. The caller frees it.
static inline char *fuzz_bytes(const uint8_t *data, size_t size)
{
    char *copy = malloc(size == 0 ? 1 : size);
    MUST(copy != NULL);
    if (size > 0)
        memcpy(copy, data, size);
    return copy;
}

// The same as text: with NUL, up to the first one in the input.
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
    char *copy = strndup((const char *)data, size);
    MUST(copy != NULL);
    return copy;
}

#endif
