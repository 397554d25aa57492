// The check of a body's media type in request.h. Not in request.c, because it reads a field as any other caller does.
#include <strings.h>

#include "request.h"

bool sk_request_is_json(const struct sk_request *request)
{
    static const char json[] = "application/json";
    const char *type = sk_request_header(request, "content-type", NULL);
    if (type == NULL || strncasecmp(type, json, sizeof json - 1) != 0)
        return false;
    char after = type[sizeof json - 1];
    return after == '\0' || after == ';' || after == ' ';
}
