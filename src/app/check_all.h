// seckill --check: finds which parts of the configuration, stores, roles and settings break which promise.
#ifndef SK_APP_CHECK_ALL_H
#define SK_APP_CHECK_ALL_H

#include <stdio.h>

#include "config.h"

enum { SK_CHECK_GOOD = 0, SK_CHECK_WARNS = 1, SK_CHECK_FAILS = 2 };

// The main thread, instead of serving. Blocks, with a time limit for each query. Prints one line for each finding to
// `out`: "ok|warn|fail what: why". Returns the exit status of the worst finding, one of the values above. Instances may
// run meanwhile.
int sk_check_run(const struct sk_config *config, FILE *out) SK_MUST_CHECK;

#endif
