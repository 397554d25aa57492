// Many buyers at once: PROCESSES processes of THREADS threads each, so that a lock that only one process knows fails.
// First there are more units than they can buy, to measure the rate; then few, until they are sold out.
#ifndef APPROACH_CROWD_H
#define APPROACH_CROWD_H

#include "result.h"
#include "servers.h"

enum { PROCESSES = 2, THREADS = 4 };

// False, with a line on standard error: the stores failed.
bool crowd_run(const struct servers *servers, const struct approach *approach, struct shared *shared, int crowd_ms,
               struct result *result);

// Resets stock and orders. `units` applies to Redis, PostgreSQL, and the approach's own place.
bool crowd_prepare(struct worker *worker, long units);

// Sets all counters to zero.
void crowd_forget(struct shared *shared);

// Units in the approach's stock; NONE: it has none, or the store does not answer.
long long crowd_left(struct worker *worker);

// Returns the number of orders above one per user. If `of_user` is not NULL, it gets the number of orders of `user`.
long crowd_twice(struct worker *worker, const char *user, long *of_user);

#endif
