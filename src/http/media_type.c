#include "media_type.h"

#include <stddef.h>
#include <strings.h>

bool sk_media_type_is_json(const char *type)
{
    static const char json[] = "application/json";
    if (type == NULL || strncasecmp(type, json, sizeof json - 1) != 0)
        return false;
    char after = type[sizeof json - 1];
    return after == '\0' || after == ';' || after == ' ';
}
