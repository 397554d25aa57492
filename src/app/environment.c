// The nearest name is that of the smallest edit distance (Levenshtein). Kubernetes describes each Service to the pods
// beside it in variables that begin with the Service's name, so a Service `seckill` makes some that begin as settings
// do.
#include "environment.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static const char prefix[] = "SECKILL_";
static const char *const failpoint_names[] = {"SECKILL_FAILPOINTS", "SECKILL_FAIL_MALLOC"};

static bool environment_passes(const char *name);
static bool environment_is_kubernetes(const char *rest);
static size_t environment_nearest(const char *name, const char (*known)[SK_ENVIRONMENT_NAME_MAX], size_t count);
static size_t environment_distance(const char *a, const char *b);

enum sk_status sk_environment_check(const char (*known)[SK_ENVIRONMENT_NAME_MAX], size_t count, FILE *err)
{
    enum sk_status status = SK_OK;
    for (char **at = environ; at != NULL && *at != NULL; at++) {
        char name[SK_ENVIRONMENT_NAME_MAX];
        size_t len = strcspn(*at, "=");
        bool is_known = false;
        if (strncmp(*at, prefix, strlen(prefix)) != 0)
            continue;
        (void)snprintf(name, sizeof name, "%.*s", (int)(len < sizeof name ? len : sizeof name - 1), *at);
        for (size_t i = 0; i < count && !is_known; i++)
            is_known = strlen(known[i]) == len && strcmp(known[i], name) == 0;
        if (is_known || environment_passes(name))
            continue;
        (void)fprintf(err, "seckill: %s: there is no such setting; did you mean %s?\n", name,
                      known[environment_nearest(name, known, count)]);
        status = SK_FAIL;
    }
    return status;
}

static bool environment_passes(const char *name)
{
    for (size_t i = 0; i < sizeof failpoint_names / sizeof failpoint_names[0]; i++) {
        if (strcmp(name, failpoint_names[i]) == 0)
            return true;
    }
    return environment_is_kubernetes(name + strlen(prefix));
}

// SERVICE_HOST, SERVICE_PORT, SERVICE_PORT_<name>, PORT, and for each port PORT_<number>_TCP, also with _PROTO, _PORT
// or _ADDR, or UDP in the place of TCP.
static bool environment_is_kubernetes(const char *rest)
{
    static const char *const ends[] = {"", "_PROTO", "_PORT", "_ADDR"};
    static const char of_port[] = "SERVICE_PORT_";
    if (strcmp(rest, "SERVICE_HOST") == 0 || strcmp(rest, "SERVICE_PORT") == 0 || strcmp(rest, "PORT") == 0)
        return true;
    if (strncmp(rest, of_port, strlen(of_port)) == 0)
        return rest[strlen(of_port)] != '\0';
    if (strncmp(rest, "PORT_", 5) != 0)
        return false;
    size_t digits = strspn(rest + 5, "0123456789");
    const char *protocol = rest + 5 + digits;
    if (digits == 0 || (strncmp(protocol, "_TCP", 4) != 0 && strncmp(protocol, "_UDP", 4) != 0))
        return false;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        if (strcmp(protocol + 4, ends[i]) == 0)
            return true;
    }
    return false;
}

static size_t environment_nearest(const char *name, const char (*known)[SK_ENVIRONMENT_NAME_MAX], size_t count)
{
    size_t nearest = 0, least = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        size_t distance = environment_distance(name, known[i]);
        if (distance < least) {
            nearest = i;
            least = distance;
        }
    }
    return nearest;
}

// How many bytes must be put in, taken out or replaced. row[j] is the distance of what was read of `a` from the first j
// bytes of `b`.
static size_t environment_distance(const char *a, const char *b)
{
    size_t row[SK_ENVIRONMENT_NAME_MAX], len = strlen(b);
    for (size_t j = 0; j <= len; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= len; j++) {
            size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            size_t changed = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            diagonal = row[j];
            row[j] = replaced < changed ? replaced : changed;
        }
    }
    return row[len];
}
