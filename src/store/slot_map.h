// What the nodes of a Redis Cluster say of its slots: redirections of single calls, and CLUSTER SLOTS. All of it is
// checked here. Any thread.
#ifndef SK_STORE_SLOT_MAP_H
#define SK_STORE_SLOT_MAP_H

#include <stdbool.h>

#include "redis_reply.h"
#include "redis_url.h"
#include "slot.h"

// Why a node did not execute a call.
enum sk_redirect {
    SK_REDIRECT_NONE,
    SK_REDIRECT_MOVED,    // another node has the slot
    SK_REDIRECT_UNSTABLE, // the slot is being moved, or the cluster is down
};

// `error`: of the reply; NULL: it has none.
enum sk_redirect sk_redirect_of(const char *error);

struct sk_moved {
    unsigned slot;
    struct sk_redis_host to;
};

// Reads a MOVED error. A node that does not name a host means its own: `by`. False: it cannot be read.
bool sk_moved_read(const char *error, const struct sk_redis_host *by, struct sk_moved *moved);

// The master at `at` has the slots from `first` to `last`.
typedef void sk_slots_each(void *arg, unsigned first, unsigned last, const struct sk_redis_host *at);

// Reads the reply to CLUSTER SLOTS of the node `by`. False: it has another form, or no slot has a node; `each` may then
// have run.
bool sk_slots_read(const struct sk_reply *reply, const struct sk_redis_host *by, sk_slots_each *each, void *arg);

#endif
