// Variables of the environment that look like settings and are none: a misspelt name must not pass in silence.
#ifndef SK_APP_ENVIRONMENT_H
#define SK_APP_ENVIRONMENT_H

#include <stddef.h>
#include <stdio.h>

#include "status.h"

enum { SK_ENVIRONMENT_NAME_MAX = 64 };

// Rejects (SK_FAIL) each variable whose name begins with SECKILL_ and is not one of `known`, and reports it on `err`
// with the nearest known name, without its value. Names that failpoints use, and those that Kubernetes injects for a
// Service named `seckill`, pass.
enum sk_status sk_environment_check(const char (*known)[SK_ENVIRONMENT_NAME_MAX], size_t count,
                                    FILE *err) SK_MUST_CHECK;

#endif
