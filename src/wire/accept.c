// RFC 9110, 12.5.1, as far as two media types need it: the most specific range that fits a type gives its weight.
// 12.5.3 does the same for codings, where only the most specific match counts: a name, then `*`.
#include "accept.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "request.h"

enum { WEIGHT_MAX = 1000, WEIGHT_DIGITS = 3 };

struct span {
    const char *at;
    size_t len;
};

struct range {
    struct span type, version;
    int weight; // thousandths
};

static struct span accept_trim(struct span text)
{
    while (text.len > 0 && (text.at[0] == ' ' || text.at[0] == '\t')) {
        text.at++;
        text.len--;
    }
    while (text.len > 0 && (text.at[text.len - 1] == ' ' || text.at[text.len - 1] == '\t'))
        text.len--;
    return text;
}

static bool accept_is(struct span text, const char *name)
{
    return text.len == strlen(name) && strncasecmp(text.at, name, text.len) == 0;
}

// Cuts off the text before the next `mark` outside quotes. *rest: what follows it.
static struct span accept_cut(const char **rest, const char *end, char mark)
{
    const char *begin = *rest, *at = begin;
    bool quoted = false;
    for (; at < end && (quoted || *at != mark); at++) {
        if (quoted && *at == '\\' && at + 1 < end)
            at++;
        else if (*at == '"')
            quoted = !quoted;
    }
    *rest = at < end ? at + 1 : end;
    return accept_trim((struct span){begin, (size_t)(at - begin)});
}

// "0", "0.5", "1.000". 0: malformed.
static int accept_weight(struct span text)
{
    int weight = 0, unit = WEIGHT_MAX / 10;
    if (text.len == 0 || text.len > WEIGHT_DIGITS + 2 || (text.at[0] != '0' && text.at[0] != '1') ||
        (text.len > 1 && text.at[1] != '.'))
        return 0;
    weight = text.at[0] == '1' ? WEIGHT_MAX : 0;
    for (size_t i = 2; i < text.len; i++, unit /= 10) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return 0;
        weight += (text.at[i] - '0') * unit;
    }
    return weight <= WEIGHT_MAX ? weight : 0;
}

static struct range accept_read(struct span text)
{
    const char *rest = text.at, *end = text.at + text.len;
    struct range range = {.type = accept_cut(&rest, end, ';'), .weight = WEIGHT_MAX};
    while (rest < end) {
        struct span parameter = accept_cut(&rest, end, ';');
        const char *equals = memchr(parameter.at, '=', parameter.len);
        if (equals == NULL)
            continue;
        struct span name = {parameter.at, (size_t)(equals - parameter.at)};
        struct span value = {equals + 1, parameter.len - name.len - 1};
        if (value.len >= 2 && value.at[0] == '"' && value.at[value.len - 1] == '"')
            value = (struct span){value.at + 1, value.len - 2};
        if (accept_is(name, "q"))
            range.weight = accept_weight(value);
        else if (accept_is(name, "version"))
            range.version = value;
    }
    return range;
}

// How specific the range is: 3 names the type, 2 its first half, 1 fits all, 0 does not fit this type and version.
static int accept_fits(const struct range *range, const char *type, const char *first_half, const char *version)
{
    if (range->version.at != NULL && !accept_is(range->version, version))
        return 0;
    if (accept_is(range->type, type))
        return 3;
    return accept_is(range->type, first_half) ? 2 : accept_is(range->type, "*/*") ? 1 : 0;
}

bool sk_accept_openmetrics(const char *value)
{
    int text_weight = 0, text_fit = 0, open_weight = 0;
    if (value == NULL)
        return false;
    for (const char *end = value + strlen(value); value < end;) {
        struct range range = accept_read(accept_cut(&value, end, ','));
        int fits = accept_fits(&range, "text/plain", "text/*", "0.0.4");
        if (fits > text_fit || (fits > 0 && fits == text_fit && range.weight > text_weight)) {
            text_weight = range.weight;
            text_fit = fits;
        }
        // It must be named: a client that takes everything gets the text.
        if (accept_fits(&range, "application/openmetrics-text", "", "1.0.0") == 3 && range.weight > open_weight)
            open_weight = range.weight;
    }
    return open_weight > 0 && open_weight >= text_weight;
}

bool sk_accept_gzip(const char *value)
{
    int named = -1, any = 0;
    if (value == NULL)
        return false;
    for (const char *end = value + strlen(value); value < end;) {
        struct range range = accept_read(accept_cut(&value, end, ','));
        if (accept_is(range.type, "gzip") || accept_is(range.type, "x-gzip"))
            named = range.weight > named ? range.weight : named;
        else if (accept_is(range.type, "*"))
            any = range.weight;
    }
    return named >= 0 ? named > 0 : any > 0;
}

// ---- media types of requests ----
//
// The check of a body's media type in request.h. Not in request.c, because it reads a field as any other caller does.

bool sk_request_is_json(const struct sk_request *request)
{
    static const char json[] = "application/json";
    const char *type = sk_request_header(request, "content-type", NULL);
    if (type == NULL || strncasecmp(type, json, sizeof json - 1) != 0)
        return false;
    char after = type[sizeof json - 1];
    return after == '\0' || after == ';' || after == ' ' || after == '\t';
}
