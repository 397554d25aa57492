// One script call. Text from Redis is shown only if it has the form that instances write.
#include "instances.h"

#include <inttypes.h>

#include "keys.h"
#include "roster.h"
#include "text.h"

enum { NOW = 0, FIRST = 1, SESSION = 0, LEFT, TEXT, COLUMNS };

static void instances_start(struct sk_query *query);
static void instances_on_list(void *arg, const struct sk_reply *reply);
static bool instances_add(struct sk_buf *body, const struct sk_reply *reply, size_t row, bool first);

void sk_handle_instances(const struct sk_context *context, struct sk_request *request)
{
    sk_list_instances(context->control, request->handle);
}

void sk_list_instances(struct sk_control *control, uint64_t handle)
{
    struct sk_query *query = sk_query_new(control, SK_PG_COMMANDS, handle, "instances", sizeof *query, instances_start);
    if (query != NULL)
        sk_query_start(query);
}

static void instances_start(struct sk_query *query)
{
    const char *keys[] = {SK_KEY_SESSIONS, SK_KEY_INSTANCES};
    if (sk_redis_script(query->control->sale->ask_redis, SK_SCRIPT_LIST_INSTANCES, 2, 2, keys, NULL, instances_on_list,
                        query) != SK_OK)
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
}

static void instances_on_list(void *arg, const struct sk_reply *reply)
{
    struct sk_query *query = arg;
    char now[SK_TIME_SIZE];
    int64_t now_ms;
    bool first = true;
    if (reply == NULL || !sk_reply_number(sk_reply_at(reply, NOW), &now_ms) || now_ms < 0) {
        sk_query_end(query, SK_VERDICT_UNAVAILABLE, NULL);
        return;
    }
    sk_text_put_time(now_ms, now);
    sk_buf_printf(&query->body, "{\"server_time\":\"%s\",\"instances\":[", now);
    for (size_t i = FIRST; i + COLUMNS <= sk_reply_count(reply); i += COLUMNS)
        first = !instances_add(&query->body, reply, i, first) && first;
    sk_buf_puts(&query->body, "]}");
    sk_query_end(query, SK_VERDICT_FOUND, query->body.data);
}

// False: it is no session.
static bool instances_add(struct sk_buf *body, const struct sk_reply *reply, size_t row, bool first)
{
    const char *session = sk_reply_text(sk_reply_at(reply, row + SESSION), NULL);
    const char *text = sk_reply_text(sk_reply_at(reply, row + TEXT), NULL);
    struct sk_rostered one;
    char started[SK_TIME_SIZE];
    int64_t left_ms;
    if (session == NULL || !sk_uuid_valid(session) || !sk_reply_number(sk_reply_at(reply, row + LEFT), &left_ms))
        return false;
    sk_buf_printf(body, "%s{\"id\":\"%s\"", first ? "" : ",", session);
    if (text != NULL && sk_roster_read(text, &one)) {
        int64_t ago_ms = (int64_t)one.ttl_ms - left_ms;
        sk_text_put_time((int64_t)one.started_ms, started);
        sk_buf_printf(body,
                      ",\"name\":\"%s\",\"version\":\"%s\",\"started_at\":\"%s\",\"ttl_ms\":%" PRIu64
                      ",\"renewed_ago_ms\":%" PRId64,
                      one.name, one.version, started, one.ttl_ms, ago_ms < 0 ? 0 : ago_ms);
    }
    sk_buf_puts(body, "}");
    return true;
}
