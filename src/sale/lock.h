// The per-user lock: at any time at most one live holder may be writing an order of a given user (of a voucher).
//
// There is no key per user. The lock is made of what is written anyway, so that it costs Redis no second write:
//   take     The claim. place_orders.lua writes user -> order id into `buyers` in the step that grants the unit, and
//            grants nothing to a user who is there: `local order = bought[i] or seen[user]`.
//   owner    The journal entry that the same call appends names its holder: `'session', ARGV[6]`.
//   renew    A reactor has one session for all its entries, renewed in one call: session_keep.lua, from
//            session_ask() in lock.c.
//   release  The settlement, after COMMIT: the entry leaves the journal (sk_entry_end() in entry.c), and with a refusal
//            the claim goes in the same step (settle_entry.lua).
//   expiry   The session's TTL. What a dead session held is settled by others: sweep_classify() in recovery/sweep.c.
//
// The session: a key of its own with a TTL, whose value is a token that only its owner knows, and its place in the list
// of the living ones, by which the others judge it (sk_sessions_judge). That list follows a clock of Redis that is set
// back; where it is set forward all sessions end, and are taken again. No purchase is sent to Redis before Redis has
// acknowledged the session (sk_session_held). By its owner's monotonic clock it ends a TTL after the last
// acknowledged renewal was *asked for*, so the owner gives up before Redis does. After a break - a pause, a restart of
// Redis - it is taken again under the same id; meanwhile another session may have settled its entries, and both may
// write the same orders: that is one settlement, because ids and epoch are the same. So nothing that is promised leans
// on the lock: it saves work. The unique index, the CHECK on stock and the epoch carry the promises.
//
// All functions: the loop's thread. Times in ms. No callback runs inside the call that asked for it.
#ifndef SK_SALE_LOCK_H
#define SK_SALE_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "metrics.h"
#include "redis_link.h"
#include "uuid.h"

struct sk_session;

// Gives a session with a new id, not taken yet; it borrows loop, redis and metrics. NULL: out of memory.
struct sk_session *sk_session_open(uv_loop_t *loop, struct sk_redis *redis, struct sk_metrics *metrics,
                                   uint32_t ttl_ms);
// Forgets it; Redis frees it by its TTL unless it was ended. Close the Redis link first, so that no reply is under way.
// NULL is fine.
void sk_session_close(struct sk_session *session);

const char *sk_session_id(const struct sk_session *session); // a UUID

// The link became ready, or went down. Each time it becomes ready the session is asked for again.
void sk_session_link(struct sk_session *session, bool ready);

// Acknowledged by this Redis process, and not expired by our own clock.
bool sk_session_held(const struct sk_session *session);

// Which taking of it is the last one: grows with each; 0: it was never taken.
uint64_t sk_session_taken(const struct sk_session *session);

// Takes the session now if it was lost. True: it is held, or Redis has been asked and will answer: purchases may wait.
// False: they may not, Redis refuses it or is away.
bool sk_session_await(struct sk_session *session);

// Ends it, for a clean exit; to be repeated until it returns true: it has ended, or Redis cannot be asked.
bool sk_session_end(struct sk_session *session);

// ---- the other sessions ----

// The ids of the living sessions, this one among them, sorted, as they were at the last renewal: no older than a third
// of the TTL, or a second, while the session is held. Borrowed until the loop goes on.
const char (*sk_session_living(const struct sk_session *session, size_t *count))[SK_UUID_SIZE];
bool sk_session_lives(const struct sk_session *session, const char *id); // it is in that list

// Grows whenever a session has left that list.
uint64_t sk_session_deaths(const struct sk_session *session);

enum sk_life { SK_LIFE_UNKNOWN, SK_LIFE_LIVING, SK_LIFE_DEAD };

enum { SK_SESSIONS_JUDGED_MAX = 32 };

// `lives` is borrowed for the call: one for each session asked about, in order.
typedef void sk_sessions_judged_cb(void *arg, const enum sk_life *lives, size_t n);

// Asks Redis which of `n` sessions live. SK_DOWN: nothing can be said now. No session is called dead within a TTL of
// this session's taking, which a start or a restart of Redis makes necessary, or of the link's getting ready: the
// others need that time to renew theirs.
enum sk_status sk_sessions_judge(struct sk_session *session, size_t n, const char (*ids)[SK_UUID_SIZE],
                                 sk_sessions_judged_cb *done, void *arg) SK_MUST_CHECK;

#endif
