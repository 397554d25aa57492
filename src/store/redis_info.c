// INFO is lines "name:value", ended by CR LF.
#include "redis_info.h"

#include <stdio.h>
#include <string.h>

#include "keys.h"

enum { RUN_ID_CHARS = 40 };

bool sk_redis_info_value(const char *info, const char *name, char *out, size_t size)
{
    size_t n = strlen(name);
    const char *line = info;
    while (line != NULL && !(strncmp(line, name, n) == 0 && line[n] == ':')) {
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    const char *value = line == NULL ? "" : line + n + 1;
    (void)snprintf(out, size, "%.*s", (int)strcspn(value, "\r\n"), value);
    return line != NULL;
}

bool sk_redis_info_role(const char *info, struct sk_redis_info *out)
{
    char role[sizeof "master" + 1]; // one more than it may have
    if (!sk_redis_info_value(info, "role", role, sizeof role))
        return false;
    out->replica = strcmp(role, "master") != 0;
    (void)sk_redis_info_value(info, "master_replid2", out->promotion, sizeof out->promotion);
    if (strspn(out->promotion, "0") == strlen(out->promotion))
        out->promotion[0] = '\0';
    return true;
}

bool sk_redis_info_read(const char *info, struct sk_redis_info *out)
{
    char id[RUN_ID_CHARS + 2]; // one more than it may have
    if (!sk_redis_info_role(info, out) || !sk_redis_info_value(info, "run_id", id, sizeof id) ||
        strlen(id) != RUN_ID_CHARS)
        return false;
    (void)snprintf(out->run, sizeof out->run, "%s-%s%s%s", SK_PROTOCOL, id, out->promotion[0] == '\0' ? "" : "-",
                   out->promotion);
    return true;
}
