// What request.h says of a body's media type: not in request.c, because it asks for a field as anybody else does.
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
