// seckill --check: what of the configuration, the stores, the roles and the settings breaks which promise.
#ifndef SK_APP_CHECK_ALL_H
#define SK_APP_CHECK_ALL_H

#include <stdio.h>

#include "config.h"

enum { SK_CHECK_GOOD = 0, SK_CHECK_WARNS = 1, SK_CHECK_FAILS = 2 };

// The main thread, instead of serving. Blocks, with a bound for each question. A line for each finding on `out`:
// "ok|warn|fail what: why". Returns the exit status, of the worst finding: one of the above. Instances may run
// meanwhile.
int sk_check_run(const struct sk_config *config, FILE *out) SK_MUST_CHECK;

#endif
