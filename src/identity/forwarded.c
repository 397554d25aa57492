// Reads from the right, element by element, and no further than needed. The first hop that is not trusted wrote all
// that is to the left of it, and may have left a quote open there.
#include "forwarded.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "address.h"

enum { NODE_MAX = 64, PORT_DIGITS_MAX = 5 };

struct forwarded_text {
    const char *at, *end;
};

// Whether an odd number of backslashes is before it.
static bool forwarded_is_escaped(const char *begin, const char *at)
{
    const char *first = at;
    while (first > begin && first[-1] == '\\')
        first--;
    return (at - first) % 2 == 1;
}

static bool forwarded_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static struct forwarded_text forwarded_trim(struct forwarded_text text)
{
    while (text.at < text.end && forwarded_is_blank(*text.at))
        text.at++;
    while (text.end > text.at && forwarded_is_blank(text.end[-1]))
        text.end--;
    return text;
}

// Takes the last element off the list, up to its comma. A comma in quotes does not separate.
static struct forwarded_text forwarded_last(enum sk_forwarded form, struct forwarded_text *list)
{
    const char *at = list->end;
    bool quoted = false;
    for (; at > list->at; at--) {
        if (at[-1] == '"' && form == SK_FORWARDED && !(quoted && forwarded_is_escaped(list->at, at - 1)))
            quoted = !quoted;
        else if (at[-1] == ',' && !quoted)
            break;
    }
    struct forwarded_text element = {at, list->end};
    list->end = at > list->at ? at - 1 : at;
    return forwarded_trim(element);
}

// RFC 7239 6: digits, or an obfuscated name.
static bool forwarded_is_port(const char *port, size_t len)
{
    bool made_up = len > 1 && port[0] == '_';
    for (size_t i = made_up; i < len; i++) {
        bool digit = port[i] >= '0' && port[i] <= '9';
        bool letter = (port[i] >= 'a' && port[i] <= 'z') || (port[i] >= 'A' && port[i] <= 'Z');
        if (!digit && !(made_up && (letter || port[i] == '.' || port[i] == '_' || port[i] == '-')))
            return false;
    }
    return made_up || (len >= 1 && len <= PORT_DIGITS_MAX);
}

// 192.0.2.1, 192.0.2.1:80, 2001:db8::1, [2001:db8::1], [2001:db8::1]:80
static bool forwarded_node(const char *node, size_t len, struct sk_address *address)
{
    if (len >= NODE_MAX)
        return false;
    const char *colon = memchr(node, ':', len), *end = node + len;
    if (len > 0 && node[0] == '[') {
        const char *bracket = memchr(node, ']', len);
        if (bracket == NULL || memchr(node, ':', (size_t)(bracket - node)) == NULL)
            return false;
        if (bracket + 1 < end && (bracket[1] != ':' || !forwarded_is_port(bracket + 2, (size_t)(end - bracket - 2))))
            return false;
        return sk_address_parse(node + 1, (size_t)(bracket - node - 1), address);
    }
    if (colon == NULL || memchr(colon + 1, ':', (size_t)(end - colon - 1)) != NULL)
        return sk_address_parse(node, len, address);
    return forwarded_is_port(colon + 1, (size_t)(end - colon - 1)) &&
           sk_address_parse(node, (size_t)(colon - node), address);
}

// Reads a quoted string, or all up to a blank or a semicolon: proxies omit the quotes that RFC 7239 requires around a
// colon. A value longer than any node is truncated, and then rejected.
static bool forwarded_read_value(struct forwarded_text *pairs, char value[NODE_MAX], size_t *len)
{
    bool quoted = pairs->at < pairs->end && *pairs->at == '"';
    *len = 0;
    for (pairs->at += quoted; pairs->at < pairs->end; pairs->at++) {
        if (quoted ? *pairs->at == '"' : *pairs->at == ';' || forwarded_is_blank(*pairs->at))
            break;
        if (!quoted && (*pairs->at == '"' || *pairs->at == '='))
            return false;
        if (quoted && *pairs->at == '\\' && pairs->at + 1 < pairs->end)
            pairs->at++;
        if (*len < NODE_MAX)
            value[(*len)++] = *pairs->at;
    }
    if (!quoted)
        return *len > 0;
    return pairs->at < pairs->end && *pairs->at++ == '"';
}

// Reads name=value and the semicolon after it. Keeps the value of `for`.
static bool forwarded_read_pair(struct forwarded_text *pairs, char node[NODE_MAX], size_t *len, unsigned *found)
{
    char other[NODE_MAX];
    size_t other_len;
    *pairs = forwarded_trim(*pairs);
    const char *name = pairs->at, *equals = memchr(name, '=', (size_t)(pairs->end - name));
    if (equals == NULL)
        return false;
    bool is_for = equals - name == 3 && strncasecmp(name, "for", 3) == 0;
    pairs->at = equals + 1;
    if (!forwarded_read_value(pairs, is_for ? node : other, is_for ? len : &other_len))
        return false;
    *found += is_for;
    *pairs = forwarded_trim(*pairs);
    if (pairs->at == pairs->end)
        return true;
    return *pairs->at++ == ';';
}

static bool forwarded_hop(enum sk_forwarded form, struct forwarded_text element, struct sk_address *hop)
{
    char node[NODE_MAX];
    size_t len = 0;
    unsigned found = 0;
    if (form == SK_FORWARDED_FOR)
        return forwarded_node(element.at, (size_t)(element.end - element.at), hop);
    while (element.at < element.end) {
        if (!forwarded_read_pair(&element, node, &len, &found))
            return false;
    }
    return found == 1 && forwarded_node(node, len, hop);
}

struct sk_address sk_forwarded_client(enum sk_forwarded form, const struct sk_networks *trusted,
                                      const struct sk_address *peer, const char *const *values, size_t count)
{
    struct sk_address client = *peer, hop;
    int hops = 0;
    if (!sk_networks_have(trusted, peer))
        return client;
    while (count-- > 0) {
        struct forwarded_text list = {values[count], values[count] + strlen(values[count])};
        while (list.end > list.at) {
            struct forwarded_text element = forwarded_last(form, &list);
            if (element.at == element.end)
                continue; // RFC 9110 5.6.1: ignore empty elements
            if (hops++ == SK_FORWARDED_HOPS_MAX || !forwarded_hop(form, element, &hop))
                return client;
            client = hop;
            if (!sk_networks_have(trusted, &client))
                return client;
        }
    }
    return client;
}

// ---- a node ----
