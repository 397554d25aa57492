// INFO is lines "name:value", ended by CR LF.
#include "redis_info.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "keys.h"

enum { RUN_ID_CHARS = 40 };

// The value of a line, and its length; NULL if there is no such line.
static const char *info_find(const char *info, const char *name, size_t *len)
{
    size_t n = strlen(name);
    for (const char *line = info; line != NULL && *line != '\0';) {
        if (strncmp(line, name, n) == 0 && line[n] == ':') {
            *len = strcspn(line + n + 1, "\r\n");
            return line + n + 1;
        }
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    return NULL;
}

bool sk_redis_info_value(const char *info, const char *name, char *out, size_t size)
{
    size_t len = 0;
    const char *value = info_find(info, name, &len);
    (void)snprintf(out, size, "%.*s", (int)len, value == NULL ? "" : value);
    return value != NULL;
}

bool sk_redis_info_read(const char *info, struct sk_redis_info *out)
{
    size_t run_len = 0, role_len = 0;
    const char *run = info_find(info, "run_id", &run_len), *role = info_find(info, "role", &role_len);
    if (run == NULL || role == NULL || run_len != RUN_ID_CHARS)
        return false;
    (void)snprintf(out->run, sizeof out->run, "%s-%.*s", SK_PROTOCOL, (int)run_len, run);
    out->replica = role_len != strlen("master") || strncmp(role, "master", role_len) != 0;
    return true;
}
