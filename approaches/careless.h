// The careless way of buying: reads, looks, writes back, as if there were no other buyer. What it touches is what the
// approach guards. Alone it is right; the more buyers there are, the more often two of them read the same number.
#ifndef APPROACH_CARELESS_H
#define APPROACH_CARELESS_H

#include "worker.h"

enum outcome buy_carelessly(struct worker *worker, const char *user);

#endif
