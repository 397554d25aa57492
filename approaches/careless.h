// The careless purchase: it reads, checks and writes back as if there were no other buyer. It uses the data that the
// approach guards. A single buyer gets a correct result; the more buyers there are, the more often two of them read the
// same number.
#ifndef APPROACH_CARELESS_H
#define APPROACH_CARELESS_H

#include "worker.h"

enum outcome buy_carelessly(struct worker *worker, const char *user);

#endif
