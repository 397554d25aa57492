// A timer wheel for many deadlines. Setting one costs a comparison or two, whatever their number. The cost of a tick
// grows with the number of deadlines that it has to check.
#ifndef SK_WIRE_DEADLINES_H
#define SK_WIRE_DEADLINES_H

#include <stdint.h>

#include "list.h"

// Precision: no deadline comes early, and none later than this after its time.
enum { SK_DEADLINES_TICK_MS = 50 };

struct sk_deadlines;

// Member of the object with the deadline, zeroed at first. Belongs to the wheel while it is set.
struct sk_deadline {
    struct sk_list list; // must be first; in no list: not set
    uint64_t at_ms;
    uint64_t tick; // when the wheel checks it: never after at_ms, but maybe well before
};

// One thread, as all functions. Times are of one monotonic clock. NULL: out of memory.
struct sk_deadlines *sk_deadlines_open(uint64_t now_ms);
void sk_deadlines_close(struct sk_deadlines *deadlines); // NULL is fine

// Sets the deadline, or replaces the one that was set.
void sk_deadlines_set(struct sk_deadlines *deadlines, struct sk_deadline *deadline, uint64_t at_ms);
void sk_deadlines_clear(struct sk_deadline *deadline); // may be clear already

// Returns one deadline whose time has come, and clears it. Any may be set or cleared before the next call. Call it
// until it returns NULL.
struct sk_deadline *sk_deadlines_next(struct sk_deadlines *deadlines, uint64_t now_ms);

#endif
