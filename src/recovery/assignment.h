// Assigns background work to the sessions that can do it.
//
// For each shard a session is *able* to work there if its links to the shard are ready and do not lag, and it knows all
// vouchers of it, for SK_ABLE_AFTER_MS without a break; any trouble ends that at once, and frees the locks that it
// holds there. Redis has the able sessions of each shard (lock.h). The work of a shard is divided among them alone. If
// none is able, it is divided among all living sessions: trouble that all of them have stops no work that can be done.
//
// The owner follows from the lists alone, so no one has to agree (rendezvous hashing: D. Thaler and C. Ravishankar, "A
// name-based mapping scheme for rendezvous", 1996). For a moment two sessions may own the same work, for 3 s at most:
// named locks and epochs make that harmless.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_ASSIGNMENT_H
#define SK_RECOVERY_ASSIGNMENT_H

#include "catalogue_sync.h"
#include "sale.h"

enum { SK_ABLE_AFTER_MS = 2000 };

struct sk_assignments;

// Keeps this session's ability. Borrows `syncs`, one for each shard. `changed` runs when other sessions are able, or
// live. NULL: out of memory.
struct sk_assignments *sk_assignments_open(const struct sk_sale *sale, struct sk_catalogue_sync *const *syncs,
                                           void (*changed)(void *arg), void *arg);
void sk_assignments_close(struct sk_assignments *assignments); // after the links were closed; NULL is fine

// A link was lost or is ready. Besides, it checks all links ten times a second.
void sk_assignments_check(struct sk_assignments *assignments);

// For the end of the process: from now on this session is not able.
void sk_assignments_stop(struct sk_assignments *assignments);

// For three seconds this session has had no use of a shard that a session of another process was able to work in. Then
// buyers are better off there.
bool sk_assignments_is_alone(const struct sk_assignments *assignments);

// Whether a voucher is assigned to this session, computed once for each version of the lists. Touched by assignment.c
// alone.
struct sk_assignment {
    uint64_t version; // 0: not computed
    bool mine;
};

// Whether the work of that name in the shard is assigned to this session.
bool sk_assignment_has(const struct sk_session *session, size_t shard, const char *name);

// The same for a voucher.
bool sk_assignment_has_voucher(const struct sk_session *session, struct sk_voucher *voucher);

#endif
