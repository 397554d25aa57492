// Forwarded and X-Forwarded-For, each as a list of fields separated by newlines. Whatever the client sends, the element
// that the first trusted proxy appends decides, in the same field or a later one.
#include <stdio.h>

#include "forwarded.h"
#include "fuzz.h"

enum { FIELDS = 8, ADDED = 64 };

static struct sk_networks trusted;

static struct sk_address address(const char *text)
{
    struct sk_address made;
    MUST(sk_address_parse(text, strlen(text), &made));
    return made;
}

static bool is(const struct sk_address *one, const char *text)
{
    struct sk_address other = address(text);
    return memcmp(one, &other, sizeof other) == 0;
}

// Parsing twice gives the same client. Without fields, or from an untrusted peer, the client is the peer.
static void must_be_known(enum sk_forwarded form, const struct sk_address *peer, const char *const *values,
                          size_t count)
{
    struct sk_address client = sk_forwarded_client(form, &trusted, peer, values, count);
    struct sk_address again = sk_forwarded_client(form, &trusted, peer, values, count);
    MUST(memcmp(&client, &again, sizeof client) == 0);
    MUST(count > 0 || memcmp(&client, peer, sizeof client) == 0);
    struct sk_address stranger = address("198.51.100.7");
    client = sk_forwarded_client(form, &trusted, &stranger, values, count);
    MUST(memcmp(&client, &stranger, sizeof client) == 0);
}

static void must_not_decide(enum sk_forwarded form, const struct sk_address *peer, const char **values, size_t count)
{
    static const char *const added[2][3] = {
        [SK_FORWARDED] = {"for=203.0.113.7", "for=\"203.0.113.7:80\";proto=http, for=10.9.9.9",
                          "proto=http;for=\"203.0.113.7\";host=\"a,b\""},
        [SK_FORWARDED_FOR] = {"203.0.113.7", "203.0.113.7, 10.9.9.9", "203.0.113.7:80"},
    };
    for (size_t i = 0; i < 3; i++) {
        size_t room = strlen(values[count - 1]) + ADDED;
        char *longer = malloc(room);
        MUST(longer != NULL);
        (void)snprintf(longer, room, "%s, %s", values[count - 1], added[form][i]);
        const char *last = values[count - 1];
        values[count - 1] = longer;
        struct sk_address client = sk_forwarded_client(form, &trusted, peer, values, count);
        MUST(is(&client, "203.0.113.7"));
        values[count - 1] = last;
        values[count] = added[form][i];
        client = sk_forwarded_client(form, &trusted, peer, values, count + 1);
        MUST(is(&client, "203.0.113.7"));
        free(longer);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), *fields[FIELDS] = {text};
    const char *values[FIELDS + 1];
    size_t count = 1, bad_len;
    MUST(sk_networks_parse("10.0.0.0/8 2001:db8:aaaa::/48", &trusted, &bad_len) == NULL);
    struct sk_address peer = address("10.0.0.1");
    for (char *end; count < FIELDS && (end = strchr(fields[count - 1], '\n')) != NULL; count++) {
        *end = '\0';
        fields[count] = end + 1;
    }
    for (size_t i = 0; i < count; i++)
        values[i] = fields[i];
    for (int form = SK_FORWARDED; form <= SK_FORWARDED_FOR; form++) {
        must_be_known((enum sk_forwarded)form, &peer, values, count);
        must_not_decide((enum sk_forwarded)form, &peer, values, count);
    }
    free(text);
    return 0;
}
