// Makes allocations fail: the linker sends the allocations of the code under test through the functions below (--wrap;
// tests/CMakeLists.txt). The test's own allocations never fail. Include it before anything that allocates, in one
// source of a program.
//
// It leaves malloc() alone, since Check uses it.
#ifndef UNIT_FAILING_MEMORY_H
#define UNIT_FAILING_MEMORY_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// Names required by the linker.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);

static int allocations_left;    // the allocation that makes it 0 fails; 0: none does
static bool memory_stays_short; // ... and all after it, until allocations_left is set again
static bool memory_has_failed;

static bool memory_fails(void)
{
    if (allocations_left == 0 || --allocations_left > 0)
        return false;
    memory_has_failed = true;
    allocations_left = memory_stays_short;
    return true;
}

void *__wrap_calloc(size_t n, size_t size)
{
    return memory_fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return memory_fails() ? NULL : __real_realloc(old, size);
}

// Check allocates the file name of each assertion it passes.
static bool memory_is_checks(const char *text)
{
    size_t len = strlen(text);
    return len > 2 && text[len - 2] == '.' && (text[len - 1] == 'c' || text[len - 1] == 'h');
}

char *__wrap_strdup(const char *text)
{
    return !memory_is_checks(text) && memory_fails() ? NULL : __real_strdup(text);
}

#undef calloc
#undef strdup
#define calloc __real_calloc
#define strdup __real_strdup
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

#endif
