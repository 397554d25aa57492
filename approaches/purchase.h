// One purchase by the worker's approach, counted and timed.
#ifndef APPROACH_PURCHASE_H
#define APPROACH_PURCHASE_H

#include "worker.h"

// The critical section is the approach's lock around the careless purchase (careless.h), or its own buy.
enum outcome purchase(struct worker *worker, const char *user);

#endif
