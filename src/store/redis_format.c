#include "redis_format.h"

#include <stdlib.h>
#include <string.h>

#include "text.h"

enum { HEAD_MAX = SK_NUMBER_SIZE + 2 }; // "$", a number, "\r\n"

static char *format_put_end(char *at)
{
    at[0] = '\r';
    at[1] = '\n';
    return at + 2;
}

static char *format_put_head(char *at, char kind, size_t n)
{
    *at = kind;
    return format_put_end(at + 1 + sk_text_put_number(n, at + 1));
}

char *sk_redis_format(int argc, const char **argv, const size_t *lens, size_t *len)
{
    size_t room = HEAD_MAX;
    for (int i = 0; i < argc; i++)
        room += HEAD_MAX + (lens == NULL ? strlen(argv[i]) : lens[i]) + 2;
    char *command = malloc(room);
    if (command == NULL)
        return NULL;
    char *at = format_put_head(command, '*', (size_t)argc);
    for (int i = 0; i < argc; i++) {
        size_t n = lens == NULL ? strlen(argv[i]) : lens[i];
        at = format_put_head(at, '$', n);
        memcpy(at, argv[i], n);
        at = format_put_end(at + n);
    }
    *len = (size_t)(at - command);
    return command;
}
