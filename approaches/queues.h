// Lets orders go through each queue, and then through its accidents: a consumer that is killed, a queue that is full,
// and a Redis that is restarted. What counts is who was told yes, and has no order once all is quiet.
#ifndef APPROACH_QUEUES_H
#define APPROACH_QUEUES_H

#include "queue.h"
#include "servers.h"

// Prints a table of all whose number is chosen. How many did not behave as predicted; -1, and a line on standard error,
// if the stores failed.
int queues_run(struct servers *servers, struct shared *shared, bool (*is_chosen)(int number, const char *only),
               const char *only, int crowd_ms);

#endif
