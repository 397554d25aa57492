// A list of preferences, separated by commas: token [= word] *(; [token [= word]]), where a word is a token or a quoted
// string. A comma in quotes does not separate. Malformed parts are skipped.
#include "prefer.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

static const char *prefer_skip_blanks(const char *at)
{
    return at + strspn(at, " \t");
}

// Returns the end of a word; `at` is its start. A quoted string without its closing quote takes the rest.
static const char *prefer_skip_word(const char *at)
{
    if (*at != '"')
        return at + strcspn(at, " \t,;=\"");
    for (at++; *at != '\0' && *at != '"'; at++) {
        if (*at == '\\' && at[1] != '\0')
            at++;
    }
    return *at == '"' ? at + 1 : at;
}

// Returns the comma that ends this preference, or the end.
static const char *prefer_skip_preference(const char *at)
{
    while (*at != '\0' && *at != ',')
        at = *at == '"' ? prefer_skip_word(at) : at + 1;
    return at;
}

// An empty value is no value (RFC 7240 2): respond-async="" is respond-async.
static const char *prefer_skip_empty_value(const char *at)
{
    const char *after = prefer_skip_blanks(at);
    if (*after != '=')
        return at;
    after = prefer_skip_blanks(after + 1);
    return strncmp(after, "\"\"", 2) == 0 ? after + 2 : at;
}

bool sk_prefer_async(const char *value)
{
    static const char name[] = "respond-async";
    for (const char *at = value; *at != '\0'; at += *at == ',') {
        at = prefer_skip_blanks(at);
        const char *end = prefer_skip_word(at);
        if (end - at == sizeof name - 1 && strncasecmp(at, name, sizeof name - 1) == 0) {
            end = prefer_skip_blanks(prefer_skip_empty_value(end));
            if (*end == '\0' || *end == ',' || *end == ';')
                return true;
        }
        at = prefer_skip_preference(at);
    }
    return false;
}
