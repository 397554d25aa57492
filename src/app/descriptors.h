// File descriptors: the limit of the process, and what the configured connections need of it.
#ifndef SK_APP_DESCRIPTORS_H
#define SK_APP_DESCRIPTORS_H

#include <stdint.h>

#include "config.h"
#include "status.h"

// Before the reactors start. Raises the soft limit of the process if it is too low. SK_FAIL, and a log line with the
// figures: not even the hard limit is enough.
enum sk_status sk_descriptors_reserve(const struct sk_config *config) SK_MUST_CHECK;

// What the configuration needs, with every client connection in use. Any thread.
uint64_t sk_descriptors_needed(const struct sk_config *config);

#endif
