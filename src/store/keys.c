#include "keys.h"

#include <stdio.h>
#include <string.h>

#include "slot.h"
#include "status.h"

void sk_keys_of_voucher(const char *tag, struct sk_voucher_keys *keys)
{
    SK_ASSERT(strlen(tag) < SK_TAG_SIZE);
    (void)snprintf(keys->voucher, SK_KEY_SIZE, "seckill:{%s}:voucher", tag);
    (void)snprintf(keys->buyers, SK_KEY_SIZE, "seckill:{%s}:buyers", tag);
    (void)snprintf(keys->journal, SK_KEY_SIZE, "seckill:{%s}:journal", tag);
    (void)snprintf(keys->repeats, SK_KEY_SIZE, "seckill:{%s}:repeats", tag);
    (void)snprintf(keys->ended, SK_KEY_SIZE, "seckill:{%s}:ended", tag);
}

void sk_key_of_lock(const char *what, const char *tag, char key[SK_KEY_SIZE])
{
    SK_ASSERT(strlen(tag) < SK_TAG_SIZE && strlen(what) < SK_KEY_SIZE - SK_TAG_SIZE - sizeof "seckill:lock::{}");
    (void)snprintf(key, SK_KEY_SIZE, "seckill:lock:%s:{%s}", what, tag);
}

void sk_key_of_session(const char *id, char key[SK_KEY_SIZE])
{
    SK_ASSERT(strlen(id) < SK_KEY_SIZE - sizeof "seckill:{shared}:session:");
    (void)snprintf(key, SK_KEY_SIZE, "seckill:{shared}:session:%s", id);
}

void sk_key_of_able(size_t shard, char key[SK_KEY_SIZE])
{
    (void)snprintf(key, SK_KEY_SIZE, "seckill:{shared}:session:able:%zu", shard);
}

unsigned sk_key_slot(const char *key)
{
    const char *tag = strchr(key, '{');
    size_t len = tag == NULL ? 0 : strcspn(tag + 1, "}");
    return len == 0 ? sk_slot(key, strlen(key)) : sk_slot(tag + 1, len);
}
