// Sends orders through each queue, and then causes its accidents: a killed consumer, a full queue, a restarted Redis.
// It counts buyers who were promised an order and have none when no work is pending.
#ifndef APPROACH_QUEUES_H
#define APPROACH_QUEUES_H

#include "queue.h"
#include "servers.h"

// Prints claims and predictions, before anything runs. `chosen` ends with NULL.
void queues_report_claims(const struct queue_way *const *chosen);

// Prints a table. Returns how many did not behave as predicted; -1, with a line on standard error: the stores failed.
int queues_run(struct servers *servers, struct shared *shared, const struct queue_way *const *chosen, int crowd_ms);

#endif
