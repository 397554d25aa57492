// File descriptors: the limit of the process, and what the configured connections need of it.
#ifndef SK_BASE_DESCRIPTORS_H
#define SK_BASE_DESCRIPTORS_H

#include "config.h"
#include "status.h"

// Before the reactors start. Raises the soft limit of the process if it is too low. SK_FAIL, and a log line with the
// figures: not even the hard limit is enough.
enum sk_status sk_descriptors_reserve(const struct sk_config *config) SK_MUST_CHECK;

#endif
