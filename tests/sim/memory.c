#include "memory.h"

#include <stdlib.h>

static struct memory *running;

void memory_look_at(struct memory *memory)
{
    running = memory;
}

static bool memory_fails(void)
{
    if (running == NULL || running->left == 0)
        return false;
    if (running->left > 1) {
        running->left--;
        return false;
    }
    running->left = running->from_then_on;
    return true;
}

// The linker's names (--wrap).
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t size)
{
    return memory_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return memory_fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return memory_fails() ? NULL : __real_realloc(old, size);
}

char *__wrap_strdup(const char *text)
{
    return memory_fails() ? NULL : __real_strdup(text);
}

void *memory_real(size_t size)
{
    return __real_malloc(size);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
