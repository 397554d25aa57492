// The names of Redis's keys: one place makes them.
//
// Each key of a voucher has the voucher's tag in braces ("7" for voucher 7), so that all of them are in one slot of
// Redis Cluster. The vouchers of a scope share a tag, which is the first one's id; the keys of the others have their
// own id, too: "seckill:{7}{9}:buyers". Keys that belong to no voucher have the tag "shared", which is no voucher's:
// those begin with a digit.
#ifndef SK_STORE_KEYS_H
#define SK_STORE_KEYS_H

#include <stddef.h>
#include <stdint.h>

// The version of the data in Redis: keys, journal entries, and what scripts pass to each other. Instances of two
// versions must not run at the same time. To upgrade: drain, migrate, start.
#define SK_PROTOCOL "5"

// The slot of the keys that belong to no voucher: sk_slot("shared").
enum { SK_SHARED_SLOT = 4478 };

// The protocol version of the living sessions: a string.
#define SK_KEY_PROTOCOL "seckill:{shared}:protocol"

// The living sessions: a sorted set, session -> when it expires.
#define SK_KEY_SESSIONS "seckill:{shared}:sessions"

// The same in protocol version 4, which knew no cluster. No session is taken while one of these lives.
#define SK_KEY_SESSIONS_4 "seckill:sessions"

// The vouchers that each session found busy: a hash, session -> "voucher,voucher,...".
#define SK_KEY_BUSY "seckill:{shared}:busy"

// The instance of each session: a hash, session -> its description (recovery/instances.h).
#define SK_KEY_INSTANCES "seckill:{shared}:instances"

enum { SK_TAG_SIZE = 32, SK_KEY_SIZE = 80 };

struct sk_voucher_keys {
    char voucher[SK_KEY_SIZE]; // hash: stock, window, state, epoch ...
    char buyers[SK_KEY_SIZE];  // hash: user -> order id
    char journal[SK_KEY_SIZE]; // stream: orders on their way to PostgreSQL
    char repeats[SK_KEY_SIZE]; // hash: orders that ended and came with an Idempotency-Key
    char ended[SK_KEY_SIZE];   // hash: users at the limit of orders per user
};

// Any thread. The tag is shorter than SK_TAG_SIZE. `id` 0: of no voucher.
void sk_keys_of_voucher(int64_t id, const char *tag, struct sk_voucher_keys *keys);

// The lock `what` of a voucher ("rebuild", "recover" ...).
void sk_key_of_lock(const char *what, int64_t id, const char *tag, char key[SK_KEY_SIZE]);

// The session of a reactor, by its id.
void sk_key_of_session(const char *id, char key[SK_KEY_SIZE]);

// The slot of a key, by its tag. Any thread.
unsigned sk_key_slot(const char *key);

// The sessions that are able to work in a shard: a sorted set, "session process" -> until when. It has the form of a
// session's key, which the rights of earlier versions cover.
void sk_key_of_able(size_t shard, char key[SK_KEY_SIZE]);

// The newest time that any session has seen on Redis's clock.
#define SK_KEY_CLOCK "seckill:{shared}:clock"

#endif
