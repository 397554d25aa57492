// Which of the living sessions has which work of upkeep. It follows from their list alone, so no one has to agree
// (rendezvous hashing: D. Thaler and C. Ravishankar, "A name-based mapping scheme for rendezvous", 1996).
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_SHARE_H
#define SK_RECOVERY_SHARE_H

#include "sale.h"

// Whether a voucher is this session's, as worked out once for each list of living sessions. Touched by share.c alone.
struct sk_share {
    uint64_t version; // of that list; 0: not worked out
    bool mine;
};

// Another list of living sessions has another version; none has 0.
uint64_t sk_share_version(const struct sk_session *session);

// Whether this session has the work of that name.
bool sk_share_has(const struct sk_session *session, const char *name);

// The same for a voucher, under the list of that version: the current one.
bool sk_share_has_voucher(const struct sk_session *session, uint64_t version, struct sk_voucher *voucher);

#endif
