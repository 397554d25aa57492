// Generated ids, with the time of each request and of its result.
#ifndef APPROACH_IDS_H
#define APPROACH_IDS_H

#include "result.h"
#include "worker.h"

uint64_t ids_now_us(void);
// Keeps an id that was requested at `began_us`; at most the first IDS_MAX.
void ids_keep(struct worker *worker, uint64_t began_us, const char *id);

// Returns how many were generated twice. The notes get the share of ids smaller than one that was returned before their
// request.
long ids_judge(struct shared *shared, struct result *result);

#endif
