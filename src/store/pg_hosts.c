// libpq parses the URL. Here its lists are only split at the commas, as libpq itself does.
//
// With several hosts the service takes none whose sessions are read-only: target_session_attrs is `read-write` unless
// the URL has `primary`. libpq then rejects a standby when it connects, by what the server reports of itself.
#include "pg_hosts.h"

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "status.h"

enum { HOSTS_MAX = 16, OPTIONS_MAX = 80, OWN_OPTIONS = 6 };

struct pg_host {
    char *host, *hostaddr, *port; // owned; NULL: libpq's default
};

struct sk_pg_hosts {
    PQconninfoOption *options; // as the URL has them
    struct pg_host each[HOSTS_MAX];
    size_t count;
};

// What PQconnect*Params() takes.
struct pg_params {
    const char *names[OPTIONS_MAX + OWN_OPTIONS + 1], *values[OPTIONS_MAX + OWN_OPTIONS + 1];
    size_t n;
};

// ---- reading the URL ----

// Whether libpq would take a part of the password for a host or a database, and print it in its messages.
static bool pg_hosts_splits_password(const char *url)
{
    static const char mark[] = "://";
    const char *rest = strncmp(url, "postgres", sizeof "postgres" - 1) == 0 ? strstr(url, mark) : NULL;
    if (rest == NULL)
        return false;
    rest += sizeof mark - 1;
    size_t user = strcspn(rest, "@/");
    rest += rest[user] == '@' ? user + 1 : 0;
    return memchr(rest, '@', strcspn(rest, "?")) != NULL;
}

// NULL: the URL does not have it, or has it empty, which is the same to libpq.
static const char *pg_hosts_option(const struct sk_pg_hosts *hosts, const char *keyword)
{
    for (const PQconninfoOption *o = hosts->options; o->keyword != NULL; o++) {
        if (strcmp(o->keyword, keyword) == 0)
            return o->val != NULL && o->val[0] != '\0' ? o->val : NULL;
    }
    return NULL;
}

static size_t pg_hosts_length(const char *list)
{
    size_t n = list != NULL;
    for (; list != NULL && *list != '\0'; list++)
        n += *list == ',';
    return n;
}

// *element: NULL if it is empty, or there is no list. False: out of memory.
static bool pg_hosts_take(char **element, const char *list, size_t place)
{
    if (list == NULL)
        return true;
    for (; place > 0; place--)
        list = strchr(list, ',') + 1;
    size_t len = strcspn(list, ",");
    if (len == 0)
        return true;
    *element = strndup(list, len);
    return *element != NULL;
}

// Returns what is wrong, or NULL.
static const char *pg_hosts_split(struct sk_pg_hosts *hosts)
{
    const char *host = pg_hosts_option(hosts, "host"), *hostaddr = pg_hosts_option(hosts, "hostaddr");
    const char *port = pg_hosts_option(hosts, "port");
    size_t ports = pg_hosts_length(port), addresses = pg_hosts_length(hostaddr);
    hosts->count = addresses > 0 ? addresses : pg_hosts_length(host);
    if (addresses > 0 && host != NULL && pg_hosts_length(host) != addresses)
        return "it has as many addresses as hosts, or none";
    if (hosts->count == 0)
        hosts->count = 1;
    if (hosts->count > HOSTS_MAX)
        return "it has too many hosts";
    if (ports > 1 && ports != hosts->count)
        return "it has a port for each host, or one for all";
    for (size_t i = 0; i < hosts->count; i++) {
        struct pg_host *one = &hosts->each[i];
        if (!pg_hosts_take(&one->host, host, i) || !pg_hosts_take(&one->hostaddr, hostaddr, i) ||
            !pg_hosts_take(&one->port, port, ports > 1 ? i : 0))
            return "out of memory";
    }
    return NULL;
}

// The other values would let a standby in, or nothing else.
static const char *pg_hosts_check_attributes(const struct sk_pg_hosts *hosts)
{
    const char *attributes = pg_hosts_option(hosts, "target_session_attrs");
    if (hosts->count == 1 || attributes == NULL || strcmp(attributes, "read-write") == 0 ||
        strcmp(attributes, "primary") == 0)
        return NULL;
    return "with several hosts, target_session_attrs is read-write or primary";
}

struct sk_pg_hosts *sk_pg_hosts_open(const char *url)
{
    struct sk_pg_hosts *hosts = calloc(1, sizeof *hosts);
    if (hosts == NULL) {
        sk_log(SK_LOG_ERROR, "no memory for SECKILL_DATABASE_URL", "");
        return NULL;
    }
    const char *wrong = NULL;
    if (pg_hosts_splits_password(url))
        wrong = "it has an @ behind the user's part: write the / and @ of a password as %2F and %40";
    else if ((hosts->options = PQconninfoParse(url, NULL)) == NULL)
        wrong = "it is not a URI that libpq reads";
    else if ((wrong = pg_hosts_split(hosts)) == NULL)
        wrong = pg_hosts_check_attributes(hosts);
    if (wrong == NULL)
        return hosts;
    sk_log(SK_LOG_ERROR, "SECKILL_DATABASE_URL is wrong", "reason=\"%s\"", wrong);
    sk_pg_hosts_close(hosts);
    return NULL;
}

void sk_pg_hosts_close(struct sk_pg_hosts *hosts)
{
    if (hosts == NULL)
        return;
    for (size_t i = 0; i < HOSTS_MAX; i++) {
        free(hosts->each[i].host);
        free(hosts->each[i].hostaddr);
        free(hosts->each[i].port);
    }
    PQconninfoFree(hosts->options);
    free(hosts);
}

// ---- what it has ----

size_t sk_pg_hosts_count(const struct sk_pg_hosts *hosts)
{
    return hosts->count;
}

const char *sk_pg_hosts_name(const struct sk_pg_hosts *hosts, size_t host)
{
    const struct pg_host *one = &hosts->each[host];
    return one->host != NULL ? one->host : one->hostaddr != NULL ? one->hostaddr : "";
}

const char *sk_pg_hosts_to_resolve(const struct sk_pg_hosts *hosts, size_t host)
{
    const struct pg_host *one = &hosts->each[host];
    bool is_name = one->host != NULL && one->host[0] != '/' && one->host[0] != '@' && one->hostaddr == NULL;
    return is_name ? one->host : NULL;
}

bool sk_pg_hosts_leave_read_only(const struct sk_pg_hosts *hosts)
{
    const char *attributes = pg_hosts_option(hosts, "target_session_attrs");
    return attributes == NULL ? hosts->count > 1 : strcmp(attributes, "read-write") == 0;
}

// ---- connecting ----

static void pg_hosts_put(struct pg_params *params, const char *name, const char *value)
{
    SK_ASSERT(params->n < OPTIONS_MAX + OWN_OPTIONS);
    params->names[params->n] = name;
    params->values[params->n++] = value;
}

// The URL's own settings, with one host of its lists. A later entry overrides an earlier one.
static void pg_hosts_put_all(struct pg_params *params, const struct sk_pg_hosts *hosts, size_t host,
                             const char *address)
{
    const struct pg_host *one = &hosts->each[host];
    for (const PQconninfoOption *o = hosts->options; o->keyword != NULL && params->n < OPTIONS_MAX; o++) {
        bool is_list =
            strcmp(o->keyword, "host") == 0 || strcmp(o->keyword, "hostaddr") == 0 || strcmp(o->keyword, "port") == 0;
        if (o->val != NULL && !is_list)
            pg_hosts_put(params, o->keyword, o->val);
    }
    if (one->host != NULL)
        pg_hosts_put(params, "host", one->host);
    if (address != NULL || one->hostaddr != NULL)
        pg_hosts_put(params, "hostaddr", address != NULL ? address : one->hostaddr);
    if (one->port != NULL)
        pg_hosts_put(params, "port", one->port);
}

PGconn *sk_pg_hosts_start(const struct sk_pg_hosts *hosts, size_t host, const char *address)
{
    struct pg_params params = {.n = 0};
    pg_hosts_put_all(&params, hosts, host, address);
    pg_hosts_put(&params, "application_name", "seckill");
    if (sk_pg_hosts_leave_read_only(hosts))
        pg_hosts_put(&params, "target_session_attrs", "read-write");
    return PQconnectStartParams(params.names, params.values, 0);
}

PGconn *sk_pg_hosts_connect(const struct sk_pg_hosts *hosts, size_t host, const char *application, int most_s)
{
    struct pg_params params = {.n = 0};
    char seconds[16];
    (void)snprintf(seconds, sizeof seconds, "%d", most_s);
    pg_hosts_put_all(&params, hosts, host, NULL);
    pg_hosts_put(&params, "application_name", application);
    pg_hosts_put(&params, "connect_timeout", seconds);
    pg_hosts_put(&params, "target_session_attrs", "any");
    return PQconnectdbParams(params.names, params.values, 0);
}

PGconn *sk_pg_hosts_connect_to_write(const char *url)
{
    struct sk_pg_hosts *hosts = sk_pg_hosts_open(url); // libpq's messages may hold a part of a URL that is wrong
    if (hosts == NULL)
        return NULL;
    sk_pg_hosts_close(hosts);
    // libpq expands dbname, which overrides those before it. A server that is gone is noticed within half a minute.
    const char *const names[] = {"target_session_attrs", "connect_timeout",  "keepalives_idle", "keepalives_interval",
                                 "keepalives_count",     "tcp_user_timeout", "dbname",          NULL};
    const char *const values[] = {"read-write", "10", "10", "5", "4", "30000", url, NULL};
    return PQconnectdbParams(names, values, 1);
}
