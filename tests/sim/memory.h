// Allocations of an instance, which may fail, and must all be given back when it ends. One thread.
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Of the instance that runs. Starts zeroed.
struct memory {
    unsigned long left; // the so-many-th allocation from now fails; 0: none
    bool from_then_on;  // and all after it
    uintptr_t *blocks;  // that it has: a hash table of open addressing
    size_t count, room;
};

void memory_look_at(struct memory *memory); // NULL: no instance runs
void *memory_real(size_t size);             // never fails on purpose, and is nobody's

#endif
