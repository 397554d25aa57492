// Shared by the programs that call the Lua scripts directly on a real Redis: the keys of voucher 1, the calls, and
// checks of the result in Redis.
#ifndef HARNESS_SCRIPTS_H
#define HARNESS_SCRIPTS_H

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embedded.h"
#include "stack.h"
#include "stores.h"

#define VOUCHER  "seckill:{1}:voucher"
#define BUYERS   "seckill:{1}:buyers"
#define JOURNAL  "seckill:{1}:journal"
#define REPEATS  "seckill:{1}:repeats"
#define ENDED    "seckill:{1}:ended"
#define RUN      "run-1"
#define CACHE_MS "60000"
#define SESSION  "018bcfe5-6800-7000-8000-00000000005e"

enum { SCRIPT_WORDS_MAX = 8400, TEXT_SIZE = 512, HOUR_MS = 3600000 };

static redisContext *redis;
static redisReply *reply; // of the latest script call

static inline void scripts_start(void)
{
    stack_start(STACK_REDIS);
}

static inline void scripts_setup(void)
{
    redis = redis_connect_to(VOUCHER);
    redis_run("FLUSHALL");
}

static inline void scripts_teardown(void)
{
    freeReplyObject(reply);
    reply = NULL;
    redisFree(redis);
}

// ---- calling scripts ----

// The answer may be an error.
static inline void try_call(enum sk_script script, int keys, int argc, const char *const *argv)
{
    char count[8];
    const char *words[SCRIPT_WORDS_MAX] = {"EVAL", sk_scripts[script].text, count};
    ck_assert_int_le(argc + 3, SCRIPT_WORDS_MAX);
    (void)snprintf(count, sizeof count, "%d", keys);
    memcpy((void *)(words + 3), (const void *)argv, (size_t)argc * sizeof *argv);
    freeReplyObject(reply);
    bool here = redis_node_of(argv[0]) == redis_node_of(VOUCHER);
    redisContext *node = here ? redis : redis_connect_to(argv[0]);
    reply = redisCommandArgv(node, argc + 3, words, NULL);
    ck_assert_ptr_nonnull(reply);
    if (!here)
        redisFree(node);
}

static inline void call(enum sk_script script, int keys, int argc, const char *const *argv)
{
    try_call(script, keys, argc, argv);
    ck_assert_msg(reply->type != REDIS_REPLY_ERROR, "%s", reply->str);
}

#define CALL(script, keys, ...)                                     \
    do {                                                            \
        const char *const words_[] = {__VA_ARGS__};                 \
        call(script, keys, sizeof words_ / sizeof *words_, words_); \
    } while (0)

static inline void must_return(int64_t number)
{
    ck_assert_int_eq(reply->type, REDIS_REPLY_INTEGER);
    ck_assert_int_eq(reply->integer, number);
}

static inline const char *element(size_t i)
{
    ck_assert_int_eq(reply->type, REDIS_REPLY_ARRAY);
    ck_assert_uint_lt(i, reply->elements);
    ck_assert_ptr_nonnull(reply->element[i]->str);
    return reply->element[i]->str;
}

// Checks the reply of place_orders: letters and their values, ids or numbers as text, ended by NULL.
static inline void must_answer(const char *letters, ...)
{
    size_t at = 7;
    va_list more;
    ck_assert_msg(reply->type == REDIS_REPLY_ARRAY, "%s", reply->str);
    ck_assert_str_eq(element(0), "ok");
    ck_assert_str_eq(element(6), letters);
    va_start(more, letters);
    for (const char *one = va_arg(more, const char *); one != NULL; one = va_arg(more, const char *), at++) {
        ck_assert_uint_lt(at, reply->elements);
        if (reply->element[at]->type == REDIS_REPLY_INTEGER)
            ck_assert_int_eq(reply->element[at]->integer, strtoll(one, NULL, 10));
        else
            ck_assert_str_eq(element(at), one);
    }
    va_end(more);
    ck_assert_uint_eq(reply->elements, at);
}

// ---- Redis's data ----

static inline int64_t now_ms(void)
{
    redisReply *time = redisCommand(redis, "TIME");
    int64_t ms = strtoll(time->element[0]->str, NULL, 10) * 1000 + strtoll(time->element[1]->str, NULL, 10) / 1000;
    freeReplyObject(time);
    return ms;
}

// The number of changes to the voucher's data set so far, of any kind.
static inline int64_t changes(void)
{
    static const char name[] = "rdb_changes_since_last_save:";
    char info[8192];
    redis_info(redis_node_of(VOUCHER), "persistence", info, sizeof info);
    const char *at = strstr(info, name);
    ck_assert_ptr_nonnull(at);
    return strtoll(at + sizeof name - 1, NULL, 10);
}

// `value` NULL: the field must not exist.
static inline void must_be(const char *key, const char *field, const char *value)
{
    char now[TEXT_SIZE];
    bool found = redis_text(now, sizeof now, "HGET %s %s", key, field);
    ck_assert_msg(found == (value != NULL), "%s of %s is '%s'", field, key, now);
    if (value != NULL)
        ck_assert_str_eq(now, value);
}

static inline int64_t stock(void)
{
    return redis_number("HGET " VOUCHER " stock");
}

// A voucher under epoch 7 whose sale began an hour ago and ends in an hour.
static inline void in_state(const char *state, int units)
{
    int64_t now = now_ms();
    redis_run("HSET " VOUCHER
              " state %s stock %d begin_ms %lld end_ms %lld epoch 7 last epoch-7 change 9 offer 3 cache_ms " CACHE_MS
              " run " RUN,
              state, units, (long long)(now - HOUR_MS), (long long)(now + HOUR_MS));
}

static inline void on_sale(int units)
{
    in_state("open", units);
}

#endif
