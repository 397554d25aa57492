// Rate limits: tries per second, for each of many clients in a table of fixed size, and for all clients together. A
// second's worth of tries may come at once; after that, each try must first be paid off.
//
// Reactors share the limits, so a client has one rate wherever its connections land. Times are of one monotonic clock,
// in ns, and may differ a little from thread to thread.
#ifndef SK_BASE_RATES_H
#define SK_BASE_RATES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sk_rates;

// Allows each client `per_s` tries a second: 1 to 10^9. `places`: how many clients the table remembers, a power of two,
// at least 256. NULL: out of memory, or the kernel gives no random numbers.
struct sk_rates *sk_rates_open(uint64_t per_s, size_t places);
void sk_rates_close(struct sk_rates *rates); // NULL is fine

// Any thread. Whether the client may try now; if so, the try is counted. *left: how many more tries it may make at
// once. A rejected try adds no debt: the client may try again within 1 s / per_s.
bool sk_rates_take(struct sk_rates *rates, const void *client, size_t len, uint64_t now_ns, uint64_t *left);

// Any thread. How many tries the client may make at once now. Counts none.
uint64_t sk_rates_left(struct sk_rates *rates, const void *client, size_t len, uint64_t now_ns);

// The rate of all clients together.
struct sk_rate {
    uint64_t cost_ns; // of one try; 0: there is no limit
    _Atomic uint64_t free_at_ns;
};

void sk_rate_begin(struct sk_rate *rate, uint64_t per_s); // 0: no limit

// Any thread. Whether one more may happen now; if so, it is counted.
bool sk_rate_take(struct sk_rate *rate, uint64_t now_ns);

// ---- pace ----

// At most `per_s` a second, evenly. Unused capacity accumulates up to `burst` only.

struct sk_pace {
    uint64_t per_s, burst;
    uint64_t thousandths; // capacity now, in thousandths of one
    uint64_t at_ms;       // the time of that capacity
};

// The owner's thread, as both functions. Starts full: a burst may go at once.
static inline struct sk_pace sk_pace_begin(uint64_t per_s, uint64_t burst, uint64_t at_ms)
{
    return (struct sk_pace){per_s, burst, burst * 1000, at_ms};
}

// Whether one may go now; if so, it is taken off the capacity.
static inline bool sk_pace_take(struct sk_pace *pace, uint64_t at_ms)
{
    if (at_ms > pace->at_ms) {
        uint64_t passed_ms = at_ms - pace->at_ms < 1000 ? at_ms - pace->at_ms : 1000;
        pace->thousandths += passed_ms * pace->per_s;
        if (pace->thousandths > pace->burst * 1000)
            pace->thousandths = pace->burst * 1000;
        pace->at_ms = at_ms;
    }
    if (pace->thousandths < 1000)
        return false;
    pace->thousandths -= 1000;
    return true;
}

#endif
