// So many a second and no more, evenly: what is not used up does not add up beyond a burst.
#ifndef SK_BASE_PACE_H
#define SK_BASE_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct sk_pace {
    uint64_t per_s, burst;
    uint64_t thousandths; // of one, that may go now
    uint64_t at_ms;       // as of when
};

// The owner's thread, as both functions. Starts full: a burst may go at once.
static inline struct sk_pace sk_pace_begin(uint64_t per_s, uint64_t burst, uint64_t now_ms)
{
    return (struct sk_pace){per_s, burst, burst * 1000, now_ms};
}

// Whether one may go now, which is then taken as gone.
static inline bool sk_pace_take(struct sk_pace *pace, uint64_t now_ms)
{
    if (now_ms > pace->at_ms) {
        uint64_t passed_ms = now_ms - pace->at_ms < 1000 ? now_ms - pace->at_ms : 1000;
        pace->thousandths += passed_ms * pace->per_s;
        if (pace->thousandths > pace->burst * 1000)
            pace->thousandths = pace->burst * 1000;
        pace->at_ms = now_ms;
    }
    if (pace->thousandths < 1000)
        return false;
    pace->thousandths -= 1000;
    return true;
}

#endif
