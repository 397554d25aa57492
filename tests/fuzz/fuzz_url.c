// SECKILL_REDIS_URL. An accepted URL must be usable for connecting, and mean the same when written again.
#include <stdbool.h>
#include <stdio.h>
#include <sys/un.h>

#include "fuzz.h"
#include "redis_url.h"

enum { URL_ROOM = (SK_SENTINELS_MAX + SK_SEEDS_MAX) * (SK_REDIS_HOST_SIZE + 16) + SK_MASTER_NAME_SIZE + 64 };

// Brackets may hold anything but a closing one.
static int put_host(char *out, size_t room, const struct sk_redis_host *host)
{
    const char *open = strchr(host->name, ']') == NULL ? "[" : "", *close = open[0] == '[' ? "]" : "";
    return snprintf(out, room, "%s%s%s:%d", open, host->name, close, host->port);
}

// Each byte escaped but control bytes, which may stand as they are only; owned by the caller. NULL: "".
static char *escaped(const char *text)
{
    size_t len = text == NULL ? 0 : strlen(text), n = 0;
    char *out = calloc(1, 3 * len + 1);
    MUST(out != NULL);
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)text[i];
        n += (size_t)snprintf(out + n, 4, byte < ' ' || byte == 0x7f ? "%c" : "%%%02x", byte);
    }
    return out;
}

static char *write_down(const struct sk_redis_url *url, const char *user, const char *password)
{
    const char *colon = url->password == NULL ? "" : ":", *at = url->password == NULL ? "" : "@";
    bool local = url->sentinel_count == 0 && url->seed_count == 0 && url->at.port == 0;
    size_t room = URL_ROOM + strlen(user) + strlen(password), n;
    char *text = malloc(room);
    MUST(text != NULL);
    n = (size_t)snprintf(text, room, "%s%s%s%s%s%s",
                         local      ? "unix://"
                         : url->tls ? "rediss"
                                    : "redis",
                         local                     ? ""
                         : url->sentinel_count > 0 ? "+sentinel://"
                         : url->seed_count > 0     ? "+cluster://"
                                                   : "://",
                         user, colon, password, at);
    if (local) {
        (void)snprintf(text + n, room - n, "%s", url->at.name);
        return text;
    }
    if (url->sentinel_count == 0 && url->seed_count == 0)
        n += (size_t)put_host(text + n, room - n, &url->at);
    for (size_t i = 0; i < url->seed_count; i++) {
        n += (size_t)snprintf(text + n, room - n, "%s", i == 0 ? "" : ",");
        n += (size_t)put_host(text + n, room - n, &url->seeds[i]);
    }
    if (url->seed_count > 0)
        return text;
    for (size_t i = 0; i < url->sentinel_count; i++) {
        n += (size_t)snprintf(text + n, room - n, "%s", i == 0 ? "" : ",");
        n += (size_t)put_host(text + n, room - n, &url->sentinels[i]);
    }
    (void)snprintf(text + n, room - n, "%s%s/%s", url->sentinel_count > 0 ? "/" : "", url->master, url->db);
    return text;
}

static void must_be_host(const struct sk_redis_host *host)
{
    MUST(host->name[0] != '\0' && strlen(host->name) < SK_REDIS_HOST_SIZE);
    MUST(host->port >= 0 && host->port <= UINT16_MAX);
    MUST(host->port != 0 || host->name[0] == '/');
    MUST(host->port != 0 || strlen(host->name) < sizeof((struct sockaddr_un *)NULL)->sun_path);
}

static void must_make_sense(const struct sk_redis_url *url)
{
    MUST(url->sentinel_count <= SK_SENTINELS_MAX);
    for (size_t i = 0; i < url->sentinel_count; i++)
        must_be_host(&url->sentinels[i]);
    MUST(url->seed_count <= SK_SEEDS_MAX && (url->seed_count == 0 || url->sentinel_count == 0));
    for (size_t i = 0; i < url->seed_count; i++)
        must_be_host(&url->seeds[i]);
    if (url->sentinel_count == 0 && url->seed_count == 0)
        must_be_host(&url->at);
    else if (url->sentinel_count > 0)
        MUST(url->at.name[0] == '\0' && url->master[0] != '\0' && strchr(url->master, '/') == NULL);
    MUST(url->db[0] != '\0' && strspn(url->db, "0123456789") == strlen(url->db));
}

static bool same_host(const struct sk_redis_host *a, const struct sk_redis_host *b)
{
    return strcmp(a->name, b->name) == 0 && a->port == b->port;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sk_redis_url first = {0}, second = {0};
    char *url = fuzz_text(data, size);
    if (sk_redis_url_parse(url, &first) == SK_OK) {
        must_make_sense(&first);
        char *user = escaped(first.user), *password = escaped(first.password);
        char *again = write_down(&first, user, password);
        MUST(sk_redis_url_parse(again, &second) == SK_OK);
        MUST(same_host(&first.at, &second.at) && strcmp(first.db, second.db) == 0 && first.tls == second.tls);
        MUST(first.sentinel_count == second.sentinel_count && strcmp(first.master, second.master) == 0);
        for (size_t i = 0; i < first.sentinel_count; i++)
            MUST(same_host(&first.sentinels[i], &second.sentinels[i]));
        MUST(first.seed_count == second.seed_count);
        for (size_t i = 0; i < first.seed_count; i++)
            MUST(same_host(&first.seeds[i], &second.seeds[i]));
        MUST((first.user == NULL) == (second.user == NULL));
        MUST(first.user == NULL || strcmp(first.user, second.user) == 0);
        MUST((first.password == NULL) == (second.password == NULL));
        MUST(first.password == NULL || strcmp(first.password, second.password) == 0);
        free(again);
        free(user);
        free(password);
    }
    sk_redis_url_free(&first);
    sk_redis_url_free(&second);
    free(url);
    return 0;
}
