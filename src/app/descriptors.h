// File descriptors: the limit of the process, and how many the configured connections need.
#ifndef SK_APP_DESCRIPTORS_H
#define SK_APP_DESCRIPTORS_H

#include <stdint.h>

#include "config.h"
#include "status.h"

// Call before the reactors start. Raises the soft limit of the process if it is too low. SK_FAIL: even the hard limit
// is too low, which is logged with the figures, or the limit cannot be read or raised.
enum sk_status sk_descriptors_reserve(const struct sk_config *config) SK_MUST_CHECK;

// Descriptors that the configuration needs when every client connection is in use. Any thread.
uint64_t sk_descriptors_needed(const struct sk_config *config);

#endif
