// A ring of lists, one for each tick of the next SPAN. A deadline that is moved to a later time stays on its list and
// is moved on when that list's tick comes, since most deadlines are moved many times and reached never: a connection
// that is in use costs a list operation or two in the length of its shortest deadline, not in each request.
#include "deadlines.h"

#include <stddef.h>
#include <stdlib.h>

enum { SPAN = 512 };

struct sk_deadlines {
    uint64_t tick; // the last one whose list was taken
    struct sk_deadline due;
    struct sk_deadline lists[SPAN]; // heads of rings
};

static void deadlines_empty(struct sk_deadline *list)
{
    list->previous = list->next = list;
}

struct sk_deadlines *sk_deadlines_open(uint64_t now_ms)
{
    struct sk_deadlines *deadlines = calloc(1, sizeof *deadlines);
    if (deadlines == NULL)
        return NULL;
    deadlines->tick = now_ms / SK_DEADLINES_TICK_MS;
    deadlines_empty(&deadlines->due);
    for (size_t i = 0; i < SPAN; i++)
        deadlines_empty(&deadlines->lists[i]);
    return deadlines;
}

void sk_deadlines_close(struct sk_deadlines *deadlines)
{
    free(deadlines);
}

void sk_deadlines_clear(struct sk_deadline *deadline)
{
    if (deadline->next == NULL)
        return;
    deadline->previous->next = deadline->next;
    deadline->next->previous = deadline->previous;
    deadline->previous = deadline->next = NULL;
}

void sk_deadlines_set(struct sk_deadlines *deadlines, struct sk_deadline *deadline, uint64_t at_ms)
{
    uint64_t first = deadlines->tick + 1, last = deadlines->tick + SPAN - 1;
    uint64_t tick = (at_ms + SK_DEADLINES_TICK_MS - 1) / SK_DEADLINES_TICK_MS;
    deadline->at_ms = at_ms;
    tick = tick < first ? first : tick > last ? last : tick;
    if (deadline->next != NULL && deadline->tick <= tick)
        return; // looked at soon enough, and moved on then
    sk_deadlines_clear(deadline);
    struct sk_deadline *list = &deadlines->lists[tick % SPAN];
    deadline->tick = tick;
    deadline->next = list;
    deadline->previous = list->previous;
    list->previous->next = deadline;
    list->previous = deadline;
}

// The list of the next tick becomes the due one, which is empty.
static void deadlines_take_list(struct sk_deadlines *deadlines)
{
    deadlines->tick++;
    struct sk_deadline *list = &deadlines->lists[deadlines->tick % SPAN];
    if (list->next == list)
        return;
    deadlines->due.next = list->next;
    deadlines->due.previous = list->previous;
    list->next->previous = list->previous->next = &deadlines->due;
    deadlines_empty(list);
}

struct sk_deadline *sk_deadlines_next(struct sk_deadlines *deadlines, uint64_t now_ms)
{
    uint64_t now = now_ms / SK_DEADLINES_TICK_MS;
    for (;;) {
        struct sk_deadline *deadline = deadlines->due.next;
        if (deadline != &deadlines->due) {
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
