// How many file descriptors the service needs.
#ifndef SK_APP_DESCRIPTORS_H
#define SK_APP_DESCRIPTORS_H

#include <stdint.h>

#include "config.h"

// Raises the soft limit of file descriptors if it is too low for the configuration. SK_FAIL: it cannot be read or
// raised.
enum sk_status sk_descriptors_reserve(const struct sk_config *config) SK_MUST_CHECK;

// Any thread. Descriptors that the configuration needs when every client connection is in use.
uint64_t sk_descriptors_needed(const struct sk_config *config);

#endif
