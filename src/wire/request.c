// Answers requests. libmicrohttpd keeps the header and the query of a request as long as the request lives, and has
// parsed their names; this file only looks them up.
#include "request.h"

#include <microhttpd.h>
#include <string.h>
#include <strings.h>

#include "address.h"
#include "connection.h"
#include "probe.h"
#include "target.h"

struct search {
    const char *name;
    size_t name_len;
    bool (*matches)(const char *value); // NULL: count
    const char *value;
    unsigned count;
    bool matched;
};

struct gathering {
    const char *name;
    size_t name_len;
    const char **values;
    size_t count, most;
};

struct query {
    const char *but;
    struct sk_buf *out;
};

struct names {
    bool (*on_name)(void *arg, const char *name);
    void *arg;
    bool all;
};

// Calls back with each field or parameter. A bad query has no parameters.
static void request_walk(const struct sk_request *request, enum MHD_ValueKind kind, MHD_KeyValueIteratorN on_value,
                         void *arg)
{
    const struct sk_connection *connection = (const struct sk_connection *)(const void *)request;
    if (kind != MHD_GET_ARGUMENT_KIND || !request->query_bad)
        (void)MHD_get_connection_values_n(connection->library, kind, on_value, arg);
}

static bool request_may_have(const struct sk_request *request, const char *name, size_t len)
{
    return (request->names & SK_NAME_BIT(name, len)) != 0;
}

static enum MHD_Result request_on_field(void *arg, enum MHD_ValueKind kind, const char *name, size_t name_len,
                                        const char *value, size_t value_len)
{
    struct search *search = arg;
    (void)kind;
    (void)value_len;
    if (name_len != search->name_len || strcasecmp(name, search->name) != 0)
        return MHD_YES;
    search->value = value;
    search->count++;
    search->matched = search->matches != NULL && search->matches(value);
    return search->matched ? MHD_NO : MHD_YES;
}

const char *sk_request_header(const struct sk_request *request, const char *name, unsigned *count)
{
    size_t len = strlen(name);
    if (count != NULL)
        *count = 0;
    if (!request_may_have(request, name, len))
        return NULL;
    struct search search = {.name = name, .name_len = len};
    request_walk(request, MHD_HEADER_KIND, request_on_field, &search);
    if (count != NULL)
        *count = search.count;
    return search.value;
}

static enum MHD_Result request_on_parameter(void *arg, enum MHD_ValueKind kind, const char *name, size_t name_len,
                                            const char *value, size_t value_len)
{
    struct search *search = arg;
    (void)kind;
    (void)value_len;
    if (name_len != search->name_len || memcmp(name, search->name, name_len) != 0)
        return MHD_YES;
    search->value = value == NULL ? "" : value;
    search->count++;
    return MHD_YES;
}

const char *sk_request_query(const struct sk_request *request, const char *name, unsigned *count)
{
    struct search search = {.name = name, .name_len = strlen(name)};
    request_walk(request, MHD_GET_ARGUMENT_KIND, request_on_parameter, &search);
    if (count != NULL)
        *count = search.count;
    return search.value;
}

static enum MHD_Result request_on_name(void *arg, enum MHD_ValueKind kind, const char *name, size_t name_len,
                                       const char *value, size_t value_len)
{
    struct names *names = arg;
    (void)kind;
    (void)name_len;
    (void)value;
    (void)value_len;
    names->all = names->on_name(names->arg, name);
    return names->all ? MHD_YES : MHD_NO;
}

bool sk_request_query_all(const struct sk_request *request, bool (*on_name)(void *arg, const char *name), void *arg)
{
    struct names names = {on_name, arg, true};
    request_walk(request, MHD_GET_ARGUMENT_KIND, request_on_name, &names);
    return names.all;
}

static enum MHD_Result request_put_parameter(void *arg, enum MHD_ValueKind kind, const char *name, size_t name_len,
                                             const char *value, size_t value_len)
{
    struct query *query = arg;
    (void)kind;
    (void)name_len;
    (void)value_len;
    if (strcmp(name, query->but) == 0)
        return MHD_YES;
    sk_url_put(query->out, name);
    if (value != NULL) {
        sk_buf_puts(query->out, "=");
        sk_url_put(query->out, value);
    }
    sk_buf_puts(query->out, "&");
    return MHD_YES;
}

void sk_request_put_query(const struct sk_request *request, const char *but, struct sk_buf *out)
{
    struct query query = {but, out};
    request_walk(request, MHD_GET_ARGUMENT_KIND, request_put_parameter, &query);
}

bool sk_request_header_any(const struct sk_request *request, const char *name, bool (*matches)(const char *value))
{
    struct search search = {.name = name, .name_len = strlen(name), .matches = matches};
    if (request_may_have(request, name, search.name_len))
        request_walk(request, MHD_HEADER_KIND, request_on_field, &search);
    return search.matched;
}

static enum MHD_Result request_gather(void *arg, enum MHD_ValueKind kind, const char *name, size_t name_len,
                                      const char *value, size_t value_len)
{
    struct gathering *gathering = arg;
    (void)kind;
    (void)value_len;
    if (name_len != gathering->name_len || strcasecmp(name, gathering->name) != 0)
        return MHD_YES;
    if (gathering->count == gathering->most)
        memmove(gathering->values, gathering->values + 1, --gathering->count * sizeof *gathering->values);
    gathering->values[gathering->count++] = value;
    return MHD_YES;
}

size_t sk_request_header_values(const struct sk_request *request, const char *name, const char **values, size_t most)
{
    struct gathering gathering = {.name = name, .name_len = strlen(name), .values = values, .most = most};
    request_walk(request, MHD_HEADER_KIND, request_gather, &gathering);
    return gathering.count;
}

bool sk_request_peer(const struct sk_request *request, struct sk_address *peer)
{
    const struct sk_connection *connection = (const struct sk_connection *)(const void *)request;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection->library, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    return info != NULL && sk_address_of(info->client_addr, peer);
}

void sk_request_wait(struct sk_request *request, uint64_t ms)
{
    sk_connection_move(sk_connection_of(request), SK_PHASE_WAITING, ms);
}

void sk_request_park(struct sk_request *request, uint64_t ms)
{
    struct sk_connection *connection = sk_connection_of(request);
    if (connection->pool->draining)
        sk_connection_move(connection, SK_PHASE_WAITING, 0); // expires with the next tick
    else
        sk_connection_move(connection, SK_PHASE_PARKED, ms); // suspended when libmicrohttpd asks for its answer
}

bool sk_request_hold(struct sk_request *request)
{
    struct sk_connections *pool = sk_connection_of(request)->pool;
    if (pool->held >= pool->held_most)
        return false;
    pool->held++;
    request->hold.place = true;
    return true;
}

void sk_request_extend(struct sk_request *request, uint64_t ms)
{
    struct sk_connection *connection = sk_connection_of(request);
    sk_connection_move(connection, connection->phase, ms);
}

void sk_request_answer(struct sk_request *request, unsigned http_status, struct sk_response *response)
{
    struct sk_connection *connection = sk_connection_of(request);
    struct sk_connections *pool = connection->pool;
    SK_PROBE3(answered, request->handle, http_status, request->route);
    sk_connection_move(connection, connection->suspended ? SK_PHASE_RESUMING : SK_PHASE_SENDING,
                       (uint64_t)pool->options->request_timeout_ms);
    if (response == NULL ||
        MHD_queue_response(connection->library, http_status, (struct MHD_Response *)(void *)response) != MHD_YES) {
        connection->unanswerable = true; // no memory: the client sees the connection end
        (void)shutdown(connection->fd, SHUT_RDWR);
    }
    if (connection->suspended)
        sk_connection_resume_soon(connection);
    else if (!pool->running)
        pool->answered = true;
}
