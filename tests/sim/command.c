#include "command.h"

#include <stdlib.h>
#include <string.h>

#include "keys.h"
#include "world.h"

// A line of one mark and a number.
static bool command_number(const char **at, const char *end, char mark, size_t *number)
{
    const char *line = *at, *stop = line < end ? memchr(line, '\n', (size_t)(end - line)) : NULL;
    if (stop == NULL)
        return false;
    if (*line != mark)
        world_fail("not a command");
    *number = strtoull(line + 1, NULL, 10);
    *at = stop + 1;
    return true;
}

bool command_read(const char *bytes, size_t n, struct command *command)
{
    const char *at = bytes, *end = bytes + n;
    size_t len;
    if (!command_number(&at, end, '*', &command->count))
        return false;
    for (size_t i = 0; i < command->count; i++) {
        if (!command_number(&at, end, '$', &len) || (size_t)(end - at) < len + 2)
            return false;
        if (i < COMMAND_WORDS_MAX) {
            command->words[i] = at;
            command->lens[i] = len;
        }
        at += len + 2;
    }
    command->len = (size_t)(at - bytes);
    return true;
}

bool command_is(const struct command *command, size_t word, const char *text)
{
    return word < command->count && command->lens[word] == strlen(text) &&
           memcmp(command->words[word], text, command->lens[word]) == 0;
}

static int command_slot_of(const struct command *command, size_t word)
{
    char key[SK_KEY_SIZE];
    if (command->lens[word] >= sizeof key)
        world_fail("a key of %zu bytes", command->lens[word]);
    memcpy(key, command->words[word], command->lens[word]);
    key[command->lens[word]] = '\0';
    return (int)sk_key_slot(key);
}

int command_slot(const struct command *command)
{
    bool script = command_is(command, 0, "EVALSHA");
    size_t first = script ? 3 : 1, keys = script ? strtoull(command->words[2], NULL, 10) : 1;
    if (!script && (command->count < 2 || memchr(command->words[1], '{', command->lens[1]) == NULL))
        return -1;
    int slot = keys == 0 ? -1 : command_slot_of(command, first);
    for (size_t i = 1; i < keys; i++) {
        if (command_slot_of(command, first + i) != slot)
            world_fail("a script with keys in two slots: %.*s", (int)command->lens[first + i],
                       command->words[first + i]);
    }
    return slot;
}
