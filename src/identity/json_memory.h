// Whether jansson had the memory that it asked for. Version 2.14 goes on without some of it, and gives texts that are
// cut short: of a user's token, another user. So who reads what a client sent asks here before believing it.
#ifndef SK_IDENTITY_JSON_MEMORY_H
#define SK_IDENTITY_JSON_MEMORY_H

#include <stdbool.h>

// Before there are other threads, and anything of jansson's.
void sk_json_memory_watch(void);

// Any thread, for itself: from now on none has failed; whether one has since.
void sk_json_memory_begin(void);
bool sk_json_memory_failed(void);

#endif
