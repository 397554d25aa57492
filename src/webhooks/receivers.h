// The receivers of `seckill webhooks`: a file of JSON (SECKILL_WEBHOOKS; docs/http.md describes it). URLs and secrets
// are in no database, and no caller can name a URL.
#ifndef SK_WEBHOOKS_RECEIVERS_H
#define SK_WEBHOOKS_RECEIVERS_H

#include <stdbool.h>
#include <stddef.h>

#include "webhook_keys.h"

enum {
    SK_RECEIVERS_MAX = 16,
    SK_RECEIVER_NAME_SIZE = 65,
    SK_RECEIVER_PAGE_MAX = 100,
    SK_RECEIVER_PAGE_DEFAULT = 50,
    SK_RECEIVERS_WHY_SIZE = 256,
};

struct sk_receiver {
    const char *name, *url; // borrowed of the file's document, as all texts
    const char *ca;         // NULL: the system's authorities
    struct sk_webhook_keys keys;
    const char **events; // NULL: all of them. Owned
    size_t events_count;
    size_t page; // most events of a post
    bool from_first;
    bool encrypted; // https
};

struct sk_receivers {
    size_t count;
    struct sk_receiver each[SK_RECEIVERS_MAX];
    struct json_t *document; // owned
};

// One thread, as sk_receivers_close. Reads the file. NULL: it cannot be read, or is wrong; `why` then says where.
struct sk_receivers *sk_receivers_open(const char *path, char why[SK_RECEIVERS_WHY_SIZE]);
void sk_receivers_close(struct sk_receivers *receivers); // overwrites the secrets; NULL is fine

// Any thread, as all below. By its name, or by its URL; NULL: there is none.
const struct sk_receiver *sk_receivers_find(const struct sk_receivers *receivers, const char *name);

// Whether the receiver wants an event of this name.
bool sk_receiver_wants(const struct sk_receiver *receiver, const char *event);

// The one kind of events of the feed (order_events() in SQL) that has all that it wants; NULL: it wants several.
const char *sk_receiver_kind(const struct sk_receiver *receiver);

#endif
