// Lets orders go through each queue, and then through its accidents: a consumer that is killed, a queue that is full,
// and a Redis that is restarted. What counts is who was told yes, and has no order once all is quiet.
#ifndef APPROACH_QUEUES_H
#define APPROACH_QUEUES_H

#include "queue.h"
#include "servers.h"

// What is claimed and what we predict: before anything has been run. `chosen` ends with NULL.
void queues_report_claims(const struct queue_way *const *chosen);

// Prints a table. How many did not behave as predicted; -1, and a line on standard error, if the stores failed.
int queues_run(struct servers *servers, struct shared *shared, const struct queue_way *const *chosen, int crowd_ms);

#endif
