// Whether one of jansson's allocations has failed. Version 2.14 goes on after some failures, and gives truncated texts:
// in a user's token, another user. So code that reads what a client sent must check this before it uses the result.
#ifndef SK_IDENTITY_JSON_MEMORY_H
#define SK_IDENTITY_JSON_MEMORY_H

#include <stdbool.h>

// Before other threads start, and before any call of jansson.
void sk_json_memory_watch(void);

// Any thread, for itself. The first clears the flag; the second returns whether an allocation has failed since.
void sk_json_memory_begin(void);
bool sk_json_memory_failed(void);

#endif
