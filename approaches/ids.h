// Ids that were given out, with the times at which each was asked for and had.
#ifndef APPROACH_IDS_H
#define APPROACH_IDS_H

#include "result.h"
#include "worker.h"

uint64_t ids_now_us(void);
// Keeps an id that was asked for at `began_us`; of more than IDS_MAX the first ones.
void ids_keep(struct worker *worker, uint64_t began_us, const char *id);

// How many were given out twice. How many are smaller than one given out before they were asked for,
// goes into the notes.
long ids_judge(struct shared *shared, struct result *result);

#endif
