// struct sk_reply is hiredis's redisReply under a name of ours.
#include "redis_reply.h"

#include <hiredis/hiredis.h>

#include "text.h"

static const redisReply *raw(const struct sk_reply *reply)
{
    return (const redisReply *)(const void *)reply;
}

const char *sk_reply_error(const struct sk_reply *reply)
{
    return raw(reply)->type == REDIS_REPLY_ERROR ? raw(reply)->str : NULL;
}

size_t sk_reply_count(const struct sk_reply *reply)
{
    return reply != NULL && raw(reply)->type == REDIS_REPLY_ARRAY ? raw(reply)->elements : 0;
}

const struct sk_reply *sk_reply_at(const struct sk_reply *reply, size_t i)
{
    return i < sk_reply_count(reply) ? (const struct sk_reply *)(const void *)raw(reply)->element[i] : NULL;
}

const char *sk_reply_text(const struct sk_reply *reply, size_t *len)
{
    if (reply == NULL || (raw(reply)->type != REDIS_REPLY_STRING && raw(reply)->type != REDIS_REPLY_STATUS))
        return NULL;
    if (len != NULL)
        *len = (size_t)raw(reply)->len;
    return raw(reply)->str;
}

bool sk_reply_number(const struct sk_reply *reply, int64_t *value)
{
    if (reply == NULL)
        return false;
    if (raw(reply)->type == REDIS_REPLY_INTEGER) {
        *value = raw(reply)->integer;
        return true;
    }
    const char *text = sk_reply_text(reply, NULL);
    uint64_t number;
    if (text == NULL || !sk_text_number(text, INT64_MAX, &number))
        return false;
    *value = (int64_t)number;
    return true;
}
