// Finding a voucher that a question names, in the catalogue or beside it.
#ifndef SK_API_BESIDE_H
#define SK_API_BESIDE_H

#include "talk.h"

// `done` runs once, perhaps before this returns. An id that is newer than the catalogue waits for the next look. Where
// PostgreSQL is away, or too many ask for old ones, the conversation ends instead: UNAVAILABLE or OVERLOADED.
void sk_beside_find(struct sk_talk *talk, int64_t id, void (*done)(struct sk_talk *talk, enum sk_beside beside));

// The same after the next look in any case: `done` never runs, and the conversation never ends, inside the call.
void sk_beside_find_later(struct sk_talk *talk, int64_t id, void (*done)(struct sk_talk *talk, enum sk_beside beside));

#endif
