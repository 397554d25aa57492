#include "memory.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM_FIRST = 1 << 12, SHIFT = 4 };

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
void __real_free(void *block);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);
void __wrap_free(void *block);

// ---- the blocks that an instance has ----

static size_t memory_place(const struct memory *memory, uintptr_t block)
{
    size_t place = block >> SHIFT;
    while (memory->blocks[place % memory->room] != 0 && memory->blocks[place % memory->room] != block)
        place++;
    return place % memory->room;
}

static void memory_grow(struct memory *memory)
{
    uintptr_t *old = memory->blocks;
    size_t room = memory->room;
    memory->room = room == 0 ? ROOM_FIRST : 2 * room;
    memory->blocks = memory_real(memory->room * sizeof *old);
    if (memory->blocks == NULL)
        abort();
    memset(memory->blocks, 0, memory->room * sizeof *old);
    for (size_t i = 0; i < room; i++) {
        if (old[i] != 0)
            memory->blocks[memory_place(memory, old[i])] = old[i];
    }
    __real_free(old);
}

static void *memory_take(void *block)
{
    if (running == NULL || block == NULL)
        return block;
    if (2 * running->count >= running->room)
        memory_grow(running);
    running->blocks[memory_place(running, (uintptr_t)block)] = (uintptr_t)block;
    running->count++;
    return block;
}

// Those behind it move up (D. E. Knuth, "The Art of Computer Programming", vol. 3, 6.4, algorithm R).
static void memory_give_back(const void *block)
{
    if (running == NULL || block == NULL || running->room == 0)
        return;
    size_t hole = memory_place(running, (uintptr_t)block), room = running->room;
    if (running->blocks[hole] == 0)
        return; // it is nobody's
    running->count--;
    running->blocks[hole] = 0;
    for (size_t i = (hole + 1) % room; running->blocks[i] != 0; i = (i + 1) % room) {
        uintptr_t moved = running->blocks[i];
        running->blocks[i] = 0;
        running->blocks[memory_place(running, moved)] = moved;
    }
}

void *__wrap_malloc(size_t size)
{
    return memory_fails() ? NULL : memory_take(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return memory_fails() ? NULL : memory_take(__real_calloc(n, size));
}

void *__wrap_realloc(void *old, size_t size)
{
    if (memory_fails())
        return NULL;
    memory_give_back(old);
    return memory_take(__real_realloc(old, size));
}

char *__wrap_strdup(const char *text)
{
    return memory_fails() ? NULL : memory_take(__real_strdup(text));
}

void __wrap_free(void *block)
{
    memory_give_back(block);
    __real_free(block);
}

void *memory_real(size_t size)
{
    return __real_malloc(size);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
