// The service from its start to its end: starts the reactors, waits for a signal, stops them.
#ifndef SK_APP_SERVE_H
#define SK_APP_SERVE_H

#include <stdbool.h>

#include "config.h"
#include "status.h"

// The main thread, before there are others. Returns after SIGTERM or SIGINT, or if it could not start, which it logs.
// SIGHUP reads the keys of users' tokens again, and the configuration for new secrets (secrets.h). The configuration
// and the command line are borrowed. *left_behind: a reactor still waits for the resolver, or standard output does not
// accept the last lines of the access log. The process must then end with _exit.
enum sk_status sk_serve(const struct sk_config *config, int argc, char **argv, bool *left_behind) SK_MUST_CHECK;

#endif
