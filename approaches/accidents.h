// One buyer meets an accident at a named point, others come after. Nothing here is left to luck: the first one stops
// itself where it should (SIGSTOP), and is then killed, left alone, or woken up.
#ifndef APPROACH_ACCIDENTS_H
#define APPROACH_ACCIDENTS_H

#include "result.h"
#include "servers.h"

// False, and a line on standard error, if the stores failed.
bool accidents_run(struct servers *servers, const struct approach *approach, struct shared *shared,
                   struct result *result);

#endif
