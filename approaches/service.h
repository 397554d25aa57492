// The service's voucher 1 in Redis, for the approaches that use its script.
#ifndef APPROACH_SERVICE_H
#define APPROACH_SERVICE_H

#include "embedded.h"
#include "worker.h"

#define SESSION "018bcfe5-6800-7000-8000-00000000005e" // of no one: nothing here outlives its process
#define SERVICE_KEYS \
    "seckill:{1}:voucher", "seckill:{1}:buyers", "seckill:{1}:journal", "seckill:{1}:repeats", "seckill:{1}:ended"

// What place_orders.lua takes before the users and their order ids: see there.
#define SERVICE_ARGS(most, run) SERVICE_KEYS, most, run, "new", "0", "0-0", SESSION, "-", "1", "20"
enum { SERVICE_ARGS_COUNT = 14 };

bool service_run(struct worker *worker, char out[TOKEN_SIZE]); // Redis's run id
bool service_prepare(struct worker *worker, long units);
long long service_left(struct worker *worker);

#endif
