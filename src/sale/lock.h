// The per-user lock: at any time at most one live holder may be writing an order of a given user (of a voucher).
//
// There is no key per user. The lock consists of data that is written anyway, so it costs Redis no second write:
//   take     The claim. place_orders.lua writes user -> order id into `buyers` in the step that grants the unit, and
//            grants nothing to a user who is there: `local order = bought[i] or seen[user]`.
//   owner    The journal entry that the same call appends names its holder: `'session', ARGV[6]`.
//   renew    A reactor has one session for all its entries, renewed in one call: session_keep.lua, from
//            session_ask() in lock.c.
//   release  The settlement, after COMMIT: the entry leaves the journal (sk_entry_end() in entry.c). With a refusal
//            the same step removes the claim (settle_entry.lua).
//   expiry   The session's TTL. Others settle the entries of a dead session: sweep_classify() in
//   recovery/journal_sweep.c.
//
// The session is a key with a TTL, whose value is a token that only its owner knows, and an element of the list of
// living sessions. The others judge it by that list (sk_sessions_judge). If Redis's clock is set back, the list
// follows; if it is set forward, all sessions end and are taken again. No purchase is sent to Redis before Redis has
// acknowledged the session (sk_session_held).
//
// By its owner's monotonic clock the session ends a TTL after the last acknowledged renewal was *asked for*, so the
// owner gives up before Redis does. After a break (a pause, a restart of Redis) the owner takes it again under the same
// id. Meanwhile another session may have settled its entries, and both may write the same orders. That is one
// settlement, because ids and epoch are the same. So no promise depends on the lock: it saves work. The unique index,
// the CHECK on stock and the epoch carry the promises.
//
// All sessions are on one node, whichever node a voucher is on. If that node goes away, or refuses writes, while the
// session is held, its owner sells on with the vouchers of other nodes until the node keeps sessions again
// (sk_session_sells): no session is judged meanwhile, nor within a TTL afterwards. If it is away for this owner only,
// another may judge it dead: then both write the same orders, as after a break.
//
// All functions: the loop's thread. Times in ms. No callback runs inside the call that asked for it.
#ifndef SK_SALE_LOCK_H
#define SK_SALE_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "metrics.h"
#include "nodes.h"
#include "redis_link.h"
#include "shards.h"
#include "uuid.h"

struct sk_session;

struct sk_session_options {
    uint32_t ttl_ms;
    size_t shards;    // of PostgreSQL, SK_SHARDS_MAX at most
    uint64_t process; // a random number that all sessions of the process have
};

// Gives a session with a new id, not taken yet; it borrows loop, nodes and metrics. NULL: out of memory.
struct sk_session *sk_session_open(uv_loop_t *loop, const struct sk_nodes *nodes, struct sk_metrics *metrics,
                                   const struct sk_session_options *options);
// Frees it here; Redis frees it by its TTL unless it was ended. End the Redis links first, so that no reply is
// outstanding. NULL is fine.
void sk_session_close(struct sk_session *session);

const char *sk_session_id(const struct sk_session *session); // a UUID

// An order link became ready, or went down. Each time that of the sessions' node becomes ready, the session is taken or
// renewed again.
void sk_session_link(struct sk_session *session);

// Acknowledged by this Redis process, and not expired by our own clock.
bool sk_session_held(const struct sk_session *session);

// It was held when its node, of a cluster, went away, became another one or refused to renew it, and none has renewed
// or denied it yet.
bool sk_session_away(const struct sk_session *session);

// Whether orders of a voucher in this slot may be sent under it: it is held; or its node is away, and the slot has
// another one.
bool sk_session_sells(const struct sk_session *session, unsigned slot);

// How often it was taken: grows with each taking; 0: never.
uint64_t sk_session_taken(const struct sk_session *session);

// Takes the session now if it was lost. True: it is held, or Redis has been asked and will answer, so purchases may
// wait. False: they may not, because Redis refuses it or is down.
bool sk_session_await(struct sk_session *session);

// Ends it, for a clean exit. Repeat until it returns true: it has ended, or Redis cannot be asked.
bool sk_session_end(struct sk_session *session);

// ---- the other sessions ----

// The sorted ids of the living sessions, with this one, as of the last renewal. While the session is held, that is no
// older than a third of the TTL, or a second. Borrowed until the loop goes on.
const char (*sk_session_living(const struct sk_session *session, size_t *count))[SK_UUID_SIZE];
bool sk_session_lives(const struct sk_session *session, const char *id); // it is in that list

// Grows whenever a session leaves that list.
uint64_t sk_session_deaths(const struct sk_session *session);

// ---- who can do background work ----

// For each shard Redis has a list of the sessions that are able to work there. A session writes itself into it with
// each renewal, for SK_ABLE_MS from then on, and takes itself out as soon as it is not able any more.

enum { SK_ABLE_MS = 1500 }; // as session_keep.lua has it

// Notes whether this session is able to work in the shard. A change is written at once.
void sk_session_set_able(struct sk_session *session, size_t shard, bool able);
bool sk_session_is_able(const struct sk_session *session, size_t shard); // as set last

// The other able sessions of the shard, sorted, as of the last renewal. Borrowed until the loop goes on.
const char (*sk_session_others_able(const struct sk_session *session, size_t shard, size_t *count))[SK_UUID_SIZE];
bool sk_session_able_elsewhere(const struct sk_session *session, size_t shard); // one of them is of another process

// The version of all these lists and of sk_session_living(): grows whenever one of them changes. Never 0.
uint64_t sk_session_lists(const struct sk_session *session);

// ---- judging ----

enum sk_life { SK_LIFE_UNKNOWN, SK_LIFE_LIVING, SK_LIFE_DEAD };

enum { SK_SESSIONS_JUDGED_MAX = 32 };

// `lives` is borrowed for the call: one for each session asked about, in order.
typedef void sk_sessions_judged_cb(void *arg, const enum sk_life *lives, size_t n);

// Asks Redis which of `n` sessions live. SK_DOWN: it cannot be known now. No session is judged dead while their node is
// away, nor within a TTL of three moments: this session was taken, as after a start or a restart of Redis; the link
// became ready; the node was no longer away. The others need that time to renew theirs.
enum sk_status sk_sessions_judge(struct sk_session *session, size_t n, const char (*ids)[SK_UUID_SIZE],
                                 sk_sessions_judged_cb *done, void *arg) SK_MUST_CHECK;

// ---- named locks ----

// Named maintenance locks (rebuilding a voucher, settling a dead session's entries ...): SET key token NX PX ttl,
// renewed and released only under the same token (Redis documentation, "Distributed locks with Redis", the
// single-instance algorithm). The token begins with the id of the owner's session and ends with the TTL. A caller that
// finds the lock taken cuts its remaining time to that TTL (lock_cut.lua), so setting the clock back prolongs no lock.
// If the owner's session is judged dead, that caller frees the lock for the next attempt. A lock saves work; it never
// carries a promise, because its owner may be paused past the TTL and is not notified.
//
// A lock is tried once; there is no waiting, no re-entrancy and no numbering.

struct sk_named_locks;
struct sk_named_lock;

// Gives a source of locks with this TTL; it borrows all three. NULL: out of memory.
struct sk_named_locks *sk_named_locks_open(uv_loop_t *loop, const struct sk_nodes *nodes, struct sk_session *owner,
                                           uint32_t ttl_ms);
// Frees all locks; their keys expire. End the Redis links first, so that no reply is outstanding. NULL is fine.
void sk_named_locks_close(struct sk_named_locks *locks);

// Runs once, later. False: another has it, or Redis did not answer. The lock must be released in both cases.
typedef void sk_named_lock_cb(void *arg, bool held);

// Tries to take the key (sk_key_of_lock), which is copied, on the node of its tag. NULL while Redis is down or memory
// is short: nothing was sent.
struct sk_named_lock *sk_named_lock_take(struct sk_named_locks *locks, const char *key, sk_named_lock_cb *taken,
                                         void *arg);

// Releases the lock if it is held and frees it, now or with its last reply: the pointer is dead afterwards. May be
// called while the lock is being taken (then `taken` does not run), and inside `taken`. NULL is fine.
void sk_named_lock_release(struct sk_named_lock *lock);

// Lets other sessions take the locks that this one holds for vouchers of a shard, one of `shards`: it cannot do their
// work now. Its callers are not notified, as if the locks had expired.
void sk_named_locks_yield(struct sk_named_locks *locks, size_t shard, size_t shards);

#endif
