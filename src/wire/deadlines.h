// Deadlines of many things at once: a timer wheel. To set one costs a comparison or two, whatever their number; a tick
// costs as much as there are deadlines that it has to look at.
#ifndef SK_WIRE_DEADLINES_H
#define SK_WIRE_DEADLINES_H

#include <stdint.h>

// How exact they are: nothing comes early, and nothing later than this after its time.
enum { SK_DEADLINES_TICK_MS = 50 };

struct sk_deadlines;

// Part of what has the deadline, zeroed at first. Belongs to the wheel while it is set.
struct sk_deadline {
    struct sk_deadline *previous, *next; // NULL: not set
    uint64_t at_ms;
    uint64_t tick; // when the wheel looks at it: never after at_ms, but maybe well before
};

// One thread, as all functions. Times are those of one monotonic clock. NULL: out of memory.
struct sk_deadlines *sk_deadlines_open(uint64_t now_ms);
void sk_deadlines_close(struct sk_deadlines *deadlines); // NULL is fine

// Sets it, or replaces the one that was set.
void sk_deadlines_set(struct sk_deadlines *deadlines, struct sk_deadline *deadline, uint64_t at_ms);
void sk_deadlines_clear(struct sk_deadline *deadline); // may be clear already

// One deadline whose time has come; it is clear by then, and any may be set or cleared before the next call. To be
// asked until it gives NULL.
struct sk_deadline *sk_deadlines_next(struct sk_deadlines *deadlines, uint64_t now_ms);

#endif
