// A ring of lists, one for each tick of the next SPAN. A deadline that moves to a later time stays on its list, and is
// moved on when that list's tick comes. Most deadlines move many times and are never reached. So a connection in use
// costs a list operation or two per length of its shortest deadline, not per request.
#include "deadlines.h"

#include <stddef.h>
#include <stdlib.h>

enum { SPAN = 512 };

struct sk_deadlines {
    uint64_t tick; // the last one whose list was taken
    struct sk_list due, lists[SPAN];
};

struct sk_deadlines *sk_deadlines_open(uint64_t now_ms)
{
    struct sk_deadlines *deadlines = calloc(1, sizeof *deadlines);
    if (deadlines == NULL)
        return NULL;
    deadlines->tick = now_ms / SK_DEADLINES_TICK_MS;
    sk_list_begin(&deadlines->due);
    for (size_t i = 0; i < SPAN; i++)
        sk_list_begin(&deadlines->lists[i]);
    return deadlines;
}

void sk_deadlines_close(struct sk_deadlines *deadlines)
{
    free(deadlines);
}

void sk_deadlines_clear(struct sk_deadline *deadline)
{
    if (deadline->list.next != NULL)
        sk_list_remove(&deadline->list);
}

void sk_deadlines_set(struct sk_deadlines *deadlines, struct sk_deadline *deadline, uint64_t at_ms)
{
    uint64_t first = deadlines->tick + 1, last = deadlines->tick + SPAN - 1;
    uint64_t tick = (at_ms + SK_DEADLINES_TICK_MS - 1) / SK_DEADLINES_TICK_MS;
    deadline->at_ms = at_ms;
    tick = tick < first ? first : tick > last ? last : tick;
    if (deadline->list.next != NULL && deadline->tick <= tick)
        return; // checked soon enough, and moved on then
    sk_deadlines_clear(deadline);
    deadline->tick = tick;
    sk_list_add_last(&deadline->list, &deadlines->lists[tick % SPAN]);
}

// The list of the next tick becomes the due list, which is empty.
static void deadlines_take_list(struct sk_deadlines *deadlines)
{
    deadlines->tick++;
    struct sk_list *list = &deadlines->lists[deadlines->tick % SPAN];
    sk_list_add_behind(&deadlines->due, list); // becomes the head in its place
    sk_list_remove(list);
    sk_list_begin(list);
}

struct sk_deadline *sk_deadlines_next(struct sk_deadlines *deadlines, uint64_t now_ms)
{
    uint64_t now = now_ms / SK_DEADLINES_TICK_MS;
    for (;;) {
        struct sk_deadline *deadline = sk_list_first(&deadlines->due);
        if (deadline != NULL) {
            sk_deadlines_clear(deadline);
            if (deadline->at_ms <= now_ms)
                return deadline;
            sk_deadlines_set(deadlines, deadline, deadline->at_ms);
        } else if (deadlines->tick >= now) {
            return NULL;
        } else {
            if (now - deadlines->tick > SPAN)
                deadlines->tick = now - SPAN; // after a long pause: each list once
            deadlines_take_list(deadlines);
        }
    }
}
