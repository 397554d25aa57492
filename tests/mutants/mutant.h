// Included before each file of a program whose mutants are chosen by a number (./dev mutants): SK_MUTANT=7 in the
// environment takes the seventh. SK_MUTANTS_REACHED names a file with one byte for each: those that were asked for.
#ifndef MUTANT_H
#define MUTANT_H

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SK_MUTANTS_MAX = 65536 };

// One for the whole program.
__attribute__((weak)) int sk_mutant_chosen = -1;
__attribute__((weak)) unsigned char *sk_mutants_reached;

static inline void sk_mutant_choose(void)
{
    const char *number = getenv("SK_MUTANT"), *path = getenv("SK_MUTANTS_REACHED");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    void *map = fd < 0 ? MAP_FAILED : mmap(NULL, SK_MUTANTS_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map != MAP_FAILED)
        sk_mutants_reached = map;
    if (fd >= 0)
        (void)close(fd);
    sk_mutant_chosen = number == NULL ? 0 : atoi(number);
}

static inline int sk_mutant_is(int number)
{
    if (sk_mutant_chosen < 0)
        sk_mutant_choose();
    if (sk_mutants_reached != NULL)
        sk_mutants_reached[number] = 1;
    return sk_mutant_chosen == number;
}

#endif
