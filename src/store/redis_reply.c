// struct sk_reply is hiredis's redisReply under a name of ours.
#include "redis_reply.h"

#include <hiredis/hiredis.h>
#include <string.h>

#include "log.h"
#include "text.h"

static const redisReply *reply_raw(const struct sk_reply *reply)
{
    return (const redisReply *)(const void *)reply;
}

const char *sk_reply_error(const struct sk_reply *reply)
{
    return reply_raw(reply)->type == REDIS_REPLY_ERROR ? reply_raw(reply)->str : NULL;
}

void sk_reply_log_denial(const struct sk_reply *reply)
{
    const char *error = reply == NULL ? NULL : sk_reply_error(reply);
    if (error != NULL && (strstr(error, "NOPERM") != NULL || strstr(error, "ACL failure") != NULL ||
                          strstr(error, "The user executing the script can't") != NULL))
        sk_log_text(SK_LOG_ERROR, "Redis denies what the service needs; see deploy/redis.acl", "reason", error);
}

size_t sk_reply_count(const struct sk_reply *reply)
{
    return reply != NULL && reply_raw(reply)->type == REDIS_REPLY_ARRAY ? reply_raw(reply)->elements : 0;
}

const struct sk_reply *sk_reply_at(const struct sk_reply *reply, size_t i)
{
    return i < sk_reply_count(reply) ? (const struct sk_reply *)(const void *)reply_raw(reply)->element[i] : NULL;
}

const char *sk_reply_text(const struct sk_reply *reply, size_t *len)
{
    if (reply == NULL || (reply_raw(reply)->type != REDIS_REPLY_STRING && reply_raw(reply)->type != REDIS_REPLY_STATUS))
        return NULL;
    if (len != NULL)
        *len = (size_t)reply_raw(reply)->len;
    return reply_raw(reply)->str;
}

bool sk_reply_number(const struct sk_reply *reply, int64_t *value)
{
    if (reply == NULL)
        return false;
    if (reply_raw(reply)->type == REDIS_REPLY_INTEGER) {
        *value = reply_raw(reply)->integer;
        return true;
    }
    const char *text = sk_reply_text(reply, NULL);
    uint64_t number;
    if (text == NULL || !sk_text_number(text, INT64_MAX, &number))
        return false;
    *value = (int64_t)number;
    return true;
}
