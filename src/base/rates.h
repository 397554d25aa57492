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

#endif
