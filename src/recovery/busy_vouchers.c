// One hash: session -> "voucher,voucher,...". Fields of sessions that do not live are ignored and removed. Such a
// session may only be missing from our list: then it publishes its field again in its next round.
#include "busy_vouchers.h"

#include <inttypes.h>
#include <stdlib.h>

#include "buf.h"
#include "catalogue.h"
#include "keys.h"
#include "lock.h"
#include "redis_link.h"
#include "voucher.h"

enum { GONE_MAX = 64 }; // fields removed at once

void sk_busy_note(struct sk_busy *busy, const struct sk_voucher *voucher)
{
    if (busy->found_count < SK_BUSY_MAX)
        busy->found[busy->found_count++] = voucher->id;
}

static void busy_on_published(void *arg, const struct sk_reply *reply)
{
    (void)arg;
    (void)reply; // the next round repeats it
}

static void busy_read(struct sk_busy *busy, const char *text)
{
    while (*text != '\0') {
        char *end;
        int64_t voucher_id = strtoll(text, &end, 10);
        if (end == text || busy->published_count == SK_BUSY_MAX)
            return;
        busy->published[busy->published_count++] = voucher_id;
        if (*end != ',')
            return;
        text = end + 1;
    }
}

static void busy_on_read(void *arg, const struct sk_reply *reply)
{
    const char *gone[2 + GONE_MAX] = {"HDEL", SK_KEY_BUSY};
    int words = 2;
    struct sk_busy *busy = arg;
    busy->published_count = 0;
    for (size_t i = 0; i + 1 < sk_reply_count(reply); i += 2) {
        const char *session = sk_reply_text(sk_reply_at(reply, i), NULL);
        const char *text = sk_reply_text(sk_reply_at(reply, i + 1), NULL);
        if (session != NULL && text != NULL && sk_session_lives(busy->sale->session, session))
            busy_read(busy, text);
        else if (session != NULL && words < 2 + GONE_MAX)
            gone[words++] = session;
    }
    if (words > 2 &&
        sk_redis_command(sk_sale_ask_shared(busy->sale), words, gone, NULL, busy_on_published, NULL) != SK_OK)
        return; // the next round removes them
}

void sk_busy_publish(struct sk_busy *busy)
{
    struct sk_redis *redis = sk_sale_ask_shared(busy->sale);
    const char *id = sk_session_id(busy->sale->session);
    const char *none[] = {"HDEL", SK_KEY_BUSY, id}, *read[] = {"HGETALL", SK_KEY_BUSY};
    struct sk_buf text = {0};
    for (size_t i = 0; i < busy->found_count; i++)
        sk_buf_printf(&text, "%s%" PRId64, i == 0 ? "" : ",", busy->found[i]);
    const char *some[] = {"HSET", SK_KEY_BUSY, id, text.data};
    bool empty = busy->found_count == 0 || text.failed;
    busy->found_count = 0;
    enum sk_status published =
        sk_redis_command(redis, empty ? 3 : 4, empty ? none : some, NULL, busy_on_published, NULL);
    sk_buf_free(&text);
    if (published == SK_OK && sk_redis_command(redis, 2, read, NULL, busy_on_read, busy) == SK_OK)
        return; // else the next round publishes and reads
}

// For a moment after the list of living sessions has changed, two sessions may list the same voucher. False: the list
// is full.
static bool busy_add(struct sk_voucher **out, size_t *count, size_t most, struct sk_voucher *voucher)
{
    for (size_t i = 0; i < *count; i++) {
        if (out[i] == voucher)
            return true;
    }
    if (*count == most)
        return false;
    out[(*count)++] = voucher;
    return true;
}

// The busy ones come first: if not all have room, a waiting order is most likely in one of them.
size_t sk_busy_list(const struct sk_busy *busy, struct sk_voucher **out, size_t most, bool *complete)
{
    const struct sk_catalogue *catalogue = busy->sale->catalogue;
    size_t count = 0;
    *complete = true;
    for (struct sk_voucher *voucher = sk_catalogue_open(catalogue); voucher != NULL && *complete;
         voucher = voucher->entries.next)
        *complete = busy_add(out, &count, most, voucher);
    for (size_t i = 0; i < busy->published_count && *complete; i++) {
        struct sk_voucher *voucher = sk_catalogue_find(catalogue, busy->published[i]);
        if (voucher != NULL) // it has not left the catalogue
            *complete = busy_add(out, &count, most, voucher);
    }
    for (size_t i = 0; i < sk_catalogue_count(catalogue) && *complete; i++)
        *complete = busy_add(out, &count, most, sk_catalogue_at(catalogue, i));
    return count;
}
