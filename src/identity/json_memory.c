#include "json_memory.h"

#include <jansson.h>
#include <stdlib.h>

static _Thread_local bool failed;

static void *memory_allocate(size_t size)
{
    void *block = reallocarray(NULL, 1, size);
    failed = failed || block == NULL;
    return block;
}

void sk_json_memory_watch(void)
{
    json_set_alloc_funcs(memory_allocate, free);
}

void sk_json_memory_begin(void)
{
    failed = false;
}

bool sk_json_memory_failed(void)
{
    return failed;
}
