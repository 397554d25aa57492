// Logs the outages of the stores' servers: one line when an outage begins, which names its consequence and how many
// orders wait, one every 30 s, and one when it ends. Each is one line for the process, however many reactors and
// connections it has. Why a connection failed is in the lines of the links.
#ifndef SK_APP_OUTAGES_H
#define SK_APP_OUTAGES_H

#include <stdint.h>

struct sk_outages;

// The main thread, as all functions. NULL: out of memory.
struct sk_outages *sk_outages_open(void);
void sk_outages_close(struct sk_outages *outages); // NULL is fine

// Checks the servers at most once in SK_OUTAGES_MS; now_ms: of a monotonic clock. What was away in one check only is
// not logged.
enum { SK_OUTAGES_MS = 1000, SK_OUTAGES_STILL_MS = 30000 };
void sk_outages_check(struct sk_outages *outages, uint64_t now_ms);

#endif
