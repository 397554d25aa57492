// The table, and the same as JSON.
#ifndef APPROACH_REPORT_H
#define APPROACH_REPORT_H

#include "result.h"

// What is claimed and what we predict: before anything has been run.
void report_claim_head(void);
void report_claim(const struct approach *approach);

void report_head(void);
// Prints a row. Whether what was measured is what was predicted.
bool report_row(const struct approach *approach, const struct result *result);
void report_legend(void);

// False, and a line on standard error, if the file cannot be written.
bool report_json(const char *path, const struct approach *const *chosen, const struct result *results);

#endif
