// The child that starts the servers of a program and ends them (LAUNCHER, such as launcher.py), however the program
// ends.
#ifndef HARNESS_LAUNCHER_H
#define HARNESS_LAUNCHER_H

#include <stdbool.h>

// Sends a command, formatted as by printf, and waits for its answer; starts the child first, if there is none. False:
// it has failed, and the child has printed the reason to standard error.
bool launcher_do(const char *format, ...) __attribute__((format(printf, 1, 2), warn_unused_result));

// A value from the answers so far; "": there is none. The string lives until an answer replaces it.
const char *launcher_value(const char *name);

// Ends the servers, removes the scratch folder, and returns when that is done.
void launcher_end(void);

#endif
