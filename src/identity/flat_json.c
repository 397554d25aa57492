#include "flat_json.h"

#include <string.h>

enum { DIGITS_MAX = 15 };

struct at {
    const char *now, *end;
};

static bool flat_member(struct at *at, struct sk_flat_member *out);
static bool flat_value(struct at *at, struct sk_flat_member *out);
static bool flat_number(struct at *at, int64_t *out);
static bool flat_list(struct at *at, struct sk_flat_text *out);
static bool flat_word(struct at *at);

static void flat_skip(struct at *at)
{
    while (at->now < at->end && (*at->now == ' ' || *at->now == '\t' || *at->now == '\n' || *at->now == '\r'))
        at->now++;
}

static bool flat_take(struct at *at, char c)
{
    if (at->now == at->end || *at->now != c)
        return false;
    at->now++;
    return true;
}

// A character between blanks.
static bool flat_mark(struct at *at, char c)
{
    flat_skip(at);
    bool taken = flat_take(at, c);
    flat_skip(at);
    return taken;
}

static bool flat_is_new(const struct sk_flat_json *json, struct sk_flat_text name)
{
    for (size_t i = 0; i < json->count; i++) {
        const struct sk_flat_text *other = &json->members[i].name;
        // Most of them differ in the first character, which for an empty one is the quote at its end.
        if (other->len == name.len && other->at[0] == name.at[0] && memcmp(other->at, name.at, name.len) == 0)
            return false;
    }
    return true;
}

bool sk_flat_json_read(const char *text, size_t len, struct sk_flat_json *out)
{
    struct at at = {text, text + len};
    out->count = 0;
    if (!flat_mark(&at, '{'))
        return false;
    if (!flat_mark(&at, '}')) {
        do {
            struct sk_flat_member *member = &out->members[out->count];
            if (out->count == SK_FLAT_MEMBERS_MAX || !flat_member(&at, member) || !flat_is_new(out, member->name))
                return false;
            out->count++;
        } while (flat_mark(&at, ','));
        if (!flat_mark(&at, '}'))
            return false;
    }
    return at.now == at.end;
}

static bool flat_text(struct at *at, struct sk_flat_text *out)
{
    if (!flat_take(at, '"'))
        return false;
    out->at = at->now;
    while (at->now < at->end && *at->now >= ' ' && *at->now <= '~' && *at->now != '"' && *at->now != '\\')
        at->now++;
    out->len = (size_t)(at->now - out->at);
    return flat_take(at, '"');
}

static bool flat_member(struct at *at, struct sk_flat_member *out)
{
    return flat_text(at, &out->name) && flat_mark(at, ':') && flat_value(at, out);
}

static bool flat_value(struct at *at, struct sk_flat_member *out)
{
    if (at->now == at->end)
        return false;
    switch (*at->now) {
    case '"':
        out->kind = SK_FLAT_TEXT;
        return flat_text(at, &out->text);
    case '[':
        out->kind = SK_FLAT_LIST;
        return flat_list(at, &out->text);
    case 't':
    case 'f':
    case 'n':
        out->kind = SK_FLAT_OTHER;
        return flat_word(at);
    default:
        out->kind = SK_FLAT_NUMBER;
        return flat_number(at, &out->number);
    }
}

static bool flat_is_digit(const struct at *at)
{
    return at->now < at->end && *at->now >= '0' && *at->now <= '9';
}

// What follows must end it: a fraction or an exponent is no mark of an object, and so refused there.
static bool flat_number(struct at *at, int64_t *out)
{
    const char *begin = at->now;
    int64_t number = 0;
    for (; flat_is_digit(at) && at->now - begin < DIGITS_MAX; at->now++)
        number = number * 10 + (*at->now - '0');
    *out = number;
    return at->now > begin && !flat_is_digit(at) && (*begin != '0' || at->now == begin + 1);
}

static bool flat_list(struct at *at, struct sk_flat_text *out)
{
    struct sk_flat_text text;
    (void)flat_take(at, '[');
    out->at = at->now;
    flat_skip(at);
    while (at->now < at->end && *at->now != ']') {
        if (!flat_text(at, &text))
            return false;
        flat_skip(at);
        bool more = flat_take(at, ',');
        flat_skip(at);
        if (at->now == at->end || more == (*at->now == ']'))
            return false;
    }
    out->len = (size_t)(at->now - out->at);
    return flat_take(at, ']');
}

static bool flat_word(struct at *at)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t len = strlen(words[i]);
        if ((size_t)(at->end - at->now) >= len && memcmp(at->now, words[i], len) == 0) {
            at->now += len;
            return true;
        }
    }
    return false;
}

// ---- asking ----

const struct sk_flat_member *sk_flat_json_find(const struct sk_flat_json *json, const char *name)
{
    for (size_t i = 0; i < json->count; i++) {
        if (sk_flat_text_is(json->members[i].name, name))
            return &json->members[i];
    }
    return NULL;
}

bool sk_flat_json_next(struct sk_flat_text *list, struct sk_flat_text *out)
{
    struct at at = {list->at, list->at + list->len};
    while (at.now < at.end && *at.now != '"')
        at.now++;
    bool found = flat_text(&at, out);
    *list = (struct sk_flat_text){at.now, (size_t)(at.end - at.now)};
    return found;
}

bool sk_flat_text_is(struct sk_flat_text text, const char *what)
{
    if (text.len > 0 && text.at[0] != what[0]) // as most that differ
        return false;
    return strlen(what) == text.len && memcmp(text.at, what, text.len) == 0;
}
