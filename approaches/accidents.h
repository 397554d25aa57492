// One buyer has an accident at a named point; others follow. Nothing depends on timing: the first one stops itself at
// the point (SIGSTOP), and is then killed, left stopped, or resumed.
#ifndef APPROACH_ACCIDENTS_H
#define APPROACH_ACCIDENTS_H

#include "result.h"
#include "servers.h"

// False, and a line on standard error, if the stores failed.
bool accidents_run(struct servers *servers, const struct approach *approach, struct shared *shared,
                   struct result *result);

#endif
