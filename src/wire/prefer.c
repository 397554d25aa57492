// A list of preferences, separated by commas: token [= word] *(; [token [= word]]), where a word is a token or a quoted
// string. A comma in quotes does not separate. Malformed parts are skipped.
#include "prefer.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "text.h"

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

// Finds a preference by its name, in any case. Returns what stands behind the name: its value and parameters. NULL: it
// is not there. Goes on after *at, which it moves.
static const char *prefer_find(const char **at, const char *name)
{
    size_t len = strlen(name);
    while (**at != '\0') {
        const char *word = prefer_skip_blanks(*at), *end = prefer_skip_word(word);
        *at = prefer_skip_preference(end);
        *at += **at == ',';
        if ((size_t)(end - word) == len && strncasecmp(word, name, len) == 0)
            return prefer_skip_blanks(end);
    }
    return NULL;
}

// Whether a preference ends here, but for its parameters.
static bool prefer_ends(const char *at)
{
    at = prefer_skip_blanks(at);
    return *at == '\0' || *at == ',' || *at == ';';
}

bool sk_prefer_async(const char *value)
{
    const char *rest;
    while ((rest = prefer_find(&value, "respond-async")) != NULL) {
        // An empty value is no value (RFC 7240 2): respond-async="" is respond-async.
        const char *text = *rest == '=' ? prefer_skip_blanks(rest + 1) : rest;
        if (prefer_ends(rest) || (*rest == '=' && strncmp(text, "\"\"", 2) == 0 && prefer_ends(text + 2)))
            return true;
    }
    return false;
}

bool sk_prefer_wait(const char *value, unsigned *seconds)
{
    const char *rest;
    while ((rest = prefer_find(&value, "wait")) != NULL) {
        if (*rest != '=')
            continue;
        rest = prefer_skip_blanks(rest + 1);
        bool quoted = *rest == '"';
        size_t digits = strspn(rest += quoted, "0123456789");
        char text[8];
        uint64_t number;
        if (digits == 0 || digits >= sizeof text || (quoted && rest[digits] != '"') ||
            !prefer_ends(rest + digits + quoted))
            continue;
        memcpy(text, rest, digits);
        text[digits] = '\0';
        if (!sk_text_number(text, SK_PREFER_WAIT_MAX, &number))
            continue;
        *seconds = (unsigned)number;
        return true;
    }
    return false;
}
