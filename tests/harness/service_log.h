// What an instance of the service has logged so far.
#ifndef HARNESS_SERVICE_LOG_H
#define HARNESS_SERVICE_LOG_H

#include "stack.h"

// How often the text stands in its log.
int service_log_count(const struct service *service, const char *text);

// Waits until it stands there so often; if it does not in time the test fails, and shows the end of the log.
void service_log_must_have(const struct service *service, int times, const char *text);

#endif
