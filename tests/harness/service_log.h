// What an instance of the service has logged so far.
#ifndef HARNESS_SERVICE_LOG_H
#define HARNESS_SERVICE_LOG_H

#include "stack.h"

// How often the text occurs in its log.
int service_log_count(const struct service *service, const char *text);

// Waits until it occurs that often; at the deadline the test fails and shows the end of the log.
void service_log_must_have(const struct service *service, int times, const char *text);

#endif
