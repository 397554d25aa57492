#include "keys.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "slot.h"
#include "status.h"

enum { NAME_SIZE = SK_TAG_SIZE + 24 };

// "{7}", or with the id of a voucher whose tag is another one's: "{7}{9}".
static void keys_put_name(int64_t id, const char *tag, char name[NAME_SIZE])
{
    char own[24];
    SK_ASSERT(strlen(tag) < SK_TAG_SIZE);
    (void)snprintf(own, sizeof own, "{%" PRId64 "}", id);
    size_t len = strlen(tag);
    bool same = id == 0 || (strlen(own) == len + 2 && memcmp(own + 1, tag, len) == 0);
    int all = snprintf(name, NAME_SIZE, "{%s}%s", tag, same ? "" : own);
    SK_ASSERT(all > 0 && all < NAME_SIZE);
}

void sk_keys_of_voucher(int64_t id, const char *tag, struct sk_voucher_keys *keys)
{
    char name[NAME_SIZE];
    keys_put_name(id, tag, name);
    (void)snprintf(keys->voucher, SK_KEY_SIZE, "seckill:%s:voucher", name);
    (void)snprintf(keys->buyers, SK_KEY_SIZE, "seckill:%s:buyers", name);
    (void)snprintf(keys->journal, SK_KEY_SIZE, "seckill:%s:journal", name);
    (void)snprintf(keys->repeats, SK_KEY_SIZE, "seckill:%s:repeats", name);
    (void)snprintf(keys->ended, SK_KEY_SIZE, "seckill:%s:ended", name);
}

void sk_key_of_lock(const char *what, int64_t id, const char *tag, char key[SK_KEY_SIZE])
{
    char name[NAME_SIZE];
    keys_put_name(id, tag, name);
    int len = snprintf(key, SK_KEY_SIZE, "seckill:lock:%s:%s", what, name);
    SK_ASSERT(len > 0 && len < SK_KEY_SIZE);
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
