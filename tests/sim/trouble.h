// The troubles of a world: what goes wrong, when, and for how long.
#ifndef SIM_TROUBLE_H
#define SIM_TROUBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trouble_kind {
    TROUBLE_KILL,
    TROUBLE_KILL_AT,
    TROUBLE_CRASH_LOOP,
    TROUBLE_PAUSE,
    TROUBLE_DRAIN,
    TROUBLE_MEMORY,
    TROUBLE_NO_MEMORY,
    TROUBLE_CLOCK,
    TROUBLE_DRIFT,
    TROUBLE_BLIND, // from here on kinds that shake the stores
    TROUBLE_REDIS_RESTARTS,
    TROUBLE_REDIS_LOSES,
    TROUBLE_REDIS_EMPTIED,
    TROUBLE_REDIS_KEY,
    TROUBLE_REDIS_WRONG_KEY,
    TROUBLE_REDIS_ENTRY,
    TROUBLE_REDIS_SCRIPTS,
    TROUBLE_SLOT_MOVES,
    TROUBLE_FAILS_OVER,
    TROUBLE_RESTORED,
    TROUBLE_STORE_CLOCK,
    TROUBLE_LOCKED,
    TROUBLE_AWAY,
    TROUBLE_FROZEN,
    TROUBLE_SLOW,
    TROUBLE_DETOUR,
    TROUBLE_ERRORS,
    TROUBLE_LATE_COMMITS,
    TROUBLE_BREAKS,
    TROUBLE_BREAK_ALL,
    TROUBLE_KINDS
};
const char *trouble_name(enum trouble_kind kind);

struct plan;

// Those of the plan, which it borrows.
void troubles_begin(const struct plan *plan);
// When the last of the long ones is over: those of up to ten minutes, of which few worlds have one. In ns.
uint64_t troubles_over_at(void);

// Looks whether something is wrong now; call it twice a second. Returns for how long the stores, and at least one
// instance, have been well.
uint64_t troubles_calm(void);

// As of the last such look: for how long an instance and its stores have been well; and for how long it has only been
// without PostgreSQL, while it has Redis. In ns.
uint64_t troubles_well_for(size_t instance);
uint64_t troubles_without_postgres_for(size_t instance);
// And for how long an instance, and those servers (bits) have been well, whatever others are away or stand still.
uint64_t troubles_usable_for(size_t instance, unsigned servers);
// For how long the only instance has died again and again, while the stores were well.
uint64_t troubles_looped_for(void);

// Whether a shard has lost commits, and its owner has not accepted that: then it is closed.
bool troubles_wait_for_owner(void);

// Ends all of them: the stores are well, paused instances go on, at least one instance runs.
void troubles_end(void);

#endif
