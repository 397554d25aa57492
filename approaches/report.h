// The table, also as JSON.
#ifndef APPROACH_REPORT_H
#define APPROACH_REPORT_H

#include "result.h"

// Prints claims and predictions, before anything runs.
void report_claim_head(void);
void report_claim(const struct approach *approach);

void report_head(void);
// Prints a row. Returns whether the measurement matches the prediction.
bool report_row(const struct approach *approach, const struct result *result);
void report_legend(void);

// False, with a line on standard error: the file cannot be written.
bool report_json(const char *path, const struct approach *const *chosen, const struct result *results);

#endif
