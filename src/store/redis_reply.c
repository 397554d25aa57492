// struct sk_reply is hiredis's redisReply under a name of ours.
//
// hiredis 0.14 allocates an array as soon as its length is known. For a length of 2^31 - 1 that is 16 GB, and freeing
// it visits each element. That would stop the loop for seconds, so the length is bounded.
#include "redis_reply.h"

#include <hiredis/hiredis.h>
#include <stdlib.h>
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
        sk_log_repeat(SK_LOG_ERROR, "Redis denies what the service needs; see deploy/redis.acl", "reason", error);
}

bool sk_reply_is_list(const struct sk_reply *reply)
{
    return reply != NULL && reply_raw(reply)->type == REDIS_REPLY_ARRAY;
}

size_t sk_reply_count(const struct sk_reply *reply)
{
    return sk_reply_is_list(reply) ? reply_raw(reply)->elements : 0;
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

void sk_reply_free(struct sk_reply *reply)
{
    freeReplyObject(reply);
}

// ---- parsing ----

enum { ELEMENTS_MAX = 1 << 20 }; // most elements of an array; we ask for some thousands

struct sk_reader {
    redisReader *reader;
#if HIREDIS_MAJOR < 1
    redisReplyObjectFunctions functions; // hiredis's own, except for arrays
#endif
};

#if HIREDIS_MAJOR >= 1
static void reader_bound(struct sk_reader *reader)
{
    reader->reader->maxelements = ELEMENTS_MAX;
}
#else
static void *reader_create_array(const redisReadTask *task, int elements)
{
    const redisReplyObjectFunctions *own = task->privdata;
    return elements > ELEMENTS_MAX ? NULL : own->createArray(task, elements); // NULL means out of memory to hiredis
}

static void reader_bound(struct sk_reader *reader)
{
    reader->functions = *reader->reader->fn;
    reader->functions.createArray = reader_create_array;
    reader->reader->privdata = reader->reader->fn;
    reader->reader->fn = &reader->functions;
}
#endif

struct sk_reader *sk_reader_open(void)
{
    struct sk_reader *reader = calloc(1, sizeof *reader);
    if (reader == NULL)
        return NULL;
    reader->reader = redisReaderCreate();
    if (reader->reader == NULL) {
        free(reader);
        return NULL;
    }
    reader_bound(reader);
    return reader;
}

void sk_reader_close(struct sk_reader *reader)
{
    if (reader == NULL)
        return;
    redisReaderFree(reader->reader);
    free(reader);
}

void sk_reader_feed(struct sk_reader *reader, const char *bytes, size_t n)
{
    (void)redisReaderFeed(reader->reader, bytes, n); // its error comes back with the next reply
}

bool sk_reader_next(struct sk_reader *reader, struct sk_reply **reply, const char **why)
{
    void *made = NULL;
    bool good = redisReaderGetReply(reader->reader, &made) == REDIS_OK;
    *reply = made;
    *why = reader->reader->errstr;
    return good;
}
