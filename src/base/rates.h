// Rates: how often something may happen in a second, of many clients in a table of fixed size, and of all together. A
// second's worth may come at once; then each try must be paid off first.
//
// Reactors share them, so that a client has one rate however its connections fall. Times are of one monotonic clock, in
// ns, and may differ a little from thread to thread.
#ifndef SK_BASE_RATES_H
#define SK_BASE_RATES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sk_rates;

// So many tries a second of each client: 1 to 10^9. `places`: how many clients are remembered, a power of two, 256 at
// least. NULL: out of memory, or the kernel gives no random numbers.
struct sk_rates *sk_rates_open(uint64_t per_s, size_t places);
void sk_rates_close(struct sk_rates *rates); // NULL is fine

// Any thread. Whether the client may try now, which is then taken as a try; *left: how many more it may make at once.
// One that may not is told so without more debt: it may try again within 1 s / per_s.
bool sk_rates_take(struct sk_rates *rates, const void *client, size_t len, uint64_t now_ns, uint64_t *left);

// Any thread. How many tries the client may make at once now; none is taken.
uint64_t sk_rates_left(struct sk_rates *rates, const void *client, size_t len, uint64_t now_ns);

// Of all together.
struct sk_rate {
    uint64_t cost_ns; // of one; 0: there is no limit
    _Atomic uint64_t free_at_ns;
};

void sk_rate_begin(struct sk_rate *rate, uint64_t per_s); // 0: no limit

// Any thread. Whether one more may happen now, which then counts.
bool sk_rate_take(struct sk_rate *rate, uint64_t now_ns);

// ---- tally ----

// How many there are of each: a table of counts, exact and of a fixed size.

struct sk_tally;

// Counts of at most `keys` different keys at a time, each at most `most`. NULL: out of memory, or the kernel gives no
// random numbers.
struct sk_tally *sk_tally_open(size_t keys, uint64_t most);
void sk_tally_close(struct sk_tally *tally); // NULL is fine

// Any thread, as both functions. Counts one more; false, and nothing is counted: there are as many as may be.
bool sk_tally_add(struct sk_tally *tally, uint64_t key);
// One that was counted is gone.
void sk_tally_remove(struct sk_tally *tally, uint64_t key);

// ---- pace ----

// So many a second and no more, evenly: what is not used up does not add up beyond a burst.

struct sk_pace {
    uint64_t per_s, burst;
    uint64_t thousandths; // of one, that may go now
    uint64_t at_ms;       // as of when
};

// The owner's thread, as both functions. Starts full: a burst may go at once.
static inline struct sk_pace sk_pace_begin(uint64_t per_s, uint64_t burst, uint64_t at_ms)
{
    return (struct sk_pace){per_s, burst, burst * 1000, at_ms};
}

// Whether one may go now, which is then taken as gone.
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
