// Assigns background work to the living sessions. The assignment follows from their list alone, so no one has to agree
// (rendezvous hashing: D. Thaler and C. Ravishankar, "A name-based mapping scheme for rendezvous", 1996).
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_ASSIGNMENT_H
#define SK_RECOVERY_ASSIGNMENT_H

#include "sale.h"

// Whether a voucher is assigned to this session, computed once for each list of living sessions. Touched by
// assignment.c alone.
struct sk_assignment {
    uint64_t version; // of that list; 0: not computed
    bool mine;
};

// The version of the list of living sessions: another list has another version; none has 0.
uint64_t sk_assignment_version(const struct sk_session *session);

// Whether the work of that name is assigned to this session.
bool sk_assignment_has(const struct sk_session *session, const char *name);

// The same for a voucher. `version` is that of the current list.
bool sk_assignment_has_voucher(const struct sk_session *session, uint64_t version, struct sk_voucher *voucher);

#endif
