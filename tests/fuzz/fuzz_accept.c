// The Accept field of a scrape. OpenMetrics is chosen only if the field names it. An appended range that accepts only
// OpenMetrics counts unless a quote is open. The same for Accept-Encoding and gzip, which `*` also names.
#include <stdbool.h>
#include <stdio.h>
#include <strings.h>

#include "accept.h"
#include "fuzz.h"

static bool names(const char *text, const char *name)
{
    size_t len = strlen(name);
    for (; *text != '\0'; text++) {
        if (strncasecmp(text, name, len) == 0)
            return true;
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char wanted[] = ",application/openmetrics-text;version=1.0.0;q=1";
    char *value = fuzz_text(data, size);
    bool chosen = sk_accept_openmetrics(value);
    MUST(!chosen || names(value, "application/openmetrics-text"));
    size_t room = strlen(value) + sizeof wanted;
    char *more = malloc(room);
    MUST(more != NULL);
    (void)snprintf(more, room, "%s%s", value, wanted);
    MUST(sk_accept_openmetrics(more) || strchr(value, '"') != NULL);
    MUST(!sk_accept_gzip(value) || names(value, "gzip") || strchr(value, '*') != NULL);
    (void)snprintf(more, room, "%s,gzip;q=1", value);
    MUST(sk_accept_gzip(more) || strchr(value, '"') != NULL);
    free(more);
    free(value);
    return 0;
}
