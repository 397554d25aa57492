// A command to Redis as it is on the wire: an array of words (RESP).
#ifndef SIM_COMMAND_H
#define SIM_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

enum { COMMAND_WORDS_MAX = 64 };

struct command {
    size_t len;                           // bytes
    size_t count;                         // words; of the first COMMAND_WORDS_MAX:
    const char *words[COMMAND_WORDS_MAX]; // not ended by NUL
    size_t lens[COMMAND_WORDS_MAX];
};

// Reads the command at the beginning of n bytes, which it borrows. False: it is not whole yet.
bool command_read(const char *bytes, size_t n, struct command *command);

bool command_is(const struct command *command, size_t word, const char *text);
// The slot of its keys, which must be one; -1: it has no key.
int command_slot(const struct command *command);

#endif
