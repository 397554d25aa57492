// Many buyers at once: PROCESSES processes of THREADS threads each, so that a lock that only one process knows shows
// its hole. First with more units than they can buy, for the rate; then with few, until they are gone.
#ifndef APPROACH_CROWD_H
#define APPROACH_CROWD_H

#include "result.h"
#include "servers.h"

enum { PROCESSES = 2, THREADS = 4 };

// False, and a line on standard error, if the stores failed.
bool crowd_run(const struct servers *servers, const struct approach *approach, struct shared *shared, int crowd_ms,
               struct result *result);

// Sets stock and orders to a fresh start. `units` for the Redis, PostgreSQL, and the approach's own place.
bool crowd_prepare(struct worker *worker, long units);

// Sets all counters to zero.
void crowd_forget(struct shared *shared);

// Units that the approach's stock still shows; NONE: it has none, or no answer.
long long crowd_left(struct worker *worker);

// Orders that are one too many for their users, and, if `of_user` is not NULL, how many there are of that one.
long crowd_twice(struct worker *worker, const char *user, long *of_user);

#endif
