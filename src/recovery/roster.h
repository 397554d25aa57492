// Which instances the living sessions belong to, for people. Each session writes it into a hash of Redis after it was
// taken, and then once a minute, so that lost entries come back. Nothing depends on it.
//
// The reactor's thread, as all functions.
#ifndef SK_RECOVERY_ROSTER_H
#define SK_RECOVERY_ROSTER_H

#include "sale.h"

struct sk_roster;

// NULL: out of memory.
struct sk_roster *sk_roster_open(const struct sk_sale *sale);
void sk_roster_close(struct sk_roster *roster); // after the links were closed; NULL is fine

// The text of a session: "version start ttl name", with blanks between. Times in ms, the start as Unix time; the name
// is the machine's with the port that it listens on.
enum { SK_ROSTER_WORD_MAX = 79 }; // of version and name, characters

struct sk_rostered {
    char version[SK_ROSTER_WORD_MAX + 1], name[SK_ROSTER_WORD_MAX + 1]; // of A-Z a-z 0-9 . _ : + ~ -
    uint64_t started_ms, ttl_ms;
};

// Any thread, as both. The name of the instance that listens there; NULL: without a port.
void sk_roster_name(const char *listen, char name[SK_ROSTER_WORD_MAX + 1]);
// Takes the next word off a text of such words; returns what follows it and a blank. NULL: it is not valid.
const char *sk_roster_word(const char *text, char word[SK_ROSTER_WORD_MAX + 1]);

// Any thread. False: the text is not valid.
bool sk_roster_read(const char *text, struct sk_rostered *rostered);

// ---- assignment ----

// Assigns background work to the living sessions. The assignment follows from their list alone, so no one has to agree
// (rendezvous hashing: D. Thaler and C. Ravishankar, "A name-based mapping scheme for rendezvous", 1996).

// Whether a voucher is assigned to this session, computed once for each list of living sessions. Touched by
// roster.c alone.
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
