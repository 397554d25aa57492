// SECKILL_REDIS_URL. An accepted URL must be usable for connecting, and mean the same when written again.
#include <stdio.h>
#include <sys/un.h>

#include "fuzz.h"
#include "redis_url.h"

enum { URL_ROOM = SK_REDIS_HOST_SIZE + 64 };

static char *write_down(const struct sk_redis_url *endpoint)
{
    const char *user = endpoint->user == NULL ? "" : endpoint->user;
    const char *password = endpoint->password == NULL ? "" : endpoint->password;
    const char *colon = endpoint->password == NULL ? "" : ":", *at = endpoint->password == NULL ? "" : "@";
    size_t room = URL_ROOM + strlen(user) + strlen(password);
    // Brackets may hold anything but a closing one.
    const char *open = strchr(endpoint->host, ']') == NULL ? "[" : "", *close = open[0] == '[' ? "]" : "";
    char *url = malloc(room);
    MUST(url != NULL);
    if (endpoint->port == 0)
        (void)snprintf(url, room, "unix://%s%s%s%s%s", user, colon, password, at, endpoint->host);
    else
        (void)snprintf(url, room, "redis://%s%s%s%s%s%s%s:%d/%s", user, colon, password, at, open, endpoint->host,
                       close, endpoint->port, endpoint->db);
    return url;
}

static void must_make_sense(const struct sk_redis_url *endpoint)
{
    MUST(endpoint->host[0] != '\0' && strlen(endpoint->host) < SK_REDIS_HOST_SIZE);
    MUST(endpoint->port >= 0 && endpoint->port <= UINT16_MAX);
    MUST(endpoint->port != 0 || endpoint->host[0] == '/');
    MUST(endpoint->port != 0 || strlen(endpoint->host) < sizeof((struct sockaddr_un *)NULL)->sun_path);
    MUST(endpoint->db[0] != '\0' && strspn(endpoint->db, "0123456789") == strlen(endpoint->db));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sk_redis_url first = {0}, second = {0};
    char *url = fuzz_text(data, size);
    if (sk_redis_url_parse(url, &first) == SK_OK) {
        must_make_sense(&first);
        char *again = write_down(&first);
        MUST(sk_redis_url_parse(again, &second) == SK_OK);
        MUST(strcmp(first.host, second.host) == 0 && first.port == second.port && strcmp(first.db, second.db) == 0);
        MUST((first.user == NULL) == (second.user == NULL));
        MUST(first.user == NULL || strcmp(first.user, second.user) == 0);
        MUST((first.password == NULL) == (second.password == NULL));
        MUST(first.password == NULL || strcmp(first.password, second.password) == 0);
        free(again);
    }
    sk_redis_url_free(&first);
    sk_redis_url_free(&second);
    free(url);
    return 0;
}
